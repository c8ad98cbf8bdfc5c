"""Simulated services in process, in virtual time: each time is exact."""

import asyncio

import msgspec
import pytest

from hotloop import Agent
from hotloop.errors import ConfigError, InvalidRequest
from hotloop.lab.profiles import Curve, Profile
from hotloop.lab.script import call, say
from hotloop.lab.simtransport import SimulatedTransport
from hotloop.lab.virtual import run_virtual
from recorder import Recorder, exchange

WORDS = " ".join(f"w{number}" for number in range(21))


def body(*texts, stream=True, **fields):
    messages = [{"role": "user", "content": text} for text in texts or ("hello",)]
    return msgspec.json.encode({"stream": stream, "messages": messages, **fields})


def profile(kind="gpu", **fields):
    given = {"base_ms": 8.0, "per_prompt_token_ms": 0.0, "tpot_ms": Curve(10.0)} | fields
    return Profile(name="test", kind=kind, **given)


def together(count, transport, request=None, apart=0.0):
    """The times of `count` replies that were asked for `apart` seconds after each other."""

    async def one(number):
        recorder = Recorder()
        await asyncio.sleep(number * apart)
        await transport.send(request or body(), recorder)
        return recorder.times

    async def main():
        return await asyncio.gather(*(one(number) for number in range(count)))

    return run_virtual(main())


@pytest.mark.parametrize("replies", [1, 10, 90])
def test_a_gpu_shares_its_time(replies):
    transport = SimulatedTransport([WORDS], profile=profile(tpot_ms=Curve(17.7, 0.84)))
    step = 17.7 + 0.84 * replies
    expected = [8 + number * step for number in range(21)]
    for times in together(replies, transport):
        assert times == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("replies", [1, 90])
def test_an_lpu_does_not(replies):
    transport = SimulatedTransport([WORDS], profile=profile("lpu", tpot_ms=Curve(0.29)))
    expected = [8 + number * 0.29 for number in range(21)]
    for times in together(replies, transport):
        assert times == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("kind", ["gpu", "lpu"])
def test_slots_make_a_queue(kind):
    transport = SimulatedTransport([WORDS], profile=profile(kind, slots=2))
    assert [times[0] for times in together(5, transport)] == [8, 8, 216, 216, 424]


def test_a_full_queue_is_an_error_at_once():
    transport = SimulatedTransport([WORDS], profile=profile(slots=1, queue=1, rtt_ms=3.0))
    replies = together(3, transport)
    assert [times[0] for times in replies] == [11, 219, 3]
    assert transport.stats.open == 0


@pytest.mark.parametrize("stream", [True, False])
def test_a_prefix_is_read_once_until_it_expires(stream):
    slow = profile("lpu", per_prompt_token_ms=1.0, tpot_ms=Curve(), cache_block=16, cache_expiry=60.0)
    transport = SimulatedTransport(lambda _: "one", profile=slow)
    short, long = (
        body(*texts, stream=stream, stream_options={"include_usage": True})
        for texts in (["a" * 4000], ["a" * 4000, "b"])
    )

    async def main():
        seen = []
        for request, pause in ((short, 1), (short, 1), (long, 61), (short, 0)):
            recorder = Recorder()
            await transport.send(request, recorder)
            seen.append((recorder.times[0], recorder.parsed().usage.cached_tokens))
            await asyncio.sleep(pause)
        return seen

    cached = 1008  # of tools and messages, which are a little more than 63 blocks of 16 tokens
    cold, grown = 8 + len(short) // 4, 8 + len(long) // 4
    assert run_virtual(main()) == [(cold, 0), (cold - cached, cached), (grown - cached, cached), (cold, 0)]


def test_the_same_seed_gives_the_same_times():
    def times(seed):
        jittery = profile(queue_sigma=0.1, decode_sigma=0.1)
        return together(5, SimulatedTransport([WORDS], profile=jittery, seed=seed), apart=0.01)

    assert times(1) == times(1)
    assert times(1) != times(2)


def test_withheld_calls_come_with_their_last_token():
    whole = SimulatedTransport([say("Yes.", call("find", id="20250101"))], profile=profile("lpu", granularity="call"))
    assert exchange(whole, body()).times == [8, 8 + 6 * 10]  # text, a head and five pieces


def test_an_agent_works_on_it_and_its_timings_arrive():
    transport = SimulatedTransport([WORDS], profile="groqcloud-gpt-oss-20b", seed=1)

    async def main():
        async with Agent(model="m", endpoint=transport) as agent:
            return (await agent.run("Hi")).trace.turns[0]

    turn = run_virtual(main())
    assert turn.server_ms["completion_ms"] == pytest.approx(20.0)
    assert turn.tpot == pytest.approx(1e6)


def test_limits_are_kept_and_told():
    transport = SimulatedTransport(["one"], rpm=1)

    async def main():
        recorders = [Recorder() for _ in range(2)]
        for recorder in recorders:
            await transport.send(body(), recorder)
        return [(recorder.status, recorder.headers[b"x-ratelimit-remaining-requests"]) for recorder in recorders]

    assert run_virtual(main()) == [(200, b"0"), (429, b"0")]


def test_whoever_leaves_makes_room_and_leaves_no_timer():
    transport = SimulatedTransport([WORDS], profile=profile(slots=1, per_prompt_token_ms=1.0))

    async def main():
        sending = asyncio.create_task(transport.send(body(), Recorder()))
        await asyncio.sleep(0.1)
        sending.cancel()
        await asyncio.wait([sending])
        assert not [timer for timer in asyncio.get_running_loop()._scheduled if not timer.cancelled()]
        recorder = Recorder(enough=1)
        await transport.send(body(), recorder)
        return recorder.times

    assert run_virtual(main()) == [8 + len(body()) // 4]
    assert (transport.stats.open, transport.stats.abandoned, transport.stats.requests) == (0, 2, 2)


def test_a_receiver_that_fails_fails_the_sending():
    class Broken(Recorder):
        def data(self, chunk):
            raise ZeroDivisionError

    async def main():
        with pytest.raises(ZeroDivisionError):
            await SimulatedTransport([WORDS], tpot=0.001).send(body(), Broken())

    run_virtual(main())


async def test_it_keeps_real_time_too():
    recorder = Recorder()
    await SimulatedTransport([WORDS], ttft=0.010, tpot=0.001).send(body(), recorder)
    assert recorder.times[0] >= 9.9
    assert recorder.times[-1] >= 10 + 20 - 0.1
    assert recorder.parsed().text == WORDS


def test_what_is_no_request_is_refused():
    with pytest.raises(InvalidRequest):
        exchange(SimulatedTransport(["one"]), b"{}")


@pytest.mark.parametrize(
    "options", [{"profile": "nope"}, {"profile": "gpu-h100-llama8b", "ttft": 0.1}, {"faults": "x"}]
)
def test_what_cannot_be_simulated_is_refused(options):
    with pytest.raises(ConfigError):
        SimulatedTransport(["one"], **options)
