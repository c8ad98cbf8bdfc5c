"""Which spans of a trace are runs, and what becomes of traces that are not as they should be."""

from __future__ import annotations

import pytest
from otlpspans import EPOCH, MS, TRACE, agent, chat, path, record, records, shown, span, tool

from hotloop.trace.trace import Trace

SERVER = {"http.request.method": "POST", "http.route": "/ask"}


def test_a_run_is_the_agent_below_the_request_that_asked_for_it():
    request = span("web", "", 0, 120, "POST /ask", kind=2, attributes=SERVER)
    found = record(request, agent("run", "web", 10, 110), chat("ask", "run", 20, 100))
    assert (found.name, found.trace_id, found.started) == ("orders", TRACE, (EPOCH + 10 * MS) / 1e9)
    assert shown(found) == [
        ("overhead", 0, 0, "invoke_agent orders", 0, 10),
        ("decode", 0, 0, "", 10, 90),
        ("overhead", 0, 0, "invoke_agent orders", 90, 100),
    ]


def test_several_agents_below_one_request_are_runs_of_their_own():
    request = span("web", "", 0, 100, "POST /ask", kind=2, attributes=SERVER)
    one, other = agent("one", "web", 0, 50, "router"), agent("two", "web", 50, 100, "orders")
    found = records(request, other, one, chat("ask1", "one", 10, 40), chat("ask2", "two", 60, 90))
    assert [(each.trace_id, each.name) for each in found] == [(f"{TRACE}-one", "router"), (f"{TRACE}-two", "orders")]


def test_an_agent_below_an_agent_is_part_of_its_run():
    outer, inner = agent("run", "", 0, 100, "desk"), agent("sub", "run", 10, 90, "carrier")
    found = record(outer, inner, chat("ask", "sub", 20, 80))
    assert found.name == "desk"
    assert [(stage.kind, stage.name) for stage in found.stages if stage.kind == "decode"] == [("decode", "carrier")]


def test_a_span_of_ones_own_around_requests_and_tools_is_a_run():
    found = record(span("mine", "", 0, 100, "answer"), chat("ask", "mine", 0, 40), tool("look", "mine", 40, 90))
    assert (found.name, found.source) == ("answer", "shop")
    assert path(found) == [("decode", "", 0, 40), ("tool", "look", 40, 90), ("overhead", "answer", 90, 100)]


def test_a_request_alone_is_a_run_of_one_turn():
    found = record(chat("ask", "", 0, 40))
    assert [stage.kind for stage in found.stages] == ["decode"]
    assert len(found.turns) == 1


@pytest.mark.parametrize(
    "spans",
    [
        [],
        [span("web", "", 0, 10, kind=2, attributes=SERVER)],
        [span("db", "", 0, 10, attributes={"db.system.name": "postgresql"})],
        [tool("look", "", 0, 10)],
    ],
    ids=["nothing", "a request", "a query", "a tool that is served to others"],
)
def test_what_is_no_run(spans):
    assert records(*spans) == []


def test_an_agent_that_is_served_as_a_tool_is_a_run():
    found = record(tool("look", "elsewhere", 0, 50), agent("run", "look", 5, 45), chat("ask", "run", 10, 40))
    assert (found.name, found.end) == ("orders", 40 * MS)


def test_traces_are_told_apart():
    other = "f" * 32
    spans = [agent("run", "", 0, 10), agent("run", "", 0, 20, trace=other)]
    assert [(each.trace_id, each.end / MS) for each in records(*spans)] == [(TRACE, 10), (other, 20)]


def test_a_parent_that_is_elsewhere_is_no_fault():
    found = record(agent("run", "gone", 0, 100), chat("ask", "run", 10, 90))
    assert found.end == 100 * MS
    assert found.facts == {}


def test_a_root_that_is_missing_is_told_and_stood_in_for():
    found = record(chat("ask", "gone", 0, 40), tool("look", "gone", 50, 90), chat("again", "gone", 90, 120))
    assert found.facts["warnings"] == [
        "the root of the trace is missing: the run is taken to last from the first span to the last"
    ]
    assert (found.start, found.end) == (0, 120 * MS)
    assert [len(turn.calls) for turn in found.turns] == [1, 0]
    assert found.outcome == "ok"


