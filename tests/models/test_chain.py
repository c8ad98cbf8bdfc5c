"""Models in order of preference: which reply is taken, what is told, what is kept of those that did not do."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from asking import Asked, Plan, Wire, breaks, client, now_ms, refuses, run, says, silent, think, virtually, writes
from wire_frames import DONE, calls, data, end, item, text

from hotloop import Agent, Breaker, Budget, Model, Policy, tool
from hotloop.errors import InvalidRequest, Overloaded, ReplyTimeout, TransportError
from hotloop.models.chain import Chain
from hotloop.models.rejection import empty_answer, refused_tool
from hotloop.models.reply import Reply
from hotloop.trace.ledger import Usage

CUT = TransportError("cut")
EMPTY = writes(end("stop", usage={"prompt_tokens": 50, "completion_tokens": 1}) + DONE)
REFUSAL = writes(
    text("I cannot look orders up."), end("stop", usage={"prompt_tokens": 60, "completion_tokens": 6}) + DONE
)


def called(name: str = "f", arguments: str = "{}", **options: Any) -> Plan:
    return writes(calls(item(arguments, name, id="x", index=0)), end(), DONE, **options)


def agent(
    *plans: list[Plan], tools: Any = (), budget: Any = None, reject: Any = None, **policy: Any
) -> tuple[Agent, list[Wire]]:
    """An agent with the models a, b, c, of which each follows its plans."""
    wires = [Wire(each) for each in plans]
    settings = Policy(**{"jitter": 0.0, "retries": 0} | policy)
    first, *others = [
        Model(name=name, endpoint=wire, policy=settings) for name, wire in zip("abc", wires, strict=False)
    ]
    more = {} if reject is None else {"reject": reject}
    return Agent(model=first, fallback=others, tools=tools, budget=budget, **more), wires


def ran(*plans: list[Plan], **options: Any) -> Asked:
    asking, wires = agent(*plans, **options)
    return virtually(run(asking), *wires)


@tool(read_only=True)
async def f() -> str:
    """Nothing."""
    await asyncio.sleep(0.05)
    return "done"


# Which reply is taken


@pytest.mark.parametrize(
    ("first", "attempt"),
    [
        (says("Hello"), "first a 0-110 ok"),
        (refuses(), "first a 0-0 failed: The service answered 503: busy."),
        (refuses(401), "first a 0-0 failed: The service answered 401: busy."),
        (breaks(CUT, 115, says("a b c")), "first a 0-115 failed: cut"),
        (EMPTY, "first a 0-100 rejected: the answer is empty"),
        (writes(text("  \n"), end("stop") + DONE), "first a 0-110 rejected: the answer is empty"),
        (silent(), "first a 0-2000 failed: The reply was not complete within 2 s."),
        (writes(text("a"), end("content_filter") + DONE), "first a 0-110 failed: The service"),
    ],
)
def test_the_next_is_asked_when_one_failed_or_gave_nothing(first: Plan, attempt: str) -> None:
    found = ran([first], [says("Hi")], total=2.0)
    assert found.attempts[0].startswith(attempt)
    if attempt.endswith("ok"):
        assert (found.outcome.output, found.kinds) == ("Hello", ["TextDelta", "ReplyFinished", "RunFinished"])
    else:
        at = attempt.split("-")[1].split(" ")[0]
        assert found.attempts[1:] == [f"fallback b {at}-{int(at) + 110} ok"]
        assert (found.outcome.output, found.kinds[-3:]) == ("Hi", ["TextDelta", "ReplyFinished", "RunFinished"])
    assert len(found.trace.turns) == found.kinds.count("ReplyFinished") == 1


def test_all_in_their_order_and_the_last_as_it_is() -> None:
    found = ran([EMPTY], [refuses()], [EMPTY])
    assert found.attempts == [
        "first a 0-100 rejected: the answer is empty",
        "fallback b 100-100 failed: The service answered 503: busy.",
        "fallback c 100-200 ok: the answer is empty",
    ]
    assert (found.outcome.output, found.kinds) == ("", ["ReplyFinished", "RunFinished"])


def test_when_none_gives_a_reply_the_last_error_is_raised() -> None:
    found = ran([refuses()], [breaks(CUT, 115, says("a b c"))])
    assert (str(found.outcome), found.story) == ("cut", "first failed, fallback failed")
    assert found.kinds == ["TextDelta", "TextDelta"]


def test_each_has_retries_of_its_own() -> None:
    found = ran([refuses()] * 2, [refuses(), says("Hi")], retries=1)
    assert found.attempts == [
        "first a 0-0 failed: The service answered 503: busy.",
        "retry a 200-200 failed: The service answered 503: busy.",
        "fallback b 200-200 failed: The service answered 503: busy.",
        "retry b 400-510 ok",
    ]
    assert found.kinds == ["Retrying", "Retrying", "TextDelta", "ReplyFinished", "RunFinished"]


def test_a_service_that_is_left_alone_is_passed_over_at_once() -> None:
    asking, wires = agent([refuses(at=50)] * 2, [says("Hi")] * 3, breaker=Breaker(window=2, at_least=2))

    async def main() -> list[Asked]:
        return [await run(asking) for _ in range(3)]

    found = virtually(main(), *wires)
    assert [each.story for each in found] == ["first failed, fallback ok"] * 3
    assert [each.ms for each in found] == [160, 160, 110]
    assert found[2].attempts[0].startswith("first a 0-0 failed: Wire is left alone for ")


# Predicates


def test_ones_own_predicate() -> None:
    def too_short(reply: Reply) -> str:
        return "" if len(reply.text) > 5 else f"{reply.text!r} is too short"

    found = ran([says("Hi")], [says("Hello world")], reject=[empty_answer, too_short])
    assert found.attempts == ["first a 0-110 rejected: 'Hi' is too short", "fallback b 110-230 ok"]
    assert found.kinds == ["TextDelta", "Reset", "TextDelta", "TextDelta", "ReplyFinished", "RunFinished"]
    reset = next(event for _, event in found.events if type(event).__name__ == "Reset")
    assert (reset.reason, found.outcome.output) == ("'Hi' is too short", "Hello world")


def test_predicates_are_asked_in_order_and_the_first_reason_counts() -> None:
    asked = []

    def first(reply: Reply) -> str:
        asked.append("first")
        return ""

    def second(reply: Reply) -> str:
        asked.append("second")
        return "no"

    found = ran([says("Hi")], [says("Hi")], reject=[first, second, first])
    assert asked == ["first", "second"] * 2
    assert found.attempts == ["first a 0-110 rejected: no", "fallback b 110-220 ok: no"]


def test_what_was_rejected_stays_so_when_the_last_one_fails() -> None:
    """Whoever gives predicates has said that such a reply does not do."""
    cut = breaks(TransportError("cut"), 115, says("a b c"))
    found = ran([says("Hi there")], [cut], reject=[lambda reply: "no" if reply.text else ""])
    assert (str(found.outcome), found.story) == ("cut", "first rejected, fallback failed")
    assert found.outcome.__notes__ == ["Asked before: a at Wire: no"]


def test_no_predicate_rejects_the_only_model() -> None:
    assert ran([EMPTY]).story == "first ok"


def test_a_refused_tool_is_asked_for_elsewhere() -> None:
    found = ran([REFUSAL, says("Done")], [called()], tools=[f], reject=[refused_tool])
    assert found.attempts == [
        "first a 0-110 rejected: it refuses to help",
        "fallback b 110-230 ok",
        "first a 280-390 ok",
    ]


def test_usage_of_rejected_replies_is_kept() -> None:
    found = ran([REFUSAL], [says("Hi")], reject=[refused_tool])
    [rejected, taken] = found.trace.attempts
    assert (rejected.usage, taken.usage) == (Usage(60, 6), Usage())
    assert found.trace.usage == Usage(60, 6)
    assert [facts.model for facts in found.trace.turns] == ["m"]


def test_the_attempt_that_is_rejected_is_the_one_that_gave_the_reply() -> None:
    """Not the hedge that lost to it, even if that was noted a moment later."""
    usual, whole = [says("a b c")] * 18 + [says("a b c", ttft=120)] * 2, text("Hi") + end("stop") + DONE
    plans = [*usual, writes(whole, ttft=190), says("never")]
    first = client(Wire(plans, inside=True), name="a", hedge=True, hedge_share=0.2)
    chain = Chain([first, client(Wire([says("Hello")]), name="b")], [lambda reply: "no" if reply.text == "Hi" else ""])

    async def main() -> Asked:
        for _ in range(20):
            await think(first)
        return await think(chain)

    found = virtually(main())
    assert sorted(found.attempts) == [
        "fallback b 190-300 ok",
        "first a 0-190 rejected: no",
        "hedge a 120-190 lost: the other one was first",
    ]


def test_a_predicate_that_raises_ends_the_run() -> None:
    def broken(reply: Reply) -> str:
        raise LookupError("a bug")

    with pytest.raises(LookupError, match="a bug"):
        ran([says("Hi")], [says("Hello")], reject=[broken])


# Calls


def test_calls_that_began_early_for_a_rejected_reply_are_discarded() -> None:
    begun = []

    @tool(read_only=True)
    async def slow(number: int) -> str:
        """Slow."""
        begun.append((number, now_ms()))
        await asyncio.sleep(1)
        return f"{number} done"

    def no_ones(reply: Reply) -> str:
        return "a call with 1" if any('"number": 1' in call.arguments for call in reply.calls) else ""

    one, two = (
        writes(
            *(calls(item(f'{{"number": {n}}}', "slow", id=f"x{n}", index=i)) for i, n in enumerate(each)), end(), DONE
        )
        for each in ((1, 2), (3, 4))
    )
    found = ran([one, says("Done")], [two], tools=[slow], reject=[no_ones])
    assert begun == [(1, 110), (3, 240), (4, 260)]
    outcomes = [event.outcome for _, event in found.events if type(event).__name__ == "ToolFinished"]
    assert outcomes == ["discarded", "ok", "ok"]
    assert found.attempts[:2] == ["first a 0-130 rejected: a call with 1", "fallback b 130-260 ok"]
    assert found.trace.turns[0].discarded == 1
    assert found.outcome.output == "Done"


@pytest.mark.parametrize(
    ("written", "kinds"),
    [("f{}</function>", ["CallOpened", "CallSealed", "ReplyFinished"]), ("Hello", ["TextDelta", "ReplyFinished"])],
)
def test_salvage_works_through_a_chain(written: str, kinds: list[str]) -> None:
    fault = {"error": {"code": "tool_use_failed", "failed_generation": written, "status_code": 400, "message": "no"}}
    unreadable = writes(data(fault))
    chain = Chain([client(Wire([unreadable]), name="a", tools=["f"]), client(Wire([]), name="b")], [empty_answer])
    found = virtually(think(chain))
    assert (found.kinds, len(found.trace.attempts)) == (kinds, 1)
    assert found.trace.turns[0].salvaged


def test_a_salvaged_reply_can_be_rejected() -> None:
    fault = {"error": {"code": "tool_use_failed", "failed_generation": "Hello", "status_code": 400, "message": "no"}}
    chain = Chain(
        [client(Wire([writes(data(fault))]), name="a", tools=["f"]), client(Wire([says("Hi")]), name="b")],
        [lambda reply: "salvaged" if reply.salvaged else ""],
    )
    found = virtually(think(chain))
    assert found.attempts == ["first a 0-100 rejected: salvaged", "fallback b 100-210 ok"]
    assert found.kinds == ["TextDelta", "Reset", "TextDelta", "ReplyFinished"]


def test_a_correction_works_through_a_chain() -> None:
    fault = {"error": {"code": "tool_use_failed", "failed_generation": "f{", "status_code": 400, "message": "no"}}
    wire = Wire([writes(data(fault)), says("Hello")])
    found = virtually(think(Chain([client(wire, name="a"), client(Wire([]), name="b")])), wire)
    assert found.story == "first failed, correction ok"
    assert found.attempts[1] == "correction a 100-210 ok"


# Time


def test_nobody_is_asked_when_the_time_is_over() -> None:
    found = ran([silent()], [says("Hi")], first_token=5.0, budget=Budget(total=1.0, answer_reserve=0.1))
    assert isinstance(found.outcome, ReplyTimeout)
    assert (found.ms, found.story) == (1000, "first failed")


def test_a_service_that_says_nothing_leaves_half_of_the_time_to_the_next() -> None:
    found = ran([silent()], [says("Hi")], budget=Budget(total=1.0, answer_reserve=0.1))
    assert found.outcome.output == "Hi"
    assert found.attempts[0] == "first a 0-500 failed: The service sent nothing within 0.5 s."


def test_nobody_waits_for_one_that_wants_time_while_another_can_be_asked() -> None:
    found = ran([refuses(429, retry_after="2")], [says("Hi")])
    assert [attempt.split(":")[0] for attempt in found.attempts] == ["first a 0-0 failed", "fallback b 0-110 ok"]


def test_the_next_has_what_time_is_left() -> None:
    first, second = ran([silent()], [silent()], first_token=0.6, budget=Budget(total=1.0, answer_reserve=0.1)).attempts
    assert first == "first a 0-600 failed: The service sent nothing within 0.6 s."
    assert second.startswith("fallback b 600-1000 failed: The reply was not complete within 0.4 s, which was all")


def test_stages_of_both_add_up() -> None:
    found = ran([breaks(CUT, 115, says("a b c"))], [says("Hi")])
    assert found.stages == ["prefill 100", "decode 15", "prefill 100", "decode 10"]


def test_the_error_of_who_was_asked_last_is_raised_even_if_another_would_say_more() -> None:
    assert isinstance(ran([refuses(400)], [refuses()]).outcome, Overloaded)
    assert isinstance(ran([refuses()], [refuses(400)]).outcome, InvalidRequest)


# Dialects


def test_each_gets_the_conversation_in_its_own_words() -> None:
    """The first wrote a turn with calls, reasoning and a field of its own; the second is asked for the next one."""
    function = {"name": "f", "arguments": "{}"}
    call = {"id": "x", "type": "function", "index": 0, "function": function, "extra_content": {"google": "secret"}}
    thought = writes(data({"choices": [{"delta": {"reasoning_content": "hm"}}]}), calls(call), end(), DONE)
    wires = Wire([thought, refuses()]), Wire([says("Done")])
    models = [
        Model(name=name, endpoint=wire, dialect=dialect, policy=Policy(retries=0, jitter=0.0))
        for name, wire, dialect in zip("ab", wires, ("deepseek", "generic"), strict=True)
    ]
    asking = Agent(model=models[0], fallback=models[1:], tools=[f], instructions="Be brief.")
    found = virtually(run(asking), *wires)
    assert found.outcome.output == "Done"
    own, foreign = wires[0].bodies[1]["messages"], wires[1].bodies[0]["messages"]
    assert [each["role"] for each in own] == [each["role"] for each in foreign]
    assert (own[2]["reasoning_content"], own[2]["content"]) == ("hm", "")
    assert own[2]["tool_calls"][0]["extra_content"] == {"google": "secret"}
    assert foreign[2] == {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": own[2]["tool_calls"][0]["id"], "type": "function", "function": function}],
    }
    assert foreign[:2] + foreign[3:] == own[:2] + own[3:]
