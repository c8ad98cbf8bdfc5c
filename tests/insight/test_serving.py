"""A service in the place of another answers as the simulated one of the same profile does."""

from random import Random

import pytest

from hotloop.insight.pieces import Ask
from hotloop.insight.serving import Place, Server
from hotloop.lab.engines.batching import Batching
from hotloop.lab.engines.pipeline import Pipeline
from hotloop.lab.engines.work import Work, WorkPrompt
from hotloop.lab.profiles import Curve, Profile
from hotloop.units import NS_PER_MS

GPU = Profile(
    name="gpu",
    kind="gpu",
    base_ms=10,
    per_prompt_token_ms=0.05,
    tpot_ms=Curve(8, 0.5),
    wait_ms=Curve(0, 2),
    interference=0.4,
    slots=6,
    rtt_ms=3,
)
LPU = Profile(name="lpu", kind="lpu", base_ms=20, per_prompt_token_ms=0.1, tpot_ms=Curve(2), slots=3, rtt_ms=1)


def requests(seed: int, count: int = 40) -> list[tuple[float, Ask]]:
    """Requests that come at these milliseconds, on average every 40."""
    draw, at, made = Random(seed), 1000.0, []
    for _ in range(count):
        at += draw.expovariate(1 / 40)
        made.append((at, Ask("", "", "ok", prompt=draw.randint(50, 1500), out=draw.choice([1, 5, 20, 60]))))
    return made


def served(profile: Profile, asked: list[tuple[float, Ask]]) -> list[tuple[float, float]]:
    """When the first token and the whole of each reply was there, after so many ms, as it is predicted."""
    server, left, times = Server(Place(profile), Random(0)), list(enumerate(asked)), {}
    while left or server.next() < float("inf"):
        if left and left[0][1][0] <= server.next():
            number, (at, ask) = left.pop(0)
            server.ask(number, ask, at)
        else:
            for number, (prefill, decode) in server.advance():
                times[number] = prefill / NS_PER_MS, (prefill + decode) / NS_PER_MS
    return [times[number] for number in range(len(asked))]


def simulated(profile: Profile, asked: list[tuple[float, Ask]]) -> list[tuple[float, float]]:
    """The same, as the lab's engine has it, token by token."""
    engine = (Batching if profile.kind == "gpu" else Pipeline)(profile)
    works = [Work(ask.out, lambda work: None, WorkPrompt(ask.prompt)) for _, ask in asked]
    for (at, _), work in zip(asked, works, strict=True):
        now = round(at * NS_PER_MS)
        while (due := engine.next()) is not None and due <= now:
            engine.advance(due)
        engine.arrive(work, now)
    while (due := engine.next()) is not None:
        engine.advance(due)
    return [
        ((work.first - at * NS_PER_MS) / NS_PER_MS, (work.last - at * NS_PER_MS) / NS_PER_MS)
        for (at, _), work in zip(asked, works, strict=True)
    ]


@pytest.mark.parametrize("seed", range(4))
def test_a_pipeline_keeps_the_times_of_the_lab_to_the_microsecond(seed):
    asked = requests(seed)
    pairs = zip(served(LPU, asked), simulated(LPU, asked), strict=True)
    assert all(mine == pytest.approx(theirs, abs=0.001) for mine, theirs in pairs)


@pytest.mark.parametrize("seed", range(4))
def test_a_batch_keeps_them_nearly_though_it_counts_no_single_token(seed):
    asked = requests(seed)
    predicted, real = served(GPU, asked), simulated(GPU, asked)
    for column in (0, 1):
        off = [abs(mine[column] / theirs[column] - 1) for mine, theirs in zip(predicted, real, strict=True)]
        assert sorted(off)[len(off) // 2] < 0.02
        assert sum(mine[column] for mine in predicted) == pytest.approx(sum(each[column] for each in real), rel=0.02)


def test_whoever_is_alone_has_the_times_of_the_profile():
    place = Place(GPU, others=4)
    ask = Ask("", "", "ok", prompt=1000, known=700, out=11)
    times = place.alone(ask, Random(0))
    assert times.prefill / NS_PER_MS == pytest.approx(GPU.ttft_ms(1000, others=4))
    assert times.decode / NS_PER_MS == pytest.approx(10 * GPU.tpot_ms.at(5))
    assert (place.shared, Place(GPU).shared, Place(LPU).shared) == (False, True, True)


def test_of_what_was_seen_before_whole_blocks_are_cached():
    cached = Place(Profile(name="p", kind="lpu", base_ms=1, per_prompt_token_ms=1, tpot_ms=Curve(1), cache_block=64))
    assert cached.cached(Ask("", "", "ok", prompt=1000, known=700)) == 640
    assert Place(GPU).cached(Ask("", "", "ok", prompt=1000, known=700)) == 0


def test_while_a_prompt_is_read_that_stops_all_decoding_nothing_is_written():
    stopping = Profile(name="s", kind="gpu", base_ms=0, per_prompt_token_ms=1, tpot_ms=Curve(10), interference=1.0)
    asked = [(1000.0, Ask("", "", "ok", prompt=0, out=11)), (1050.0, Ask("", "", "ok", prompt=200, out=1))]
    assert served(stopping, asked) == [(0, 300), (200, 200)]
