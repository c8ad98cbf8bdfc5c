"""Runs that save time: with which measures, from when on, and what they never lose."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec
import pytest

from budgeted import agent_of, contents, degraded, ended, look, reviews
from hotloop import Agent, AnswerCache, Budget, Degrade, Memory, Model, Router, tool
from hotloop.errors import ConfigError
from hotloop.events import ToolFinished
from hotloop.lab.script import per_conversation
from hotloop.testing import ScriptedModel, call, raw, run_virtual, say

TWO = [call("look", key="a"), call("look", key="b"), "So it is, I would say."]
"""Each reply with a call takes 130 ms, each tool 300 ms."""
AGAIN = per_conversation(TWO)  # which says the same when it is asked the same once more


def fast(*replies: Any) -> ScriptedModel:
    return ScriptedModel(list(replies) or ["Quick."], ttft=0.01, tpot=0.001)


def budget(**options: Any) -> Budget:
    return Budget(on_exceed="degrade", **options)


def model(endpoint: Any, name: str = "fast") -> Model:
    return Model(name=name, endpoint=endpoint)


# Which limit, and when


@pytest.mark.parametrize(
    ("limits", "row", "at", "why"),
    [
        ({"total": 0.95}, "total", 860, "90 ms of total left, 130 ms needed"),
        ({"total": 0.5}, "total", 430, "70 ms of total left, 130 ms needed"),
        ({"model": 0.3}, "model", 860, "40 ms of model left, 130 ms needed"),
        ({"tools": 0.25}, "tools", 430, "tools 300 ms of 250 ms spent"),
        ({"turn": Budget(model=0.12)}, "turn.model", 430, "120 ms of turn.model left, 130 ms needed"),
        ({"turn": Budget(tools=0.2)}, None, 0, ""),  # whose turns are over before the next reply
    ],
)
def test_a_step_is_taken_once_a_limit_is_exceeded_or_will_be(limits, row, at, why):
    _, trace = ended(agent_of(TWO, budget(**limits, degrade=[Degrade(max_tokens=3)])))
    told = trace.facts.get("degraded", [])
    assert [(each["row"], each["at_ms"], each["why"]) for each in told] == ([(row, at, why)] if row else [])


def test_nothing_is_done_as_long_as_there_is_time():
    _, trace = ended(agent_of(TWO, budget(total=5, degrade=[Degrade(max_tokens=3)])))
    assert degraded(trace) == []


def test_steps_are_taken_in_their_order_and_only_as_many_as_it_takes():
    """130 ms are needed and 110 left; a reply of 2 tokens takes 110 ms, and the fast model has not to be asked."""
    quick = fast()
    steps = [Degrade(max_tokens=2), Degrade(model=model(quick))]
    output, trace = ended(agent_of(TWO, budget(total=0.97, degrade=steps)))
    assert degraded(trace) == [("replies have at most 2 tokens", "total", 860)]
    assert (output, trace.end_to_end_ms, quick.requests) == ("So it", 970, [])
    _, trace = ended(agent_of(TWO, budget(total=0.96, degrade=steps)))
    assert degraded(trace) == [("replies have at most 2 tokens", "total", 860), ("fast answers", "total", 860)]


def test_once_a_limit_is_exceeded_all_steps_are_taken():
    steps = [Degrade(model=model(ScriptedModel(AGAIN))), Degrade(max_tokens=2)]
    output, trace = ended(agent_of(TWO, budget(tools=0.1, degrade=steps)))
    assert degraded(trace) == [("fast answers", "tools", 430), ("replies have at most 2 tokens", "tools", 430)]
    assert [each.model for each in trace.attempts] == ["m", "fast", "fast", "fast"]  # a call was cut once
    assert output == "So it"


def test_one_step_may_change_both():
    quick = fast()
    step = Degrade(model=model(quick), max_tokens=5)
    _, trace = ended(agent_of(TWO, budget(total=0.9, degrade=[step])))
    assert degraded(trace) == [("fast answers, replies have at most 5 tokens", "total", 860)]
    assert quick.requests[0]["max_tokens"] == 5


def test_what_was_exceeded_all_the_same_is_told(caplog):
    _, trace = ended(agent_of(TWO, budget(tools=0.25)), trace_id="t")
    assert trace.facts["warnings"] == ["over the budget: tools 600 ms of 250 ms"]
    assert "Run t was over its budget: tools 600 ms of 250 ms." in caplog.text


# Another model


def test_another_model_gets_the_conversation_and_the_tools_and_answers_to_the_end():
    quick = fast(call("look", key="c", ms=1), "Quick.")
    output, trace = ended(agent_of(TWO, budget(total=0.9, degrade=[Degrade(model=model(quick))])))
    assert (output, [each.model for each in trace.attempts]) == ("Quick.", ["m", "m", "fast", "fast"])
    assert contents(quick.requests[0], "tool") == ["a found", "b found"]
    assert [each["function"]["name"] for each in quick.requests[0]["tools"]] == ["look", "reviews"]


def test_if_it_fails_the_usual_one_answers():
    broken = ScriptedModel([raw(b'{"error":{"message":"no"}}', status=400)])
    output, trace = ended(agent_of(TWO, budget(total=0.9, degrade=[Degrade(model=model(broken))])))
    assert output == "So it is, I would say."
    assert [(each.model, each.why, each.outcome) for each in trace.attempts[2:]] == [
        ("fast", "first", "failed"),
        ("m", "fallback", "ok"),
    ]


@pytest.mark.parametrize("name", ["cheap", "llama"])
def test_it_may_be_one_of_the_routers_by_either_name(name):
    quick = fast()
    strong = model(ScriptedModel(TWO, ttft=0.1, tpot=0.01), "strong")
    router = Router(models={"cheap": model(quick, "llama"), "best": strong}, default="best")
    agent = Agent(model=router, tools=[look], budget=budget(total=0.9, degrade=[Degrade(model=name)]))
    output, trace = ended(agent)
    assert (output, degraded(trace)) == ("Quick.", [(f"{name} answers", "total", 860)])


def test_it_may_be_a_fallback():
    output, _ = ended(agent_of(TWO, budget(total=0.9, degrade=[Degrade(model="fast")]), fallback=[model(fast())]))
    assert output == "Quick."


def test_who_answers_anyway_is_no_step():
    steps = [Degrade(model="m"), Degrade(max_tokens=2)]
    _, trace = ended(agent_of(TWO, budget(total=0.9, degrade=steps)))
    assert degraded(trace) == [("replies have at most 2 tokens", "total", 860)]


@pytest.mark.parametrize("named", ["fats", object()])
def test_a_model_that_there_is_not_is_refused(named):
    if isinstance(named, str):
        with pytest.raises(ConfigError, match=r"has no model 'fats'; there are m, fast \(did you mean fast\?\)"):
            agent_of([], budget(total=1, degrade=[Degrade(model=named)]), fallback=[model(fast())])
    else:
        with pytest.raises(ConfigError, match=r"Degrade\(model=...\): give the name of one"):
            Degrade(model=named)


def test_its_connections_are_closed_with_the_others():
    class Closing(ScriptedModel):
        closed = False

        async def aclose(self) -> None:
            self.closed = True

    own = Closing(["Quick."])
    agent = agent_of(TWO, budget(total=0.9, degrade=[Degrade(model=model(own))]))
    run_virtual(agent.aclose())
    assert own.closed


# A shorter answer


def test_a_short_answer_is_asked_for_aside_so_that_the_prefix_stays():
    endpoint = ScriptedModel(TWO, ttft=0.1, tpot=0.01)
    output, _ = ended(agent_of(None, budget(total=0.95, degrade=[Degrade(max_tokens=4)]), endpoint=endpoint))
    *_, before, last = endpoint.bodies
    assert output == "So it is, I"
    assert b"at most 2 words" in last and b"words" not in before
    assert last.startswith(before[: before.rindex(b"]")])
    assert endpoint.requests[-1]["max_tokens"] == 4


def test_it_joins_what_is_said_aside_anyway():
    from hotloop import Context

    endpoint = ScriptedModel(TWO, ttft=0.1, tpot=0.01)
    options = {"context": Context(volatile="It is noon."), "endpoint": endpoint}
    ended(agent_of(None, budget(total=0.95, degrade=[Degrade(max_tokens=10)]), **options))
    said = contents(endpoint.requests[-1], "user")[-1]
    assert said.count("Background of this request") == 1
    assert "It is noon.\n\nThere is little time left: answer in at most 6 words" in said


def test_a_cap_of_the_models_own_that_is_lower_stays():
    endpoint = ScriptedModel(TWO, ttft=0.1, tpot=0.01)
    own = Model(name="m", endpoint=endpoint, max_tokens=50)
    ended(Agent(model=own, tools=[look], budget=budget(total=0.95, degrade=[Degrade(max_tokens=80)])))
    assert endpoint.requests[-1]["max_tokens"] == 50


def test_calls_that_it_cuts_are_asked_for_once_more_without_it():
    output, trace = ended(agent_of(AGAIN, budget(total=0.5, degrade=[Degrade(max_tokens=2)])))
    assert [call.name for turn in trace.turns for call in turn.calls] == ["look", "look"]
    assert [each.why for each in trace.attempts][:3] == ["first", "first", "correction"]
    assert output == "So it"


class Order(msgspec.Struct):
    status: str
    note: str


@pytest.mark.parametrize("dialect", ["openai", "generic"])
def test_a_typed_answer_still_parses(dialect):
    answer = json.dumps({"status": "shipped", "note": "it is on its way and comes tomorrow"})
    endpoint = ScriptedModel([call("look", key="a"), answer], ttft=0.1, tpot=0.01)
    steps = [Degrade(max_tokens=3)]
    agent = agent_of(None, budget(total=0.5, degrade=steps), endpoint=endpoint, output=Order, dialect=dialect)
    output, trace = ended(agent)
    assert output == Order("shipped", "it is on its way and comes tomorrow")
    assert len(degraded(trace)) == 1
    assert b"little time left" in endpoint.bodies[-1] and "max_tokens" not in endpoint.requests[-1]


# Optional tools


def test_an_optional_tool_is_left_out_once_a_limit_is_exceeded():
    endpoint = ScriptedModel([call("look", key="a"), call("reviews", key="a"), "Yes."], ttft=0.1, tpot=0.01)
    output, trace = ended(agent_of(None, budget(tools=0.2), endpoint=endpoint))
    assert (output, degraded(trace)) == ("Yes.", [("reviews was left out", "tools", 560)])
    assert contents(endpoint.requests[-1], "tool")[-1] == (
        '{"error":"reviews was left out, because there is little time: answer without it."}'
    )
    assert [call.outcome for call in trace.turns[1].calls] == ["skipped"]
    assert endpoint.requests[0]["tools"] == endpoint.requests[-1]["tools"]


def test_it_is_left_out_when_it_and_a_reply_would_take_too_long_as_they_did_before():
    script = [call("reviews", key="a"), call("reviews", key="b"), "Yes."]
    assert degraded(ended(agent_of(script, budget(total=1.0)))[1]) == []
    assert degraded(ended(agent_of(script, budget(total=0.97)))[1]) == [("reviews was left out", "total", 560)]


def test_it_is_given_up_when_there_is_only_time_for_a_reply():
    output, trace = ended(agent_of([call("reviews", key="a", ms=5000), "Yes."], budget(total=0.5)))
    assert (output, trace.end_to_end_ms) == ("Yes.", 500 - 160 + 100)
    assert degraded(trace) == [("reviews was given up", "total", 340)]


def test_what_runs_beside_it_takes_nothing_of_its_time():
    """The first call begins 50 ms before the reply ends, and ends before the second, which has all of the 300 ms."""
    script = [[call("look", key="a", ms=100), call("reviews", key="a", ms=5000)], "Yes."]
    _, trace = ended(agent_of(script, budget(tools=0.3)))
    began = max(stage.start for stage in trace.stages if stage.kind == "tool") - trace.start
    assert degraded(trace) == [("reviews was given up", "tools", began / 1e6 + 300)]
    assert trace.facts["degraded"][0]["why"] == "tools 300 ms of 300 ms spent"


def test_a_tool_that_is_not_optional_runs_on():
    output, trace = ended(agent_of([call("look", key="a", ms=5000), "Yes."], budget(total=0.5)))
    assert (output, trace.end_to_end_ms, degraded(trace)) == ("Yes.", 160 + 5000 + 100, [])


def test_what_stands_in_for_it_does():
    @tool(optional=True, on_timeout="none known")
    async def rating(key: str) -> str:
        await asyncio.sleep(9)
        return "5"

    endpoint = ScriptedModel([call("rating", key="a"), "Yes."], ttft=0.1, tpot=0.01)
    _, trace = ended(agent_of(None, budget(total=0.5), endpoint=endpoint, tools=[rating]))
    assert contents(endpoint.requests[-1], "tool") == ["none known"]
    assert degraded(trace) == [("rating was given up", "total", 370)]


def test_a_result_that_is_kept_is_given_however_late_it_is():
    @tool(read_only=True, optional=True, ttl=60)
    async def rating(key: str) -> str:
        await asyncio.sleep(0.2)
        return "5 stars"

    async def main() -> Any:
        endpoint = ScriptedModel([call("rating", key="a"), "Yes."] * 2, ttft=0.1, tpot=0.01)
        agent = agent_of(None, budget(model=0.2), endpoint=endpoint, tools=[rating])
        await agent.run("go")
        result = await agent.run("go")
        return contents(endpoint.requests[-1], "tool"), result.trace

    results, trace = run_virtual(main())
    assert results == ["5 stars"]
    assert trace.tools().hits == 1


def test_who_shares_a_call_of_it_gives_up_alone():
    @tool(read_only=True, optional=True, scope="global")
    async def rating(key: str) -> str:
        await asyncio.sleep(1.0)
        return "5 stars"

    async def main() -> list[str]:
        models = [ScriptedModel([call("rating", key="a"), "Yes."]) for _ in range(2)]
        limits = [budget(total=0.5), budget(total=5.0)]
        agents = [
            Agent(model="m", endpoint=each, tools=[rating], budget=limit)
            for each, limit in zip(models, limits, strict=True)
        ]
        await asyncio.gather(*[agent.run("go") for agent in agents])
        return [contents(each.requests[-1], "tool")[0] for each in models]

    assert run_virtual(main()) == ['{"error":"rating did not finish within 0.5 s."}', "5 stars"]


def test_what_must_come_after_it_is_not_run():
    @tool(after=("reviews",))
    async def publish() -> str:
        return "done"

    script = [call("look", key="a"), [call("reviews", key="a"), call("publish")], "Yes."]
    _, trace = ended(agent_of(script, budget(tools=0.2), tools=[look, reviews, publish]))
    assert [call.outcome for call in trace.turns[1].calls] == ["skipped", "error"]


def test_optional_tools_run_as_others_under_any_other_budget():
    for limits in (None, Budget(tools=0.1), Budget(total=5, tools=0.1, answer_reserve=0.2)):
        _, trace = ended(agent_of([call("look", key="a"), call("reviews", key="a"), "Yes."], limits))
        assert [call.outcome for call in trace.turns[1].calls] == ["ok"]


# Memory, sessions, streams, kept answers, reserves


class Late(Memory):
    """A memory that takes 150 ms."""

    async def recall(self, request: str, *, user: str, session: str = "") -> Any:
        await asyncio.sleep(0.15)
        return []


@pytest.mark.parametrize(("limit", "late"), [(0.1, True), (0.2, False)])
def test_facts_that_come_later_than_the_budget_allows_are_left_out(limit, late):
    memory = Late(":memory:", timeout=0.18)
    _, trace = ended(agent_of(["Yes."], budget(memory=limit), memory=memory), user="ann")
    assert degraded(trace) == ([("facts from memory were left out", "memory", 100)] if late else [])


def test_facts_that_are_late_by_the_memorys_own_time_are_no_matter_of_the_budget():
    memory = Late(":memory:", timeout=0.05)
    _, trace = ended(agent_of(["Yes."], budget(memory=0.1), memory=memory), user="ann")
    assert (trace.facts["memory"], degraded(trace)) == ("late, left out", [])


def test_a_session_begins_each_turn_anew():
    async def main() -> Any:
        agent = agent_of(
            [*TWO, "All of it again."], budget(total=0.95, degrade=[Degrade(max_tokens=2)]), sessions=":memory:"
        )
        session = agent.session("ann")
        return [
            (result.output, degraded(result.trace)) for result in [await session.run("go"), await session.run("go")]
        ]

    first, second = run_virtual(main())
    assert first == ("So it", [("replies have at most 2 tokens", "total", 860)])
    assert second == ("All of it again.", [])


def test_a_stream_tells_what_was_left_out():
    async def main() -> list[Any]:
        agent = agent_of([call("look", key="a"), call("reviews", key="a"), "Yes."], budget(tools=0.2))
        return [event async for event in agent.stream("go") if isinstance(event, ToolFinished)]

    assert [(event.name, event.outcome, event.ms) for event in run_virtual(main())] == [
        ("look", "ok", 300),
        ("reviews", "skipped", 0),
    ]


def test_an_answer_in_a_hurry_is_not_kept_for_others():
    answers = AnswerCache(ttl=60)
    _, trace = ended(agent_of(TWO, budget(total=0.9, degrade=[Degrade(max_tokens=9)]), answers=answers), user="ann")
    assert trace.facts["answer_not_kept"] == "the run had to save time"


def test_with_a_reserve_the_last_answer_is_quick_too():
    quick = fast()
    limits = budget(total=0.6, answer_reserve=0.15, degrade=[Degrade(model=model(quick))])
    output, trace = ended(agent_of([call("look", key="a", ms=9000)], limits, ttft=0.2))
    assert (output, trace.end_to_end_ms) == ("Quick.", 460)
    assert "tools" not in quick.requests[0]


def test_turns_may_degrade_while_the_run_is_stopped():
    limits = Budget(
        total=1.0, on_exceed="abort", turn=Budget(tools=0.2, on_exceed="degrade"), degrade=[Degrade(max_tokens=2)]
    )
    script = [call("look", key="a"), [call("look", key="b", ms=900), call("reviews", key="b")], "Yes."]
    error, trace = ended(agent_of(script, limits))
    assert (error.row, trace.end_to_end_ms) == ("total", 1000)
    assert [(what, row) for what, row, _ in degraded(trace)] == [("reviews was given up", "turn.tools")]


def test_a_hurried_reply_after_an_empty_one_is_still_the_usual_ones():
    output, _ = ended(agent_of(TWO, budget(total=0.9, degrade=[Degrade(model=model(fast(say(""))))])))
    assert output == "So it is, I would say."
