"""OTLP as JSON and as protobuf: the same spans, whichever way they were written; what is none is told."""

from __future__ import annotations

import base64
import json

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from hotloop.errors import ConfigError
from hotloop.trace.importing.otlp import spans_of
from hotloop.trace.importing.protobuf import spans_of_protobuf

TRACE, SPAN, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331", "00f067aa0ba902b7"

LEVELS = 600
DEEP = b'{"resourceSpans": [{"resource": {"attributes": [{"key": "it", "value": %b{}%b}]}}]}' % (
    b'{"arrayValue": {"values": [' * LEVELS,
    b"]}}" * LEVELS,
)


def request(**fields):
    told = {
        "traceId": TRACE,
        "spanId": SPAN,
        "parentSpanId": PARENT,
        "name": "chat",
        "kind": 3,
        "startTimeUnixNano": "1796000000000000001",
        "endTimeUnixNano": "1796000000000000009",
        "attributes": [],
    }
    span = {key: value for key, value in (told | fields).items() if value is not None}
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "shop"}}]}
    return {
        "resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": {"name": "pydantic-ai"}, "spans": [span]}]}]
    }


def read(**fields):
    (span,) = spans_of(json.dumps(request(**fields)).encode())
    return span


def _nulls(value, without):
    """The value with null for all fields but these."""
    if isinstance(value, dict):
        return {key: _nulls(each, without) if key in without else None for key, each in value.items()}
    return [_nulls(each, without) for each in value] if isinstance(value, list) else value


def test_a_span_is_read():
    span = read()
    assert (span.trace_id, span.span_id, span.parent_id) == (TRACE, SPAN, PARENT)
    assert (span.start, span.end, span.kind) == (1796000000000000001, 1796000000000000009, 3)
    assert (span.scope, span.resource, span.failed) == ("pydantic-ai", {"service.name": "shop"}, False)


def test_null_is_the_default_of_every_field():
    event = {"name": "e", "timeUnixNano": 1, "attributes": []}
    pair = {"key": "k", "value": {"arrayValue": {"values": []}}}
    full = request(events=[event], attributes=[pair], status={"code": 2})
    way = {"resourceSpans", "scopeSpans", "spans", "traceId", "spanId", "startTimeUnixNano"}
    (span,) = spans_of(_nulls(full, way))
    assert (span.name, span.kind, span.end, span.attributes, span.events, span.failed) == ("", 0, 0, {}, [], False)
    way |= {"resource", "scope", "events", "attributes", "status", "value", "arrayValue"}
    (span,) = spans_of(_nulls(full, way))
    assert (span.scope, span.resource, span.attributes) == ("", {"": None}, {"": []})
    assert (span.events[0].name, span.events[0].at, span.failed) == ("", 0, False)
    for last in ("resourceSpans", "scopeSpans", "spans"):
        assert spans_of({"resourceLogs": [], **_nulls(full, way - {last})}) == []


def test_a_decoded_request_is_read_too():
    (span,) = spans_of(request())
    assert span.span_id == SPAN


@pytest.mark.parametrize(
    ("fields", "name", "value"),
    [
        ({"traceId": base64.b64encode(bytes.fromhex(TRACE)).decode()}, "trace_id", TRACE),
        ({"traceId": TRACE.upper()}, "trace_id", TRACE),
        ({"spanId": base64.b64encode(bytes.fromhex(SPAN)).decode()}, "span_id", SPAN),
        ({"parentSpanId": ""}, "parent_id", ""),
        ({"parentSpanId": None}, "parent_id", ""),
        ({"parentSpanId": "0" * 16}, "parent_id", ""),
        ({"startTimeUnixNano": 1796000000000000001}, "start", 1796000000000000001),
        ({"endTimeUnixNano": None}, "end", 0),
        ({"endTimeUnixNano": 2**63 - 1}, "end", 2**63 - 1),
        ({"kind": "SPAN_KIND_CLIENT"}, "kind", 3),
        ({"kind": "SPAN_KIND_UNHEARD_OF"}, "kind", 0),
        ({"status": {"code": 2, "message": "no"}}, "failed", True),
        ({"status": {"code": "STATUS_CODE_ERROR"}}, "failed", True),
        ({"status": {"code": "STATUS_CODE_OK"}}, "failed", False),
        ({"status": {}}, "failed", False),
    ],
)
def test_ids_times_and_words_in_every_form(fields, name, value):
    assert getattr(read(**fields), name) == value


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        ({"stringValue": ""}, ""),
        ({"intValue": "12"}, 12),
        ({"intValue": 12}, 12),
        ({"doubleValue": 0.5}, 0.5),
        ({"doubleValue": "Infinity"}, float("inf")),
        ({"boolValue": False}, False),
        ({"bytesValue": "AAE="}, "AAE="),
        ({"arrayValue": {"values": [{"stringValue": "a"}, {"intValue": 1}]}}, ["a", 1]),
        ({"arrayValue": {}}, []),
        ({"kvlistValue": {"values": [{"key": "k", "value": {"arrayValue": {"values": [{}]}}}]}}, {"k": [None]}),
        ({}, None),
    ],
)
def test_values_of_all_kinds(value, plain):
    assert read(attributes=[{"key": "it", "value": value}, {"key": "none"}]).attributes == {"it": plain}


