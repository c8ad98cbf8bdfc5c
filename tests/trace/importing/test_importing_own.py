"""Our own runs, as we tell OpenTelemetry of them, and read again."""

from __future__ import annotations

from msgspec.structs import replace
from otlpspans import records

from hotloop.trace.importing.span import CLIENT, INTERNAL, Span
from hotloop.trace.ledger import AttemptFacts, Stage, Usage
from hotloop.trace.otel.spans import spans_of
from hotloop.trace.trace import Trace
from hotloop.units import NS_PER_MS
from made_runs import run_of

TOOLS = {"order_status": 0.12, "logistics": 0.18}


def told(record):
    """What is read of the spans that tell of it."""
    root, *others = spans_of(record)
    (found,) = records(*(_span(each, "" if each is root else root.span_id) for each in (root, *others)))
    return found


def _span(span, parent):
    kind, failed = CLIENT if span.client else INTERNAL, span.error is not None
    own = (span.name, kind, span.start, span.end, span.attributes)
    return Span("f" * 32, span.span_id, parent, *own, [], failed, "hotloop", {})


def test_a_run_is_the_same_again():
    record = run_of(TOOLS)
    again = told(record)
    assert (again.trace_id, again.name, again.version, again.source) == (record.trace_id, "orders", "1", "hotloop-otlp")
    assert (again.end, again.started) == (record.end, record.started)
    assert Trace(again).usage == Trace(record).usage
    assert [(turn.ttft, turn.usage) for turn in again.turns] == [(turn.ttft, turn.usage) for turn in record.turns]
    assert [call.name for call in again.turns[0].calls] == list(TOOLS)
    assert Trace(again).critical_ms() == Trace(record).critical_ms()


def test_what_else_took_its_time_is_what_it_was():
    record = run_of(TOOLS)
    shift = 50 * NS_PER_MS
    shifted = replace(record, end=record.end + shift)
    later = [replace(stage, start=stage.start + shift, end=stage.end + shift) for stage in record.stages]
    shifted.stages = [Stage("memory", 0, shift, 0, 0, "", "3 facts"), *later]
    shifted.attempts = [
        replace(each, start=each.start + shift, end=each.end + shift, first=each.first + shift)
        for each in record.attempts
    ]
    assert Trace(told(shifted)).critical_ms()["memory"] == 50


def test_the_slower_of_two_requests_is_no_reply():
    record = run_of({})
    first, second = record.attempts
    lost = AttemptFacts(0, "svc", "gpt", "hedge", first.start + 20, first.end, "lost", usage=Usage(7, 7))
    hedged = replace(record, attempts=[first, lost, second])
    again = told(hedged)
    assert Trace(again).usage == Trace(hedged).usage
    assert [turn.usage for turn in again.turns] == [turn.usage for turn in record.turns]
    assert sorted(each.outcome for each in again.attempts) == ["failed", "ok", "ok"]