def test_spans_whose_parent_is_missing_belong_to_the_root():
    found = record(agent("run", "", 0, 100), chat("ask", "gone", 10, 50), tool("look", "lost", 50, 90))
    assert [(kind, name) for kind, name, *_ in path(found)] == [
        ("overhead", "invoke_agent orders"),
        ("decode", ""),
        ("tool", "look"),
        ("overhead", "invoke_agent orders"),
    ]
    assert found.facts["warnings"] == ["2 spans had a parent that is missing: put below the root"]


def test_spans_that_have_not_ended_last_as_long_as_what_is_below_them():
    found = record(agent("run", "", 0, 0), chat("ask", "run", 10, 50), tool("look", "run", 50, 90))
    assert found.end == 90 * MS
    assert found.facts["warnings"] == ["1 span had no end: taken to last as long as what is below"]


def test_an_end_before_the_start_is_none():
    found = record(agent("run", "", 0, 100), tool("look", "run", 50, 20))
    assert [(stage.start, stage.end) for stage in found.stages if stage.kind == "tool"] == []
    assert found.end == 100 * MS


def test_a_span_that_was_sent_twice_counts_once():
    spans = [agent("run", "", 0, 100), chat("ask", "run", 0, 0), chat("ask", "run", 0, 60), chat("ask", "run", 0, 60)]
    found = record(*spans)
    assert len(found.turns) == 1
    assert ("decode", 0, 0, "", 0, 60) in shown(found)


@pytest.mark.parametrize(
    "spans",
    [
        [agent("a", "a", 0, 100), chat("ask", "a", 0, 50)],
        [agent("a", "b", 0, 100), span("b", "a", 10, 90), chat("ask", "b", 20, 50)],
        [agent("a", "c", 0, 100), span("b", "a", 10, 90), span("c", "b", 20, 80), chat("ask", "b", 30, 50)],
    ],
)
def test_a_circle_of_parents_is_cut_at_its_first_span(spans):
    found = record(*spans)
    assert (found.name, found.end, len(found.turns)) == ("orders", 100 * MS, 1)


def test_a_clock_that_is_behind_is_put_right():
    theirs = {"service.name": "carrier", "host.name": "far"}
    found = record(
        agent("run", "", 0, 100),
        tool("look", "run", 20, 80),
        agent("sub", "look", -500, -460, "carrier", resource=theirs),
        chat("ask", "sub", -490, -465, resource=theirs),
    )
    assert ("decode", 0, 0, "carrier", 30, 55) in shown(found)
    assert found.facts["warnings"] == ["clocks differ by up to 520.0 ms: spans were moved into their parents"]


def test_a_clock_that_is_ahead_is_put_right_where_it_is_another_one():
    theirs = {"host.name": "far"}
    spans = [agent("run", "", 0, 100), chat("ask", "run", 20, 80), chat("inner", "ask", 40, 95, resource=theirs)]
    assert record(*spans).facts["warnings"] == ["clocks differ by up to 15.0 ms: spans were moved into their parents"]


def test_work_that_goes_on_after_its_run_is_cut_off_and_a_reply_is_not():
    cut = record(agent("run", "", 0, 100), chat("ask", "run", 0, 90), tool("log", "run", 95, 400))
    assert (cut.end, Trace(cut).critical_ms()["tool"]) == (100 * MS, 5)
    lasting = record(agent("run", "", 0, 100), span("step", "run", 0, 20), chat("ask", "step", 10, 150))
    assert lasting.end == 150 * MS
    assert Trace(lasting).unattributed_ms == 0


def test_ten_thousand_spans_in_one_trace():
    spans = [agent("run", "", 0, 30_000)]
    for turn in range(5_000):
        spans.append(chat(f"ask{turn}", "run", 6 * turn, 6 * turn + 4))
        spans.append(tool(f"look{turn}", "run", 6 * turn + 4, 6 * turn + 6))
    found = record(*spans)
    assert len(found.turns) == 5_000
    assert Trace(found).unattributed_ms == 0


def test_ten_thousand_spans_below_each_other():
    spans = [agent("s0", "", 0, 100), *(span(f"s{depth}", f"s{depth - 1}", 0, 100) for depth in range(1, 10_000))]
    found = record(*spans, chat("ask", "s9999", 10, 90))
    assert path(found)[1] == ("decode", "", 10, 90)


def test_ten_thousand_spans_beside_each_other():
    spans = [agent("run", "", 0, 100), *(chat(f"ask{place}", "run", 10, 90) for place in range(10_000))]
    found = record(*spans)
    assert len({stage.lane for stage in found.stages if stage.kind == "decode"}) == 10_000
