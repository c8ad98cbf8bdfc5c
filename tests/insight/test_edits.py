"""Each edit makes of a run what a person works out; in milliseconds of an exact clock."""

import random

import pytest
from lab_runs import calls_of, made_tool, run_of_two, runs_of

from hotloop.errors import ConfigError
from hotloop.insight.edits import (
    Cache,
    ContextCap,
    Eager,
    Hedge,
    Parallel,
    Plan,
    Prefetch,
    PrefixReuse,
    SeenCache,
    Service,
    ShapedResults,
    SingleFlight,
    ToolTime,
    Without,
)
from hotloop.insight.graph import Graph
from hotloop.insight.pieces import Ask, Call, Step, Turn
from hotloop.insight.together import schedule_all
from hotloop.insight.workload import Workload
from hotloop.lab.profiles import Curve, Profile
from hotloop.lab.script import Reply, say
from hotloop.units import NS_PER_MS

EXACT = Profile(name="exact", kind="lpu", base_ms=20, per_prompt_token_ms=0, tpot_ms=Curve(2))
WHOLE_CALLS = Profile(name="calls", kind="lpu", base_ms=20, per_prompt_token_ms=0, tpot_ms=Curve(2), granularity="call")
BURST = Profile(name="burst", kind="lpu", base_ms=20, per_prompt_token_ms=0, tpot_ms=Curve(2), granularity="burst")


def after(records, *edits) -> list[float]:
    """What these runs would take, each edit made after the other."""
    work = records if isinstance(records, Workload) else Workload.of(records)
    draw, graphs = random.Random(0), work.graphs
    for edit in edits:
        change = edit.change(work)
        graphs = [change(graph, draw) for graph in graphs]
    return [plan.end / NS_PER_MS for plan in schedule_all(graphs, draw)]


def least(record, edit) -> float:
    work = Workload.of([record])
    return schedule_all([edit.without(work)(work.graphs[0], random.Random(0))], random.Random(0))[0].end / NS_PER_MS


# The run of two: 100 + 90, slow from 190 to 270 (fast from 150 to 200 beside it), 100 + 20


def test_another_service_is_scheduled_anew_and_calls_start_where_they_would_there():
    """20 + 18: fast from 30 to 80, slow from 38 to 118; 20 + 4."""
    assert after([run_of_two()], Service(EXACT)) == [142]
    assert least(run_of_two(), Service(EXACT)) == 80


def test_on_a_service_that_streams_whole_calls_a_call_shows_when_the_next_one_is_whole():
    record = runs_of({"a": 100, "b": 10, "c": 10}, [calls_of("a", "b", "c"), "Done."])[0]
    assert after([record], Service(EXACT)) == [20 + 10 + 100 + 20]
    assert after([record], Service(WHOLE_CALLS)) == [20 + 18 + 100 + 20]
    assert after([record], Service(BURST)) == [20 + 28 + 100 + 20]


@pytest.mark.parametrize("words", ["", "Let me look that up for you."])
@pytest.mark.parametrize("names", [("b", "a"), ("b", "a", "c")])
def test_calls_that_came_whole_are_sealed_where_a_service_that_streams_them_would_have(words, names):
    replies = [Reply(words, tuple(calls_of(*names))), say("word word word")]
    whole, streamed = (
        runs_of({"a": 100, "b": 150, "c": 10}, replies, at=each, runs=8) for each in (WHOLE_CALLS, EXACT)
    )
    real = [(record.end - record.start) / NS_PER_MS for record in streamed]
    assert after(whole, Service(EXACT)) == pytest.approx(real, abs=0.1)


def test_only_the_requests_to_one_model_are_answered_elsewhere():
    assert after([run_of_two()], Service(EXACT, model="another")) == [390]
    assert after([run_of_two()], Service(EXACT, model="m")) == [142]


@pytest.mark.parametrize(
    ("edits", "end"),
    [
        ([Parallel(1)], 200 + 80 + 120),
        ([Eager(on=False)], 390),
        ([ToolTime("slow", factor=0.5)], 190 + 40 + 120),
        ([ToolTime("slow", seconds=0.2)], 190 + 200 + 120),
        ([ToolTime("slow", samples=[0.3])], 190 + 300 + 120),
        ([Cache("slow", 1.0)], 200 + 120),
        ([Without("slow")], 200 + 120),
        ([Without("slow"), Without("fast")], 190 + 120),
        ([Prefetch(1.0)], 190 + 120),
        ([Prefetch(1.0, frozenset({"fast"}))], 390),
        ([ToolTime("slow", seconds=0.3), Prefetch(1.0)], 300 + 120),
        ([Service(EXACT), ToolTime("slow", factor=0.5)], 80 + 24),
        ([ToolTime("slow", factor=0.5), Service(EXACT)], 80 + 24),
    ],
    ids=lambda edits: " + ".join(edit.label for edit in edits) if isinstance(edits, list) else "",
)
def test_a_run_is_scheduled_anew(edits, end):
    assert after([run_of_two()], *edits) == [end]


