"""Plans: what a model is offered, what is wrong with what it writes, and what it reads of the results."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from hotloop.errors import ArgumentsError
from hotloop.tools.defining.define import tool
from hotloop.tools.plan.plan import (
    MAX_STEPS,
    Step,
    mismatch,
    plan_definition,
    plan_result,
    read_plan,
    read_step,
)
from hotloop.tools.plan.references import Reference


@tool
def find_user(name: str) -> dict[str, str]:
    """Find a user."""
    return {"user_id": name}


@tool
def list_orders(user_id: str, limit: int = 3) -> list[str]:
    """A user's orders."""
    return [user_id] * limit


TOOLS = ["find_user", "list_orders"]


def step(step_id: Any, called: Any = "find_user", /, **arguments: Any) -> dict[str, Any]:
    return {"id": step_id, "tool": called, "arguments": arguments}


def after(*references: str) -> dict[str, Any]:
    return {f"r{n}": {"$ref": reference} for n, reference in enumerate(references)}


def plan(*steps: Any) -> str:
    return json.dumps({"steps": steps})


def test_the_definition_is_short_and_says_how() -> None:
    definition = json.loads(plan_definition([find_user, list_orders]))["function"]
    assert definition["name"] == "plan"
    assert '{"$ref": "s1.user_id"}' in definition["description"]
    assert len(definition["description"]) < 400
    assert definition["parameters"] == {
        "type": "object",
        "properties": {
            "steps": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "id": {"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]{0,31}$"},
                        "tool": {"type": "string", "enum": TOOLS},
                        "arguments": {"type": "object"},
                    },
                    "required": ["id", "tool", "arguments"],
                    "additionalProperties": False,
                },
                "minItems": 1,
                "maxItems": MAX_STEPS,
            }
        },
        "required": ["steps"],
        "additionalProperties": False,
    }


def test_a_plan_is_its_steps_in_their_order() -> None:
    text = plan(step("s2", "list_orders", user_id={"$ref": "s1.user_id"}), step("s1", name="Ann"))
    assert read_plan(text, TOOLS) == [
        Step("s2", "list_orders", {"user_id": {"$ref": "s1.user_id"}}, (Reference("s1", ("user_id",)),)),
        Step("s1", "find_user", {"name": "Ann"}),
    ]


def test_a_step_alone_is_the_same_as_in_its_plan() -> None:
    written = step("s2", "list_orders", user_id={"$ref": "s1.user_id"})
    assert read_step(json.dumps(written), TOOLS) == read_plan(plan(written, step("s1")), TOOLS)[0]


def test_a_tool_without_arguments_needs_none() -> None:
    assert read_step('{"id": "s1", "tool": "find_user"}', TOOLS).arguments == {}


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('{"steps": [', "it is no JSON: "),
        ("\ud800", "it is no JSON: "),
        ("[" * 200_000, "it is no JSON: it is nested too deeply"),
        ("[]", "it has no steps; write "),
        ("{}", "it has no steps; write "),
        ('{"steps": []}', "it has no steps; write "),
        ('{"steps": {}}', "it has no steps; write "),
        (plan(*[step(f"s{n}") for n in range(MAX_STEPS + 1)]), "it has 33 steps, 32 are the most."),
        (plan(5), "steps[0]: Expected `object`, got `int`"),
        (plan({"id": "s1"}), "steps[0]: Object missing required field `tool`"),
        (plan(step("1")), "steps[0]: Expected `str` matching regex"),
        (plan(step("s1"), step(7)), "steps[1]: Expected `str`, got `int` - at `$.id`"),
        (plan(step("s1") | {"after": "s0"}), "steps[0]: Object contains unknown field `after`"),
        (plan({"id": "s1", "tool": "find_user", "arguments": "Ann"}), "steps[0]: Expected `object`, got `str`"),
        (
            plan(step("s1", "find_usr")),
            "s1: there is no tool find_usr; there is: find_user, list_orders (did you mean find_user?)",
        ),
        (plan(step("s1", "plan", steps=[])), "s1: a plan cannot be a step; write its steps among the others."),
        (plan(step("s1"), step("s1")), "2 steps have the id s1."),
        (plan(step("s1"), step("s2", **after("s3.id"))), "s2 refers to s3, which is no step; the steps are: s1, s2"),
        (plan(step("s1", **after("s1.id"))), "s1 refers to itself."),
        (plan(step("s1", **after("s1..id"))), "s1: 's1..id' is no path; write one like "),
        (plan(step("s1", **after("s2")), step("s2", **after("s1.a"))), "s1 -> s2 -> s1 is a cycle"),
        (
            plan(step("a", **after("b")), step("b", **after("c")), step("c", **after("a")), step("d")),
            "a -> b -> c -> a is a cycle",
        ),
    ],
)
def test_a_fault_is_told(text: str, fault: str) -> None:
    with pytest.raises(ArgumentsError) as caught:
        read_plan(text, TOOLS)
    assert str(caught.value).startswith(f"The plan is wrong: {fault}")


def test_all_faults_are_told_at_once() -> None:
    text = plan(
        step("s1", "find_usr", **after("s2")),
        step("s2", **after("s1", "s9")),
        step("s3", **after("s4")),
        step("s4", **after("s3", "s4")),
        {"id": "s5"},
        step("s6", **after("s5")),
    )
    with pytest.raises(ArgumentsError) as caught:
        read_plan(text, TOOLS)
    for fault in ["find_usr", "s2 refers to s9", "s1 -> s2 -> s1", "s3 -> s4 -> s3", "s4 refers to itself", "steps[4]"]:
        assert fault in str(caught.value)
    assert "s6" not in re.sub("the steps are: [^;]*", "", str(caught.value))


def test_a_step_is_read_whatever_the_others_are() -> None:
    assert read_step(json.dumps(step("s1", **after("s9"))), TOOLS).refs == (Reference("s9"),)
    for wrong in (step("s1", "nothing"), step("s1", **after("s1")), step("s 1"), 5):
        with pytest.raises(ArgumentsError, match="The plan is wrong: "):
            read_step(json.dumps(wrong), TOOLS)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"user_id": {"$ref": "s0.id"}}, ""),
        ({"user_id": "u", "limit": "not looked at"}, ""),
        ({"$ref": "s0"}, ""),
        (
            {"user": {"$ref": "s0.id"}},
            "s1: user is no parameter of list_orders, which has: user_id, limit (did you mean user_id?); "
            "list_orders needs user_id",
        ),
    ],
)
def test_names_that_do_not_fit_are_told_before_there_are_values(arguments: dict[str, Any], words: str) -> None:
    assert mismatch(Step("s1", "list_orders", arguments), list_orders) == words


def results(**contents: tuple[str, Any]) -> str:
    return plan_result([Step(name, "find_user", {}) for name in contents], contents)


def test_the_result_has_what_each_step_gave_in_their_order() -> None:
    contents = {
        "s2": ('{"user_id":"u7","score":1.10}', ""),
        "s1": ('No "yes"', ""),
        "s3": ('{"error":"No such user."}', "No such user."),
        "s4": ("gone", True),
    }
    assert results(**contents) == (
        '{"s2":{"user_id":"u7","score":1.10},"s1":"No \\"yes\\"","s3":{"error":"No such user."},"s4":{"error":"gone"}}'
    )


@pytest.mark.parametrize("content", ["Shipped.", '{"a": 1}'])
def test_a_plan_of_one_step_is_that_call(content: str) -> None:
    assert results(s1=(content, "")) == content
