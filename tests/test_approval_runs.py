"""Runs that wait for a person: paused, decided, resumed."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing

import msgspec
import pytest

from hotloop import Agent, RunFinished, RunPaused, ToolFinished, tool
from hotloop.errors import ApprovalRequired, ConfigError, RunError
from hotloop.testing import ScriptedModel, call, say

runs: list[str] = []


@tool(read_only=True)
async def look_up(key: str) -> str:
    """Read something."""
    runs.append(f"look_up {key}")
    return f"{key} found"


@tool
async def note(text: str) -> str:
    """Write something down."""
    runs.append(f"note {text}")
    return "noted"


@tool(approval="always")
async def refund(order_id: str, amount: int = 1) -> str:
    """Pay back."""
    runs.append(f"refund {order_id} {amount}")
    return f"paid {amount}"


@tool(approval=lambda arguments: arguments["amount"] > 50)
async def give(amount: int) -> str:
    """Give money."""
    runs.append(f"give {amount}")
    return "given"


ONE, TWO = call("refund", order_id="1"), call("refund", order_id="2", amount=7)


@pytest.fixture(autouse=True)
def nothing_run() -> None:
    runs.clear()


@pytest.fixture
def agent_of(tmp_path):
    """An agent whose model says this, with the tools of this file; and the model."""

    def make(*script, tpot=0.0, **options) -> tuple[Agent, ScriptedModel]:
        model = ScriptedModel(script, tpot=tpot)
        tools = [look_up, note, refund, give]
        return Agent(model="m", endpoint=model, tools=tools, approvals=tmp_path / "waiting.db", **options), model

    return make


async def paused(agent: Agent, prompt: str = "Go on.", **options) -> ApprovalRequired:
    with pytest.raises(ApprovalRequired) as caught:
        await asyncio.wait_for(agent.run(prompt, **options), 2)
    return caught.value


def decide(agent: Agent, run_id: str, *approved: bool, reason: str = "") -> None:
    """Decide about the calls that a run waits for, in their order."""
    open_calls = [each.call for each in agent.approvals.load(run_id).calls if each.decision is None]
    for pending, each in zip(open_calls, approved, strict=True):
        agent.approvals.decide(run_id, pending.call_id, pending.digest, each, "ann", reason)


def told(model: ScriptedModel) -> list[str]:
    """What the model has read of its calls."""
    return [each["content"] for each in model.requests[-1]["messages"] if each["role"] == "tool"]


async def test_run_pauses_before_the_call_and_goes_on_after_it_was_approved(agent_of):
    agent, model = agent_of(ONE, "Done.")
    pause = await paused(agent, trace_id="req-1")
    assert str(pause) == "A person must decide about refund before run req-1 can go on."
    assert (pause.run_id, runs, len(model.requests)) == ("req-1", [], 1)
    (pending,) = pause.calls
    assert (pending.call_id, pending.name, pending.arguments) == ("call00001", "refund", '{"order_id":"1"}')
    decide(agent, "req-1", True)
    result = await agent.resume("req-1")
    assert (result.output, runs, told(model)) == ("Done.", ["refund 1 1"], ["paid 1"])
    assert result.trace.trace_id == "req-1"
    assert agent.approvals.runs() == []


async def test_refusal_reaches_the_model_as_such(agent_of):
    agent, model = agent_of(ONE, "Then not.")
    run_id = (await paused(agent)).run_id
    decide(agent, run_id, False, reason="it was returned too late")
    assert (await agent.resume(run_id)).output == "Then not."
    sentence = "A person refused this call of refund: it was returned too late. Do not try it again."
    assert (runs, told(model)) == ([], [json.dumps({"error": sentence}, separators=(",", ":"))])


async def test_of_two_calls_one_is_approved_and_one_refused(agent_of):
    agent, model = agent_of([ONE, TWO], "Done.")
    pause = await paused(agent)
    decide(agent, pause.run_id, False, True)
    await agent.resume(pause.run_id)
    assert runs == ["refund 2 7"]
    assert "A person refused this call of refund. Do" in told(model)[0]
    assert told(model)[1] == "paid 7"


async def test_call_that_needs_no_approval_runs_at_once_and_only_once(agent_of):
    agent, model = agent_of([call("look_up", key="a"), ONE, call("note", text="x")], "Done.")
    pause = await paused(agent)
    assert [pending.call_id for pending in pause.calls] == ["call00002"]
    assert runs == ["look_up a", "note x"]
    decide(agent, pause.run_id, True)
    await agent.resume(pause.run_id)
    assert runs == ["look_up a", "note x", "refund 1 1"]
    assert told(model) == ["a found", "paid 1", "noted"]


async def test_what_is_approved_runs_while_the_rest_goes_on_waiting(agent_of):
    agent, model = agent_of([ONE, TWO], "Done.")
    run_id = (await paused(agent)).run_id
    first = agent.approvals.load(run_id).calls[0].call
    agent.approvals.decide(run_id, first.call_id, first.digest, True)
    with pytest.raises(ApprovalRequired) as still:
        await agent.resume(run_id)
    assert ([pending.call_id for pending in still.value.calls], runs) == (["call00002"], ["refund 1 1"])
    decide(agent, run_id, True)
    await agent.resume(run_id)
    assert (runs, told(model)) == (["refund 1 1", "refund 2 7"], ["paid 1", "paid 7"])


async def test_undecided_run_stays_as_it_is(agent_of):
    agent, model = agent_of(ONE)
    run_id = (await paused(agent)).run_id
    before = agent.approvals.load(run_id)
    with pytest.raises(ApprovalRequired):
        await agent.resume(run_id)
    after = agent.approvals.load(run_id)
    assert (after.calls, len(model.requests)) == (before.calls, 1)


async def test_approval_is_for_one_call(agent_of):
    agent, _ = agent_of(ONE, ONE, "Done.")
    run_id = (await paused(agent)).run_id
    decide(agent, run_id, True)
    with pytest.raises(ApprovalRequired) as again:
        await agent.resume(run_id)
    assert [pending.call_id for pending in again.value.calls] == ["call00002"]
    assert runs == ["refund 1 1"]
    decide(agent, run_id, False)
    assert (await agent.resume(run_id)).output == "Done."
    assert runs == ["refund 1 1"]


async def test_finished_run_cannot_be_resumed_again(agent_of):
    agent, _ = agent_of(ONE, "Done.")
    run_id = (await paused(agent)).run_id
    decide(agent, run_id, True)
    await agent.resume(run_id)
    with pytest.raises(ConfigError, match=f"No run '{run_id}' waits"):
        await agent.resume(run_id)
    assert runs == ["refund 1 1"]


async def test_run_is_resumed_once_at_a_time(agent_of):
    agent, _ = agent_of(ONE, "Done.")
    run_id = (await paused(agent)).run_id
    decide(agent, run_id, True)
    with agent.approvals.lease(run_id), pytest.raises(RunError, match="is being resumed already"):
        await agent.resume(run_id)
    assert runs == []


async def test_arguments_that_were_changed_are_asked_about_anew(agent_of):
    agent, _ = agent_of(TWO)
    pause = await paused(agent)
    decide(agent, pause.run_id, True)
    stored = agent.approvals.load(pause.run_id)
    tampered = stored.state.replace(b'\\"amount\\":7', b'\\"amount\\":9')
    assert tampered != stored.state
    agent.approvals.pause(pause.run_id, "", tampered, pause.calls)
    with pytest.raises(ApprovalRequired) as again:
        await agent.resume(pause.run_id)
    assert ([pending.arguments for pending in again.value.calls], runs) == (['{"amount":9,"order_id":"2"}'], [])


async def test_approval_with_another_digest_is_none(agent_of):
    agent, _ = agent_of(ONE)
    pause = await paused(agent)
    other = msgspec.structs.replace(pause.calls[0], digest="0" * 64)
    agent.approvals.pause(pause.run_id, "", agent.approvals.load(pause.run_id).state, [other])
    decide(agent, pause.run_id, True)
    with pytest.raises(ApprovalRequired):
        await agent.resume(pause.run_id)
    assert runs == []


@pytest.mark.parametrize(("amount", "waits"), [(50, False), (51, True)])
async def test_tool_says_which_calls_need_an_approval(agent_of, amount, waits):
    agent, _ = agent_of(call("give", amount=amount), "Done.")
    if waits:
        run_id = (await paused(agent)).run_id
        decide(agent, run_id, True)
        await agent.resume(run_id)
    else:
        await agent.run("Go on.")
    assert runs == [f"give {amount}"]


async def test_test_that_fails_asks(agent_of, caplog):
    @tool(approval=lambda arguments: arguments["amuont"] > 50)
    async def spend(amount: int) -> str:
        """Spend money."""
        return str(amount)

    agent, _ = agent_of()
    spender = Agent(
        model="m", endpoint=ScriptedModel([call("spend", amount=1)]), tools=[spend], approvals=agent.approvals.path
    )
    await paused(spender)
    assert "The approval test of spend failed, so a person is asked: KeyError('amuont')" in caplog.text


async def test_pause_in_a_second_turn_keeps_the_first(agent_of):
    agent, model = agent_of(call("note", text="x"), ONE, call("look_up", key="b"), "Done.")
    run_id = (await paused(agent)).run_id
    decide(agent, run_id, True)
    result = await agent.resume(run_id)
    assert (result.output, runs) == ("Done.", ["note x", "refund 1 1", "look_up b"])
    assert told(model) == ["noted", "paid 1", "b found"]
    assert [facts.turn for facts in result.trace.turns] == [0, 1, 2, 3]


async def test_last_event_of_a_stream_that_pauses_says_so(agent_of):
    agent, _ = agent_of(ONE, "Done.")
    events = [event async for event in agent.stream("Go on.")]
    needed, last = events[-2:]
    assert isinstance(last, RunPaused)
    assert last.calls == [agent.approvals.load(last.run_id).calls[0].call]
    assert (needed.call_id, needed.digest) == (last.calls[0].call_id, last.calls[0].digest)
    decide(agent, last.run_id, True)
    events = [event async for event in agent.resume_stream(last.run_id)]
    assert isinstance(events[-1], RunFinished)
    assert [event.outcome for event in events if hasattr(event, "outcome")] == ["ok"]


async def test_paused_run_of_a_session_is_resumed_by_it(agent_of):
    agent, model = agent_of("Hello Ann.", ONE, "Paid.", "You are Ann.")
    session = agent.session("ann")
    await session.run("I am Ann.")
    with pytest.raises(ApprovalRequired) as pause:
        await session.run("Pay me back.")
    decide(agent, pause.value.run_id, True)
    assert (await session.resume(pause.value.run_id)).output == "Paid."
    await session.run("Who am I?")
    said = [each["content"] for each in model.requests[-1]["messages"] if each["role"] != "tool"]
    assert said == ["I am Ann.", "Hello Ann.", "Pay me back.", None, "Paid.", "Who am I?"]


async def test_session_in_another_process_goes_on_where_the_run_was(agent_of):
    agent, _ = agent_of("Hello Ann.", ONE)
    await agent.session("ann").run("I am Ann.")
    with pytest.raises(ApprovalRequired) as pause:
        await agent.session("ann").run("Pay me back.")
    decide(agent, pause.value.run_id, True)
    other, model = agent_of("Paid.", "You are Ann.")
    await other.session("ann").resume(pause.value.run_id)
    await other.session("ann").run("Who am I?")
    assert model.requests[-1]["messages"][0]["content"] == "I am Ann."


async def test_session_that_went_on_without_the_run_does_not_take_its_answer(agent_of):
    agent, _ = agent_of(ONE, "Hello.")
    session = agent.session("ann")
    with pytest.raises(ApprovalRequired) as pause:
        await session.run("Pay me back.")
    await session.run("Hi.")
    decide(agent, pause.value.run_id, True)
    with pytest.raises(ConfigError, match="Session ann has gone on without this run"):
        await session.resume(pause.value.run_id)
    assert runs == []


PLAN = call(
    "plan",
    steps=[
        {"id": "s1", "tool": "look_up", "arguments": {"key": "a"}},
        {"id": "s2", "tool": "refund", "arguments": {"order_id": {"$ref": "s1"}}},
        {"id": "s3", "tool": "note", "arguments": {"text": {"$ref": "s2"}}},
    ],
)


@pytest.mark.parametrize("approved", [True, False])
async def test_steps_of_a_plan_wait_for_one_that_needs_an_approval(agent_of, approved):
    agent, model = agent_of(PLAN, "Done.", plan=True)
    pause = await paused(agent)
    assert [(each.call_id, each.arguments) for each in pause.calls] == [("call00001.s2", '{"order_id":"a found"}')]
    assert runs == ["look_up a"]
    decide(agent, pause.run_id, approved)
    await agent.resume(pause.run_id)
    assert runs == ["look_up a", *(["refund a found 1", "note paid 1"] if approved else [])]
    assert ("A person refused this call of refund." in told(model)[0]) is not approved


async def test_run_waits_for_tools_that_are_gone(agent_of):
    agent, _ = agent_of(ONE)
    run_id = (await paused(agent)).run_id
    other = Agent(model="m", endpoint=ScriptedModel([]), tools=[look_up], approvals=agent.approvals.path)
    with pytest.raises(ConfigError, match="had tools that this agent has not: note, refund, give"):
        await other.resume(run_id)
    assert agent.approvals.load(run_id).run_id == run_id


async def test_call_that_comes_after_one_that_needs_an_approval_waits_for_it(tmp_path):
    @tool(after=["refund"])
    async def tell(text: str) -> str:
        """Tell the customer."""
        runs.append(f"tell {text}")
        return "told"

    model = ScriptedModel([[ONE, call("tell", text="x")], "Done."])
    agent = Agent(model="m", endpoint=model, tools=[tell, refund], approvals=tmp_path / "waiting.db")
    run_id = (await paused(agent)).run_id
    assert runs == []
    decide(agent, run_id, True)
    await agent.resume(run_id)
    assert runs == ["refund 1 1", "tell x"]


# Other ways to go on


async def test_id_of_a_reply_that_came_to_nothing_is_not_taken_for_another_call(agent_of):
    agent, _ = agent_of(ONE)
    run_id = (await paused(agent)).run_id
    decide(agent, run_id, True)
    cut, _ = agent_of([call("look_up", key=key) for key in "abcdef"], tpot=0.005)
    async with aclosing(cut.resume_stream(run_id)) as events:  # left, as a process is that is killed meanwhile
        async for event in events:
            if isinstance(event, ToolFinished) and event.name == "look_up":
                break
    other, model = agent_of(call("note", text="x"), "Done.")
    await other.resume(run_id)
    assert told(model)[-1] == "noted"


async def test_refusal_holds_though_the_tool_would_not_ask_any_more(tmp_path):
    limit = 50

    @tool(approval=lambda arguments: arguments["amount"] > limit)
    async def spend(amount: int) -> str:
        """Spend money."""
        runs.append(f"spend {amount}")
        return "spent"

    model = ScriptedModel([call("spend", amount=60), "Done."])
    agent = Agent(model="m", endpoint=model, tools=[spend], approvals=tmp_path / "waiting.db")
    run_id = (await paused(agent)).run_id
    decide(agent, run_id, False)
    limit = 100
    await agent.resume(run_id)
    assert runs == []


async def test_second_run_with_the_id_of_one_that_waits_does_not_replace_it(agent_of):
    agent, _ = agent_of(ONE, TWO)
    before = (await paused(agent, trace_id="req-1")).calls
    with pytest.raises(ConfigError):
        await agent.run("Go on.", trace_id="req-1")
    assert [each.call for each in agent.approvals.load("req-1").calls] == before


async def test_session_does_not_take_the_run_of_another(agent_of):
    agent, _ = agent_of(ONE, "Paid.")
    with pytest.raises(ApprovalRequired) as pause:
        await agent.session("ann").run("I am Ann.")
    decide(agent, pause.value.run_id, True)
    with pytest.raises(ConfigError):
        await agent.session("bob").resume(pause.value.run_id)


async def test_agent_does_not_take_the_run_of_another(agent_of):
    agent, _ = agent_of(ONE, name="clerk")
    run_id = (await paused(agent)).run_id
    decide(agent, run_id, True)
    other, _ = agent_of("I am the cook.", name="cook")
    with pytest.raises(ConfigError):
        await other.resume(run_id)


async def test_state_that_cannot_be_read_is_a_sentence(agent_of):
    agent, _ = agent_of(ONE)
    run_id = (await paused(agent)).run_id
    agent.approvals.pause(run_id, "", b'{"of": "an older hotloop"}', [])
    with pytest.raises(ConfigError):
        await agent.resume(run_id)


async def test_step_has_the_whole_result_of_another_after_a_pause_too(tmp_path):
    @tool(read_only=True, max_result=200)
    async def list_orders() -> list[str]:
        """All orders."""
        return [f"{number:08d}" for number in range(100)]

    steps = [
        {"id": "s1", "tool": "list_orders", "arguments": {}},
        {"id": "s2", "tool": "refund", "arguments": {"order_id": {"$ref": "s1[90]"}}},
    ]
    model = ScriptedModel([call("plan", steps=steps), "Done."])
    tools = [list_orders, refund]
    agent = Agent(model="m", endpoint=model, tools=tools, plan=True, approvals=tmp_path / "waiting.db")
    run_id = (await paused(agent)).run_id
    decide(agent, run_id, True)
    await agent.resume(run_id)
    assert runs == ["refund 00000090 1"]


async def test_result_that_was_read_in_part_is_read_on_after_a_pause(tmp_path):
    @tool(read_only=True, max_result=200)
    async def count() -> list[int]:
        """Count."""
        return list(range(1000))

    model = ScriptedModel([call("count"), ONE, call("read_result", result="call00001", start=997), "Done."])
    made = {"model": "m", "endpoint": model, "tools": [count, refund], "approvals": tmp_path / "waiting.db"}
    run_id = (await paused(Agent(**made))).run_id
    other = Agent(**made)
    decide(other, run_id, True)
    await other.resume(run_id)
    assert told(model)[1:] == ["paid 1", "[997,998,999]"]


async def test_stream_that_pauses_shows_where_the_time_went(agent_of):
    agent, _ = agent_of(ONE)
    *_, last = [event async for event in agent.stream("Go on.")]
    assert len(last.trace.turns) == 1


@pytest.mark.parametrize(
    "approved",
    [True, False],
)
async def test_audit_log_says_who_decided(agent_of, tmp_path, approved):
    agent, _ = agent_of(ONE, "Done.", audit=tmp_path / "audit.jsonl")
    run_id = (await paused(agent)).run_id
    decide(agent, run_id, approved)
    await agent.resume(run_id)
    records = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    decisions = [(record["decision"], record["by"]) for record in records if "decision" in record]
    assert decisions == [("pending", ""), ("approved" if approved else "refused", "ann")]


async def test_usage_of_all_turns_is_kept_over_a_pause(agent_of):
    usage = {"prompt_tokens": 10, "completion_tokens": 1}
    agent, _ = agent_of(say("", ONE, usage=usage), say("Done.", usage=usage))
    run_id = (await paused(agent)).run_id
    decide(agent, run_id, True)
    assert (await agent.resume(run_id)).usage.input_tokens == 20


async def test_an_id_that_waits_is_refused_before_anything_runs(agent_of):
    agent, _ = agent_of(ONE, call("note", text="x"))
    await paused(agent, trace_id="req-1")
    runs.clear()
    with pytest.raises(ConfigError, match="waits already"):
        await agent.run("Go on.", trace_id="req-1")
    assert runs == []


async def test_sessions_resume_event_by_event(agent_of):
    agent, _ = agent_of(ONE, "Paid.", "Again.")
    session = agent.session("ann")
    with pytest.raises(ApprovalRequired) as pause:
        await session.run("I am Ann.")
    decide(agent, pause.value.run_id, True)
    *_, last = [event async for event in session.resume_stream(pause.value.run_id)]
    assert last.result.output == "Paid."
    assert (await session.run("More.")).output == "Again."


async def test_a_decision_is_yes_or_no(agent_of):
    agent, _ = agent_of(ONE)
    pause = await paused(agent)
    (asked,) = pause.calls
    with pytest.raises(ConfigError, match="approved is 'no'"):
        agent.approvals.decide(pause.run_id, asked.call_id, asked.digest, "no")