def test_tools_that_are_declared_read_only_start_while_the_reply_is_written():
    tools = [made_tool("fast", 50, read_only=False), made_tool("slow", 80, read_only=False)]
    record = runs_of(tools, [calls_of("slow", "fast"), "word word word"])[0]
    assert (record.end - record.start) / NS_PER_MS == 190 + 80 + 120
    assert after([record], Eager()) == [190 + 50 + 120]
    assert after([record], Eager(tools=frozenset({"fast"}))) == [190 + 80 + 120]


def test_more_places_and_fewer():
    record = runs_of({"a": 80, "b": 60}, [calls_of("a", "b", "a"), "Done."], max_parallel=1)[0]
    assert (record.end - record.start) / NS_PER_MS == 150 + 80 + 60 + 100
    assert after([record], Parallel(8)) == [200 + 60 + 100]  # b from when it is sealed; the second a has the first's


def test_dependent_turns_become_one_reply():
    """Plan: 1 + 3 tokens around, and a frame of (35 + name) / 4 - 1 tokens for each step beside what it has now."""
    replies = [calls_of("first"), calls_of("then"), "word word word"]
    record = runs_of({"first": 300, "then": 200}, replies)[0]
    tokens = 4 + 5 + (35 + 5) / 4 - 1 + 5 + (35 + 4) / 4 - 1
    writing = (round(tokens) - 1) * 10
    # The first step is written after 4 + 4 + 9 of the tokens behind the first; the second one waits for it.
    (end,) = after([record], Plan())
    assert end == pytest.approx(100 + 170 + 300 + 200 + 120, abs=0.01)
    assert 100 + writing < 100 + 170 + 300
    one = runs_of({"first": 300}, [calls_of("first"), "word word word"])[0]
    assert after([one], Plan()) == [100 + 40 + 300 + 120]


def test_results_that_were_asked_for_before_are_there():
    records = runs_of({"a": 80}, [calls_of("a"), "Done."], runs=3)
    took = 100 + 40 + 80 + 100
    assert [(record.end - record.start) / NS_PER_MS for record in records] == [took] * 3
    assert after(records, SeenCache(60)) == [took, took - 80, took - 80]
    assert after(records, SeenCache(0.25)) == [took, took - 80, took]  # 320 ms after it was begun, 240 after it was had
    assert after(records, SeenCache(60, frozenset({"other"}))) == [took] * 3
    assert after(records, SingleFlight()) == [took] * 3
    assert SeenCache(60).hits(Workload.of(records)) == 2


def test_who_asks_while_another_one_is_getting_it_waits_for_that():
    first, second = runs_of({"a": 80}, [calls_of("a"), "Done."], runs=2)
    second.started = first.started + 0.030
    assert after([first, second], SingleFlight()) == [320, 320 - 30]


def test_calls_that_write_are_neither_kept_nor_shared_nor_guessed():
    records = runs_of([made_tool("a", 80, read_only=False)], [calls_of("a"), "Done."], runs=2)
    assert after(records, SeenCache(60), SingleFlight(), Prefetch(1.0)) == [320, 320]


# What prompts cost: requests of known times


