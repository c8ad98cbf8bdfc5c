"""Asking a model: what is sent again and when, what is told of it, and what is not tried."""

from __future__ import annotations

import asyncio
import json
import random

import pytest
from asking import Hold
from wire_frames import DONE, calls, chunk, data, end, item, text

from hotloop.budget import Budget, Deadline
from hotloop.errors import (
    ContextOverflow,
    HotloopError,
    MalformedReply,
    ModelError,
    Overloaded,
    RateLimited,
    ReplyTimeout,
    ServiceError,
    ToolUseFailed,
    TransportError,
    TruncatedReply,
)
from hotloop.events import CallOpened, CallSealed, ReplyFinished, Reset, Retrying, TextDelta
from hotloop.models.ask import Ask
from hotloop.models.client import Client
from hotloop.models.dialects import DIALECTS
from hotloop.models.model import Model
from hotloop.models.policy.policy import Policy
from hotloop.models.reply import Reply
from hotloop.models.request import RequestTemplate
from hotloop.models.service import Service
from hotloop.testing import ScriptedModel, raw, run_virtual
from hotloop.trace.ledger import Ledger
from hotloop.units import clock

MESSAGES = b'{"role":"user","content":"go"}'
BUSY = raw(b"busy", status=503)
CALL = calls(item('{"a": 1}', "f", id="x", index=0))
HELLO = [TextDelta("Hello"), ReplyFinished("stop", 0)]


def failed_generation(written, status=400):
    error = {"error": {"message": "no call", "code": "tool_use_failed", "failed_generation": written}}
    return raw(json.dumps(error).encode(), status=status)


def truncated(**more):
    return raw(CALL, end("length", **more), DONE)


def client(model, request=None, tools=(), **policy):
    """A client of a service that nobody else asks; `timeout` is for a whole reply."""
    policy = {"total" if name == "timeout" else name: value for name, value in policy.items()}
    how = Policy(**policy)
    service = Service(Model(name="m", endpoint=model, policy=how))
    request = request or RequestTemplate("m", DIALECTS["generic"])
    return Client(model, request, service, how, tool_names=frozenset(tools))


def ask(ledger=None, emit=lambda events, throttle=None: None, messages=MESSAGES, **more):
    return Ask(messages=bytearray(messages), ledger=ledger or Ledger(clock(), "t"), emit=emit, **more)


class Asked:
    """What came of one thought: the reply or error, the events, when each request was sent, and the ledger."""

    def __init__(self, *script, ttft=0.0, tpot=0.0, max_tokens=None, tools=("f",), **patience):
        self.times, self.events = [], []
        replies = iter(script)

        def answer(_request):
            self.times.append(round(asyncio.get_running_loop().time() - self._start, 9))
            return next(replies)

        async def think():
            self._start = asyncio.get_running_loop().time()
            self.messages = bytearray(MESSAGES)
            self.ledger = Ledger(clock(), "t")
            request = RequestTemplate("m", DIALECTS["generic"], max_tokens=max_tokens)
            asked = ask(self.ledger, lambda events, _=None: self.events.extend(events), messages=self.messages)
            try:
                return await client(self.model, request, tools, **patience).think(asked)
            except HotloopError as error:
                return error
            finally:
                self.ledger.close()

        self.model = ScriptedModel(answer, ttft=ttft, tpot=tpot)
        self.outcome = run_virtual(think())
        self.ms = (self.ledger.end - self.ledger.start) / 1e6
        assert bytes(self.messages) == MESSAGES

    @property
    def requests(self):
        return self.model.requests


@pytest.fixture(autouse=True)
def no_jitter(monkeypatch):
    monkeypatch.setattr(random, "uniform", lambda low, high: high)


# When it is asked again


def test_a_reply():
    asked = Asked("Hello")
    assert isinstance(asked.outcome, Reply)
    assert (asked.outcome.text, asked.events, asked.times) == ("Hello", HELLO, [0.0])
    assert asked.ledger.turns[0].attempts == 1


