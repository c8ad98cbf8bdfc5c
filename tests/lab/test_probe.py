"""What a probe does with a service: the questions it sends, the times it takes down, and what it makes of failures."""

from __future__ import annotations

from math import inf

import pytest
from probed import WORDS, counting, probed, simulated

from hotloop.errors import AuthenticationError, ConnectError
from hotloop.lab.faults import Answer, FaultyTransport, Refuse, Stall
from hotloop.lab.probing.plan import FULL, QUICK, Cell, cost
from hotloop.lab.probing.probe import Probe
from hotloop.lab.probing.report import Percentiles, Summary, summary
from hotloop.lab.profiles import Curve, Profile
from hotloop.lab.script import raw, say
from hotloop.lab.scripted import ScriptedModel
from hotloop.lab.sim import SimulatedService
from hotloop.lab.simtransport import SimulatedTransport
from hotloop.lab.virtual import run_virtual
from hotloop.models.model import Model
from hotloop.models.transport import Transport
from hotloop.units import NS_PER_MS, clock

COUNTED = " ".join(f"w{number}" for number in range(96))
STEADY = Cell("steady", 60, 5, max_tokens=20)


def flat(value: float) -> Percentiles:
    return Percentiles(value, value, value)


def question(requests: int, at_once: int = 1, text: str = "Count.", max_tokens: int = 128) -> Cell:
    return Cell("question", 0, requests, at_once, max_tokens, question=text)


def asked(transport: Transport, cell: Cell) -> Summary:
    """What came of one cell."""
    return summary(probed(transport, (cell,), asking=False).found[0].samples)


def test_times_are_those_of_the_service():
    told = asked(ScriptedModel([COUNTED] * 7, ttft=0.020, tpot=0.002), question(7))
    assert (told.ttft, told.tpot, told.end_to_end) == (flat(20), flat(2), flat(210))
    assert (told.complete, told.output_tokens, told.failures, told.stragglers) == (7, 7 * 96, {}, 0)
    assert told.adjusted_end_to_end == told.end_to_end


def test_percentiles_are_of_the_samples():
    model = ScriptedModel([" ".join(["w"] * length) for length in range(2, 102)], ttft=0.010, tpot=0.001)
    assert asked(model, question(100)).end_to_end == Percentiles(p50=60, p95=105, p99=109)


def test_a_question_is_asked_as_soon_as_one_before_it_has_ended():
    async def main() -> float:
        now = clock()
        start = now()
        replies = [" ".join(["w"] * length) for length in (10, 30)] * 4  # of 100 and 300 ms
        await Probe(Model(name="m", endpoint=ScriptedModel(replies, ttft=0.01, tpot=0.01))).measure([question(8, 2)])
        return (now() - start) / NS_PER_MS

    assert run_virtual(main()) == 900  # in pairs it would be 1200


def test_everything_is_noted_as_it_ends():
    noted = []
    model = Model(
        name="m", endpoint=simulated(Profile(name="p", kind="lpu", base_ms=1, per_prompt_token_ms=0, tpot_ms=Curve(1)))
    )
    cells = [Cell("cached", 200, 3), Cell("at once", 60, 4, at_once=2, max_tokens=30, beside=1)]
    run_virtual(Probe(model).measure(cells, lambda cell, ended: noted.append((cell.kind, ended))))
    assert noted == [("cached", ended) for ended in range(5)] + [("at once", ended) for ended in range(7)]
    assert [cell.total for cell in cells] == [4, 6]


def test_a_failure_is_infinitely_slow():
    busy = raw(b'{"error": {"message": "no capacity"}}', status=503)
    cut = raw(b'data: {"choices": [', cut=True)
    told = asked(ScriptedModel([COUNTED, busy, cut, COUNTED], ttft=0.020), question(4))
    assert told.end_to_end == flat(20)
    assert told.adjusted_end_to_end == told.adjusted_ttft == Percentiles(p50=20, p95=inf, p99=inf)
    assert sorted(text.split(":")[0] for text in told.failures) == ["Overloaded", "TransportError"]
    assert (told.complete, told.requests) == (2, 4)


def test_a_service_that_only_fails_has_no_times_and_is_left_alone():
    told = asked(ScriptedModel(lambda request: raw(b"{}", status=500)), question(20))
    assert (told.ttft, told.tpot, told.end_to_end, told.adjusted_end_to_end) == (None, None, None, flat(inf))
    assert (told.requests, list(told.failures.values())) == (3, [3])


def test_a_buffered_stream_has_no_tpot():
    told = asked(ScriptedModel([COUNTED] * 2, ttft=0.2), question(2))
    assert (told.buffered, told.tpot, told.ttft) == (2, None, flat(200))


def test_reported_usage_counts():
    usage = {"prompt_tokens": 9, "completion_tokens": 40, "prompt_tokens_details": {"cached_tokens": 8}}
    (sample,) = (
        probed(ScriptedModel([say("a b", usage=usage)], tpot=0.039), (question(1),), asking=False).found[0].samples
    )
    assert (sample.prompt_tokens, sample.cached_tokens, sample.output_tokens, sample.tpot_ms) == (9, 8, 40, 1.0)


def test_a_question_is_sent_as_it_is():
    model = ScriptedModel(["one"])
    asked(model, question(1, text="Say one.", max_tokens=7))
    (request,) = model.requests
    assert (request["model"], request["max_tokens"], request["stream"]) == ("m", 7, True)
    assert request["messages"] == [{"role": "user", "content": "Say one."}]


