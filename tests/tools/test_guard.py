"""What a call is allowed: grants, allow-lists, and whether a person has to agree."""

from __future__ import annotations

import logging
import re
from typing import Any

import pytest

from hotloop.errors import ApprovalRequired, ToolRefused
from hotloop.events import ApprovalNeeded, ToolFinished, ToolStarted
from hotloop.testing import call, run_virtual
from hotloop.tools.defining.define import tool
from hotloop.tools.defining.tool import Tool
from hotloop.tools.running import guard
from timed_tools import Notes, agent_of, ran


def made(**options: Any) -> Tool:
    async def send(to: str, copies: list[str] | None = None, amount: Any = 0) -> None: ...

    return tool(send, **options)


def refusal(of: Tool, grants: set[str] = frozenset(), **arguments: Any) -> str:
    """Why the call is refused, "" if it is not."""
    try:
        guard.check(of, {"to": "ann", "copies": None, "amount": 0} | arguments, grants)
    except ToolRefused as error:
        return str(error)
    return ""


# Grants


@pytest.mark.parametrize(
    ("requires", "grants", "missing"),
    [
        ((), set(), ""),
        (("mail",), {"mail", "money"}, ""),
        (("mail",), set(), "mail"),
        (("mail", "money", "admin"), {"mail"}, "admin, money"),
        (("mail",), {"Mail", "mail "}, "mail"),
    ],
)
def test_a_run_needs_every_grant_that_a_tool_requires(requires, grants, missing):
    said = f"send is not allowed here: this run was not granted {missing}." if missing else ""
    assert refusal(made(requires=requires), grants) == said


# Allow-lists


@pytest.mark.parametrize(
    ("allow", "arguments", "wrong"),
    [
        ({"to": ("ann", "bob")}, {"to": "ann"}, ""),
        ({"to": ("ann", "bob")}, {"to": "eve"}, "to"),
        ({"to": {"ann"}}, {"to": "ann"}, ""),
        ({"to": re.compile(r"[a-z]+@example\.org")}, {"to": "ann@example.org"}, ""),
        ({"to": re.compile(r"[a-z]+@example\.org")}, {"to": "ann@example.org.evil"}, "to"),
        ({"to": re.compile("ann|bob")}, {"to": "ann\n"}, "to"),
        ({"amount": re.compile("[0-9]+")}, {"amount": 7}, "amount"),
        ({"amount": lambda amount: amount < 100}, {"amount": 99}, ""),
        ({"amount": lambda amount: amount < 100}, {"amount": 100}, "amount"),
        ({"amount": (1, 2)}, {"amount": {"a": 1}}, "amount"),
        ({"amount": {1, 2}}, {"amount": {"a": 1}}, "amount"),  # it cannot even be looked up
        ({"copies": ("ann", "bob")}, {"copies": ["ann", "bob"]}, ""),
        ({"copies": ("ann", "bob")}, {"copies": ["ann", "eve"]}, "copies"),
        ({"copies": ("ann", "bob")}, {"copies": []}, ""),
        ({"to": ("ann",), "amount": (0,)}, {"to": "ann", "amount": 1}, "amount"),
    ],
)
def test_an_argument_must_be_on_its_allow_list(allow, arguments, wrong):
    said = f"send is not allowed with this {wrong}; it would have to " if wrong else ""
    refused = refusal(made(allow=allow), **arguments)
    assert refused.startswith(said) and bool(refused) == bool(wrong)


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        (("ann", "bob"), "be one of ann, bob"),
        (re.compile("a+"), "fit its pattern"),
        (lambda to: False, "be another"),
    ],
)
def test_the_model_is_told_what_would_do(rule, told):
    assert refusal(made(allow={"to": rule}), to="x").endswith(f"it would have to {told}.")


def test_an_allow_list_that_fails_allows_nothing_and_is_logged(caplog):
    assert refusal(made(allow={"amount": lambda amount: amount < 100}), amount="a lot")
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("hotloop.tools", logging.WARNING)
    assert "The allow-list of send for amount failed, so the call is refused" in record.getMessage()


# Approval


@pytest.mark.parametrize(
    ("approval", "asked"),
    [
        ("never", False),
        ("always", True),
        (lambda arguments: arguments["amount"] > 100, False),
        (lambda arguments: arguments["to"] == "ann", True),
    ],
)
def test_a_person_is_asked_where_the_tool_says_so(approval, asked):
    assert guard.needs_approval(made(approval=approval), {"to": "ann", "amount": 7}) is asked


