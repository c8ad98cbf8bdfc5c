"""Routers where they are used: as the model of an agent, over models that answer on the virtual clock."""

import msgspec
import pytest

from hotloop import Agent, AnswerCache, ApprovalRequired, Budget, Cascade, Model, Router, Rule, tool
from hotloop.events import OutputPartial, ReplyFinished, Reset, Retrying, RunFinished, TextDelta
from hotloop.lab.evaluation import Case, candidates, evaluate, score
from hotloop.testing import ScriptedModel, call, raw, run_virtual, say

USAGE = {"prompt_tokens": 100, "completion_tokens": 10}


class Order(msgspec.Struct):
    id: int
    status: str


@tool(read_only=True)
def order_status(order_id: int) -> str:
    """Status of an order."""
    return "shipped"


def routed(fast, strong, **options):
    """An agent over these two sets of replies, and the two models."""
    models = [ScriptedModel(fast, ttft=0.02), ScriptedModel(strong, ttft=0.2)]
    cascade = options.pop("cascade", Cascade())
    agent_options = {name: options.pop(name) for name in ("output", "tools", "answers") if name in options}
    named = {
        name: Model(name=name, endpoint=model, dialect="vllm", price_in=price, price_out=price)
        for name, model, price in zip(("fast", "strong"), models, (1.0, 10.0), strict=True)
    }
    router = Router(models=named, default="fast", cascade=cascade, **options)
    return Agent(model=router, **agent_options), models


def scored(text, logprob):
    choice = {"index": 0, "delta": {"content": text}, "logprobs": {"content": [{"token": text, "logprob": logprob}]}}
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    frames = [b"data: " + msgspec.json.encode(each) + b"\n\n" for each in ({"choices": [choice]}, end)]
    return raw(*frames, b"data: [DONE]\n\n")


@pytest.mark.parametrize(("logprob", "answer", "ms"), [(-0.1, "quick", 20.0), (-3.0, "sure", 220.0)])
def test_doubt_is_read_from_the_service(logprob, answer, ms):
    agent, (fast, strong) = routed([scored("quick", logprob)], ["sure"], cascade=Cascade(confidence=0.5))
    result = run_virtual(agent.run("q"))
    assert (result.output, result.trace.end_to_end_ms) == (answer, ms)
    assert fast.requests[0]["logprobs"] is True
    assert all("logprobs" not in request for request in strong.requests)


def test_what_was_shown_is_taken_back():
    agent, _ = routed(["I cannot do that."], ["42"])

    async def main():
        return [event async for event in agent.stream("q")]

    *told, last = run_virtual(main())
    assert [each for each in told if isinstance(each, TextDelta)][-1] == TextDelta("42")
    assert told.index(Reset("it refuses to help")) == len(told) - 3
    assert [type(each) for each in told].count(ReplyFinished) == 1
    assert isinstance(last, RunFinished)


def test_an_answer_of_the_wrong_form_escalates():
    agent, (_, strong) = routed(['{"id": "seven"}'], ['{"id": 7, "status": "shipped"}'], output=Order)
    result = run_virtual(agent.run("order 7"))
    assert result.output == Order(7, "shipped")
    assert [each.outcome for each in result.trace.facts["routes"][0].tried] == ["rejected", "ok"]
    assert len(strong.requests[0]["messages"]) == 2  # asked as the first one was, not about its mistake


def test_calls_that_do_not_fit_escalate():
    agent, (fast, strong) = routed(
        [call("order_status", order_id="seven")], [call("order_status", order_id=7), "shipped"], tools=[order_status]
    )
    result = run_virtual(agent.run("order 7"))
    assert result.output == "shipped"
    assert (len(fast.requests), len(strong.requests)) == (1, 2)
    assert [facts.route for facts in result.trace.facts["routes"]] == ["fast", "strong"]


def test_each_route_is_measured_alone_and_all_together():
    fast = ScriptedModel(
        lambda request: say("" if "hard" in str(request["messages"]) else "yes", usage=USAGE), ttft=0.02
    )
    strong = ScriptedModel(lambda request: say("yes", usage=USAGE), ttft=0.2)
    models = {
        "fast": Model(name="f", endpoint=fast, price_in=1.0, price_out=1.0),
        "strong": Model(name="s", endpoint=strong, price_in=10.0, price_out=10.0),
    }
    router = Router(models=models, default="fast", rules=[Rule("strong", pattern="law")], cascade=Cascade())
    cases = [Case(prompt, equals="yes") for prompt in ("easy", "hard", "law")]

    async def main():
        scores = {}
        for route, agent, price in candidates({"model": router}):
            outcomes = await evaluate(agent, cases, route=route, price=price)
            found = score(outcomes)
            scores[route] = (found.right, found.p50_ms, round(1e6 * found.cost), [each.answered for each in outcomes])
        return scores

    assert run_virtual(main()) == {
        "fast": (2, 20.0, 330, ["fast"] * 3),
        "strong": (3, 200.0, 3300, ["strong"] * 3),
        "router": (3, 200.0, 110 + (110 + 1100) + 1100, ["fast", "strong", "strong"]),
    }


