"""What of a run is kept: nothing of what was said in it, unless its words are wanted, and of those no secrets."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec
from msgspec.structs import replace

from hotloop.hiding import masked_text, masked_value
from hotloop.trace.ledger import AttemptFacts, Stage, TurnFacts
from hotloop.trace.record import TraceRecord
from hotloop.trace.recording.wording import LEFT_OUT, own_words

LONGEST = 100_000
"""Characters of one text that are kept where words are."""

_BUILT_IN = ("plan", "read_result", "final_answer")
_DECLARED = ("route", "traceparent", "tracestate")  # facts that are texts of whoever made the agent, or asked it
_OWN = ("degraded", "prefetch")  # facts of which all texts are our own, but for names of models and tools
_WORDLESS = frozenset(
    {
        "CircuitOpen",
        "ConnectError",
        "ContentFiltered",
        "ReplyTimeout",
        "ServiceBusy",
        "TransportError",
        "TruncatedReply",
    }
)  # errors that quote nobody
_KEY = re.compile(r"[a-z][a-z0-9_]{0,39}", re.ASCII)
_WORD = re.compile(r"\w{0,32}", re.ASCII)
_NUMBERS = frozenset((int, float, bool))
_WAITED_FOR = re.compile(r"(?:^|, )([\w.-]+)")
_WAIT = "for "  # begins the note of a wait for other calls
_STEP = "."  # in the id of a call that is a step of a plan, before the name that the model gave it

_Names = set[str]


def without_words(record: TraceRecord) -> None:
    """Leave nothing in a record that a user, a tool, the model or a service has said; `said` is not looked at.

    Names of tools stay, as far as there are such tools, and texts that are hotloop's own.
    """
    known = {"", *record.tools, *_BUILT_IN}
    if not all(_is_plain(facts, known) for facts in record.turns):
        ids = _numbered(record)
        record.turns = [_turn(facts, known, ids) for facts in record.turns]
        record.said = {ids.get(call_id, call_id): said for call_id, said in record.said.items()}
    if not _are_own(record.stages, known):
        record.stages = [_stage(each, known) for each in record.stages]
    if any(each.reason for each in record.attempts):
        record.attempts = [_attempt(each) for each in record.attempts]
    if not _NUMBERS.issuperset(map(type, record.facts.values())):
        record.facts = _facts(_plain(record.facts), known)


def without_secrets(record: TraceRecord) -> None:
    """Leave no keys, tokens and passwords in a record's texts; `said` is not looked at."""
    record.stages = [replace(each, note=masked_text(each.note, LONGEST)) for each in record.stages]
    record.attempts = [replace(each, reason=masked_text(each.reason, LONGEST)) for each in record.attempts]
    record.facts = masked_value(_plain(record.facts), LONGEST)


def _are_own(stages: Sequence[Stage], known: _Names) -> bool:
    """Whether nothing in them is another's, which is so of nearly all."""
    notes = {each.note for each in stages}
    return {each.name for each in stages} <= known and all(own_words(note) == note for note in notes)


def _stage(stage: Stage, known: _Names) -> Stage:
    note = own_words(stage.note)
    if note == LEFT_OUT and stage.note.startswith(_WAIT):
        note = _WAIT + _waited_for(stage.note[len(_WAIT) :], known)
    return replace(stage, name=_name(stage.name, known), note=note)


def _attempt(facts: AttemptFacts) -> AttemptFacts:
    return facts if facts.error in _WORDLESS else replace(facts, reason=own_words(facts.reason))


def _is_plain(facts: TurnFacts, known: _Names) -> bool:
    """Whether nothing in it is another's, and no name is the model's."""
    for call in facts.calls:
        if call.name not in known or call.waited_for or _STEP in call.call_id:
            return False
    return known.issuperset(facts.tools) and _named(facts.finish_reason) == facts.finish_reason


def _turn(facts: TurnFacts, known: _Names, ids: Mapping[str, str]) -> TurnFacts:
    calls = [
        replace(
            call,
            call_id=ids.get(call.call_id, call.call_id),
            name=_name(call.name, known),
            waited_for=_waited_for(call.waited_for, known),
            needs=tuple(ids.get(each, each) for each in call.needs),
        )
        for call in facts.calls
    ]
    tools = [_name(each, known) for each in facts.tools]
    return replace(facts, calls=calls, tools=tools, finish_reason=_named(facts.finish_reason))


def _numbered(record: TraceRecord) -> dict[str, str]:
    """The ids of steps of plans, each with a number in place of the name that is the model's."""
    steps = [call.call_id for facts in record.turns for call in facts.calls if _STEP in call.call_id]
    return {each: f"{each.partition(_STEP)[0]}{_STEP}{number}" for number, each in enumerate(steps, 1)}


def _name(name: str, known: _Names) -> str:
    return name if name in known else LEFT_OUT


def _waited_for(text: str, known: _Names) -> str:
    """The tools that a call has waited for, without the resources that it shares with them."""
    return ", ".join(dict.fromkeys(_name(each, known) for each in _WAITED_FOR.findall(text)))


@lru_cache(maxsize=64)
def _named(word: str) -> str:
    """A service's word for something, if it is no more than that."""
    return word if _WORD.fullmatch(word) else LEFT_OUT


def _plain(facts: Mapping[str, Any]) -> Mapping[str, Any]:
    """The facts as dicts, lists and scalars."""
    plain: dict[str, Any] = msgspec.to_builtins(facts, str_keys=True, enc_hook=lambda value: type(value).__name__)
    return plain


def _facts(facts: Mapping[str, Any], known: _Names) -> dict[str, Any]:
    return {
        name if name in known or _KEY.fullmatch(name) else LEFT_OUT: _fact(value, name, known)
        for name, value in facts.items()
    }


def _fact(value: Any, name: str, known: _Names) -> Any:
    if name in _OWN:
        return value
    if isinstance(value, str):
        return value if name in _DECLARED or value in known else own_words(value)
    if isinstance(value, dict):
        return _facts(value, known)
    if isinstance(value, list):
        return [_fact(each, name, known) for each in value]
    return value