def test_a_person_is_asked_where_the_tools_test_fails(caplog):
    assert guard.needs_approval(made(approval=lambda arguments: arguments["price"] > 100), {"amount": 7})
    assert "The approval test of send failed, so a person is asked" in caplog.text


# In a run


@pytest.fixture
def notes() -> Notes:
    return Notes()


def test_a_call_that_is_refused_does_not_run_and_the_model_reads_why(notes):
    tools = notes.tool("pay", requires=["money"]), notes.tool("send", allow={"key": ("ann",)}), notes.tool("look")
    done = ran([[call("pay"), call("send", key="eve"), call("send", key="ann"), call("look")], "ok"], *tools)
    assert sorted(what for _, what in notes.begun) == ["look", "send ann"]
    assert done.errors == [
        "pay is not allowed here: this run was not granted money.",
        "send is not allowed with this key; it would have to be one of ann.",
        "",
        "",
    ]
    assert [facts.outcome for facts in done.calls] == ["refused", "refused", "ok", "ok"]
    assert len(done.of(ToolStarted)) == 2
    assert len(done.of(ToolFinished)) == 4


def test_what_an_agent_grants_its_runs_and_what_one_run_has_instead(notes):
    async def main():
        pay = notes.tool("pay", requires=["money"])
        agent = agent_of([call("pay"), "ok"] * 3, pay, grants=["money"])
        await agent.run("go")
        await agent.run("go", grants=[])
        await agent.run("go", grants=["money", "mail"])

    run_virtual(main())
    assert len(notes.begun) == 2


def test_steps_of_a_plan_are_guarded_with_the_arguments_that_they_come_to_have(notes):
    steps = [
        {"id": "s1", "tool": "look", "arguments": {"key": "eve"}},
        {"id": "s2", "tool": "send", "arguments": {"key": {"$ref": "s1"}}},
    ]
    tools = notes.tool("look", read_only=True), notes.tool("send", allow={"key": ("ann",)})
    done = ran([call("plan", steps=steps), "ok"], *tools, plan=True)
    assert [what for _, what in notes.begun] == ["look eve"]
    assert "send is not allowed with this key" in done.contents[0]


def asking(script: list, notes: Notes, path: Any) -> Any:
    tools = (
        notes.tool("pay", 100, approval="always", writes=["account"]),
        notes.tool("read", 100, read_only=True, reads=["account"]),
        notes.tool("late", 100, after=["slow", "pay"]),
        notes.tool("slow", 200),
        notes.tool("look", 100, read_only=True),
    )
    return agent_of(script, *tools, approvals=path / "approvals.db")


def test_a_call_that_a_person_must_decide_about_pauses_the_run_and_the_others_run(notes, tmp_path):
    agent = asking([[call("pay", key="a"), call("look")]], notes, tmp_path)

    with pytest.raises(ApprovalRequired) as caught:
        run_virtual(agent.run("go"))
    assert [pending.name for pending in caught.value.calls] == ["pay"]
    assert [what for _, what in notes.begun] == ["look"]


@pytest.mark.parametrize("others", [["read"], ["late"], ["late", "slow"]])
def test_calls_behind_one_that_waits_for_a_person_run_when_it_has(notes, tmp_path, others):
    agent = asking([[call("pay"), *map(call, others)], "ok"], notes, tmp_path)

    async def main():
        with pytest.raises(ApprovalRequired) as caught:
            await agent.run("go", trace_id="r1")
        before = [what for _, what in notes.begun]
        (pending,) = caught.value.calls
        agent.approvals.decide("r1", pending.call_id, pending.digest, True)
        await agent.resume("r1")
        return before, [what for _, what in notes.begun]

    before, after = run_virtual(main())
    assert before == [name for name in others if name == "slow"]
    assert after == [*before, "pay", others[0]]


def test_the_reader_of_a_run_learns_what_a_person_is_asked(notes, tmp_path):
    agent = asking([[call("pay", key="a")]], notes, tmp_path)

    async def main():
        return [event async for event in agent.stream("go") if isinstance(event, ApprovalNeeded)]

    (asked,) = run_virtual(main())
    assert (asked.name, asked.arguments) == ("pay", '{"key":"a"}')