def test_waits_double_up_to_a_limit():
    asked = Asked(*[BUSY] * 8, "Hello", retries=8)
    waits = [round(after - before, 9) for before, after in zip(asked.times, asked.times[1:], strict=False)]
    assert waits == [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 8.0, 8.0]
    assert asked.outcome.text == "Hello"
    assert asked.ledger.turns[0].attempts == 9


def test_waits_are_spread_so_that_callers_do_not_come_back_together(monkeypatch):
    monkeypatch.setattr(random, "uniform", lambda low, high: low)
    assert Asked(BUSY, BUSY, "Hello").times == [0.0, 0.1, 0.3]


@pytest.mark.parametrize("retries", [0, 1, 3])
def test_after_the_last_retry_the_error_is_raised(retries):
    asked = Asked(*[BUSY] * (retries + 1), retries=retries)
    assert isinstance(asked.outcome, Overloaded)
    assert len(asked.times) == retries + 1
    assert asked.ms == pytest.approx(1000 * asked.times[-1])


@pytest.mark.parametrize(
    ("headers", "message", "wait"),
    [
        ({"retry-after": "3"}, "", 3.0),
        ({"retry-after": "0.3"}, "", 0.3),
        ({"retry-after": "0.05"}, "", 0.2),
        ({"retry-after": "0"}, "", 0.2),
        ({"retry-after-ms": "1500", "retry-after": "9"}, "", 1.5),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "2.5s"}, "", 2.5),
        ({}, "Please try again in 0.7s.", 0.7),
        ({}, "", 0.2),
    ],
)
@pytest.mark.parametrize("status", [429, 503, 498])
def test_what_the_service_asks_for_is_a_floor(status, headers, message, wait):
    refusal = raw(json.dumps({"error": {"message": message}}).encode(), status=status, headers=headers)
    assert Asked(refusal, "Hello").times == [0.0, wait]


def test_inside_a_stream_too():
    inside = raw(data({"error": {"message": "Please try again in 0.7s.", "code": 429}}))
    assert Asked(inside, "Hello").times == [0.0, 0.7]


def test_nobody_waits_longer_for_a_try_than_for_a_reply():
    for seconds, times in ("30", [0.0, 30.0]), ("31", [0.0]), ("86400", [0.0]):
        asked = Asked(raw(b"", status=429, headers={"retry-after": seconds}), "Hello", timeout=30)
        assert asked.times == times
    assert isinstance(asked.outcome, RateLimited)
    assert asked.outcome.retry_after == 86400.0


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 405, 413, 415, 422, 301])
def test_what_will_not_help_is_not_tried(status):
    asked = Asked(raw(b"no", status=status), "Hello")
    assert isinstance(asked.outcome, ServiceError)
    assert (asked.outcome.status, asked.times, asked.events) == (status, [0.0], [])


@pytest.mark.parametrize("status", [429, 498, 500, 502, 503, 504, 408])
def test_what_may_help_is_tried(status):
    asked = Asked(raw(b"no", status=status), "Hello")
    assert asked.outcome.text == "Hello"


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (raw(text("Hel"), cut=True), TransportError),
        (raw(text("Hel")), TransportError),
        (raw(), TransportError),
        (raw(b"<html>"), MalformedReply),
        (raw(text("Hel"), b"data: oops\n\n", end("stop")), MalformedReply),
        (raw(CALL, end("eos")), MalformedReply),
        (raw(data({"error": {"message": "x", "code": 500}})), Overloaded),
    ],
)
def test_a_reply_that_cannot_be_used(reply, kind):
    asked = Asked(reply, "Hello")
    assert asked.outcome.text == "Hello"
    assert asked.events[-2:] == HELLO
    assert isinstance(Asked(reply, retries=0).outcome, kind)


# What is told


def test_who_reads_along_is_told_what_no_longer_holds():
    asked = Asked(raw(text("Hel"), text("lo, I"), cut=True), "Hello")
    reason = str(Asked(raw(cut=True), retries=0).outcome)
    assert asked.events == [TextDelta("Hel"), TextDelta("lo, I"), Reset(reason), Retrying(2, 0.2, reason), *HELLO]


