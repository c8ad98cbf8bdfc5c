"""Whatever spans there are: they become records that hold together, or none."""

from __future__ import annotations

import json
from itertools import pairwise

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from otlpspans import EPOCH, MS, TRACE

from hotloop.insight.graph import Graph
from hotloop.trace.importing.otlp import spans_of
from hotloop.trace.importing.records import records_of_spans
from hotloop.trace.importing.span import Span, SpanEvent
from hotloop.trace.record import TraceRecord
from hotloop.trace.trace import Trace

IDS = st.sampled_from([f"{number:016x}" for number in range(1, 13)])
PARENTS = IDS | st.just("")
WORDS = st.sampled_from(
    ["", "a", "b", "{", '{"a": 1}', '[{"role": "user", "content": "Hi"}]', "sk-1234567890abcdefghij"]
)
VALUES = st.one_of(
    WORDS,
    st.integers(-2, 10**6),
    st.floats(),
    st.booleans(),
    st.none(),
    st.lists(WORDS, max_size=2),
    st.dictionaries(WORDS, WORDS, max_size=2),
)
KINDS = st.sampled_from(
    [
        {},
        {"gen_ai.operation.name": "chat"},
        {"gen_ai.operation.name": "invoke_agent"},
        {"gen_ai.operation.name": "execute_tool"},
        {"openinference.span.kind": "LLM"},
        {"openinference.span.kind": "CHAIN"},
        {"openinference.span.kind": "TOOL"},
        {"openinference.span.kind": "RETRIEVER"},
        {"openinference.span.kind": "GUARDRAIL"},
        {"http.request.method": "POST"},
        {"traceloop.span.kind": "workflow"},
    ]
)
MOSTLY_WORK = st.just({"gen_ai.operation.name": "chat"}) | st.just({"gen_ai.operation.name": "execute_tool"}) | KINDS
NAMED = st.sampled_from(
    [
        "gen_ai.agent.name",
        "gen_ai.request.model",
        "gen_ai.response.finish_reasons",
        "gen_ai.response.time_to_first_chunk",
        "gen_ai.server.time_to_first_token",
        "gen_ai.usage.input_tokens",
        "gen_ai.usage.output_tokens",
        "gen_ai.input.messages",
        "gen_ai.output.messages",
        "gen_ai.tool.name",
        "gen_ai.tool.call.id",
        "gen_ai.tool.call.arguments",
        "gen_ai.tool.call.result",
        "gen_ai.tool.definitions",
        "gen_ai.conversation.id",
        "http.response.status_code",
        "llm.input_messages.0.message.role",
        "llm.output_messages.0.message.tool_calls.0.tool_call.function.name",
        "llm.output_messages.0",
        "llm.tools.0.tool.json_schema",
        "output.value",
        "server.port",
    ]
)
ATTRIBUTES = st.dictionaries(NAMED, VALUES, max_size=5)
TIMES = st.integers(0, 60)
EVENTS = st.builds(
    SpanEvent,
    st.sampled_from(["exception", "First Token Stream Event", "gen_ai.choice", "gen_ai.user.message"]),
    TIMES.map(lambda at: EPOCH + at * MS),
    st.dictionaries(st.sampled_from(["exception.type", "message", "content"]), VALUES, max_size=2),
)


@st.composite
def span_of(draw, own=IDS, parents=PARENTS, kinds=KINDS, times=TIMES):
    start = draw(times)
    return Span(
        TRACE,
        draw(own),
        draw(parents),
        draw(st.sampled_from(["", "run", "step"])),
        draw(st.sampled_from([0, 1, 2, 3])),
        EPOCH + start * MS,
        draw(st.just(0) | times.map(lambda end: EPOCH + (start + end) * MS) | times.map(lambda end: EPOCH + end * MS)),
        draw(kinds) | draw(ATTRIBUTES),
        draw(st.lists(EVENTS, max_size=2)),
        draw(st.booleans()),
        draw(st.sampled_from(["", "pydantic-ai", "openinference.instrumentation.langchain"])),
        draw(st.sampled_from([{}, {"host.name": "far"}])),
    )


@st.composite
def runs(draw):
    """Spans of an agent that are a tree, as those of a framework are, most of them requests and tools."""
    ids = [f"{number:016x}" for number in range(1, draw(st.integers(2, 14)))]
    told = {"openinference.span.kind": "AGENT"}
    root = Span(TRACE, "f" * 16, "", "run", 1, EPOCH, EPOCH + 100 * MS, told, [], False, "", {})
    spans = [root]
    for place, own in enumerate(ids):
        parents = st.just(root.span_id) | st.sampled_from([root.span_id, *ids[:place]])
        spans.append(draw(span_of(st.just(own), parents, MOSTLY_WORK, st.integers(0, 90))))
    return spans


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(runs() | st.lists(span_of(), max_size=14), st.booleans())
def test_any_spans_become_records_that_hold_together(spans, content):
    for record in records_of_spans(spans, content):
        _check_times(record)
        _check_turns(record)
        _check_readers(record)


def _check_times(record: TraceRecord) -> None:
    assert record.start == 0 <= record.end
    assert all(0 <= stage.start <= stage.end <= record.end for stage in record.stages)
    assert all(0 <= each.start <= each.end <= record.end for each in record.attempts)
    assert all(not each.first or each.start <= each.first <= each.end for each in record.attempts)
    trace = Trace(record)
    assert trace.unattributed_ms >= 0
    if "the root of the trace is missing" not in str(record.facts.get("warnings")):
        assert trace.unattributed_ms == 0


def _check_turns(record: TraceRecord) -> None:
    numbers = [turn.turn for turn in record.turns]
    assert numbers == sorted(set(numbers))
    ids = [call.call_id for turn in record.turns for call in turn.calls]
    assert len(ids) == len(set(ids)) and set(ids) <= set(record.said)
    on_line = [stage for stage in sorted(record.stages, key=lambda stage: stage.start) if not stage.lane]
    assert [stage.turn for stage in on_line] == sorted(stage.turn for stage in on_line)
    asked = sorted((s.start, s.end) for s in on_line if s.kind in ("prefill", "decode") and s.start < s.end)
    assert all(before[1] <= after[0] for before, after in pairwise(asked))
    for turn in record.turns:
        lanes = {stage.lane for stage in record.stages if stage.turn == turn.turn and stage.kind == "tool"}
        assert set(range(1, len(turn.calls) + 1)) <= lanes or not turn.calls


def _check_readers(record: TraceRecord) -> None:
    json.dumps(Trace(record).to_dict(), allow_nan=False)
    assert str(Trace(record))
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(record), type=TraceRecord) == record
    assert Graph.of(record).took == record.end


def _json(value):
    """A value of an attribute in OTLP."""
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value if abs(value) < float("inf") else str(value)}
    if isinstance(value, list):
        return {"arrayValue": {"values": [*map(_json, value)]}}
    if isinstance(value, dict):
        return {"kvlistValue": {"values": [{"key": key, "value": _json(each)} for key, each in value.items()]}}
    return {} if value is None else {"stringValue": value}


@given(VALUES)
def test_values_survive_the_way_through_otlp(value):
    span = {"traceId": TRACE, "spanId": "0" * 15 + "1", "startTimeUnixNano": 1}
    attributes = [{"key": "it", "value": _json(value)}]
    document = {"resourceSpans": [{"scopeSpans": [{"spans": [span | {"attributes": attributes}]}]}]}
    (read,) = spans_of(msgspec.json.encode(document))
    assert repr(read.attributes["it"]) == repr(value)
