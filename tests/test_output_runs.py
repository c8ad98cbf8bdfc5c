"""Runs that end in a value of a type: how services are asked, what a reader sees, what is done with wrong answers."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import msgspec
import pytest

from hotloop import Agent, Budget, Result, tool
from hotloop.errors import ApprovalRequired, OutputInvalid, RepeatedFailure, ToolDefinitionError, TurnLimit
from hotloop.events import Event, OutputPartial, Reset, RunFinished, TextDelta
from hotloop.lab.script import Call
from hotloop.loop import Program
from hotloop.models.model import Model
from hotloop.models.reply import Call as Called
from hotloop.models.reply import Reply
from hotloop.output.output import Output
from hotloop.testing import ScriptedModel, call, raw, run_virtual, say
from hotloop.tools.running.executor import Executor, ToolPolicy
from hotloop.trace.ledger import ToolFacts, Usage

Script = list[Any]

runs: list[str] = []


class Order(msgspec.Struct):
    id: Annotated[str, msgspec.Meta(pattern="^[0-9]{2}$")]
    items: list[str]


@tool(read_only=True)
async def look_up(key: str) -> str:
    """Read something."""
    runs.append(f"look_up {key}")
    await asyncio.sleep(0.1)
    return f"{key} found"


@tool(approval="always")
async def refund(order_id: str) -> str:
    """Pay back."""
    runs.append(f"refund {order_id}")
    return "paid"


@tool
async def broken() -> str:
    """Never works."""
    raise ConnectionError("down")


GOOD, BAD = '{"id": "12", "items": ["a", "b"]}', '{"id": "1", "items": []}'
VALUE = Order("12", ["a", "b"])
REASON = "Expected `str` matching regex '^[0-9]{2}$' - at `$.id`"
ANSWER, WRONG, LOOK = Call("final_answer", GOOD), Call("final_answer", BAD), call("look_up", key="a")
CUT = raw(b'data: {"choices":[{"index":0,"delta":{"content":"{}"},"finish_reason":"length"}]}\n\n')
FORCED = {"type": "function", "function": {"name": "final_answer"}}


@pytest.fixture(autouse=True)
def _no_runs() -> None:
    runs.clear()


def agent_of(model: ScriptedModel, tools: Any = (look_up, broken), **options: Any) -> Agent:
    return Agent(model="m", endpoint=model, **{"output": Order, "tools": list(tools)} | options)


def asked(script: Any, **options: Any) -> tuple[Result, ScriptedModel]:
    """A run in virtual time, and the model that was asked."""
    model = ScriptedModel(script)
    return run_virtual(agent_of(model, **options).run("go")), model


def streamed(script: Script, tpot: float = 0.01, **options: Any) -> list[Event]:
    async def main() -> list[Event]:
        return [event async for event in agent_of(ScriptedModel(script, tpot=tpot), **options).stream("go")]

    return run_virtual(main())


def offered(request: dict[str, Any]) -> list[str]:
    return [each["function"]["name"] for each in request.get("tools", ())]


def counts(result: Result) -> tuple[int, ...]:
    """Parse failures, repairs, turns saved."""
    return tuple(result.trace.facts["output"].values())


# How each service is asked


@pytest.mark.parametrize(
    ("dialect", "stream", "way"),
    [
        ("openai", True, "held"),
        ("groq", True, "forced"),
        ("groq", False, "held"),
        ("vllm", True, "held"),
        ("ollama", False, "held"),
        ("deepseek", True, "forced"),
        ("generic", True, "told"),
    ],
)
def test_without_tools(dialect: str, stream: bool, way: str) -> None:
    script = [ANSWER] if way == "forced" else [GOOD]
    result, model = asked(script, tools=[], dialect=dialect, stream=stream)
    (request,) = model.requests
    assert (result.output, result.finish_reason) == (VALUE, "stop")
    assert ("response_format" in request, request.get("tool_choice")) == (
        way == "held",
        FORCED if way == "forced" else None,
    )
    assert offered(request) == (["final_answer"] if way == "forced" else [])
    if way == "told":
        assert request["messages"][0]["role"] == "system"


@pytest.mark.parametrize("dialect", ["openai", "groq", "vllm", "ollama", "deepseek", "generic"])
def test_with_tools_it_is_a_call_where_the_service_takes_no_schema_beside_them(dialect: str) -> None:
    held = dialect == "openai"
    result, model = asked([LOOK, GOOD if held else ANSWER], dialect=dialect)
    first, second = model.requests
    assert result.output == VALUE
    assert ("response_format" in first, "tool_choice" in first) == (held, False)
    assert offered(second) == ["look_up", "broken", *([] if held else ["final_answer"])]
    assert counts(result) == (0, 0, 0)


@pytest.mark.parametrize("dialect", ["openai", "vllm", "generic"])
def test_at_the_last_turn_nothing_but_the_answer_may_come(dialect: str) -> None:
    result, model = asked([LOOK, GOOD if dialect == "openai" else ANSWER], max_turns=1, dialect=dialect)
    request = model.requests[1]
    assert result.output == VALUE
    assert request["tool_choice"] == ("none" if dialect == "openai" else FORCED)
    assert offered(request) == (["final_answer"] if dialect == "generic" else offered(model.requests[0]))


def test_the_front_of_every_request_stays() -> None:
    _, model = asked([LOOK, WRONG, ANSWER], dialect="vllm")
    for before, after in pairwise(model.bodies):
        assert after.startswith(before[: before.rindex(b"}]") + 1])


def test_other_services_in_a_chain_are_asked_in_their_own_way() -> None:
    down, model = ScriptedModel([raw(b"{}", status=401)] * 2), ScriptedModel([LOOK, ANSWER])
    agent = agent_of(down, dialect="openai", fallback=[Model(name="b", endpoint=model, dialect="groq")])
    result = run_virtual(agent.run("go"))
    assert result.output == VALUE
    assert "response_format" in down.requests[0] and "response_format" not in model.requests[0]
    assert offered(model.requests[0])[-1] == "final_answer"


def test_text_is_the_answer_of_an_agent_without_an_output() -> None:
    result, model = asked([GOOD], output=str)
    assert result.output == GOOD
    assert "output" not in result.trace.facts
    assert "response_format" not in model.requests[0]


def test_a_tool_of_that_name_is_refused() -> None:
    with pytest.raises(ToolDefinitionError, match="a tool of its own named final_answer"):
        agent_of(ScriptedModel([]), tools=[tool(lambda: 1, name="final_answer")])


# Answers


def test_text_that_is_the_answer_will_do_where_a_call_was_asked_for() -> None:
    result, model = asked([GOOD])
    assert (result.output, len(model.requests)) == (VALUE, 1)


@pytest.mark.parametrize("text", [f"```json\n{GOOD}\n```", f"Sure: {GOOD}"])
def test_words_around_the_answer_save_a_turn(text: str) -> None:
    result, _ = asked([text])
    assert (result.output, counts(result)) == (VALUE, (0, 0, 1))
    assert str(result.trace).count("output: turns saved 1") == 1


def test_calls_beside_the_answer_are_run_and_the_answer_stands() -> None:
    result, model = asked([[LOOK, ANSWER, call("nothing")]])
    assert (result.output, runs, len(model.requests)) == (VALUE, ["look_up a"], 1)
    assert result.trace.end_to_end_ms == 100
    assert [facts.outcome for facts in result.trace.turns[0].calls] == ["ok", "ok", "error"]


def test_calls_beside_the_last_answer_are_not_run() -> None:
    result, _ = asked([LOOK, [LOOK, ANSWER, LOOK]], max_turns=1)
    assert (result.output, runs) == (VALUE, ["look_up a"])


def test_an_answer_at_the_answer_reserve() -> None:
    budget = Budget(total=0.3, answer_reserve=0.25)
    result, model = asked([LOOK, ANSWER], budget=budget, dialect="vllm")
    assert result.output == VALUE
    assert model.requests[1]["tool_choice"] == FORCED


def test_a_session_goes_on_after_an_answer_by_call() -> None:
    model = ScriptedModel([[LOOK, ANSWER], ANSWER])
    session = agent_of(model).session("s")

    async def main() -> Any:
        await session.run("go")
        return (await session.run("again")).output

    assert run_virtual(main()) == VALUE
    roles = [message["role"] for message in model.requests[1]["messages"]]
    assert roles == ["user", "assistant", "tool", "tool", "user"]
    assert model.requests[1]["messages"][3]["content"] == "The answer was given."


# Wrong ones


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (BAD, REASON),
        ("It is shipped.", "there is no JSON object in it"),
        (say(f"Not quite: {BAD}"), REASON),
        (
            raw(b'data: {"choices":[{"index":0,"delta":{"content":"{}"},"finish_reason":"length"}]}\n\n'),
            "the token cap",
        ),
    ],
)
@pytest.mark.parametrize("dialect", ["vllm", "openai"])
def test_a_wrong_text_is_asked_for_once_more_with_the_reason(dialect: str, wrong: Any, reason: str) -> None:
    result, model = asked([wrong, GOOD if dialect == "openai" else ANSWER], dialect=dialect)
    assert (result.output, counts(result)) == (VALUE, (1, 1, 0))
    told = model.requests[1]["messages"][-1]
    assert told["role"] == "user" and reason in told["content"]
    assert model.requests[1]["tool_choice"] == ("none" if dialect == "openai" else FORCED)
    assert [attempt.why for attempt in result.trace._ledger.attempts] == ["first", "repair"]
    assert "output: parse failures 1, repairs 1\n" in str(result.trace)
    assert result.trace.to_dict()["output"] == {"parse_failures": 1, "repairs": 1, "turns_saved": 0}


def test_a_wrong_call_gets_the_exact_error_and_what_ran_beside_it_its_result() -> None:
    result, model = asked([[WRONG, LOOK], ANSWER])
    _, error, found = model.requests[1]["messages"][1:]
    assert REASON in json.loads(error["content"])["error"]
    assert found["content"] == "a found"
    assert (result.output, counts(result), offered(model.requests[1])) == (VALUE, (1, 1, 0), ["final_answer"])


@pytest.mark.parametrize("turns", [1, 2])
def test_the_repair_is_one_turn_more(turns: int) -> None:
    result, model = asked([LOOK, WRONG, ANSWER], max_turns=turns)
    assert (result.output, len(model.requests)) == (VALUE, 3)


@pytest.mark.parametrize(
    ("again", "text", "reason"),
    [
        ("No.", "No.", "there is no JSON object in it"),
        (WRONG, BAD, REASON),
        ([LOOK], "", "it is empty"),
        (say("What?", LOOK), "What?", "there is no JSON object in it"),
    ],
)
def test_the_second_wrong_answer_ends_the_run(again: Any, text: str, reason: str) -> None:
    with pytest.raises(OutputInvalid) as caught:
        asked(["Sorry.", again])
    assert caught.value.text == text
    assert reason in str(caught.value)
    assert caught.value.trace.facts["output"] == {"parse_failures": 2, "repairs": 1, "turns_saved": 0}
    assert runs == []


def test_runs_that_never_come_to_an_answer_end_as_ever() -> None:
    with pytest.raises(TurnLimit):
        asked([LOOK] * 3, max_turns=2)
    with pytest.raises(RepeatedFailure):
        asked([call("broken")] * 4)


# What a reader sees


def partials(events: list[Event]) -> list[Any]:
    return [event.value for event in events if isinstance(event, OutputPartial)]


GROWING = [{}, {"id": "12"}, {"id": "12", "items": []}, {"id": "12", "items": ["a"]}, {"id": "12", "items": ["a", "b"]}]


@pytest.mark.parametrize("tools", [[], [look_up]])
def test_the_value_is_told_while_it_is_written(tools: list[Any]) -> None:
    events = streamed([ANSWER] if tools else [GOOD], tools=tools, dialect="vllm")
    told = partials(events)
    assert all(value in GROWING for value in told)
    assert told == sorted(told, key=GROWING.index)
    assert len(told) >= 3
    assert isinstance(events[-1], RunFinished) and events[-1].result.output == VALUE
    assert any(isinstance(event, TextDelta) for event in events) is not bool(tools)


def test_of_a_type_that_is_no_object_its_value_is_told() -> None:
    events = streamed(['{"value": [1, 2]}'], tools=[], output=list[int])
    assert [value for value in partials(events) if value][-1] == [1, 2]
    assert events[-1].result.output == [1, 2]


def test_a_reply_that_starts_anew_starts_with_nothing() -> None:
    head = b'data: {"choices":[{"index":0,"delta":{"content":"{\\"id\\": \\"99\\", \\"items\\": [\\"x\\", "}}]}\n\n'
    events = streamed([raw(head, cut=True), GOOD], tools=[])
    reset = next(place for place, event in enumerate(events) if isinstance(event, Reset))
    assert partials(events[:reset])[-1] == {"id": "99", "items": ["x"]}
    assert partials(events[reset:])[0] == {}
    assert partials(events[reset:])[-1] == {"id": "12", "items": ["a", "b"]}


# Pauses


def paused(agent: Agent) -> str:
    with pytest.raises(ApprovalRequired) as caught:
        run_virtual(agent.run("go"))
    (pending,) = caught.value.calls
    agent.approvals.decide(caught.value.run_id, pending.call_id, pending.digest, True, "ann")
    return caught.value.run_id


RESUMED = """
import sys
from hotloop import Agent, tool
from hotloop.testing import ScriptedModel
from test_output_runs import Order, refund
agent = Agent(model="m", endpoint=ScriptedModel([]), output=Order, tools=[refund], approvals=sys.argv[1])
assert agent.resume_sync(sys.argv[2]).output == Order("12", ["a", "b"])
"""


def test_a_run_that_paused_beside_its_answer_resumes_to_it_in_another_process(tmp_path: Any) -> None:
    store = tmp_path / "waiting.db"
    run_id = paused(agent_of(ScriptedModel([[call("refund", order_id="1"), ANSWER]]), tools=[refund], approvals=store))
    command = [sys.executable, "-c", RESUMED, str(store), run_id]
    ended = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stderr


def test_a_run_that_paused_beside_a_wrong_answer_asks_for_it_when_it_goes_on(tmp_path: Any) -> None:
    script = [[WRONG, call("refund", order_id="1")], ANSWER]
    agent = agent_of(model := ScriptedModel(script), tools=[refund], approvals=tmp_path / "waiting.db")
    result = run_virtual(agent.resume(paused(agent)))
    assert (result.output, runs, counts(result)) == (VALUE, ["refund 1"], (1, 1, 0))
    assert offered(model.requests[1]) == ["final_answer"]


# What is said of a reply before anything of it is done


@pytest.mark.parametrize(
    ("text", "calls", "expected"),
    [
        (GOOD, [], ""),
        ("", [("look_up", '{"key": "a"}')], ""),
        ("", [("final_answer", GOOD), ("look_up", '{"key": "a"}')], ""),
        (BAD, [], REASON),
        ("", [("final_answer", BAD)], f"The arguments of final_answer are wrong: {REASON}."),
        (
            "",
            [("look_up", '{"key": 1}')],
            "The arguments of look_up are wrong: Expected `str`, got `int` - at `$.key`.",
        ),
        ("", [("lookup", "{}")], "There is no tool lookup; did you mean look_up? The tools are: look_up."),
        ("", [("plan", '{"steps": []}')], "The plan is wrong: it has no steps"),
        ("", [("plan", '{"steps": [{"id": "a", "tool": "look_up", "arguments": {"key": "x"}}]}')], ""),
    ],
)
def test_what_is_wrong_with_a_reply(text: str, calls: list[tuple[str, str]], expected: str) -> None:
    output = Output.of(Order)
    assert output is not None
    executor = Executor([look_up], ToolPolicy(plan=True), answer=output.tool)
    program = Program(None, executor, None, 9, {"look_up": ToolFacts()}, output)  # type: ignore[arg-type]
    fault = program.check(Reply(text, [Called(*each) for each in calls], "stop", Usage()))
    assert fault.startswith(expected) and bool(fault) is bool(expected)
    assert runs == []
