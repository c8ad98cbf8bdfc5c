from math import inf

import pytest

from hotloop.errors import ConnectError
from hotloop.lab.probe import Percentiles, probe, report_of
from hotloop.lab.script import raw, say
from hotloop.lab.scripted import ScriptedModel
from hotloop.lab.sim import SimulatedService
from hotloop.lab.virtual import run_virtual
from hotloop.units import NS_PER_MS, clock

WORDS = " ".join(f"w{number}" for number in range(96))


def flat(value: float) -> Percentiles:
    return Percentiles(value, value, value)


def test_times_are_those_of_the_service():
    model = ScriptedModel([WORDS] * 7, ttft=0.020, tpot=0.002)
    report = run_virtual(probe(model, "m", requests=7))
    assert (report.ttft, report.tpot, report.end_to_end) == (flat(20), flat(2), flat(210))
    assert report.output_tokens == 7 * 96
    assert not report.failures
    assert report.adjusted_end_to_end == report.end_to_end


def test_percentiles_are_of_the_samples():
    lengths = list(range(2, 102))
    model = ScriptedModel([" ".join(["w"] * length) for length in lengths], ttft=0.010, tpot=0.001)
    report = run_virtual(probe(model, "m", requests=100))
    assert report.end_to_end == Percentiles(p50=60, p95=105, p99=109)


def test_every_request_is_told_as_it_ends():
    told = []
    report = run_virtual(probe(ScriptedModel([WORDS] * 3, tpot=0.001), "m", requests=3, on_sample=told.append))
    assert told == report.samples


def test_requests_may_run_side_by_side():
    async def main():
        now = clock()
        start = now()
        await probe(ScriptedModel([WORDS] * 8, ttft=0.020, tpot=0.002), "m", requests=8, concurrency=4)
        return (now() - start) / NS_PER_MS

    assert run_virtual(main()) == 2 * 210


def test_a_failure_is_infinitely_slow():
    busy = raw(b'{"error": {"message": "no capacity"}}', status=503)
    cut = raw(b'data: {"choices": [', cut=True)
    report = run_virtual(probe(ScriptedModel([WORDS, busy, cut, WORDS], ttft=0.020), "m", requests=4))
    assert report.end_to_end == flat(20)
    assert report.adjusted_end_to_end == report.adjusted_ttft == Percentiles(p50=20, p95=inf, p99=inf)
    assert sorted(text.split(":")[0] for text in report.failures) == ["Overloaded", "TransportError"]
    assert [bool(sample.error) for sample in report.samples] == [False, True, True, False]


def test_a_service_that_only_fails_has_no_times():
    report = run_virtual(probe(ScriptedModel(lambda request: raw(b"{}", status=500)), "m", requests=3))
    assert (report.ttft, report.tpot, report.end_to_end) == (None, None, None)
    assert report.adjusted_end_to_end == flat(inf)
    assert list(report.failures.values()) == [3]


def test_a_buffered_stream_has_no_tpot():
    report = run_virtual(probe(ScriptedModel([WORDS] * 2, ttft=0.2), "m", requests=2))
    assert report.buffered == 2
    assert report.tpot is None
    assert report.ttft == flat(200)


def test_a_report_of_some_samples_does_not_know_the_rest():
    samples = run_virtual(probe(ScriptedModel([WORDS] * 4, ttft=0.020, tpot=0.002), "m", requests=4)).samples
    report = report_of(samples[:3])
    assert (report.end_to_end, report.output_tokens, report.warm_ms) == (flat(210), 3 * 96, None)


def test_reported_usage_counts():
    usage = {"prompt_tokens": 9, "completion_tokens": 40, "prompt_tokens_details": {"cached_tokens": 8}}
    report = run_virtual(probe(ScriptedModel([say("a b", usage=usage)], tpot=0.001), "m", requests=1))
    assert (report.output_tokens, report.samples[0].cached_tokens) == (40, 8)


def test_options_go_into_the_requests():
    model = ScriptedModel(["one"])
    run_virtual(probe(model, "m", prompt="Say one.", requests=1, max_tokens=7))
    assert model.requests[0]["model"] == "m"
    assert model.requests[0]["max_tokens"] == 7
    assert model.requests[0]["messages"][-1] == {"role": "user", "content": "Say one."}


async def test_a_service_over_sockets():
    async with SimulatedService([WORDS], ttft=0.010, tpot=0.001) as service:
        report = await probe(service.url, "m", requests=6, concurrency=3)
    assert not report.failures
    assert report.ttft.p50 >= 9.9
    assert report.end_to_end.p50 >= 104.9


async def test_nobody_there_is_an_error():
    async with SimulatedService(["one"]) as service:
        url = service.url
    with pytest.raises(ConnectError):
        await probe(url, "m")
