"""Results of read-only tools are kept for their time, up to a bound, until what they were read from is written."""

from __future__ import annotations

import threading
from collections import OrderedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotloop.tools.defining.define import tool
from hotloop.tools.running.cache import Key, ResultCache
from hotloop.units import NS_PER_MS, NS_PER_S


@tool(read_only=True)
async def look_up() -> None: ...


@tool(read_only=True)
async def find() -> None: ...


class Hands:
    """A clock that is set by hand, in nanoseconds."""

    def __init__(self) -> None:
        self.now = NS_PER_S

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock() -> Hands:
    return Hands()


def key(number: int, clock: Hands, *, of=look_up, whose: str = "") -> Key:
    return Key(of, whose, str(number).encode(), clock)


def content(cache: ResultCache, key: Key) -> str | None:
    kept = cache.get(key)
    return None if kept is None else kept.content


def test_what_was_kept_is_found_until_its_time_is_over(clock):
    cache = ResultCache()
    assert cache.get(key(1, clock)) is None
    cache.put(key(1, clock), "one", 0.5, took=7)
    clock.now += 500 * NS_PER_MS - 1
    assert cache.get(key(1, clock))[1:3] == ("one", 7)
    clock.now += 1
    assert cache.get(key(1, clock)) is None


def test_tool_owner_and_arguments_tell_results_apart(clock):
    cache = ResultCache()
    cache.put(key(1, clock, whose="user:ann"), "one", 1.0, 0)
    assert content(cache, key(1, clock, whose="user:ann")) == "one"
    others = [
        key(2, clock, whose="user:ann"),
        key(1, clock, whose="user:bob"),
        key(1, clock, of=find, whose="user:ann"),
    ]
    assert [content(cache, other) for other in others] == [None] * 3


def test_a_new_result_takes_the_place_time_and_readers_of_the_old(clock):
    cache = ResultCache()
    cache.put(key(1, clock), "old", 0.5, 0, ("a",))
    clock.now += 400 * NS_PER_MS
    cache.put(key(1, clock), "new", 0.5, 0, ("b",))
    clock.now += 400 * NS_PER_MS
    cache.invalidate(["a"])
    assert content(cache, key(1, clock)) == "new"


# Bounds


def test_the_least_recently_used_is_dropped_when_there_are_too_many(clock):
    cache = ResultCache(entries=3)
    for number in range(3):
        cache.put(key(number, clock), "kept", 1.0, 0)
    cache.get(key(0, clock))
    cache.put(key(3, clock), "kept", 1.0, 0)
    assert [content(cache, key(number, clock)) for number in range(4)] == ["kept", None, "kept", "kept"]
    assert cache.dropped == 1


def test_the_least_recently_used_are_dropped_when_they_are_too_large(clock):
    cache = ResultCache(size=100)
    for number in range(3):
        cache.put(key(number, clock), "x" * 30, 1.0, 0)
    cache.put(key(3, clock), "ü" * 10, 1.0, 0)  # up to four bytes each
    assert [bool(cache.get(key(number, clock))) for number in range(4)] == [False, False, True, True]
    assert cache.dropped == 2


def test_a_result_too_large_to_be_kept_drops_no_other(clock):
    cache = ResultCache(size=100)
    cache.put(key(1, clock), "one", 1.0, 0)
    cache.put(key(2, clock), "x" * 1000, 1.0, 0)
    assert (content(cache, key(1, clock)), content(cache, key(2, clock))) == ("one", None)


# Writers


@pytest.mark.parametrize(
    ("written", "left"),
    [(["a"], [2, 3]), (["b"], [3]), (["a", "b"], [3]), (["c"], [1, 2, 3]), ([], [1, 2, 3])],
)
def test_a_writer_drops_what_was_read_from_the_same(clock, written, left):
    cache = ResultCache()
    for number, reads in {1: ("a", "b"), 2: ("b",), 3: ()}.items():
        cache.put(key(number, clock), "kept", 1.0, 0, reads)
    cache.invalidate(written)
    assert [number for number in (1, 2, 3) if cache.get(key(number, clock))] == left


# All together


OPERATIONS = st.tuples(
    st.sampled_from(["get", "put", "wait", "write"]),
    st.integers(0, 4),
    st.integers(0, 5),
    st.sampled_from(["", "a", "ab"]),
)


@given(st.lists(OPERATIONS, max_size=40))
def test_it_is_a_small_dict_with_times_and_readers(operations):
    clock = Hands()
    cache, kept = ResultCache(entries=3, size=12), OrderedDict()
    for number, (what, where, much, reads) in enumerate(operations):
        text = str(number) * much
        if what == "wait":
            clock.now += much * NS_PER_MS
        elif what == "write":
            cache.invalidate(reads)
            for each in [each for each, (_, _, of) in kept.items() if set(of) & set(reads)]:
                del kept[each]
        elif what == "put" and len(text) < 12:
            cache.put(key(where, clock), text, much / 1000, 0, tuple(reads))
            kept.pop(where, None)
            kept[where] = (text, clock.now + much * NS_PER_MS, reads)
            while len(kept) > 3 or sum(1 + len(each) for each, _, _ in kept.values()) > 12:
                kept.popitem(last=False)
        elif what == "get":
            known, until, _ = kept.get(where, (None, 0, ""))
            if clock.now < until:
                kept.move_to_end(where)
            else:
                kept.pop(where, None)
            assert content(cache, key(where, clock)) == (known if clock.now < until else None)


def test_threads_may_use_it_at_the_same_time(clock):
    """As agents do that are run with run_sync in several threads."""
    cache, failed = ResultCache(entries=5), []

    def work(seed: int) -> None:
        try:
            for number in range(400):
                each = key((seed + number) % 7, clock)
                cache.put(each, "kept", 1.0, 0, ("a", "b"))
                cache.get(each)
                if number % 5 == 0:
                    cache.invalidate(["a"])
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    cache.invalidate(["b"])
    assert failed == []
    assert [content(cache, key(number, clock)) for number in range(7)] == [None] * 7
