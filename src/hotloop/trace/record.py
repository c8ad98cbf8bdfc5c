"""A run as it is kept: its ledger after the end, with whose it was and how it ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from hotloop.trace.declared import NOTHING_DECLARED, Declared
from hotloop.trace.ledger import AttemptFacts, Ledger, Stage, ToolFacts, TurnFacts, Words

Outcome = Literal["ok", "failed", "paused", "cancelled"]


class Said(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What was said, as digests: the words, and for a call what the model read of its result, of `size` bytes.

    Digests have a secret of their process in them, so that only within one process the same text has the same one.
    `text` and `result` are the words themselves, where content is recorded: masked, and None where it is not.
    `sources` are the calls whose results a call took its arguments from, None if that is unknown.
    """

    digest: str = ""
    size: int = 0
    result_digest: str = ""
    text: str | None = None
    result: str | None = None
    sources: tuple[str, ...] | None = None


class TraceRecord(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One run. `started` is Unix time in seconds, all other times are nanoseconds of the run's own clock.

    `source` tells who ran it: "hotloop", or the framework of an imported trace. `limits` are the rows of its budget, by
    name, which counts from `since` on, 0 for the start; `said` is by the id of the call. `error` is the class of what a
    failed run raised. `declared` is what of its agent's declaration readers of records need.
    """

    trace_id: str
    name: str = ""
    version: str = ""
    session: str = ""
    source: str = "hotloop"
    started: float = 0.0
    start: int
    end: int
    outcome: Outcome = "ok"
    error: str = ""
    stages: list[Stage] = []
    turns: list[TurnFacts] = []
    attempts: list[AttemptFacts] = []
    facts: dict[str, Any] = {}
    limits: dict[str, int] = {}
    tools: dict[str, ToolFacts] = {}
    declared: Declared = NOTHING_DECLARED
    prompt: Said | None = None
    answer: Said | None = None
    said: dict[str, Said] = {}
    since: int = 0


class Ended(msgspec.Struct, frozen=True, gc=False):
    """A run that has ended, to be recorded: what is known of it beside its ledger, and what was said in it.

    With `content` the words are recorded, too.
    """

    ledger: Ledger
    limits: Mapping[str, int]
    words: Words
    version: str = ""
    session: str = ""
    outcome: Outcome = "ok"
    error: str = ""
    content: bool = False
    declared: Declared = NOTHING_DECLARED

    def record(self) -> TraceRecord:
        """The record of it, without what was said."""
        ledger = self.ledger
        return TraceRecord(
            trace_id=ledger.trace_id,
            name=ledger.name,
            version=self.version,
            session=self.session,
            started=ledger.started,
            start=ledger.start,
            end=ledger.end,
            since=ledger.since,
            outcome=self.outcome,
            error=self.error,
            stages=ledger.stages,
            turns=ledger.turns,
            attempts=ledger.attempts,
            facts=ledger.facts,
            limits=dict(self.limits),
            tools=dict(ledger.tools),
            declared=self.declared,
        )