def test_a_service_that_tells_no_confidence_is_not_asked_for_it(caplog):
    async def main():
        fast, strong = ScriptedModel(["quick"]), ScriptedModel(["sure"])
        models = {"fast": Model(name="f", endpoint=fast, dialect="groq"), "strong": Model(name="s", endpoint=strong)}
        await Agent(model=Router(models=models, default="fast", cascade=Cascade(confidence=0.9))).run("go")
        return fast.requests

    assert "logprobs" not in run_virtual(main())[0]
    assert "has no effect on f: groq services" in caplog.text


def test_a_run_that_was_paused_stays_with_its_model(tmp_path):
    @tool(approval="always")
    def pay(amount: int) -> str:
        """Pay."""
        return "paid"

    async def main():
        fast, strong = ScriptedModel(["wrong one"]), ScriptedModel([call("pay", amount=3), "Paid."])
        models = {"fast": Model(name="f", endpoint=fast), "strong": Model(name="s", endpoint=strong)}
        router = Router(models=models, default="fast", rules=[Rule("strong", pattern="pay")])
        agent = Agent(model=router, tools=[pay], approvals=tmp_path / "approvals.sqlite")
        with pytest.raises(ApprovalRequired) as paused:
            await agent.run("Please pay 3.", background=True)
        waiting = paused.value.calls[0]
        agent.approvals.decide(paused.value.run_id, waiting.call_id, waiting.digest, approved=True, by="ann")
        return await agent.resume(paused.value.run_id)

    result = run_virtual(main())
    assert result.output == "Paid."
    assert [facts.route for facts in result.trace.facts["routes"]] == ["strong", "strong"]


DOUBTFUL = [scored("quick", -3.0), "never"]
BROKEN = raw(b'data: {"choices":[{"index":0,"delta":{"content":"half"}}]}\n\n', cut=True)


@pytest.mark.parametrize("strong", [raw(b"{}", status=500), BROKEN, say("")], ids=["refuses", "breaks", "empty"])
def test_a_doubtful_reply_is_better_than_none(strong):
    agent, _ = routed(
        DOUBTFUL, [strong] * 3, cascade=Cascade(confidence=0.5), answers=AnswerCache(ttl=60, scope="global")
    )

    async def main():
        return [event async for event in agent.stream("q")]

    events = run_virtual(main())
    shown = events[max(place for place, event in enumerate(events) if isinstance(event, Reset | Retrying)) + 1 :]
    assert [type(event) for event in shown] == [TextDelta, ReplyFinished, RunFinished]
    result = shown[-1].result
    assert (shown[0].text, result.output) == ("quick", "quick")
    assert result.trace.facts["routes"][0].tried[0].outcome == "kept"
    assert result.trace.facts["answer_not_kept"].startswith("it was not good enough: the model was ")
    assert len(result.trace.turns) == 1


def test_calls_of_a_doubtful_reply_are_run_once_when_there_is_none_better():
    ran = []

    @tool(read_only=True)
    def look(key: str) -> str:
        """Look something up."""
        ran.append(key)
        return "found"

    answers = iter([call("look", key="x"), "It is found."])
    wary = Cascade(reject=[lambda reply: "a call" if reply.calls else ""])
    agent, _ = routed(lambda request: next(answers), [raw(b"{}", status=500)] * 9, cascade=wary, tools=[look])
    result = run_virtual(agent.run("q"))
    assert result.output == "It is found."
    assert ran.count("x") - result.trace.turns[0].discarded == 1


def test_a_doubtful_typed_answer_is_told_again_with_its_values():
    agent, _ = routed(
        [scored('{"id": 7, "status": "sent"}', -3.0)],
        [raw(b"{}", status=500)] * 9,
        cascade=Cascade(confidence=0.5),
        output=Order,
    )

    async def main():
        return [event async for event in agent.stream("q")]

    *told, last = run_virtual(main())
    assert last.result.output == Order(7, "sent")
    after = told[max(place for place, event in enumerate(told) if isinstance(event, Reset | Retrying)) + 1 :]
    assert [type(event) for event in after] == [TextDelta, OutputPartial, ReplyFinished]


def test_a_strong_model_that_never_comes_in_time_costs_one_run_and_no_answer():
    """Also for agents that are made anew for each request."""

    async def main():
        fast, strong = ScriptedModel(lambda _: "I cannot help.", ttft=0.1), ScriptedModel(lambda _: "sure", ttft=99)
        models = {"fast": Model(name="f", endpoint=fast), "strong": Model(name="s", endpoint=strong)}
        router = Router(models=models, default="fast", cascade=Cascade())
        found = []
        for _ in range(4):
            async with Agent(model=router, budget=Budget(total=2.0, answer_reserve=1.0)) as agent:
                result = await agent.run("q")
            found.append((result.output, result.trace.end_to_end_ms, len(strong.requests)))
        return found

    assert run_virtual(main()) == [("I cannot help.", 2000.0, 1), *[("I cannot help.", 100.0, 1)] * 3]
