"""The tool `plan`: calls that need each other's results, written by the model at once, and what is wrong with them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Annotated, Any

import msgspec

from hotloop.errors import ArgumentsError
from hotloop.models.wire.frames import decode_json
from hotloop.tools.defining.tool import Tool
from hotloop.tools.plan.references import STEP_ID, Reference, is_reference, references_in
from hotloop.words import listed

PLAN = "plan"
MAX_STEPS = 32

_DESCRIPTION = (
    "Make several calls at once. Only where a later one needs the result of an earlier one and you know them all now; "
    'else call the tools directly. In arguments, {"$ref": "s1.user_id"} stands for that part of the result of step s1; '
    'there is also "s1", "s1.items[0].id" and, for a list, "s1.items[*].id".'
)


class Step(msgspec.Struct, frozen=True):
    """One call of a plan: `arguments` as decoded, with the references in them, `refs`."""

    id: str
    tool: str
    arguments: dict[str, Any]
    refs: tuple[Reference, ...] = ()


class _Written(msgspec.Struct, forbid_unknown_fields=True):
    """A step as the model writes it."""

    id: Annotated[str, msgspec.Meta(pattern=STEP_ID)]
    tool: str
    arguments: dict[str, Any] = {}


def plan_definition(tools: Sequence[Tool]) -> bytes:
    """The JSON with which a request offers the model plans of these tools."""
    names = [tool.name for tool in tools]
    step = _object(
        id={"type": "string", "pattern": STEP_ID},
        tool={"type": "string", "enum": names},
        arguments={"type": "object"},
    )
    steps = {"type": "array", "items": step, "minItems": 1, "maxItems": MAX_STEPS}
    function = {"name": PLAN, "description": _DESCRIPTION, "parameters": _object(steps=steps)}
    return msgspec.json.encode({"type": "function", "function": function})


def read_step(text: str, tool_names: Collection[str]) -> Step:
    """A step from its JSON. Raises ArgumentsError with what is wrong with it, whatever the rest of the plan is."""
    faults: list[str] = []
    step = _read(_decode(text), "the step", tool_names, faults)
    if step is None or faults:
        raise _wrong(faults)
    return step


def read_plan(text: str, tool_names: Collection[str]) -> list[Step]:
    """The steps of a plan in the order in which they are written, from the arguments of the call.

    Raises ArgumentsError with all that is wrong, in words that the model can act on.
    """
    plan = _decode(text)
    values = plan.get("steps") if isinstance(plan, dict) else None
    if not isinstance(values, list) or not values:
        raise _wrong(['it has no steps; write {"steps": [{"id": "s1", "tool": ..., "arguments": {...}}, ...]}'])
    if len(values) > MAX_STEPS:
        raise _wrong([f"it has {len(values):,} steps, {MAX_STEPS} are the most"])
    faults: list[str] = []
    read = [_read(value, f"steps[{at}]", tool_names, faults) for at, value in enumerate(values)]
    ids = [value["id"] for value in values if isinstance(value, dict) and isinstance(value.get("id"), str)]
    steps = [step for step in read if step is not None]
    faults += [*_doubles(ids), *_strays(steps, ids), *_cycles(steps)]
    if faults:
        raise _wrong(faults)
    return steps


def mismatch(step: Step, tool: Tool) -> str:
    """What can be said against a step's arguments before its references have values: their names; "" if nothing."""
    if is_reference(step.arguments):
        return ""
    known, needed = tool.parameters.get("properties", {}), tool.parameters.get("required", ())
    closed = tool.parameters.get("additionalProperties") is False
    faults = [
        f"{name} is no parameter of {tool.name}, which has: {listed(name, known)}"
        for name in step.arguments
        if closed and name not in known
    ]
    faults += [f"{tool.name} needs {name}" for name in needed if name not in step.arguments]
    return f"{step.id}: {'; '.join(faults)}" if faults else ""


def plan_result(steps: Sequence[Step], contents: Mapping[str, tuple[str, Any]]) -> str:
    """What the model reads of a plan whose steps gave these contents, each with what is true if the step failed.

    It is an object of the results by step id; of a plan with one step it is that step's content.
    """
    if len(steps) == 1:
        return contents[steps[0].id][0]
    return msgspec.json.encode({step.id: _result(*contents[step.id]) for step in steps}).decode()


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _decode(text: str) -> Any:
    try:
        return decode_json(text)
    except ValueError as error:
        raise _wrong([f"it is no JSON: {error}"]) from None


def _wrong(faults: list[str]) -> ArgumentsError:
    return ArgumentsError(f"The plan is wrong: {'; '.join(faults)}. Write it again without that.")


def _read(value: Any, place: str, tool_names: Collection[str], faults: list[str]) -> Step | None:
    """The step as far as it can be read; what is wrong with it goes to `faults`."""
    try:
        written = msgspec.convert(value, _Written)
    except msgspec.ValidationError as error:
        faults.append(f"{place}: {error}")
        return None
    if written.tool not in tool_names:
        faults.append(f"{written.id}: {_unknown(written.tool, tool_names)}")
    refs: list[Reference] = []
    try:
        refs = references_in(written.arguments)
    except ArgumentsError as error:
        faults.append(f"{written.id}: {error}")
    if any(ref.step == written.id for ref in refs):
        faults.append(f"{written.id} refers to itself")
    return Step(written.id, written.tool, written.arguments, tuple(refs))


def _unknown(name: str, tool_names: Collection[str]) -> str:
    if name == PLAN:
        return "a plan cannot be a step; write its steps among the others"
    return f"there is no tool {name}; there is: {listed(name, tool_names)}"


def _doubles(ids: Sequence[str]) -> Iterator[str]:
    return (f"{count} steps have the id {name}" for name, count in Counter(ids).items() if count > 1)


def _strays(steps: Sequence[Step], ids: Sequence[str]) -> Iterator[str]:
    for step in steps:
        for name in dict.fromkeys(ref.step for ref in step.refs if ref.step not in ids):
            yield f"{step.id} refers to {name}, which is no step; the steps are: {listed(name, ids)}"


def _cycles(steps: Sequence[Step]) -> Iterator[str]:
    """Each cycle once: when it is told, one of its references is left out of account."""
    needs = {step.id: list(dict.fromkeys(ref.step for ref in step.refs if ref.step != step.id)) for step in steps}
    while True:
        try:
            return TopologicalSorter(needs).prepare()
        except CycleError as error:
            cycle: list[str] = error.args[1][::-1]
            yield f"{' -> '.join(cycle)} is a cycle, so that none could start"
            needs[cycle[0]].remove(cycle[1])


def _result(content: str, failed: Any) -> Any:
    """A content to be written into JSON; one that says why a step failed is an object with that as its `error`."""
    try:
        decoded = decode_json(content)
    except ValueError:
        return {"error": content} if failed else content
    if failed and not (isinstance(decoded, dict) and "error" in decoded):
        return {"error": decoded}
    return msgspec.Raw(content.encode())
