"""Traces that arrive over HTTP: gathered until they are complete, within bounds."""

from __future__ import annotations

import gzip
import http.client
import json
import socket
import sys
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from google.rpc.status_pb2 import Status
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from otlpspans import TRACE, agent, chat

from hotloop.errors import ConfigError
from hotloop.trace.importing.endpoint import JSON, LARGEST, PROTOBUF, receive
from hotloop.trace.importing.gathering import Gathering
from hotloop.trace.importing.receiver import Receiver

SAMPLE = (Path(__file__).parent.parent.parent / "data" / "otel" / "agno-parallel.jsonl").read_bytes()


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def ids(given):
    return [(trace_id[:1], len(spans)) for trace_id, spans in given]


def test_a_trace_is_due_when_its_root_has_ended_and_nothing_more_came(clock):
    gathering = Gathering(quiet=2, patience=60, clock=clock)
    gathering.add([chat("ask", "run", 10, 90)])
    clock.now = 5
    gathering.add([agent("run", "", 0, 100)])
    clock.now = 6.9
    gathering.add([chat("again", "run", 90, 99)])
    clock.now = 8.8
    assert gathering.due() == []
    clock.now = 8.9
    assert ids(gathering.due()) == [("0", 3)]
    assert (gathering.due(), gathering.waiting) == ([], 0)


def test_a_root_that_has_not_ended_is_waited_for_and_one_that_is_elsewhere_not_for_ever(clock):
    gathering = Gathering(quiet=2, patience=60, clock=clock)
    gathering.add([agent("run", "", 0, 0), agent("run", "elsewhere", 0, 100, trace="f" * 32)])
    clock.now = 59
    assert gathering.due() == []
    clock.now = 60
    assert ids(gathering.due()) == [("0", 1), ("f", 1)]


def test_traces_are_told_apart_and_only_complete_ones_are_kept_at_the_end(clock):
    gathering = Gathering(clock=clock)
    gathering.add([agent("run", "", 0, 100), chat("ask", "run", 0, 9, trace="f" * 32)])
    assert ids(gathering.complete()) == [("0", 1)]
    assert gathering.waiting == 1


def test_spans_that_come_after_their_trace_was_given_on_are_counted(clock):
    gathering = Gathering(quiet=0, clock=clock)
    gathering.add([agent("run", "", 0, 100)])
    gathering.due()
    gathering.add([chat("ask", "run", 0, 9)])
    assert (gathering.late, gathering.waiting) == (1, 0)


def test_of_too_many_spans_those_that_waited_longest_are_given_on(clock):
    gathering = Gathering(most=3, clock=clock)
    for number in range(5):
        gathering.add([chat("ask", "run", 0, 9, trace=f"{number}" * 32)])
        gathering.add([chat("again", "run", 9, 18, trace=f"{number}" * 32)])
    assert ids(gathering.due()) == [("0", 2), ("1", 2), ("2", 2), ("3", 2)]
    assert gathering.waiting == 1


@pytest.mark.parametrize("kind", [JSON, "application/json; charset=utf-8", "Application/JSON"])
@pytest.mark.parametrize(("encoding", "pack"), [("", bytes), ("gzip", gzip.compress), ("identity", bytes)])
def test_spans_are_taken(kind, encoding, pack):
    gathering = Gathering()
    assert receive(gathering, pack(SAMPLE), kind, encoding) == (200, JSON, b"{}")
    assert gathering.waiting == 1


def test_an_empty_request_in_protobuf_is_fine():
    assert receive(Gathering(), b"", PROTOBUF) == (200, PROTOBUF, b"")


@pytest.mark.parametrize(
    ("body", "kind", "encoding", "status", "sentence"),
    [
        (b"{", JSON, "", 400, "The body: not valid JSON: Input data was truncated."),
        (b"{}", JSON, "", 400, "The body: no OTLP: there is no resourceSpans in it."),
        (SAMPLE, JSON, "gzip", 400, "The body is not compressed with gzip: "),
        (gzip.compress(SAMPLE)[:-50], JSON, "gzip", 400, "The body: not valid JSON: Input data was truncated."),
        (SAMPLE, JSON, "br", 415, "A body may be compressed with gzip, not with br."),
        (SAMPLE, "text/plain", "", 415, "Spans come as application/x-protobuf or application/json, not as text/plain."),
        (SAMPLE, "", "", 415, "not as nothing said."),
        (gzip.compress(b" " * (LARGEST + 1)), JSON, "gzip", 413, "The body has more than 32 MiB"),
    ],
)
def test_what_cannot_be_taken_is_a_sentence(body, kind, encoding, status, sentence):
    gathering = Gathering()
    answer = receive(gathering, body, kind, encoding)
    assert (answer.status, answer.content_type) == (status, JSON)
    assert sentence in json.loads(answer.body)["message"]
    assert gathering.waiting == 0


def test_who_sends_protobuf_is_refused_in_it():
    answer = receive(Gathering(), b"\xff\xff", PROTOBUF)
    assert (answer.status, answer.content_type) == (400, PROTOBUF)
    assert Status.FromString(answer.body).message == "The body is no export request of OTLP in protobuf."


@pytest.mark.parametrize(("encoding", "sentence"), [("", 'pip install "hotloop[otel]"'), ("br", "not with br")])
def test_without_the_extra_protobuf_is_refused_in_json(monkeypatch, encoding, sentence):
    for module in ("google.protobuf.message", "google.rpc.status_pb2"):
        monkeypatch.setitem(sys.modules, module, None)
    answer = receive(Gathering(), b"", PROTOBUF, encoding)
    assert (answer.status, answer.content_type) == (415, JSON)
    assert sentence in json.loads(answer.body)["message"]


