"""A recorded run as prefetch learns from it: who called what with what, and what came of calls begun ahead."""

from __future__ import annotations

from typing import Any

import msgspec

from hotloop.tools.prefetch.past import Seen
from hotloop.trace.ledger import CallFacts, TurnFacts
from hotloop.trace.record import Said, TraceRecord

PREFETCH = "prefetch"
"""The name of the fact under which a ledger has what was begun ahead."""

_ANSWERED = frozenset({"ok", "cached", "joined", "prefetched", "fallback", "known"})
_UNKNOWN = "?"  # any tool that the run was not offered: what a model makes up is kept nowhere


class Ahead(msgspec.Struct, frozen=True, omit_defaults=True):
    """A call that was begun while the model was thinking, so long after the start of the run; times in milliseconds.

    It is what a `pattern`, by its name, expected in a `context`. If it was `used`, the call of the model `won` so much.
    If it was not, because the model made another call or this one failed, it took its time in vain.
    """

    call_id: str
    tool: str
    turn: int
    start_ms: float
    ms: float
    context: str
    pattern: str
    used: bool = False
    failed: bool = False
    won_ms: float = 0.0

    @property
    def wasted_ms(self) -> float:
        """A tool's work that nobody asked for."""
        return 0.0 if self.used else self.ms


class History(msgspec.Struct, frozen=True):
    """A run of an agent: its prompt, the calls of each turn, and what was begun ahead.

    `whose` tells runs of different people apart, `at` is when it began (Unix seconds).
    """

    run: str
    agent: str
    whose: str
    at: float
    prompt: str
    turns: list[list[Seen]]
    ahead: list[Ahead] = []


def history_of(record: TraceRecord) -> History | None:
    """The history that a record tells; None if what was said was not recorded."""
    if record.prompt is None or record.prompt.text is None:
        return None
    turns = [_seen(facts, record) for facts in record.turns]
    if record.outcome != "ok" and turns and not turns[-1]:
        del turns[-1]  # nobody knows whether it would have had calls
    return History(
        run=f"{record.trace_id} {record.started}",
        agent=record.name,
        whose=record.session or record.trace_id,
        at=record.started,
        prompt=record.prompt.text,
        turns=turns,
        ahead=msgspec.convert(record.facts.get(PREFETCH, {}).get("calls", []), list[Ahead], from_attributes=True),
    )


def known_name(name: str, tools: Any) -> str:
    """The name of a tool that the run was offered; that of any other is not to be kept."""
    return name if name in tools else _UNKNOWN


def _seen(facts: TurnFacts, record: TraceRecord) -> list[Seen]:
    calls = ((call, record.said.get(call.call_id)) for call in facts.calls)
    return [_call(call, said, record) for call, said in calls if said is not None and said.text is not None]


def _call(call: CallFacts, said: Said, record: TraceRecord) -> Seen:
    failed = call.outcome not in _ANSWERED
    read_only = call.name in record.tools and record.tools[call.name].read_only
    return Seen(known_name(call.name, record.tools), _arguments(said.text or ""), said.result, failed, read_only)


def _arguments(text: str) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(text or "{}")
    except msgspec.DecodeError:
        return {}
    return value if isinstance(value, dict) else {}