def test_nothing_is_taken_back_where_nothing_was_shown():
    asked = Asked(BUSY, raw(data({"choices": []}), cut=True), "Hello")
    assert [type(event) for event in asked.events] == [Retrying, Retrying, TextDelta, ReplyFinished]
    assert [event.attempt for event in asked.events[:2]] == [2, 3]
    assert "busy" in asked.events[0].reason


def test_calls_that_were_shown_are_taken_back():
    asked = Asked(raw(CALL, cut=True), "Hello")
    assert [type(event) for event in asked.events] == [CallOpened, Reset, Retrying, TextDelta, ReplyFinished]


def test_a_failure_at_the_end_takes_nothing_back_and_is_raised():
    asked = Asked(raw(text("Hel"), cut=True), retries=0)
    assert asked.events == [TextDelta("Hel")]


def test_the_wait_is_in_the_ledger():
    asked = Asked(raw(b"", status=429, headers={"retry-after": "2"}), "Hello", ttft=0.05)
    waits = [(stage.end - stage.start) / 1e9 for stage in asked.ledger.stages if stage.kind == "queue"]
    assert waits == [pytest.approx(2.0)]
    assert sum(stage.end - stage.start for stage in asked.ledger.stages) == asked.ledger.end - asked.ledger.start


# When its tokens came


def facts(*script, **options):
    [facts] = Asked(*script, **options).ledger.turns
    return facts


def test_first_token_and_time_per_token():
    found = facts(raw(*[text("x")] * 10, end("stop"), DONE), ttft=0.05, tpot=0.01)
    assert (found.ttft, found.tpot, found.buffered) == (50_000_000, 10_000_000, False)
    assert (found.attempts, found.finish_reason, found.model) == (1, "stop", "m")


def test_what_is_no_token_is_not_the_first():
    silence = [data({"choices": [], "usage": None}), chunk({"role": "assistant", "content": ""}), b": ping\n\n"]
    assert facts(raw(*silence, text("x"), end("stop")), ttft=0.05, tpot=0.01).ttft == 80_000_000


def test_tokens_that_all_come_at_once_are_not_timed():
    found = facts(raw(b"".join([text("x")] * 10), end("stop")), ttft=0.05, tpot=0.01)
    assert (found.ttft, found.tpot, found.buffered) == (50_000_000, None, True)
    few = facts(raw(b"".join([text("x")] * 4), end("stop")), ttft=0.05)
    assert (few.tpot, few.buffered) == (None, False)


def test_a_whole_reply_has_a_first_token_and_no_pace():
    body = json.dumps({"choices": [{"message": {"content": "Hello"}}], "usage": {"completion_tokens": 50}}).encode()
    found = facts(raw(body[:9], body[9:]), ttft=0.05, tpot=0.01)
    assert (found.ttft, found.tpot) == (60_000_000, None)


def test_the_stages_of_an_attempt():
    asked = Asked(raw(*[text("x")] * 10, end("stop"), DONE), ttft=0.05, tpot=0.01)
    stages = {stage.kind: stage.end - stage.start for stage in asked.ledger.stages}
    assert (stages["prefill"], stages["decode"]) == (50_000_000, 110_000_000)


def test_nothing_is_waited_for_after_the_end():
    for last in DONE, data({"error": {"message": "x", "code": 400}}):
        asked = Asked(raw(text("Hello"), end("stop"), last, *[b": ping\n\n"] * 50), tpot=1.0)
        assert asked.ledger.end - asked.ledger.start == 2_000_000_000


def test_who_reads_along_can_hold_the_reply_up():
    throttle, told = Hold(), []

    class Throttled(ScriptedModel):
        async def send(self, body, receiver):
            receiver.sent(True, throttle)
            receiver.head(200, [])
            for piece in text("a"), text("b"), end("stop"):
                receiver.data(piece)

    def read(events, hold=None):
        if hold is not None:
            hold.resume() if throttle.paused else hold.pause()
        told.append((len(events), throttle.paused, hold is not None))

    async def think():
        await client(Throttled([])).think(ask(emit=read))

    run_virtual(think())
    assert told == [(1, True, True), (1, False, True), (1, False, False)]


# Replies that were cut at the cap


def caps(asked):
    return [request.get("max_tokens") for request in asked.requests]


