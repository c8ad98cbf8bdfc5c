import pytest

from hotloop.lab.engines.prefixcache import PrefixCache, blocks_of

S = 1_000_000_000


def ask(*texts, **fields):
    return {"messages": [{"role": "user", "content": text} for text in texts], **fields}


def known(before, after, block=4):
    """How many blocks two prompts have in common, and how many the second has."""
    pairs = zip(blocks_of(before, block), blocks_of(after, block), strict=False)
    return sum(one == two for one, two in pairs), len(blocks_of(after, block))


def test_a_conversation_that_goes_on_keeps_its_blocks():
    common, _ = known(ask("a" * 100), ask("a" * 100, "b" * 50))
    assert common == len(blocks_of(ask("a" * 100), 4))


@pytest.mark.parametrize(
    "changed",
    [
        ask("a" * 100, tools=[{"type": "function"}]),
        ask("a" * 100, tool_choice="none"),
        ask("b" + "a" * 99),
    ],
)
def test_a_change_at_the_front_changes_every_block_after_it(changed):
    common, blocks = known(ask("a" * 100), changed)
    assert common <= 2 < blocks


def test_what_is_not_prompt_makes_no_difference():
    assert blocks_of(ask("a" * 100, max_tokens=5, stream=True), 4) == blocks_of(ask("a" * 100), 4)


def test_only_whole_blocks_count():
    assert blocks_of(ask("short"), 100) == ()


def test_the_longest_known_prefix_is_found():
    cache = PrefixCache(16, 60.0, 1000)
    cache.add((1, 2, 3), S)
    assert [cache.find(blocks, S) for blocks in [(1, 2, 3, 4), (1, 2, 9), (9,), ()]] == [48, 32, 0, 0]


def test_blocks_expire_after_their_last_use():
    cache = PrefixCache(16, 10.0, 1000)
    cache.add((1, 2), S)
    assert cache.find((1,), 9 * S) == 16
    assert cache.find((1, 2), 12 * S) == 16
    assert cache.find((1, 2), 23 * S) == 0


def test_the_least_recently_used_go_first_and_of_one_prompt_its_end():
    cache = PrefixCache(16, 60.0, 4 * 16 + 15)
    cache.add((1, 2), S)
    cache.add((5, 6), S)
    cache.find((1,), S)
    cache.add((7,), S)
    assert [cache.find(blocks, S) for blocks in [(1, 2), (5, 6), (7,)]] == [16, 32, 16]


def test_without_blocks_nothing_is_known():
    cache = PrefixCache(0, 60.0, 1000)
    cache.add((), S)
    assert cache.find((), S) == 0
