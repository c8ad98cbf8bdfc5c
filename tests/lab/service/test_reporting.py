"""Usage and timings as each dialect reports them, through the parser that reads them."""

import msgspec
import pytest

from hotloop.lab.profiles import Curve, Profile
from hotloop.lab.simtransport import SimulatedTransport
from recorder import exchange

USAGE = {"prompt_tokens": 100, "completion_tokens": 3, "total_tokens": 103}


def body(stream, **fields):
    """A request of 100 tokens."""
    request = {"stream": stream, "messages": [{"role": "user", "content": "?"}], **fields}
    if stream:
        request["stream_options"] = {"include_usage": True}
    missing = 400 - len(msgspec.json.encode(request))
    request["messages"][0]["content"] += "x" * missing
    return msgspec.json.encode(request)


def ask(dialect, stream=True, *, again=False, fields=None, **profile):
    """What a service says that takes 30 ms of queue and 50 ms of reading, then 10 ms a token; of the second time."""
    given = {"base_ms": 30.0, "per_prompt_token_ms": 0.5, "tpot_ms": Curve(10.0), "cache_block": 16} | profile
    transport = SimulatedTransport(["one two three"], profile=Profile(name="x", kind="lpu", dialect=dialect, **given))
    request = body(stream, **(fields or {}))
    first = exchange(transport, request)
    return exchange(transport, request) if again else first


def chunks(recorder):
    """The chunks of a stream, or the one body."""
    if not recorder.body.startswith(b"data: "):
        return [msgspec.json.decode(recorder.body)]
    events = recorder.body.split(b"\n\n")[:-2]
    return [msgspec.json.decode(event.removeprefix(b"data: ")) for event in events]


@pytest.mark.parametrize("stream", [True, False])
def test_groq_tells_seconds_in_the_usage(stream):
    times = {"queue_time": 0.03, "prompt_time": 0.05, "completion_time": 0.02, "total_time": 0.07}
    *_, finish, last = [None, *chunks(ask("groq", stream))]
    if stream:
        assert finish["x_groq"]["usage"] == last["usage"]
        assert ask("groq").parsed().server_ms == pytest.approx({"queue_ms": 30, "prompt_ms": 50, "completion_ms": 20})
    assert last["usage"].pop("prompt_tokens_details") == {"cached_tokens": 0}
    assert last["usage"] == pytest.approx(USAGE | times)


@pytest.mark.parametrize("stream", [True, False])
def test_llamacpp_tells_timings(stream):
    last = chunks(ask("llamacpp", stream, again=True))[-1]
    timings = {"cache_n": 80, "prompt_n": 20, "prompt_ms": 10, "prompt_per_second": 2000}
    timings |= {"predicted_n": 3, "predicted_ms": 20, "predicted_per_second": 150}
    assert last["timings"] == pytest.approx(timings)
    assert last["usage"]["prompt_tokens_details"] == {"cached_tokens": 80}


@pytest.mark.parametrize("stream", [True, False])
def test_vllm_tells_metrics_and_cached_tokens_only_if_it_is_started_so(stream):
    last = chunks(ask("vllm", stream))[-1]
    metrics = {"time_to_first_token_ms": 80, "generation_time_ms": 20, "queue_time_ms": 0, "mean_itl_ms": 10}
    assert last["metrics"] == pytest.approx(metrics | {"tokens_per_second": 100})
    assert "prompt_tokens_details" in last["usage"]
    silent = chunks(ask("vllm", stream, reports=False))[-1]
    assert "metrics" not in silent
    assert silent["usage"] == USAGE


@pytest.mark.parametrize("stream", [True, False])
def test_dynamo_tells_timing_only_if_it_is_asked(stream):
    asked = {"nvext": {"extra_fields": ["timing"]}}
    assert chunks(ask("dynamo", stream, fields=asked))[-1]["nvext"]["timing"] == {"ttft_ms": 80.0, "itl_ms": 10.0}
    assert "nvext" not in chunks(ask("dynamo", stream))[-1]


@pytest.mark.parametrize(("stream", "ms"), [(True, b"80"), (False, b"100")])
def test_openai_tells_in_a_header_what_it_took_until_that_was_sent(stream, ms):
    assert ask("openai", stream).headers[b"openai-processing-ms"] == ms
    assert b"openai-processing-ms" not in ask("generic", stream).headers


@pytest.mark.parametrize(
    ("dialect", "reported"),
    [("generic", True), ("openai", True), ("groq", True), ("sglang", True), ("ollama", False), ("gemini", False)],
)
def test_cached_tokens_are_told_by_who_tells_them(dialect, reported):
    recorder = ask(dialect, again=True)
    assert recorder.parsed().usage.cached_tokens == (80 if reported else None)
    assert recorder.times[0] == 30 + 20 * 0.5  # it is faster whether it says so or not


def test_without_a_cache_nothing_is_said_of_one():
    assert chunks(ask("openai", cache_block=0))[-1]["usage"] == USAGE


def test_a_request_may_do_without_the_cache():
    assert ask("llamacpp", again=True, fields={"cache_prompt": False}).times[0] == 80


def test_an_odd_stream_tells_no_times():
    groq = Profile(name="x", kind="lpu", dialect="groq", base_ms=1.0, per_prompt_token_ms=0.0, tpot_ms=Curve(1.0))
    recorder = exchange(SimulatedTransport(["one two three"], profile=groq, faults="pings:100%"), body(True))
    assert recorder.parsed().server_ms == {}
    assert recorder.parsed().usage.output_tokens == 3
