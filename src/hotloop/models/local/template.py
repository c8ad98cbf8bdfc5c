"""How any other model is asked: in its own chat template, free to choose between calls and a text.

The tools are described in the system message and calls are written as lines, also where the template has a tool format
of its own: llama.cpp does not hold a model to that format reliably (ggml-org/llama.cpp#27217 and #27767), and a call
whose arguments do not meet their schema is worth less than one in an unfamiliar form.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

import msgspec

from hotloop.models.local import grammar
from hotloop.models.local.prepared import Prepared
from hotloop.models.local.reply import LineReader
from hotloop.models.local.request import ChatRequest, JsonObject, Message

_HOW_TO_CALL = """\
You have these tools, each with the JSON Schema of its arguments:
{tools}

To use tools, write nothing but lines of this form, one for each call:
tool_name {{"argument": "value"}}
The results follow. Answer in words when you have what you need."""
_HOW_TO_ANSWER = "Your answer itself is JSON and nothing else, an object that fits this JSON Schema:\n{schema}"


def prepare(request: ChatRequest, ends: tuple[int, ...]) -> Prepared:
    """The messages, the constraint and the way to read what comes; `ends` are the tokens that end the model's turn."""
    functions, form = request.functions, request.form
    if request.chosen is not None:
        constraint = grammar.calls(functions)
    elif functions:
        constraint = grammar.choice(functions, ends, form)
    else:
        constraint = grammar.formed(form) if form is not None else ""
    asked: JsonObject = {"messages": list(_messages(request)), "grammar": constraint, **request.sampling()}
    return Prepared(True, asked, request.held, LineReader([function.name for function in functions]))


def _messages(request: ChatRequest) -> Iterator[JsonObject]:
    """The conversation in the roles that every template knows: results come from the user."""
    messages = request.messages
    if told := _told(request):
        instructions = [message.text for message in messages if message.role == "system"]
        yield {"role": "system", "content": "\n\n".join([*instructions, *told])}
        messages = [message for message in messages if message.role != "system"]
    for _, group in groupby(messages, lambda message: message.role == "tool" or id(message)):
        yield _message(list(group))


def _message(group: list[Message]) -> JsonObject:
    first = group[0]
    if first.role == "tool":
        return {"role": "user", "content": "Results:\n" + "\n".join(message.text for message in group)}
    calls = [f"{call.function.name} {call.function.arguments}" for call in first.tool_calls or ()]
    return {"role": first.role, "content": "\n".join([first.text, *calls] if first.text else calls)}


def _told(request: ChatRequest) -> list[str]:
    """What the model has to know beside its instructions: its tools, and the form of its answer."""
    tools = [_described(request)] if request.tools else []
    form = [_HOW_TO_ANSWER.format(schema=_json(request.form.parameters))] if request.form is not None else []
    return tools + form


def _described(request: ChatRequest) -> str:
    tools = [
        f"{offer.function.name} {_json(offer.function.parameters)}: {offer.function.description}"
        for offer in request.tools
    ]
    return _HOW_TO_CALL.format(tools="\n".join(tools))


def _json(schema: JsonObject) -> str:
    return msgspec.json.encode(schema).decode()
