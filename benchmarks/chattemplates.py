"""How services write a conversation for their models: what they add to its texts, and so count."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

Message = dict[str, Any]


class Written(NamedTuple):
    """Texts as a tokeniser gets them, and the special tokens between them, with which no token of a text merges."""

    texts: list[str]
    specials: int


class Template(NamedTuple):
    """How messages are written: each in turn, given the role of the one before; and what is around all of them."""

    front: Callable[[list[Message]], Written]
    message: Callable[[Message, str], Written]
    end: Written


def _chatml_front(tools: list[Message]) -> Written:
    lines = "\n".join(json.dumps(tool, ensure_ascii=False) for tool in tools)
    text = (
        "\n\n# Tools\n\nYou may call one or more functions to assist with the user query.\n\nYou are provided with "
        f"function signatures within <tools></tools> XML tags:\n<tools>\n{lines}\n</tools>\n\nFor each function call, "
        "return a json object with function name and arguments within <tool_call></tool_call> XML tags:\n<tool_call>\n"
        '{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call>'
    )
    return Written([text], 0)


def _chatml(message: Message, before: str) -> Written:
    role, text = message["role"], message["content"] or ""
    if role == "tool":
        head = ["user\n"] if before != "tool" else []
        return Written([*head, f"\n<tool_response>\n{text}\n</tool_response>", "\n"], 2 * bool(head))
    calls = [
        f'\n<tool_call>\n{{"name": "{call["name"]}", "arguments": {_spaced(call["arguments"])}}}\n</tool_call>'
        for call in _calls(message)
    ]
    return Written([f"{role}\n{text}{''.join(calls)}", "\n"], 2)


def _mistral_front(tools: list[Message]) -> Written:
    return Written([json.dumps(tools, ensure_ascii=False)], 3)


def _mistral(message: Message, before: str) -> Written:
    role, text = message["role"], message["content"] or ""
    if role == "tool":
        result = {"content": text, "call_id": message["tool_call_id"]}
        return Written([json.dumps(result, ensure_ascii=False)], 2)
    if calls := _calls(message):
        listed = [
            {"name": call["name"], "arguments": json.loads(call["arguments"]), "id": "call00001"} for call in calls
        ]
        return Written([json.dumps(listed, ensure_ascii=False)], 2)
    return Written([text], 1 if role == "assistant" else 2)


def _openai_front(tools: list[Message]) -> Written:
    return Written(
        ["# Tools\n\n## functions\n\nnamespace functions {\n\n", *map(_typed, tools), "} // namespace functions"], 2
    )


def _openai(message: Message, before: str) -> Written:
    role, text = message["role"], message["content"] or ""
    if role == "tool":
        return Written(["functions.", "call", text], 3)
    calls = [f"{call['name']}{call['arguments']}" for call in _calls(message)]
    return Written(
        [role, text, *(part for call in calls for part in ("assistant to=functions.", call))], 2 + 3 * len(calls)
    )


def _calls(message: Message) -> list[Message]:
    return [call["function"] for call in message.get("tool_calls", ())]


def _spaced(arguments: str) -> str:
    return json.dumps(json.loads(arguments), ensure_ascii=False)


def _typed(tool: Message) -> str:
    function = tool["function"]
    fields = "".join(
        f"// {field['description']}\n{name}: {field['type']},\n"
        for name, field in function["parameters"]["properties"].items()
    )
    return f"// {function['description']}\ntype {function['name']} = (_: {{\n{fields}}}) => any;\n\n"


TEMPLATES = {
    "chatml": Template(_chatml_front, _chatml, Written(["assistant\n"], 1)),
    "mistral": Template(_mistral_front, _mistral, Written([], 0)),
    "openai": Template(_openai_front, _openai, Written(["assistant"], 2)),
}
