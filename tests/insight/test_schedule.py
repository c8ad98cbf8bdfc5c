"""A graph is scheduled: when its pieces begin and end if nothing waits longer than it must."""

import pytest

from hotloop.insight.graph import Graph
from hotloop.insight.pieces import Ask, Call, Step, Turn
from hotloop.insight.schedule import Times, Wanted, schedule, walk
from hotloop.insight.serving import Place
from hotloop.lab.profiletable import PROFILES

ASK = Ask("svc", "m", "ok", connect=5, prefill=100, decode=90, span=90, prompt=10, out=10)


def tool(took: int, **options) -> Call:
    return Call("", "t", 1, work=(Step("tool", took, "t"),), takes_place=True, **options)


def run_of(*turns: Turn, places: int | None = None) -> Graph:
    return Graph("r", "", "", "", "hotloop", 0.0, 0, places, 0, turns)


def tools(graph: Graph) -> list[tuple[int, int]]:
    return [(node.start, node.end) for node in schedule(graph).nodes if node.kind == "tool"]


def test_a_turn_begins_when_all_calls_of_the_one_before_have_ended():
    turn = Turn(0, (Step("context", 10), ASK, Step("parse", 1)), (tool(30), tool(80)), (Step("overhead", 4),), ())
    plan = schedule(run_of(turn, Turn(1, (ASK,))))
    assert [(node.kind, node.start, node.end) for node in plan.nodes] == [
        ("context", 0, 10),
        ("connect", 10, 15),
        ("prefill", 15, 115),
        ("decode", 115, 205),
        ("parse", 205, 206),
        ("tool", 206, 236),
        ("tool", 206, 286),
        ("overhead", 206, 210),
        ("connect", 286, 291),
        ("prefill", 291, 391),
        ("decode", 391, 481),
    ]
    assert plan.end == 481


def test_work_beside_the_calls_counts_only_if_it_is_longer():
    long = Turn(0, (ASK,), (tool(30),), (Step("overhead", 50),), (Step("overhead", 2),))
    assert schedule(run_of(long)).end == 195 + 50 + 2


def test_places_are_given_in_the_order_in_which_they_are_asked_for():
    calls = (tool(50), tool(20), tool(30), tool(5))
    assert tools(run_of(Turn(0, (ASK,), calls), places=2)) == [(195, 245), (195, 215), (215, 245), (245, 250)]
    assert tools(run_of(Turn(0, (ASK,), calls), places=1))[-1] == (295, 300)


def test_a_place_is_needed_only_when_what_comes_before_it_is_over():
    late = tool(10, until=(Step("overhead", 40),))
    assert tools(run_of(Turn(0, (ASK,), (tool(30), late)), places=1)) == [(195, 225), (235, 245)]


def test_an_early_call_begins_at_its_point_of_the_reply_however_fast_that_is_written():
    early = tool(30, sealed=45, early=True)
    assert tools(run_of(Turn(0, (ASK,), (early,)))) == [(150, 180)]
    half = Ask("svc", "m", "ok", prefill=100, decode=180, span=90)
    assert tools(run_of(Turn(0, (half,), (early,)))) == [(190, 220)]


def test_a_call_begins_when_those_that_it_needs_have_ended():
    calls = (tool(30), tool(50), tool(10, needs=(0, 1)), tool(7, needs=(2,)))
    assert tools(run_of(Turn(0, (ASK,), calls))) == [(195, 225), (195, 245), (245, 255), (255, 262)]


def test_a_call_that_is_begun_ahead_begins_with_its_turn_and_takes_no_place():
    calls = (tool(300, ahead=True), tool(10), tool(10))
    assert sorted(tools(run_of(Turn(0, (Step("context", 2), ASK), calls), places=1))) == [
        (0, 300),
        (197, 207),
        (207, 217),
    ]


def test_nobody_waits_for_what_the_run_did_not_wait_for():
    calls = (tool(500, joins=False), tool(10))
    assert schedule(run_of(Turn(0, (ASK,), calls))).end == 205


def test_who_answers_instead_is_asked_for_the_times_at_the_moment_of_the_request():
    place = Place(PROFILES["groqcloud-llama8b"])
    other = Ask("svc", "m", "ok", connect=5, prefill=100, decode=90, by=place)
    run = run_of(Turn(0, (Step("context", 7), other)), Turn(1, (ASK,)))
    steps = walk(run)
    assert next(steps) == Wanted(other, place, 12)
    with pytest.raises(StopIteration) as done:
        steps.send(Times(20, 8))
    assert done.value.value.end == 40 + 195
    with pytest.raises(ValueError, match="somebody else"):
        schedule(run)