@pytest.fixture
def receiver():
    with Receiver(Gathering()) as started:
        yield started


@pytest.fixture
def client(receiver):
    address = urlsplit(receiver.url)
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=10)
    yield connection
    connection.close()


def ask(client, method, path, body=b"", **headers):
    client.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
    response = client.getresponse()
    return response.status, response.read()


def test_requests_on_one_connection(receiver, client):
    for _ in range(2):
        assert ask(client, "POST", "/v1/traces", SAMPLE, content_type=JSON) == (200, b"{}")
    body = gzip.compress(SAMPLE)
    assert ask(client, "POST", "/v1/traces", body, content_type=JSON, content_encoding="gzip") == (200, b"{}")
    ((_, spans),) = receiver.gathering.complete()
    assert len(spans) == 15


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("POST", "/v1/profiles", {}, 404),
        ("POST", "/v1/logs", {"content_length": "12 bytes"}, 411),
        ("GET", "/v1/traces", {}, 405),
        ("POST", "/v1/traces", {"content_length": "12 bytes"}, 411),
        ("POST", "/v1/traces", {"content_length": str(LARGEST + 1)}, 413),
    ],
)
def test_what_http_cannot_do(client, method, path, headers, status):
    assert ask(client, method, path, **headers)[0] == status


@pytest.mark.parametrize("path", ["/v1/metrics", "/v1/logs?x=1"])
def test_metrics_and_logs_are_taken_and_thrown_away(receiver, client, path):
    assert ask(client, "POST", path, b'{"resourceMetrics": []}', content_type=JSON) == (200, b"{}")
    assert ask(client, "POST", path, b"\x0a\x00", content_type=PROTOBUF) == (200, b"")
    assert ask(client, "POST", "/v1/traces", SAMPLE, content_type=JSON) == (200, b"{}")
    assert receiver.gathering.waiting == 1


def test_opentelemetrys_exporter_of_metrics_is_content(receiver, caplog):
    exporter = OTLPMetricExporter(f"{receiver.url}/v1/metrics")
    provider = MeterProvider([PeriodicExportingMetricReader(exporter)])
    provider.get_meter("agent").create_counter("tokens").add(1)
    provider.shutdown()
    assert caplog.text == ""


def test_a_body_in_chunks_as_node_sends_it(receiver, client):
    pieces = (SAMPLE[place : place + 1000] for place in range(0, len(SAMPLE), 1000))
    for _ in range(2):
        client.request("POST", "/v1/traces", pieces, {"content-type": JSON}, encode_chunked=True)
        assert client.getresponse().read() == b"{}"
        pieces = iter([SAMPLE])
    ((_, spans),) = receiver.gathering.complete()
    assert len(spans) == 10


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"5\r\nab", 400),
        (b"five\r\n", 400),
        (b"-5\r\n", 413),
        (b"%x\r\n" % (LARGEST + 1), 413),
        (b"2;name=value\r\n{}\r\n0\r\nTrailer: 1\r\n\r\n", 400),
    ],
)
def test_chunks_that_are_none(receiver, data, status):
    address = urlsplit(receiver.url)
    with socket.create_connection((address.hostname, address.port), timeout=10) as connection:
        head = b"POST /v1/traces HTTP/1.1\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
        connection.sendall(head + data)
        connection.shutdown(socket.SHUT_WR)
        assert connection.makefile("rb").readline().startswith(b"HTTP/1.1 %d " % status)


def test_a_port_that_is_taken_is_a_sentence(receiver):
    port = urlsplit(receiver.url).port
    with (
        pytest.raises(ConfigError, match=rf"Cannot receive on 127\.0\.0\.1 port {port}: "),
        Receiver(Gathering(), port=port),
    ):
        pass


def test_a_client_that_goes_away_or_is_silent_holds_nothing_up(receiver, client):
    address = urlsplit(receiver.url)
    with socket.create_connection((address.hostname, address.port)) as gone:
        gone.sendall(b"POST /v1/traces HTTP/1.1\r\ncontent-length: 100\r\n\r\n{")
    silent = socket.create_connection((address.hostname, address.port))
    assert ask(client, "POST", "/v1/traces", SAMPLE, content_type=JSON)[0] == 200
    silent.close()


def test_clients_that_keep_their_connections_take_no_places(receiver, client):
    address = urlsplit(receiver.url)
    with ExitStack() as stack:
        for _ in range(80):
            stack.enter_context(socket.create_connection((address.hostname, address.port), timeout=10))
        assert ask(client, "POST", "/v1/traces", SAMPLE, content_type=JSON) == (200, b"{}")


def test_when_too_much_is_sent_at_once_a_client_is_told_to_come_again(receiver, client):
    address = urlsplit(receiver.url)
    with ExitStack() as stack:
        for _ in range(64):
            busy = stack.enter_context(socket.create_connection((address.hostname, address.port), timeout=10))
            busy.sendall(b"POST /v1/traces HTTP/1.1\r\nexpect: 100-continue\r\ncontent-length: 100\r\n\r\n{")
            assert busy.recv(25) == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.request("POST", "/v1/traces", b" " * (4 << 20), {"content-type": JSON})
        response = client.getresponse()
        assert (response.status, response.headers["retry-after"]) == (503, "2")
        assert "send this one again" in json.loads(response.read())["message"]
    assert ask(client, "POST", "/v1/traces", SAMPLE, content_type=JSON) == (200, b"{}")


def test_the_trace_that_was_sent_is_the_one_that_was_gathered():
    gathering = Gathering()
    gathering.add([agent("run", "", 0, 10)])
    assert gathering.complete()[0][0] == TRACE
