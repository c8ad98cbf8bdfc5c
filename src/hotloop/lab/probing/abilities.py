"""What can a service do? Each answer is found by asking, and says what it rests on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any, Literal

import msgspec

from hotloop.errors import InvalidRequest, ToolUseFailed
from hotloop.lab.probing.asking import Answer, Asker, Heard, Message, objects, patiently, understood
from hotloop.lab.probing.texts import COUNT, Texts
from hotloop.lab.profiles import Granularity
from hotloop.trace.pace import is_buffered

Found = Literal["yes", "no", "unknown"]
_ROOM = 512  # tokens: a model that reasons first must come to its answer
_LONG = 1200  # tokens: what nearly every prefix cache takes


class Ability(msgspec.Struct, frozen=True):
    """One thing that a service does or does not do: what that is known from, and in which way if that matters."""

    name: str
    found: Found
    why: str
    kind: str = ""


async def find_abilities(asker: Asker, texts: Texts) -> AsyncIterator[Ability]:
    """Each ability as it is found; a refused request is a finding. `texts` learns how long prompts are.

    Raises ModelError when the service cannot be used at all: nobody there, a key or a model that it does not take.
    """
    for each in _told_by(await _count(asker, texts)):
        yield each
    yield await _cached_tokens(asker, texts)
    for each in await _tools(asker):
        yield each
    for name, with_tools, stream in _SCHEMA_WAYS:
        answer = understood(await _structured(asker, with_tools=with_tools, stream=stream))
        yield Ability(name, *_held_to_schema(answer))


async def _count(asker: Asker, texts: Texts) -> Answer:
    """The answer to a plain question, the second one if the first came all at once, as it may on a busy machine."""
    prompt = texts.fixed(COUNT)
    for _ in range(2):
        answer = understood(await patiently(lambda: asker.ask(prompt.messages, max_tokens=48)))
        if answer.error is not None:
            raise answer.error
        if _streamed_text(answer)[0] != "no":
            break
    if answer.reply is not None:
        texts.learn(prompt, answer.reply.usage.input_tokens)
    return answer


def _told_by(answer: Answer) -> Iterator[Ability]:
    """What a plain answer shows."""
    yield Ability("streamed text", *_streamed_text(answer))
    if answer.reply is not None and answer.reply.usage.output_tokens is not None:
        yield Ability("usage in the stream", "yes", "")
    else:
        yield Ability("usage in the stream", "no", "nothing says how many tokens there were")
    if answer.own is not None:
        yield Ability("server timings", "yes", _TIMINGS[answer.own.dialect], answer.own.dialect)
    else:
        yield Ability("server timings", "no", "none of a kind that is known")


_TIMINGS = {
    "groq": "queue, prompt, completion (as Groq)",
    "llamacpp": "prompt, predicted (as llama.cpp)",
    "vllm": "metrics (as vLLM)",
    "dynamo": "first token (as Dynamo)",
    "openai": "the whole, in a header (as OpenAI)",
}


def _streamed_text(answer: Answer) -> tuple[Found, str]:
    reads = len(answer.tokens)
    pieces = sum(count for _, count in answer.tokens)
    if reads and is_buffered(pieces, reads, answer.tokens[-1][0] - answer.tokens[0][0]):
        return "no", f"all {pieces} pieces came at once: something holds the stream back"
    if reads < 2:
        return "unknown", f"the reply came in {pieces} piece{'s' * (pieces != 1)}"
    return "yes", f"{pieces} pieces in {reads} reads"


async def _cached_tokens(asker: Asker, texts: Texts) -> Ability:
    name, prompt = "cached tokens", texts.cold(_LONG)
    for _ in range(2):
        answer = understood(await patiently(lambda: asker.ask(prompt.messages, max_tokens=4, session=prompt.key)))
    if answer.reply is None:
        return Ability(name, "unknown", _refused(answer)[1])
    usage = answer.reply.usage
    texts.learn(prompt, usage.input_tokens)
    if usage.cached_tokens is None:
        return Ability(name, "no", "usage does not say how many tokens were cached")
    of = "" if usage.input_tokens is None else f" of {usage.input_tokens:,}"
    return Ability(name, "yes", f"{usage.cached_tokens:,}{of} of a repeated prompt")


async def _tools(asker: Asker) -> list[Ability]:
    question = [{"role": "user", "content": _QUESTION}]
    heard = await patiently(lambda: asker.ask(question, max_tokens=_ROOM, tools=_TOOLS))
    answer = understood(heard)
    calls = answer.reply.calls if answer.reply is not None else []
    if not calls:
        refused = _refused(answer) if answer.reply is None else None
        unknown = [Ability(name, "unknown", "it made no call") for name in ("parallel calls", "streamed arguments")]
        return [Ability("tools", *(refused or ("unknown", "it answered in text instead"))), *unknown]
    several = len(calls) > 1
    return [
        Ability("tools", "yes", f"{', '.join(dict.fromkeys(call.name for call in calls))} called"),
        Ability("parallel calls", "yes" if several else "no", f"{len(calls)} in one reply, where 2 were asked for"),
        Ability("streamed arguments", *_granularity(heard, len(calls))),
    ]


def _granularity(heard: Heard, calls: int) -> tuple[Found, str, Granularity]:
    """How finely the arguments of calls were streamed."""
    pieces = list(_argument_pieces(heard))
    moments = len({at for at, _ in pieces})
    if moments <= 1 and (calls > 1 or len(pieces) > 1):
        return "no", "in a burst: all of them at once", "burst"
    if len(pieces) <= calls:
        return "no", "each call came whole", "call"
    return "yes", f"in {len(pieces)} pieces at {moments} moments", "token"


def _argument_pieces(heard: Heard) -> Iterator[tuple[int, str]]:
    for at, value in objects(heard):
        for choice in value.get("choices") or ():
            for item in (choice.get("delta") or {}).get("tool_calls") or ():
                if arguments := (item.get("function") or {}).get("arguments"):
                    yield at, arguments


async def _structured(asker: Asker, *, with_tools: bool, stream: bool) -> Heard:
    messages = _acted(asker.dialect.empty_content) if with_tools else [{"role": "user", "content": _TOLD}]
    fields: dict[str, Any] = {"response_format": _FORMAT} | ({"tools": _TOOLS} if with_tools else {})
    return await patiently(lambda: asker.ask(messages, max_tokens=_ROOM, stream=stream, **fields))


def _held_to_schema(answer: Answer) -> tuple[Found, str]:
    reply = answer.reply
    if reply is None:
        return _refused(answer)
    if reply.calls:
        return "unknown", "it called a tool instead of answering"
    if reply.finish_reason == "length":
        return "unknown", f"the answer was cut at {_ROOM} tokens"
    try:
        msgspec.json.decode(reply.text, type=_Report)
    except msgspec.DecodeError:
        return "no", f"taken, but not heeded: {reply.text[:60]!r}"
    return "yes", ""


def _refused(answer: Answer) -> tuple[Found, str]:
    """A request that the service refuses says what it cannot do; one that failed otherwise says nothing."""
    if isinstance(answer.error, InvalidRequest | ToolUseFailed):
        return "no", str(answer.error)
    return "unknown", f"{type(answer.error).__name__}: {answer.error}"


class _Report(msgspec.Struct, forbid_unknown_fields=True):
    weather: str
    time: str


def _object(**properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _tool(name: str, description: str, **properties: dict[str, Any]) -> dict[str, Any]:
    function = {"name": name, "description": description, "parameters": _object(**properties)}
    return {"type": "function", "function": function}


_TEXT = {"type": "string"}
_DAY = {"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"}
_TOOLS = [
    _tool("get_weather", "The weather in a city on a day.", city=_TEXT, day=_DAY),
    _tool("get_time", "The local time in a city on a day.", city=_TEXT, day=_DAY),
]
_QUESTION = (
    "What is the weather in Oslo on 2026-03-01, and what is the time in Lima on 2026-03-01? Look both up at once."
)
_TOLD = "The weather in Oslo is mild, and the time in Lima is five past two. What are the weather and the time?"
_FORMAT = {
    "type": "json_schema",
    "json_schema": {"name": "report", "strict": True, "schema": _object(weather=_TEXT, time=_TEXT)},
}
_SCHEMA_WAYS = (
    ("JSON schema", False, False),
    ("JSON schema, streamed", False, True),
    ("JSON schema + tools", True, False),
    ("JSON schema + tools, streamed", True, True),
)


def _acted(empty: str | None) -> list[Message]:
    """A conversation in which both tools have answered."""
    made = (("call00001", "get_weather", "Oslo", "mild"), ("call00002", "get_time", "Lima", "five past two"))
    calls = [
        {"id": call_id, "type": "function", "function": {"name": name, "arguments": _arguments(city)}}
        for call_id, name, city, _ in made
    ]
    results = [{"role": "tool", "tool_call_id": call_id, "content": content} for call_id, _, _, content in made]
    acted: Message = {"role": "assistant", "content": empty, "tool_calls": calls}
    return [{"role": "user", "content": _QUESTION}, acted, *results]


def _arguments(city: str) -> str:
    return msgspec.json.encode({"city": city, "day": "2026-03-01"}).decode()
