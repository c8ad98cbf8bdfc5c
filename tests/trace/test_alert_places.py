"""Where alerts go: posted to a URL, with patience but not for ever, and shown by Prometheus."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from hotloop import ConfigError
from hotloop.trace.alerts import webhook
from hotloop.trace.alerts.alert import Alert
from hotloop.trace.alerts.alerts import Alerts
from hotloop.trace.alerts.rule import AlertRule
from hotloop.trace.alerts.webhook import Webhook
from hotloop.trace.prometheus.exporter import PrometheusExporter
from made_runs import AT, run_of

ALERT = Alert(name="tool_p95", agent="orders", of="lookup", owner="", began=True, value=1.0, limit=0.4, at=AT,
              trace_id="req-1", text="orders: it is slow")  # fmt: skip


class Receiver:
    """Takes what is posted to `url`, and answers with these statuses, then with 200."""

    def __init__(self, *statuses: int) -> None:
        self.bodies: list[Any] = []
        self.came = threading.Semaphore(0)
        left = list(statuses)
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                receiver.bodies.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
                self.send_response(left.pop(0) if left else 200)
                self.send_header("location", "http://127.0.0.1:9/elsewhere")
                self.end_headers()
                receiver.came.release()

            def log_message(self, *_: object) -> None: ...

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/services/T0/secret?token=abc"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def receiver(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(webhook, "_PAUSES", (0.0, 0.01, 0.01))
    receiver = Receiver(*getattr(request, "param", ()))
    yield receiver
    receiver.close()


def test_an_alert_is_posted_as_json_with_a_sentence_for_people(receiver):
    hook = Webhook(receiver.url)
    hook.tell(ALERT)
    hook.close()
    assert receiver.bodies == [
        {"name": "tool_p95", "agent": "orders", "of": "lookup", "owner": "", "began": True, "value": 1.0, "limit": 0.4}
        | {"at": AT, "lasted": 0.0, "trace_id": "req-1", "text": "orders: it is slow"}
    ]


@pytest.mark.parametrize(
    ("receiver", "posted", "told"),
    [((503, 429), 3, ""), ((500, 500, 500, 500), 3, "it answered 500"), ((404,), 1, "404"), ((302,), 1, "302")],
    indirect=["receiver"],
)
def test_what_may_pass_is_tried_three_times_and_the_secret_of_the_url_is_never_logged(receiver, posted, told, caplog):
    hook = Webhook(receiver.url)
    hook.tell(ALERT)
    for _ in range(posted):
        assert receiver.came.acquire(timeout=5)
    hook.close()
    assert len(receiver.bodies) == posted
    assert told in caplog.text
    assert bool(told) == bool(caplog.records)
    assert "secret" not in caplog.text + repr(hook)
    assert "abc" not in caplog.text + repr(hook)


def test_nobody_there_is_told_and_holds_nobody_up(caplog, receiver):
    receiver.close()
    hook = Webhook(receiver.url)
    hook.tell(ALERT)
    hook.close()
    assert f"could not be told to http://127.0.0.1:{receiver.server.server_port}/***: " in caplog.text
    assert "Connection refused" in caplog.text


def test_no_more_alerts_wait_than_a_hundred(caplog, monkeypatch):
    hook = Webhook("http://127.0.0.1:9/")
    monkeypatch.setattr(hook, "_run", lambda: None)
    for _ in range(102):
        hook.tell(ALERT)
    assert caplog.text.count("An alert is lost") == 2


def test_it_goes_on_after_it_was_closed_and_leaves_no_thread(receiver):
    hook = Webhook(receiver.url)
    for _ in range(2):
        hook.tell(ALERT)
        hook.close()
    assert len(receiver.bodies) == 2
    assert not [thread for thread in threading.enumerate() if thread.name == "hotloop webhook"]


@pytest.mark.parametrize(
    "url",
    [
        "",
        "example.org/hook",
        "ftp://example.org/secret",
        "https://me:secret@example.org/",
        "https://:secret@example.org/",
        "https://example.org:99999/secret",
    ],
)
def test_what_is_no_url_of_the_web_is_refused_without_showing_it(url):
    with pytest.raises(ConfigError) as refused:
        Webhook(url)
    assert "secret" not in str(refused.value)


def test_prometheus_shows_which_alerts_are_on():
    exporter = PrometheusExporter()
    alerts = Alerts([AlertRule(when="tool_p95", over=0.4, window=30, at_least=1)], [exporter])
    labels = {"alert": "tool_p95", "agent": "orders", "of": "lookup"}
    alerts.export([run_of({"lookup": 1.0})])
    assert exporter.registry.get_sample_value("hotloop_alert", labels) == 1
    alerts.export([run_of({"lookup": 0.1}, at=AT + 100)])
    assert exporter.registry.get_sample_value("hotloop_alert", labels) == 0
    assert exporter.registry.get_sample_value("hotloop_alerts_total", labels) == 1
