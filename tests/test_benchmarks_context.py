"""The benchmark of long conversations, as far as it is exact: shared bytes, virtual time, how figures are judged."""

from __future__ import annotations

import asyncio
import importlib
from pathlib import Path
from types import SimpleNamespace

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
NAMES = ("conversing", "embedded", "growth", "layouts", "stalls", "workload")


@pytest.fixture(scope="module")
def bench():
    """The modules of the benchmark by their names."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(BENCHMARKS)
        yield SimpleNamespace(**{name: importlib.import_module(name) for name in NAMES})


@pytest.fixture(scope="module")
def layouts(bench):
    """What each layout shares, by its name."""
    return {each.name: each for each in bench.layouts.measure()}


def growth(bench, name: str, *slopes: float):
    """A contestant whose turn takes 100 µs and so many more for each KB."""
    sizes = [1024 * kb for kb in (1, 4, 16)]
    return bench.growth.Growth(
        name, [[bench.growth.Point(size, 100 + slope * size / 1024) for size in sizes] for slope in slopes]
    )


def test_a_slope_is_what_a_kb_adds(bench):
    assert growth(bench, "hotloop", 0.5, 2.0).slopes == pytest.approx([0.5, 2.0])


@pytest.mark.parametrize(
    ("ours", "inside", "framework", "met"),
    [
        (1.9, 0.1, 40.0, [True, True, True, None, True]),
        (2.1, 0.1, 41.0, [False, True, True, None, False]),
        (1.9, 0.4, 40.0, [True, False, True, None, True]),
    ],
)
def test_growth_is_held_against_the_floor_the_copy_and_the_leanest_framework(bench, ours, inside, framework, met):
    slopes = {"hotloop": ours, "floor": 1.0, "unsent": inside, "kept": 0.1, "copying": 0.1}
    slopes |= {"openai_agents": framework, "pydantic_ai": 2 * framework}
    rows = bench.growth.rows([growth(bench, name, slope, slope) for name, slope in slopes.items()])
    by_name = {row.name: row.met for row in rows}
    assert [*list(by_name.values())[:3], by_name["pydantic_ai"], by_name["openai_agents"]] == met


async def scripted(bench, answer: str, calls: int):
    """A conversation of one turn that is answered so, after so many calls."""
    task = bench.workload.Task("C", "")

    async def turn(prompt, on_text):
        bench.workload.Tally.calls += calls
        return answer or task.answer

    talk = bench.conversing.Talk(task, turn)
    await talk.turn(60, 60)
    return talk


def test_a_conversation_grows_by_turns_of_mixed_sizes_up_to_what_is_asked(bench):
    async def grown() -> tuple[float, float]:
        talk = await scripted(bench, "", 1)
        await talk.grow(100_000)
        grown = talk.size
        return grown, (await talk.measure(4))["bytes"]

    size, measured = asyncio.run(grown())
    assert 100_000 <= size < 101_000
    assert size < measured < size + 4_000


@pytest.mark.parametrize(("answer", "calls"), [("Something else.", 1), ("", 0), ("", 2)])
def test_a_turn_with_another_answer_or_another_number_of_calls_ends_the_benchmark(bench, answer, calls):
    with pytest.raises(bench.conversing.WrongAnswer):
        asyncio.run(scripted(bench, answer, calls))


def test_what_prompts_share_is_counted_from_their_start(bench):
    layout = bench.layouts.Layout("any", ours=True)
    found = bench.layouts.shared(layout, [b"abcd", b"abXdef", b"abXdefgh"])
    assert found.prompts == [(2, 6), (6, 8)]
    assert (found.at(2), found.least, found.whole, found.to_read) == (6 / 8, 2 / 6, 8 / 14, 6)


def test_our_prompts_begin_as_those_before_them_whatever_is_added(bench, layouts):
    ours = [each for each in layouts.values() if each.ours]
    assert bench.layouts.held(ours)
    assert min(each.at(20) for each in ours if "summaries" not in each.name and "window" not in each.name) > 0.9


def test_the_usual_layouts_are_read_again_from_where_they_change(layouts):
    naive = [each for each in layouts.values() if not each.ours]
    assert max(each.at(20) for each in naive) < 0.5
    assert layouts["all of these, naive"].to_read > 5 * layouts["all of these, ours"].to_read


def test_a_window_or_a_summary_costs_a_prompt_now_and_then_and_not_every_one(layouts):
    for name in ("a window of 8 turns, cut now and then", "summaries in the background"):
        lost = sum(same < 0.5 * size for same, size in layouts[name].prompts)
        assert 1 <= lost <= 4, name
    assert sum(same < 0.5 * size for same, size in layouts["a window of 8 turns that slides"].prompts) == 12


def test_nobody_waits_for_a_summary_unless_the_limit_is_reached(bench):
    found = {stall.way.stalls: stall for stall in bench.stalls.measure()}
    assert all(stall.held for stall in found.values())
    assert max(found[False].added) == 0
    assert max(found[True].added) > 1_000


@pytest.mark.parametrize(
    ("new", "ttft", "held"), [((60, 62), (90, 99), True), ((60, 90), (90, 99), False), ((60, 62), (90, 400), False)]
)
def test_the_cache_is_kept_if_the_last_turn_has_no_more_to_read_than_the_second(bench, new, ttft, held):
    def talk(new, ttft):
        first = bench.embedded.Turn(50, 100, 0)
        turns = [bench.embedded.Turn(took, 1000, 1000 - read) for took, read in zip(ttft, new, strict=True)]
        return bench.embedded.Talk("any", [[first, *turns]])

    assert bench.embedded.held([talk(new, ttft), talk((100, 900), (100, 300))]) is held