def test_a_cut_call_is_asked_for_once_more_with_more_tokens():
    asked = Asked(truncated(), "Hello", max_tokens=100)
    assert (caps(asked), asked.times) == ([100, 200], [0.0, 0.0])
    assert [type(event) for event in asked.events] == [CallOpened, Reset, Retrying, TextDelta, ReplyFinished]


def test_and_only_once():
    asked = Asked(truncated(), truncated(), max_tokens=100, retries=5)
    assert isinstance(asked.outcome, TruncatedReply)
    assert caps(asked) == [100, 200]
    assert not asked.outcome.retryable


def test_even_without_retries():
    assert Asked(truncated(), "Hello", retries=0, max_tokens=8).outcome.text == "Hello"


def test_more_is_more_than_the_service_gives_by_itself():
    assert caps(Asked(truncated(usage={"completion_tokens": 8192}), "Hello")) == [None, 16384]
    assert caps(Asked(truncated(), "Hello")) == [None, 4096]


def test_another_failure_before_does_not_use_it_up():
    asked = Asked(BUSY, truncated(), BUSY, "Hello", max_tokens=100, retries=3)
    assert caps(asked) == [100, 100, 200, 200]
    assert asked.outcome.text == "Hello"


def test_a_cap_that_was_hit_without_being_told():
    hit = raw(CALL, end("tool_calls", usage={"completion_tokens": 100}), DONE)
    asked = Asked(hit, hit, max_tokens=100)
    assert caps(asked) == [100, 200]
    assert [call.name for call in asked.outcome.calls] == ["f"]


# Calls that the service could not read


@pytest.mark.parametrize(
    "written",
    [
        'f{"a": 1}</function>',
        '<function=f={"a": 1}</function>',
        '<function=f>{"a": 1}</function>',
        '```json\n[{"name": "f", "arguments": {"a": 1}}]\n```',
    ],
)
def test_calls_are_salvaged(written):
    asked = Asked(failed_generation(written))
    assert [(call.name, json.loads(call.arguments)) for call in asked.outcome.calls] == [("f", {"a": 1})]
    sealed = CallSealed(0, "f", asked.outcome.calls[0].arguments)
    assert asked.events == [CallOpened(0, "f"), sealed, ReplyFinished("tool_calls", 1)]
    assert asked.ledger.turns[0].salvaged


def test_prose_is_the_answer():
    asked = Asked(failed_generation("Hello"))
    assert (asked.outcome.text, asked.outcome.calls, asked.events) == ("Hello", [], HELLO)


def test_what_was_shown_before_a_salvage_is_taken_back():
    fault = {"error": {"code": "tool_use_failed", "failed_generation": "Hello", "status_code": 400}}
    asked = Asked(raw(text("Hel"), data(fault)))
    assert [type(event) for event in asked.events] == [TextDelta, Reset, TextDelta, ReplyFinished]
    assert asked.outcome.text == "Hello"


@pytest.mark.parametrize("written", ['<function=f={"a": 1</function>', '<function=g={"a": 1}</function>', ""])
def test_what_cannot_be_salvaged_is_asked_for_once_more(written):
    asked = Asked(failed_generation(written), "Hello")
    assert asked.times == [0.0, 0.0]
    first, second = (request["messages"] for request in asked.requests)
    assert second[:-1] == first
    assert second[-1]["role"] == "user"
    assert written in second[-1]["content"]
    assert asked.outcome.text == "Hello"
    twice = Asked(failed_generation(written), failed_generation(written), retries=5)
    assert isinstance(twice.outcome, ToolUseFailed)
    assert len(twice.times) == 2


def test_the_correction_stays_when_another_failure_follows():
    asked = Asked(failed_generation("<function=f"), BUSY, "Hello")
    assert [len(request["messages"]) for request in asked.requests] == [1, 2, 2]


def test_each_reason_has_its_own_try():
    asked = Asked(failed_generation("<function=f"), truncated(), "Hello", max_tokens=10, retries=0)
    assert (caps(asked), asked.outcome.text) == ([10, 10, 20], "Hello")


# Time


