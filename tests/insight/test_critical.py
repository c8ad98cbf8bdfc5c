"""The critical path of one run and of many, and what had time to spare."""

import pytest
from lab_runs import calls_of, run_of_two, runs_of

from hotloop.insight.critical import critical_path, path_of, slack_of
from hotloop.insight.graph import Graph
from hotloop.insight.schedule import schedule
from hotloop.units import NS_PER_MS
from made_runs import run_of


def path(record) -> list[tuple[str, str, float, float]]:
    nodes = path_of(schedule(Graph.of(record)))
    return [(node.kind, node.name, node.start / NS_PER_MS, node.end / NS_PER_MS) for node in nodes]


def test_the_path_goes_back_from_the_end_through_what_each_piece_waited_for():
    assert path(run_of_two()) == [
        ("prefill", "m", 0, 100),
        ("decode", "m", 100, 150),
        ("decode", "m", 150, 190),
        ("tool", "slow", 190, 270),
        ("prefill", "m", 270, 370),
        ("decode", "m", 370, 390),
    ]


def test_an_early_call_follows_the_part_of_the_reply_before_it():
    record = runs_of({"fast": 50, "slow": 200}, [calls_of("slow", "fast"), "Done."])[0]
    assert path(record)[1:3] == [("decode", "m", 100, 150), ("tool", "slow", 150, 350)]


def test_of_places_the_path_goes_through_the_call_that_gave_its_own_up():
    record = runs_of({"a": 80, "b": 60}, [calls_of("a", "b"), "Done."], max_parallel=1)[0]
    assert [name for kind, name, *_ in path(record) if kind == "tool"] == ["a", "b"]


def test_slack_is_how_much_longer_a_piece_could_take():
    plan = schedule(Graph.of(run_of_two()))
    slack = {
        node.name: ns / NS_PER_MS for node, ns in zip(plan.nodes, slack_of(plan), strict=True) if node.kind == "tool"
    }
    assert slack == {"fast": 70, "slow": 0}


@pytest.mark.parametrize("more", [69, 70, 71, 200])
def test_a_piece_that_takes_longer_than_its_slack_moves_the_end_by_the_difference(more):
    replies = [calls_of("fast", "slow"), "word word word"]
    longer = runs_of({"fast": 50 + more, "slow": 80}, replies)[0]
    assert (longer.end - longer.start) / NS_PER_MS == 390 + max(more - 70, 0)


def test_over_many_runs_the_means_add_up_and_each_work_has_its_share():
    runs = [run_of({"lookup": 0.1, "weather": 0.05}), run_of({"lookup": 0.02, "weather": 0.06}), run_of({})]
    found = critical_path(map(Graph.of, runs))
    rows = {(row.kind, row.name): row for row in found.rows}
    lookup, weather = rows["tool", "lookup"], rows["tool", "weather"]
    assert (found.runs, found.p50_ms, found.p95_ms) == (3, 260, 300)
    assert sum(row.mean_ms for row in found.rows) == pytest.approx(found.mean_ms, abs=0.01)
    assert sum(row.share for row in found.rows) == pytest.approx(1)
    assert (lookup.on_path, lookup.p50_ms, lookup.mean_ms) == (1 / 3, 100, pytest.approx(33.333))
    assert (weather.p50_ms, weather.work_ms, weather.slack_ms) == (60, pytest.approx(36.667), 0)
    assert rows["decode", "gpt"].on_path == 1


def test_no_runs_have_no_path():
    assert critical_path([]) == (0, 0.0, 0.0, 0.0, [])
