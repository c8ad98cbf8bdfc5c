import math

import pytest
from engine_play import Play, profile

from hotloop.lab.engines.batching import Batching
from hotloop.lab.profiles import Curve


def play(seed=0, **fields):
    return Play(Batching(profile("gpu", **fields), seed))


def test_a_lone_reply_follows_the_formula():
    service = play(base_ms=8.0, per_prompt_token_ms=0.08, rtt_ms=5.0, tpot_ms=Curve(17.7, 0.84))
    service.ask("a", tokens=4, prompt=100)
    first = 5 + 8 + 0.08 * 100
    assert service.end()["a"] == pytest.approx([first + step * 18.54 for step in range(4)], abs=1e-6)


@pytest.mark.parametrize("replies", [1, 2, 50, 200])
def test_all_replies_share_steps_that_grow_with_their_number(replies):
    curve = Curve(5.0, 0.02, 0.0001, cap=9.0)
    service = play(base_ms=1.0, tpot_ms=curve)
    for number in range(replies):
        service.ask(str(number), tokens=3)
    step = min(5 + 0.02 * replies + 0.0001 * replies**2, 9)
    assert all(times == pytest.approx([1, 1 + step, 1 + 2 * step], abs=1e-5) for times in service.end().values())


def test_a_reply_joins_with_the_next_step():
    service = play(tpot_ms=Curve(10.0, 1.0))
    service.ask("a", tokens=5)
    service.ask("b", at=15, tokens=2)
    assert service.end() == {"a": [0, 11, 22, 34, 45], "b": [15, 34]}


def test_a_step_is_faster_when_a_reply_has_ended():
    service = play(tpot_ms=Curve(10.0, 1.0))
    service.ask("a", tokens=2)
    service.ask("b", tokens=4)
    assert service.end() == {"a": [0, 12], "b": [0, 12, 23, 34]}


def test_prefills_take_turns():
    service = play(per_prompt_token_ms=1.0, base_ms=2.0, tpot_ms=Curve(10.0))
    for name, prompt in (("a", 20), ("b", 5), ("c", 30)):
        service.ask(name, tokens=1, prompt=prompt)
    assert service.end() == {"a": [22], "b": [27], "c": [57]}


@pytest.mark.parametrize(
    ("interference", "second", "third"),
    [
        (0.0, 10, 20),
        (0.5, 12, 22),  # four milliseconds of reading, of which two are lost
        (1.0, 14, 24),
    ],
)
def test_a_prefill_disturbs_decoding(interference, second, third):
    service = play(per_prompt_token_ms=1.0, interference=interference)
    service.ask("a", tokens=3)
    service.ask("b", at=3, tokens=1, prompt=4)
    assert service.end() == {"a": [0, second, third], "b": [7]}


def test_a_prefill_disturbs_the_steps_that_begin_in_it():
    service = play(per_prompt_token_ms=1.0, interference=0.5)
    service.ask("a", tokens=4)
    service.ask("b", at=5, tokens=1, prompt=40)  # reads from 5 to 45, in which steps take twice as long
    assert service.end() == {"a": [0, 15, 35, 50], "b": [45]}


def test_arrivals_wait_for_a_slot_in_their_order_and_too_many_are_refused():
    service = play(slots=1, queue=2)
    for name in "abcd":
        service.ask(name, at="abcd".index(name), tokens=2)
    assert service.end() == {"a": [0, 10], "b": [10, 20], "c": [20, 30], "d": []}
    assert service.works["d"].refused


def test_who_is_running_already_adds_to_the_wait():
    service = play(base_ms=1.0, wait_ms=Curve(0.0, 2.0, 3.0))
    for name in "abc":
        service.ask(name, tokens=1)
    assert service.end() == {"a": [1], "b": [1 + 2 + 3], "c": [1 + 4 + 12]}


def test_a_known_prefix_is_not_read_again():
    service = play(per_prompt_token_ms=1.0, cache_block=16, cache_expiry=0.1)
    service.ask("first", tokens=1, prompt=40, blocks=(1, 2))
    service.ask("again", at=50, tokens=1, prompt=60, blocks=(1, 2, 3))
    service.ask("later", at=170, tokens=1, prompt=40, blocks=(1, 2))  # 92 ms after it was read, 120 after it was found
    assert service.end() == {"first": [40], "again": [50 + 60 - 32], "later": [170 + 40 - 32]}
    assert [work.cached for work in service.works.values()] == [0, 32, 32]
    service.ask("too late", at=1000, tokens=1, prompt=40, blocks=(1, 2))
    assert service.end()["too late"] == [1040]


def test_a_straggler_takes_longer_to_its_first_token_only():
    service = play(base_ms=2.0, per_prompt_token_ms=1.0)
    service.ask("a", tokens=3, prompt=3, slowdown=10.0)
    assert service.end() == {"a": [50, 60, 70]}


@pytest.mark.parametrize(
    ("at", "first"),
    [
        (1, 5),  # before its prompt is read
        (5, 10),  # while it is read: that goes on to its end, at 10
        (12, 16),  # while it is decoded
    ],
)
def test_who_leaves_makes_room(at, first):
    service = play(slots=1, base_ms=4.0, per_prompt_token_ms=1.0)
    service.ask("a", tokens=9, prompt=6)
    service.leave("a", at)
    service.ask("b", at=at, tokens=1)
    service.leave("a", at)  # to leave twice is to leave
    assert service.end()["b"] == [first]
    assert service.engine.next() is None


def test_who_leaves_the_queue_is_not_waited_for():
    service = play(slots=1)
    for name in "abc":
        service.ask(name, tokens=2)
    service.leave("b", 5)
    assert service.end() == {"a": [0, 10], "b": [], "c": [10, 20]}


def test_the_last_to_be_decoded_may_leave_in_the_middle_of_a_step():
    service = play()
    service.ask("a", tokens=9)
    service.ask("b", at=3, tokens=2)
    service.leave("a", 5)
    assert service.end()["b"] == [3, 15]


def test_jitter_is_reproducible_and_of_its_size():
    def times(seed):
        service = play(seed, base_ms=100.0, queue_sigma=0.1, decode_sigma=0.05)
        for number in range(400):
            service.ask(str(number), at=1000 * number, tokens=2)
        return [tuple(each) for each in service.end().values()]

    assert times(1) == times(1)
    assert times(1) != times(2)
    fronts = [math.log((first - 1000 * number) / 100) for number, (first, _) in enumerate(times(1))]
    steps = [math.log((second - first) / 10) for first, second in times(1)]
    for logs, sigma in ((fronts, 0.1), (steps, 0.05)):
        assert abs(sum(logs) / 400) < 0.2 * sigma
        assert (sum(log * log for log in logs) / 400) ** 0.5 == pytest.approx(sigma, rel=0.15)


def test_steps_that_are_overdue_are_all_made():
    service = play(tpot_ms=Curve(10.0, 1.0))
    service.ask("a", tokens=3)
    service.ask("b", at=1, tokens=2)
    service.engine.advance(10_000_000_000)
    assert [work.made for work in service.works.values()] == [3, 2]
    assert service.engine.next() is None