def test_a_reply_that_does_not_come():
    asked = Asked("Hello", "Hello", ttft=100.0, timeout=2.0, retries=1)
    assert isinstance(asked.outcome, ReplyTimeout)
    assert asked.times == [0.0, 2.2]
    assert asked.ms == pytest.approx(4200.0)
    assert "2 s" in str(asked.outcome)


def test_a_reply_that_does_not_end():
    slow = raw(*[text("x")] * 100)
    asked = Asked(slow, "Hello", tpot=0.5, timeout=2.0)
    assert asked.outcome.text == "Hello"
    assert [type(event) for event in asked.events[-5:]] == [TextDelta, Reset, Retrying, TextDelta, ReplyFinished]
    assert asked.times == [0.0, 2.2]


def test_an_error_that_is_of_no_model_is_not_tried_again():
    class Broken(ScriptedModel):
        async def send(self, body, receiver):
            raise RuntimeError("a bug")

    async def think():
        with pytest.raises(RuntimeError, match="a bug"):
            await client(Broken([])).think(ask())

    run_virtual(think())


def test_a_cancelled_wait_leaves_nothing_behind():
    async def cancel():
        loop = asyncio.get_running_loop()
        model = ScriptedModel([raw(b"", status=429, headers={"retry-after": "20"})])
        task = asyncio.create_task(client(model).think(ask()))
        await asyncio.sleep(5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert [timer for timer in loop._scheduled if not timer.cancelled()] == []
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run_virtual(cancel())


def test_a_finished_thought_leaves_no_timer():
    async def finish():
        await client(ScriptedModel(["Hello"]), timeout=30).think(ask())
        assert [timer for timer in asyncio.get_running_loop()._scheduled if not timer.cancelled()] == []

    run_virtual(finish())


# Errors


def test_errors_say_what_the_service_said():
    body = json.dumps({"error": {"message": "maximum context length is 8", "code": "context_length_exceeded"}}).encode()
    asked = Asked(raw(body[:20], body[20:], status=400))
    assert isinstance(asked.outcome, ContextOverflow)
    assert "maximum context length" in str(asked.outcome)


def test_an_endless_error_page_is_not_read_to_its_end():
    asked = Asked(raw(*[b"x" * 10_000] * 100, status=404), tpot=1.0)
    assert isinstance(asked.outcome, ModelError)
    assert asked.ms == pytest.approx(6000.0)
    assert len(str(asked.outcome)) < 1000


def test_a_compressed_reply_is_called_so():
    asked = Asked(raw(b"\x1f\x8b\x08\0\0\0", headers={"content-encoding": "gzip"}), retries=0)
    assert isinstance(asked.outcome, MalformedReply)
    assert "gzip" in str(asked.outcome)


@pytest.mark.parametrize("status", [201, 202, 206])
def test_other_good_statuses(status):
    assert Asked(raw(text("Hello"), end("stop"), status=status)).outcome.text == "Hello"


def test_a_whole_reply_is_told_too():
    body = json.dumps({"choices": [{"message": {"content": "Hello"}, "finish_reason": "stop"}]}).encode()
    assert Asked(raw(body, headers={"content-type": "application/json"})).events == HELLO
    assert Asked(raw(body[:20], body[20:])).events == HELLO


def test_a_delta_after_the_end_changes_nothing():
    asked = Asked(raw(text("Hello"), end("stop"), DONE, text("!"), chunk({"content": "?"})))
    assert (asked.outcome.text, asked.events) == ("Hello", HELLO)


def test_the_deadline_holds_the_model_too():
    """What is left of the run's budget cuts a reply short, and no retry is tried that would begin after it."""

    async def think(*script, ttft):
        ledger = Ledger(clock(), "t")
        deadline = Deadline(Budget(total=1.0, answer_reserve=0.2), ledger.start)
        try:
            await client(ScriptedModel(script, ttft=ttft)).think(ask(ledger, deadline=deadline))
        except HotloopError as error:
            return type(error), (ledger.clock() - ledger.start) / 1e6

    assert run_virtual(think("too late", ttft=3.0)) == (ReplyTimeout, 1000.0)
    slow_down = raw(b"{}", status=429, headers={"retry-after": "5"})
    assert run_virtual(think(slow_down, "never", ttft=0.1)) == (RateLimited, 100.0)
