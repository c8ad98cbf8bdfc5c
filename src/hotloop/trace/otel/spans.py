"""A record as spans: the run, below it every request to a model, every call of a tool, and what else took its time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from hotloop.trace.calls import CallStages, calls_of
from hotloop.trace.ledger import AttemptFacts, Stage, TurnFacts, Usage
from hotloop.trace.otel import names
from hotloop.trace.otel.content import Content
from hotloop.trace.record import TraceRecord
from hotloop.trace.w3c import span_id_of
from hotloop.units import NS_PER_MS, NS_PER_S

_SHORTEST = NS_PER_MS  # of a stage that is a span of its own
_OF_THE_RUN = ("queue", "connect", "memory", "approval", "cache")
_OF_A_CALL = ("wait", "guard", "approval", "context")
_AIMLESS = ("prefill", "summary")  # requests that are not for a reply of the run
_STOPPED = ("cancelled", "lost", "discarded")  # by us: an end, but no failure
_FAILED = {"error": "tool_error"}  # the others are their own names
_FINE = ("ok", "cached", "joined", "prefetched", "fallback")


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """One span; times are Unix nanoseconds. `error` is what it failed with, None if it did not fail.

    `client` tells that what it stands for happened in another process.
    """

    name: str
    span_id: str
    start: int
    end: int
    attributes: dict[str, Any]
    error: str | None = None
    client: bool = False


def spans_of(record: TraceRecord, *, content: bool = False) -> list[Span]:
    """The spans of a run, its own first and all others directly below it; with what was said only if asked for."""
    return _Spans(record, Content(record) if content else None).all()


class _Spans:
    def __init__(self, record: TraceRecord, content: Content | None) -> None:
        self._record = record
        self._content = content
        whole = int(record.started)  # a float has no nanoseconds of so many seconds, but of less than one
        self._epoch = whole * NS_PER_S + round((record.started - whole) * NS_PER_S) - record.start
        self._replies = _replies(record)
        self._common = {names.CONVERSATION: record.session, names.SESSION: record.session} if record.session else {}

    def all(self) -> list[Span]:
        record = self._record
        calls = calls_of(record)
        ends = {id(call.last) for call in calls}
        stages = [stage for stage in record.stages if _is_told(stage) and id(stage) not in ends]
        return [
            self._run(),
            *(self._request(number, facts) for number, facts in enumerate(record.attempts)),
            *(self._call(number, call) for number, call in enumerate(calls)),
            *(self._ahead(number, call) for number, call in enumerate(_ahead(record))),
            *(self._stage(number, stage) for number, stage in enumerate(stages)),
        ]

    def _span(self, name: str, own_id: str, start: int, end: int, told: dict[str, Any], **more: Any) -> Span:
        attributes = {key: value for key, value in (self._common | told).items() if value not in (None, "")}
        start, end = self._epoch + start, self._epoch + max(start, end)
        return Span(name=name, span_id=own_id, start=start, end=end, attributes=attributes, **more)

    def _own_id(self, what: str) -> str:
        """The id of a span that nobody was told of; a run that was resumed has several records."""
        return span_id_of(self._record.trace_id, f"{what}@{self._record.started!r}")

    def _run(self) -> Span:
        record = self._record
        told = {
            names.OPERATION: names.INVOKE_AGENT,
            names.OPENINFERENCE_KIND: "AGENT",
            names.AGENT_NAME: record.name,
            names.AGENT_VERSION: record.version,
            names.RUN: record.trace_id,
            names.OUTCOME: record.outcome,
            names.ERROR: record.error,
        }
        if self._content is not None:
            told |= self._content.of_run()
        name = f"{names.INVOKE_AGENT} {record.name}".rstrip()
        error = record.error if record.outcome == "failed" else None
        return self._span(name, self._own_id("run"), record.start, record.end, told, error=error)

    def _request(self, number: int, facts: AttemptFacts) -> Span:
        reply = self._replies.get(number)
        told = request_attributes(facts, reply) | {
            names.OPENINFERENCE_KIND: "LLM",
            names.FIRST_CHUNK: (facts.first - facts.start) / NS_PER_S if facts.first else None,
            names.FINISH_REASONS: [reply.finish_reason] if reply is not None and reply.finish_reason else None,
            names.TIME_PER_TOKEN: reply.tpot / NS_PER_S if reply is not None and reply.tpot is not None else None,
            names.COMPLETION_START: self._moment(facts.first) if facts.first else None,
            names.OUTCOME: facts.outcome,
            names.WHY: facts.why,
            names.REASON: facts.reason,
            names.TURN: facts.turn,
            **_usage(facts.usage),
        }
        if self._content is not None and facts.why not in _AIMLESS:
            told |= self._content.of_request(facts.turn, reply)
        own_id = self._own_id(f"request {number}")
        error = told[names.REASON] if facts.outcome not in ("ok", *_STOPPED) else None
        name = f"{names.CHAT} {facts.model}"
        return self._span(name, own_id, facts.start, facts.end, told, error=error, client=names.SERVER in told)

    def _call(self, number: int, call: CallStages) -> Span:
        facts, last = call.facts, call.last
        told = {names.OPENINFERENCE_KIND: "TOOL", names.TURN: last.turn} | call_attributes(call)
        own_id = self._own_id(f"call {number}")
        if facts is not None:
            own_id = span_id_of(self._record.trace_id, facts.call_id)
            told |= {
                names.CALL_ID: facts.call_id,
                names.HEAD_START: facts.head_start / NS_PER_S or None,
                names.WAITED_FOR: facts.waited_for,
            }
            if self._content is not None:
                told |= self._content.of_call(facts.call_id)
        error = told.get(names.ERROR) if told.get(names.OUTCOME) not in _STOPPED else None
        return self._span(f"{names.EXECUTE_TOOL} {last.name}", own_id, last.start, last.end, told, error=error)

    def _ahead(self, number: int, call: Mapping[str, Any]) -> Span:
        """A call that was begun before the model made it, if it ever did."""
        call_id = call.get("call_id", "")
        told = {
            names.OPERATION: names.EXECUTE_TOOL,
            names.OPENINFERENCE_KIND: "TOOL",
            names.TOOL_NAME: call["tool"],
            names.TOOL_TYPE: "function",
            names.CALL_ID: call_id,
            names.OUTCOME: "begun ahead",
            names.USED: bool(call.get("used")),
            names.TURN: call["turn"],
        }
        start = self._record.start + round(call["start_ms"] * NS_PER_MS)
        end = start + round(call["ms"] * NS_PER_MS)
        own_id = span_id_of(self._record.trace_id, call_id) if call_id else self._own_id(f"ahead {number}")
        error = "tool_error" if call.get("failed") else None
        return self._span(f"{names.EXECUTE_TOOL} {call['tool']}", own_id, start, end, told, error=error)

    def _stage(self, number: int, stage: Stage) -> Span:
        told = {names.OPENINFERENCE_KIND: "CHAIN", names.TURN: stage.turn, names.NOTE: stage.note}
        name = f"{names.SCOPE}.{stage.kind} {stage.name}".rstrip()
        return self._span(name, self._own_id(f"stage {number}"), stage.start, stage.end, told)

    def _moment(self, at: int) -> str:
        """A time as Langfuse reads it: ISO 8601 in JSON."""
        return f'"{datetime.fromtimestamp((self._epoch + at) / NS_PER_S, UTC).isoformat(timespec="microseconds")}"'


def request_attributes(facts: AttemptFacts, reply: TurnFacts | None) -> dict[str, Any]:
    """What tells one kind of request from another, in a span as in a metric; `reply` is what came of it, if any did."""
    told: dict[str, Any] = {
        names.OPERATION: names.CHAT,
        names.PROVIDER: names.provider_of(facts.service),
        names.REQUEST_MODEL: facts.model,
    }
    if facts.service != "local" and not facts.service[:1].isupper():  # which is the name of a class
        host, _, port = facts.service.rpartition(":")
        told |= {names.SERVER: host, names.PORT: int(port)} if port.isdecimal() else {names.SERVER: facts.service}
    if reply is not None and reply.model:
        told[names.RESPONSE_MODEL] = reply.model
    if facts.outcome != "ok":
        told[names.ERROR] = facts.error or facts.outcome
    return told


def call_attributes(call: CallStages) -> dict[str, Any]:
    """What tells one kind of call from another."""
    outcome = call.facts.outcome if call.facts is not None else call.last.note or "discarded"
    told = {
        names.OPERATION: names.EXECUTE_TOOL,
        names.TOOL_NAME: call.last.name,
        names.TOOL_TYPE: "function",
        names.OUTCOME: outcome,
    }
    return told if outcome in _FINE else told | {names.ERROR: _FAILED.get(outcome, outcome)}


def replies_of(record: TraceRecord) -> list[tuple[AttemptFacts, TurnFacts | None]]:
    """Every request of a run, with the reply of the turn if it gave that."""
    replies = _replies(record)
    return [(facts, replies.get(number)) for number, facts in enumerate(record.attempts)]


def _replies(record: TraceRecord) -> dict[int, TurnFacts]:
    """The replies of a run, by the number of the request that gave each: the last good one of its turn."""
    turns = {facts.turn: facts for facts in record.turns}
    gave = {
        facts.turn: number
        for number, facts in enumerate(record.attempts)
        if facts.outcome == "ok" and facts.why not in _AIMLESS
    }
    return {number: turns[turn] for turn, number in gave.items() if turn in turns}


def _ahead(record: TraceRecord) -> Sequence[Mapping[str, Any]]:
    """The calls that were begun ahead."""
    found: Sequence[Mapping[str, Any]] = record.facts.get("prefetch", {}).get("calls", ())
    return found


def _usage(usage: Usage) -> dict[str, int | None]:
    return {
        names.INPUT_TOKENS: usage.input_tokens,
        names.OUTPUT_TOKENS: usage.output_tokens,
        names.CACHED_TOKENS: usage.cached_tokens,
        names.REASONING_TOKENS: usage.reasoning_tokens,
    }


def _is_told(stage: Stage) -> bool:
    """Whether a stage is one that a person would ask about and no other span shows."""
    if stage.end - stage.start < _SHORTEST:
        return False
    if stage.lane:
        return stage.kind in _OF_A_CALL
    return stage.kind in _OF_THE_RUN or (stage.kind == "context" and bool(stage.note))