def test_events_are_read():
    event = {"name": "exception", "timeUnixNano": "1796000000000000005", "attributes": []}
    (found,) = read(events=[event]).events
    assert (found.name, found.at) == ("exception", 1796000000000000005)


@pytest.mark.parametrize("other", ["resourceLogs", "resourceMetrics"])
def test_logs_and_metrics_have_no_spans(other):
    assert spans_of(json.dumps({other: []}).encode()) == []


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        (b'{"resourceSpans": [', "f.json:3: not valid JSON: Input data was truncated."),
        (b"what", "f.json:3: not valid JSON: JSON is malformed: invalid character (byte 0)."),
        (DEEP, "f.json:3: no OTLP: a value has others in it that are too deep to be read."),
        (b"[]", "f.json:3: no OTLP: expected keys with values, got a list."),
        (b"{}", "f.json:3: no OTLP: there is no resourceSpans in it."),
        (b'{"spans": []}', "f.json:3: no OTLP: there is no resourceSpans in it."),
        (b'{"resourceSpans": [3]}', "f.json:3: no OTLP: resourceSpans[0]: expected keys with values, got a"),
        (json.dumps(request(spanId=None)).encode(), "missing key"),
        (json.dumps(request(traceId="xyz")).encode(), "f.json:3: no OTLP: 'xyz' is the id of no trace; it takes 16"),
        (json.dumps(request(spanId="0" * 16)).encode(), "'0000000000000000' is the id of no span; it takes 8 bytes"),
        (
            json.dumps(request(startTimeUnixNano="soon")).encode(),
            "f.json:3: no OTLP: 'soon' is no time in nanoseconds since 1970.",
        ),
        (json.dumps(request(startTimeUnixNano=2**70)).encode(), "f.json:3: no OTLP: 1180591620717411303424 is no time"),
        (json.dumps(request(endTimeUnixNano=str(2**63))).encode(), "'9223372036854775808' is no time in nanoseconds"),
        (json.dumps(request(endTimeUnixNano=-5)).encode(), "f.json:3: no OTLP: -5 is no time in nanoseconds"),
        (
            b'{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":null,"spanId":null,"startTimeUnixNano":1}]}]}]}',
            "'' is",
        ),
        (
            json.dumps(request(attributes=[{"key": "n", "value": {"intValue": 2**70}}])).encode(),
            "f.json:3: no OTLP: 1180591620717411303424 is no number of 64 bits.",
        ),
        (
            json.dumps(request(attributes=[{"key": "n", "value": {"intValue": "many"}}])).encode(),
            "f.json:3: no OTLP: 'many' is no number.",
        ),
    ],
)
def test_what_is_no_otlp_is_a_sentence_with_its_place(document, sentence):
    with pytest.raises(ConfigError) as told:
        spans_of(document, "f.json:3")
    assert sentence in str(told.value)
    assert str(told.value).startswith("f.json:3: ")


def test_protobuf_says_the_same_as_json():
    values = [{"stringValue": "a"}, {"intValue": "1"}, {"doubleValue": 0.5}, {"boolValue": True}]
    attributes = [
        *({"key": f"k{place}", "value": value} for place, value in enumerate(values)),
        {"key": "list", "value": {"arrayValue": {"values": values}}},
        {"key": "map", "value": {"kvlistValue": {"values": [{"key": "k", "value": values[0]}]}}},
        {"key": "none", "value": {}},
    ]
    event = {"name": "e", "timeUnixNano": "1796000000000000005", "attributes": attributes}
    said = request(attributes=attributes, events=[event], status={"code": 2})
    assert spans_of_protobuf(_in_protobuf(said)) == spans_of(said)


def test_what_is_no_protobuf_is_a_sentence():
    with pytest.raises(ConfigError, match=r"The body is no export request of OTLP in protobuf\."):
        spans_of_protobuf(b"\xff\xff")


def test_a_time_that_cannot_be_is_refused_in_protobuf_too():
    with pytest.raises(ConfigError, match=r"The body: 9223372036854775808 is no time in nanoseconds since 1970\."):
        spans_of_protobuf(_in_protobuf(request(endTimeUnixNano=str(2**63))))


def _in_protobuf(said):
    from google.protobuf.json_format import ParseDict

    based = json.loads(json.dumps(said))
    for span in based["resourceSpans"][0]["scopeSpans"][0]["spans"]:
        for key in ("traceId", "spanId", "parentSpanId"):
            span[key] = base64.b64encode(bytes.fromhex(span[key])).decode()
    return ParseDict(based, ExportTraceServiceRequest()).SerializeToString()
