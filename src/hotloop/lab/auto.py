"""The default script: call the tools that are offered, then say what they answered."""

from __future__ import annotations

from itertools import takewhile
from typing import Any

import msgspec

from hotloop.context.zones import without_aside
from hotloop.lab.example import CannotExemplify, example
from hotloop.lab.script import Call, Reply, Request, call, say
from hotloop.tools.cutting.rest import READ_RESULT
from hotloop.tools.plan.plan import PLAN

_MOST_CALLS = 4
_MOST_CHARACTERS = 600


def auto(request: Request) -> Reply:
    """A reply made from the request alone.

    Offered tools (at most four, `plan` and `read_result` apart) are called once each, with arguments that satisfy their
    schemas and come from the user's words where these fit. After tool results, or without tools, it is a text that
    restates the results, JSON that satisfies the requested response format, or a greeting. Raises CannotExemplify for a
    schema that takes more than plain values.
    """
    messages = _without_asides(request["messages"])
    said = _last_words(messages)
    tools = _callable_tools(request)
    if tools and messages[-1].get("role") not in ("tool", "function"):
        return Reply(calls=tuple(_call(tool, said) for tool in tools[:_MOST_CALLS]))
    if schema := ((request.get("response_format") or {}).get("json_schema") or {}).get("schema"):
        return say(msgspec.json.encode(example(schema, said)).decode())
    return say(_restated(messages) or f"Hello from the simulated model. You said: {said[:_MOST_CHARACTERS]}")


def _without_asides(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The messages without what an agent of ours says in one request only, which is no question."""
    plain = ((each, each.get("content")) for each in messages)
    told = [
        each | {"content": without_aside(text)} if each.get("role") == "user" and isinstance(text, str) else each
        for each, text in plain
    ]
    return [each for each in told if each.get("role") != "user" or each.get("content") != ""] or messages


def _callable_tools(request: Request) -> list[dict[str, Any]]:
    functions = [tool.get("function", {}) for tool in request.get("tools") or ()]
    choice = request.get("tool_choice")
    if isinstance(choice, dict):
        return [each for each in functions if each.get("name") == choice.get("function", {}).get("name")]
    return [] if choice == "none" else [each for each in functions if each.get("name") not in (PLAN, READ_RESULT)]


def _call(function: dict[str, Any], said: str) -> Call:
    name = function.get("name", "")
    try:
        return call(name, **example({"type": "object", **(function.get("parameters") or {})}, said))
    except CannotExemplify as error:
        raise CannotExemplify(f"The tool {name!r} cannot be called. {error}") from None


def _last_words(messages: list[dict[str, Any]]) -> str:
    """The text of the last user message."""
    content = next((each.get("content") for each in reversed(messages) if each.get("role") == "user"), "")
    if isinstance(content, list):
        return " ".join(part.get("text", "") for part in content if isinstance(part, dict))
    return content or ""


def _restated(messages: list[dict[str, Any]]) -> str:
    """What the tools answered since the model's last message, a sentence each."""
    calls = [each for message in messages for each in message.get("tool_calls") or ()]
    names = {each.get("id"): each.get("function", {}).get("name") for each in calls}
    answers = takewhile(lambda message: message.get("role") == "tool", reversed(messages))
    sentences = [
        f"{names.get(each.get('tool_call_id'), 'The tool')} answered: {_plain(each.get('content'))}."
        for each in answers
    ]
    return " ".join(reversed(sentences))


def _plain(content: Any) -> str:
    """A tool's result in words: JSON objects as "key value" pairs."""
    try:
        value = msgspec.json.decode(content) if isinstance(content, str) else content
    except msgspec.DecodeError:
        value = content
    pairs = value.items() if isinstance(value, dict) else ()
    text = ", ".join(f"{key} {each}" for key, each in pairs) or str(value)
    return text[:_MOST_CHARACTERS].rstrip(".")
