import math

import pytest
from engine_play import Play, profile

from hotloop.lab.engines.pipeline import Pipeline
from hotloop.lab.profiles import Curve


def play(seed=0, **fields):
    return Play(Pipeline(profile("lpu", **fields), seed))


@pytest.mark.parametrize("replies", [1, 3, 200])
def test_every_reply_follows_the_formula_whatever_the_others_do(replies):
    service = play(base_ms=30.0, per_prompt_token_ms=0.15, rtt_ms=5.0, tpot_ms=Curve(2.0))
    for number in range(replies):
        service.ask(str(number), at=0.1 * number, tokens=4, prompt=100)
    for number, times in enumerate(service.end().values()):
        first = 0.1 * number + 5 + 30 + 15
        assert times == pytest.approx([first + step * 2 for step in range(4)], abs=1e-6)


def test_arrivals_wait_for_a_stream_slot_and_too_many_are_refused():
    service = play(slots=2, queue=1, base_ms=5.0)
    service.ask("a", tokens=2)
    service.ask("b", at=1, tokens=3)
    service.ask("c", at=2, tokens=2)
    service.ask("d", at=3, tokens=2)
    assert service.end() == {"a": [5, 15], "b": [6, 16, 26], "c": [20, 30], "d": []}
    assert service.works["d"].refused


def test_a_known_prefix_is_not_read_again():
    service = play(per_prompt_token_ms=1.0, cache_block=16)
    service.ask("first", tokens=1, prompt=40, blocks=(1, 2))
    service.ask("too early", at=39, tokens=1, prompt=40, blocks=(1, 2))
    service.ask("again", at=41, tokens=1, prompt=60, blocks=(1, 2, 3))
    assert service.end() == {"first": [40], "too early": [79], "again": [41 + 60 - 32]}


def test_a_whole_body_comes_when_its_stream_would_end():
    service = play(base_ms=5.0, slots=1)
    service.ask("a", tokens=4, streamed=False)
    service.ask("b", tokens=1)
    assert service.end() == {"a": [35] * 4, "b": [40]}


def test_without_a_gap_all_tokens_come_at_once():
    service = play(tpot_ms=Curve())
    service.ask("a", tokens=3)
    assert service.end() == {"a": [0, 0, 0]}


def test_a_straggler_takes_longer_to_its_first_token_only():
    service = play(base_ms=2.0, per_prompt_token_ms=1.0)
    service.ask("a", tokens=3, prompt=3, slowdown=10.0)
    assert service.end() == {"a": [50, 60, 70]}


@pytest.mark.parametrize("at", [1, 5, 12])
def test_who_leaves_makes_room_at_once(at):
    service = play(slots=1, base_ms=4.0, per_prompt_token_ms=1.0)
    service.ask("a", tokens=9, prompt=6)
    service.leave("a", at)
    service.ask("b", at=at, tokens=1)
    service.leave("a", at)  # to leave twice is to leave
    assert service.end()["b"] == [at + 4]


def test_overdue_tokens_are_made_together():
    service = play()
    work = service.ask("a", tokens=5)
    assert list(service.engine.advance(service.engine.next() + 35_000_000)) == [work]
    assert (work.made, work.last - work.due) == (4, 30_000_000)


def test_a_reply_keeps_its_rate_and_rates_differ():
    def times(seed):
        service = play(seed, queue_sigma=0.1, decode_sigma=0.05, base_ms=100.0)
        for number in range(400):
            service.ask(str(number), at=1000 * number, tokens=3)
        return list(service.end().values())

    assert times(1) == times(1)
    assert times(1) != times(2)
    gaps = [(second - first, third - second) for first, second, third in times(1)]
    assert all(one == pytest.approx(two) for one, two in gaps)
    logs = [math.log(gap / 10) for gap, _ in gaps]
    assert (sum(log * log for log in logs) / 400) ** 0.5 == pytest.approx(0.05, rel=0.15)
