"""Results of read-only tools are kept for their time, up to a bound, and counted."""

from hypothesis import given
from hypothesis import strategies as st

from hotloop.tools.cache import _ENTRIES, ResultCache
from hotloop.units import NS_PER_MS, NS_PER_S


class Hands:
    """A clock that is set by hand, in nanoseconds."""

    def __init__(self) -> None:
        self.now = NS_PER_S

    def __call__(self) -> int:
        return self.now


def key(number: int) -> tuple[str, bytes]:
    return "tool", str(number).encode()


def test_what_was_kept_is_found_until_its_time_is_over():
    clock, cache = Hands(), ResultCache()
    assert cache.get(key(1), clock) is None
    cache.put(key(1), "one", 0.5, clock)
    clock.now += 500 * NS_PER_MS - 1
    assert cache.get(key(1), clock) == "one"
    clock.now += 1
    assert cache.get(key(1), clock) is None
    assert (cache.hits, cache.misses) == (1, 2)


def test_tool_and_arguments_both_tell_results_apart():
    clock, cache = Hands(), ResultCache()
    cache.put(("a", b"{}"), "one", 1.0, clock)
    assert cache.get(("b", b"{}"), clock) is None
    assert cache.get(("a", b"[]"), clock) is None


def test_a_new_result_takes_the_place_and_time_of_the_old():
    clock, cache = Hands(), ResultCache()
    cache.put(key(1), "old", 0.5, clock)
    clock.now += 400 * NS_PER_MS
    cache.put(key(1), "new", 0.5, clock)
    clock.now += 400 * NS_PER_MS
    assert cache.get(key(1), clock) == "new"


def test_the_least_recently_used_is_dropped_at_the_bound():
    clock, cache = Hands(), ResultCache()
    for number in range(_ENTRIES):
        cache.put(key(number), "kept", 1.0, clock)
    assert cache.get(key(0), clock) == "kept"
    cache.put(key(_ENTRIES), "kept", 1.0, clock)
    assert cache.get(key(1), clock) is None
    assert cache.get(key(0), clock) == "kept"
    assert cache.get(key(_ENTRIES), clock) == "kept"


@given(st.lists(st.tuples(st.sampled_from(["get", "put", "wait"]), st.integers(0, 3), st.integers(0, 4))))
def test_it_is_a_dict_with_times(steps):
    clock, cache, model = Hands(), ResultCache(), {}
    for number, (what, where, ms) in enumerate(steps):
        if what == "wait":
            clock.now += ms * NS_PER_MS
        elif what == "put":
            cache.put(key(where), str(number), ms / 1000, clock)
            model[where] = (str(number), clock.now + ms * NS_PER_MS)
        else:
            content, end = model.get(where, (None, 0))
            assert cache.get(key(where), clock) == (content if clock.now < end else None)


def test_another_thread_may_drop_what_was_just_found():
    """Threads with run_sync of one agent share its cache; here the other one comes in between look-up and use."""
    clock, cache = Hands(), ResultCache()
    cache.put(key(1), "kept", 1e-9, clock)

    def interrupted() -> int:
        clock.now += 1
        assert cache.get(key(1), clock) is None
        return clock.now - 1

    assert cache.get(key(1), interrupted) == "kept"
