"""What real services send, case by case (tests/data), through a whole agent: over sockets, and in process."""

from __future__ import annotations

import asyncio
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from case_server import DONE, load_cases, pieces, plain, serve
from hotloop import Agent, tool
from hotloop.errors import (
    AuthenticationError,
    ContentFiltered,
    ContextOverflow,
    HotloopError,
    InvalidRequest,
    ModelError,
    Overloaded,
    RateLimited,
    ToolUseFailed,
    TruncatedReply,
)
from hotloop.testing import ScriptedModel, raw, run_virtual

CASES = load_cases()
ERRORS = {
    "truncated?": TruncatedReply,
    "context?": ContextOverflow,
    "filtered": ContentFiltered,
    "refused": InvalidRequest,
    "key": AuthenticationError,
    "rate": RateLimited,
    "overloaded": Overloaded,
    "tool use": ToolUseFailed,
}


def tools_and_runs(read_only=True):
    """Two tools, and what they were run with; only with effects do they surely wait for the reply's end."""
    runs = []

    @tool(read_only=read_only)
    def get_weather(city: str) -> str:
        """The weather in a city."""
        runs.append(["get_weather", {"city": city}])
        return f"sunny in {city}"

    @tool(read_only=read_only)
    def ping() -> str:
        """Whether anybody is there."""
        runs.append(["ping", {}])
        return "pong"

    return [get_weather, ping], runs


async def ask(agent):
    """The result, or the error."""
    try:
        return await agent.run("What is the weather?")
    except ModelError as error:
        return error


def check(case, runs, outcome, requests, times):
    expected = case["expect"]
    assert sorted(map(json.dumps, runs)) == sorted(map(json.dumps, expected["runs"])), case["note"]
    failed = isinstance(outcome, ModelError)
    kind = ERRORS.get(expected["error"])
    if failed:
        assert kind is not None and type(outcome) is kind, outcome
        assert outcome.trace is not None and outcome.elapsed_ms is not None
    else:
        assert kind is None or expected["error"].endswith("?"), outcome
        assert outcome.output == (expected["output"] or "done")
    if expected["requests"] is not None:
        assert len(requests) == expected["requests"]
    if "usage" in expected:
        assert [outcome.usage.input_tokens, outcome.usage.output_tokens] == expected["usage"]
    if "min_gap" in expected:
        assert times[1] - times[0] >= expected["min_gap"]
    if "echoes" in expected:
        assert expected["echoes"] in json.dumps(requests[-1])
    for request in requests:
        check_history(request["messages"])


def check_history(messages):
    """Every call has one result, right after it; ids are unique; arguments are JSON objects."""
    ids = [call["id"] for message in messages for call in message.get("tool_calls", ())]
    assert len(set(ids)) == len(ids)
    waiting = []
    for message in messages:
        if message["role"] == "tool":
            assert message["tool_call_id"] == waiting.pop(0)
        else:
            assert waiting == []
        for call in message.get("tool_calls", ()):
            waiting.append(call["id"])
            assert isinstance(json.loads(call["function"]["arguments"]), dict)
    assert waiting == []


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
async def test_over_sockets(case):
    tools, runs = tools_and_runs("read_only" in case["name"])
    async with serve(case) as server, Agent(model="m", endpoint=server.url, tools=tools) as agent:
        outcome = await ask(agent)
    check(case, runs, outcome, [body for _, body in server.log], [at for at, _ in server.log])


@pytest.mark.parametrize("tpot", [0.0, 0.001], ids=["at once", "one by one"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_in_process(case, tpot):
    tools, runs = tools_and_runs("read_only" in case["name"])
    times = []

    async def play():
        model = ScriptedModel(lambda request: reply_of(case, model, times), tpot=tpot)
        async with Agent(model="m", endpoint=model, tools=tools) as agent:
            return await ask(agent), model.requests

    outcome, requests = run_virtual(play())
    check(case, runs, outcome, requests, times)
    if not isinstance(outcome, ModelError):
        assert abs(outcome.trace.unattributed_ms) <= outcome.trace.end_to_end_ms * 0.01


def reply_of(case, model, times):
    """The next reply of the case, byte by byte; notes when it was asked for."""
    times.append(asyncio.get_running_loop().time())
    number = len(model.requests)
    reply = case["replies"][number - 1] if number <= len(case["replies"]) else DONE
    if "status" in reply:
        body, headers = plain(reply)
        return raw(body, status=reply["status"], headers=headers)
    return raw(*pieces(reply), cut=reply.get("end") == "reset")


@pytest.mark.parametrize(
    ("dialect", "content", "echoed"),
    [("generic", None, False), ("ollama", "", False), ("deepseek", "", True), ("groq", None, False)],
)
def test_a_turn_with_calls_goes_back_as_its_service_wants_it(dialect, content, echoed):
    tools, _ = tools_and_runs()
    call = {"index": 0, "id": "x", "type": "function", "function": {"name": "ping", "arguments": "{}"}}
    deltas = [{"reasoning_content": "hm"}, {"content": "\n\n"}, {"tool_calls": [call]}]
    frames = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    case = {"replies": [{"frames": [*frames, {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}]}]}

    async def play():
        model = ScriptedModel(lambda request: reply_of(case, model, []))
        async with Agent(model="m", endpoint=model, tools=tools, dialect=dialect) as agent:
            await agent.run("Anybody there?")
        return model.requests[1]["messages"][1]

    turn = run_virtual(play())
    assert turn["content"] == content
    assert turn.get("reasoning_content") == ("hm" if echoed else None)


replies = st.one_of(
    st.sampled_from([reply for case in CASES for reply in case["replies"]]),
    st.lists(
        st.sampled_from(
            [piece for case in CASES for reply in case["replies"] if "frames" in reply for piece in reply["frames"]]
        ),
        max_size=8,
    ).map(lambda frames: {"frames": frames}),
    st.sampled_from([{"status": 200, "text": ""}, {"status": 418, "text": "teapot"}, {"raw": "x"}]),
)


@given(st.lists(replies, min_size=1, max_size=6))
@settings(max_examples=150, deadline=None)
def test_whatever_comes_a_run_ends_and_its_history_is_sound(script):
    tools, _ = tools_and_runs()

    async def play():
        model = ScriptedModel(lambda request: reply_of({"replies": script}, model, []))
        async with Agent(model="m", endpoint=model, tools=tools, max_turns=4, timeout=5) as agent:
            try:
                return await agent.run("What is the weather?"), model.requests
            except HotloopError as error:
                return error, model.requests

    outcome, requests = run_virtual(play())
    assert isinstance(outcome, HotloopError) or isinstance(outcome.output, str)
    for request in requests:
        check_history(request["messages"])


def test_no_call_of_a_case_runs_before_its_reply_is_complete():
    """The cases with calls that must not run do contain calls: the test above can fail."""
    silent = [case for case in CASES if not case["expect"]["runs"] and "get_weather" in json.dumps(case["replies"])]
    assert len(silent) > 10