def reader(
    count: int = 40, *, known: int = 0, cached: int | None = 0, sizes: tuple[int, ...] = (4000, 400)
) -> Workload:
    """Runs of one turn with a result of so many bytes, and an answer; a token that is read costs 0.1 ms."""
    draw, graphs = random.Random(0), []
    for number in range(count):
        prompt = draw.randint(500, 1500)
        bytes_of = sizes[number % len(sizes)]
        first = _ask(prompt, known=min(known, prompt), cached=cached)
        then = _ask(prompt + bytes_of // 4, known=prompt, cached=cached)
        call = Call("c", "t", 1, work=(Step("tool", 10 * NS_PER_MS, "t"),), takes_place=True, size=bytes_of)
        turns = (Turn(0, (first,), (call,)), Turn(1, (then,)))
        graphs.append(Graph(f"r{number}", "a", "", "", "hotloop", number * 100.0, 0, 8, 0, turns))
    return Workload(graphs)


def _ask(prompt: int, *, known: int, cached: int | None) -> Ask:
    read = prompt - (cached or 0)
    decode = 80 * NS_PER_MS
    prefill = round((50 + 0.1 * read) * NS_PER_MS)
    return Ask(
        "s", "m", "ok", prefill=prefill, decode=decode, span=decode, prompt=prompt, cached=cached, known=known, out=9
    )


def test_a_prefix_that_is_kept_is_not_read_again():
    """Of the second prompt all of the first is known, in blocks of 16."""
    work = reader()
    before = [_took(graph) for graph in work.graphs]
    saved = [was - now for was, now in zip(before, after(work, PrefixReuse()), strict=True)]
    expected = [graph.turns[1].ask.known // 16 * 16 * 0.1 for graph in work.graphs]
    assert saved == pytest.approx(expected, rel=0.01)


def test_results_that_are_cut_are_not_read_and_the_tool_to_read_on_is():
    """500 of 1,000 tokens are cut in every other run; each of two prompts has 120 tokens more."""
    work = reader()
    before = [_took(graph) for graph in work.graphs]
    saved = [was - now for was, now in zip(before, after(work, ShapedResults(500)), strict=True)]
    assert saved[0] == pytest.approx(50 - 24, abs=0.5)
    assert saved[1] == pytest.approx(-24, abs=0.5)


def test_prompts_over_the_cap_are_read_only_up_to_it():
    work = reader()
    (longest, prompt) = max((graph.turns[1].ask.prompt, place) for place, graph in enumerate(work.graphs))
    before = _took(work.graphs[prompt])
    first = work.graphs[prompt].turns[0].ask.prompt
    over = longest - 1000 + max(first - 1000, 0)
    assert before - after(work, ContextCap(1000))[prompt] == pytest.approx(0.1 * over, rel=0.01)


def test_a_session_is_summarized_once_it_has_come_near_the_cap():
    """Each run adds 300 tokens. From 0.7 * 3,000 on, all but the last four turns are 300 tokens."""
    graphs = []
    for number in range(12):
        ask = _ask(500 + 300 * number, known=200 + 300 * number if number else 0, cached=0)
        graphs.append(Graph(f"r{number}", "a", "", "s", "hotloop", number * 100.0, 0, 8, 400, (Turn(0, (ask,)),)))
    work = Workload(graphs)
    change = ContextCap(3000).change(work)
    prompts = [change(graph, random.Random(0)).turns[0].ask.prompt for graph in work.graphs]
    assert prompts[:6] == [500, 800, 1100, 1400, 1700, 2000]
    assert max(prompts) < 2400
    assert prompts[-1] < work.graphs[-1].turns[0].ask.prompt / 1.7


def test_a_second_request_beside_a_straggler_takes_what_any_request_takes():
    asks = [_ask(600, known=0, cached=0) for _ in range(99)]
    slow = Ask("s", "m", "ok", prefill=5000 * NS_PER_MS, decode=0, prompt=600, out=9)
    graphs = [
        Graph(f"r{number}", "", "", "", "hotloop", number * 100.0, 0, 8, 0, (Turn(0, (ask,)),))
        for number, ask in enumerate([*asks, slow])
    ]
    ends = after(Workload(graphs), Hedge())
    assert ends[-1] == 110 + 110  # as long as the first ones had waited, and once more as long
    assert ends[:-1] == [190] * 99
    assert after(Workload(graphs[-5:]), Hedge())[-1] == 5000  # too few to tell what is usual


def test_a_request_that_failed_or_whose_first_token_nobody_saw_has_no_second_one_beside_it():
    usual = [_ask(600, known=0, cached=0) for _ in range(20)]
    failed = Ask("s", "m", "failed", prefill=5000 * NS_PER_MS, prompt=600)
    unseen = Ask("s", "m", "ok", decode=5000 * NS_PER_MS, prompt=600, out=9)
    graphs = [
        Graph(f"r{number}", "", "", "", "hotloop", number * 100.0, 0, 8, 0, (Turn(0, (ask,)),))
        for number, ask in enumerate([*usual, failed, unseen])
    ]
    assert after(Workload(graphs), Hedge())[-2:] == [5000, 5000]
    (known,) = Workload(graphs).services.values()
    assert len(known.waits) == 20
    assert any("too few" in told for told in Hedge().assumptions(Workload(graphs[1:])))


def _took(graph: Graph) -> float:
    return schedule_all([graph], random.Random(0))[0].end / NS_PER_MS


# What no edit gets below


EDITS = [
    Cache("a", 0.5),
    ContextCap(700),
    Eager(),
    Eager(on=False),
    Eager(tools=frozenset({"b"})),
    Hedge(),
    Parallel(1),
    Parallel(8),
    Plan(),
    Prefetch(0.5),
    PrefixReuse(),
    SeenCache(60),
    Service(EXACT),
    Service(WHOLE_CALLS),
    ShapedResults(10),
    SingleFlight(),
    ToolTime("a", factor=0.1),
    ToolTime("b", samples=[0.0, 0.5]),
    Without("a"),
    Without("queue"),
]


@pytest.fixture(scope="module")
def all_kinds() -> list[Graph]:
    """Runs with all that a turn may have, in random measure."""
    draw = random.Random(7)
    return [_any_graph(number, draw) for number in range(150)]


def _any_graph(number: int, draw: random.Random) -> Graph:
    def steps(*kinds: str) -> tuple[Step, ...]:
        return tuple(Step(kind, draw.randint(0, 60) * NS_PER_MS) for kind in kinds if draw.random() < 0.4)

    def called(lane: int, span: int) -> Call:
        name = draw.choice("abc")
        tool = (Step("tool", draw.randint(0, 200) * NS_PER_MS, name),)
        sealed = draw.randint(span // 2, span) if span else 0
        early = bool(span) and draw.random() < 0.5
        return Call(
            f"c{lane}", name, lane, steps("guard"), (), tool, steps("overhead"), takes_place=True, sealed=sealed,
            early=early, able=True, read_only=True, digest=name, size=draw.choice((40, 4000)),
        )  # fmt: skip

    turns = []
    for turn in range(draw.randint(1, 4)):
        prompt, seen = 500 + 300 * turn, draw.random() < 0.8
        decode = draw.randint(50, 400) * NS_PER_MS
        span = decode if seen else 0
        failed = [Ask("s", "m", "failed", prefill=30 * NS_PER_MS)] if draw.random() < 0.3 else []
        waited = steps("queue") if failed else ()
        ask = Ask(
            "s", "m", "ok", prefill=draw.randint(1, 300) * NS_PER_MS if seen else 0, decode=decode, span=span,
            prompt=prompt, known=prompt - 300 if turn else 0, out=draw.randint(2, 40),
        )  # fmt: skip
        calls = tuple(called(lane, span) for lane in range(1, draw.randint(0, 3) + 1))
        before = (*steps("context"), *failed, *waited, ask, *steps("parse"))
        turns.append(Turn(turn, before, calls, steps("overhead"), steps("memory")))
    return Graph(f"r{number}", "a", "", "", "hotloop", number * 100.0, 0, 3, 0, tuple(turns))


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.label)
def test_no_edit_gets_below_what_is_left_if_its_part_took_no_time(edit, all_kinds):
    work = Workload(all_kinds)
    changed, least = edit.change(work), edit.without(work)
    predicted = schedule_all([changed(graph, random.Random(0)) for graph in work.graphs], random.Random(0))
    for graph, plan in zip(work.graphs, predicted, strict=True):
        (best,) = schedule_all([least(graph, random.Random(0))], random.Random(0))
        assert best.end <= plan.end + 1000


# What cannot be, and what is said


@pytest.mark.parametrize(
    "make",
    [
        lambda: Parallel(0),
        lambda: Cache("a", 1.5),
        lambda: Prefetch(-0.1),
        lambda: ToolTime("a"),
        lambda: ToolTime("a", factor=2, seconds=1),
        lambda: ToolTime("a", seconds=-1),
        lambda: ToolTime("a", factor=float("nan")),
        lambda: ToolTime("a", factor=float("inf")),
        lambda: ToolTime("a", samples=[0.1, float("nan")]),
        lambda: ContextCap(0),
        lambda: ShapedResults(0),
    ],
)
def test_what_cannot_be_is_refused(make):
    with pytest.raises(ConfigError, match="give"):
        make()


def test_results_of_tools_with_effects_are_never_kept():
    records = runs_of([made_tool("a", 80, read_only=False), made_tool("b", 80)], [calls_of("a", "b"), "Done."])
    with pytest.raises(ConfigError, match=r"a has effects, .* read_only"):
        after(records, Cache("a", 0.5))
    assert after(records, Cache("b", 1.0)) == after(records)


def test_what_tools_do_inside_is_said_to_stay_where_they_take_a_notable_share():
    told = "what tools do inside, such as asking models, takes as long as it did"
    slow, quick = (Workload.of(runs_of({"a": took}, [calls_of("a"), "Done."])) for took in (80, 5))
    assert told in Service(EXACT).assumptions(slow)
    assert told not in Service(EXACT).assumptions(quick)


def test_each_edit_says_what_it_takes_to_be_true():
    work = Workload.of(runs_of({"a": 80}, [calls_of("a"), "Done."], runs=3))
    assert any("as many tokens" in told for told in Service(EXACT).assumptions(work))
    assert SeenCache(60).assumptions(work) == [
        "2 of 3 calls asked for what was known or on its way; all were of one scope"
    ]
    assert any("cannot be told" in told for told in PrefixReuse().assumptions(work))
    assert any("too few" in told for told in Hedge().assumptions(work))