def test_only_cached_prompts_begin_alike():
    seen = {"cold": [], "cached": []}
    for kind, requests in seen.items():
        model = ScriptedModel(lambda request: WORDS)
        probed(model, (Cell(kind, 500, 3, max_tokens=4),), asking=False)
        requests += [request["messages"][0]["content"] for request in model.requests]
    assert len({text.split("\n")[0] for text in seen["cold"]}) == 3
    first, *others = (text.rsplit("\n", 1)[0] for text in seen["cached"])
    assert (len(set(seen["cached"])), len(others)) == (4, 3)
    assert all(first.startswith(text) and len(text) > 0.8 * len(first) for text in others)


def test_a_conversation_has_three_turns_and_a_long_result():
    model = ScriptedModel(lambda request: WORDS)
    probed(model, (Cell("turns", 3000, 2, max_tokens=4),), asking=False)
    messages = model.requests[-1]["messages"]
    roles = ("user", "assistant", "user", "assistant", "tool", "assistant", "user", "assistant", "user")
    assert tuple(each["role"] for each in messages) == roles
    assert len(messages[4]["content"].split()) > 2000
    assert model.requests[0]["messages"][:-1] == messages[:-1]


def test_prompts_have_the_wanted_length_once_the_service_has_counted_some():
    probe = probed(SimulatedTransport(counting, ttft=0.01, tpot=0.001), (STEADY, Cell("cold", 2000, 2)))
    lengths = [sample.prompt_tokens for measured in probe.found for sample in measured.samples]
    assert lengths == pytest.approx([60] * 5 + [2000] * 2, rel=0.1)


def test_a_plan_costs_what_it_sends():
    transport = SimulatedTransport(counting, ttft=0.01, tpot=0.001)
    probe = probed(transport, QUICK)
    requests, read, written = cost(QUICK)
    assert transport.stats.requests == requests
    assert sum(sample.prompt_tokens for each in probe.found for sample in each.samples) == pytest.approx(read, rel=0.4)
    assert transport.stats.tokens <= written
    assert cost(FULL).requests > 4 * requests


def test_a_key_that_is_not_taken_ends_it():
    denied = raw(b'{"error": {"message": "no such key"}}', status=401)
    with pytest.raises(AuthenticationError):
        probed(ScriptedModel(lambda request: denied))


def test_a_service_that_dies_in_the_middle_leaves_what_was_measured():
    faults = [None] * 10 + [Refuse()] * 100
    probe = probed(FaultyTransport(simulated_quickly(), faults), (STEADY, *QUICK[1:]), asking=True)
    steady, *others = probe.found
    assert len(steady.complete) == 2
    assert steady.stopped == "ConnectError: Nothing listens there, as the test says."
    assert {each.stopped for each in others} == {"not asked, because the service no longer answered"}
    assert probe.report(replayed=False).fit is not None


def test_a_prompt_that_is_too_long_is_a_finding():
    overflow = raw(b'{"error": {"message": "maximum context length is 1500 tokens"}}', status=400)

    def short_of_memory(request):
        return overflow if len(request["messages"][0]["content"]) > 6000 else counting(request)

    transport = SimulatedTransport(short_of_memory, ttft=0.01, tpot=0.001)
    cells = (Cell("cold", 500, 2), Cell("cold", 4000, 2), Cell("cached", 8000, 2), Cell("at once", 60, 4, at_once=2))
    fine, refused, left_out, after = probed(transport, cells, asking=False).found
    assert (fine.stopped, after.stopped) == ("", "")
    assert refused.refused
    assert refused.stopped.startswith("ContextOverflow")
    assert (left_out.stopped, left_out.samples) == ("not asked, because 4,000 tokens were refused", [])


def test_more_at_once_is_not_asked_of_a_service_that_most_of_less_failed_for():
    few = Profile(name="few", kind="lpu", base_ms=5, per_prompt_token_ms=0, tpot_ms=Curve(2), slots=2, queue=1)
    cells = [Cell("at once", 60, size, at_once=size, max_tokens=20) for size in (3, 10, 50)]
    three, ten, fifty = probed(simulated(few), (*cells,), asking=False).found
    assert [len(each.complete) for each in (three, ten, fifty)] == [3, 3, 0]
    assert fifty.stopped == "not asked, because most of 10 at once failed"


def test_a_rate_limit_is_waited_out():
    limited = [None, Answer(429, retry_after=7.0), None]

    async def main() -> tuple[Summary, float]:
        now = clock()
        start = now()
        probe = Probe(Model(name="m", endpoint=FaultyTransport(simulated_quickly(), limited)))
        await probe.measure([STEADY])
        return summary(probe.found[0].samples), (now() - start) / NS_PER_MS

    told, passed = run_virtual(main())
    assert (told.complete, told.requests) == (4, 5)
    assert passed == pytest.approx(7000 + 4 * 29)


def test_a_silent_service_is_given_up_in_time():
    async def main() -> Summary:
        probe = Probe(Model(name="m", endpoint=FaultyTransport(simulated_quickly(), [Stall(150)])), timeout=2.0)
        await probe.measure([STEADY])
        return summary(probe.found[0].samples)

    assert run_virtual(main()).failures == {"ReplyTimeout: The reply was not complete within 2 s.": 1}


async def test_a_service_over_sockets():
    async with (
        SimulatedService([COUNTED], ttft=0.010, tpot=0.001) as service,
        Probe(Model(name="m", endpoint=service.url)) as probe,
    ):
        await probe.measure([question(6, 3)])
    told = summary(probe.found[0].samples)
    assert not told.failures
    assert told.ttft.p50 >= 9.9
    assert told.end_to_end.p50 >= 104.9


async def test_nobody_there_is_an_error():
    async with SimulatedService(["one"]) as service:
        url = service.url
    with pytest.raises(ConnectError):
        await Probe(Model(name="m", endpoint=url)).__aenter__()


def simulated_quickly() -> SimulatedTransport:
    return SimulatedTransport(counting, ttft=0.010, tpot=0.001)
