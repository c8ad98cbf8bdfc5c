"""What a simulated model says, as data: texts, tool calls, raw bytes, and the order in which they are given."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from hotloop.errors import ConfigError, InvalidRequest, ModelError

Request = dict[str, Any]
Headers = tuple[tuple[bytes, bytes], ...]


class ScriptExhausted(ModelError):
    """More requests came than the script has replies."""


class Call(msgspec.Struct, frozen=True):
    """A call that the simulated model writes; `arguments` is JSON text."""

    name: str
    arguments: str


class Reply(msgspec.Struct, frozen=True):
    """One reply: text (before any calls), calls, and the usage object to report as JSON (None: counted)."""

    text: str = ""
    calls: tuple[Call, ...] = ()
    usage: bytes | None = None


class RawReply(msgspec.Struct, frozen=True):
    """A reply given byte by byte: `pieces` of the body, each delivered on its own; `cut` ends it in a broken line."""

    pieces: tuple[bytes, ...]
    status: int
    headers: Headers
    cut: bool


AnyReply = str | Call | Sequence[Call] | Reply | RawReply
Answer = Callable[[Request], AnyReply]
Replies = Answer | Iterable[AnyReply]


def say(text: str, *calls: Call, usage: Mapping[str, Any] | None = None) -> Reply:
    """A reply of text, then calls if any; `usage` is reported as it stands, instead of counted tokens."""
    return Reply(text, calls, None if usage is None else msgspec.json.encode(usage))


def call(name: str, /, **arguments: Any) -> Call:
    """A call of the tool `name` with these arguments."""
    return Call(name, msgspec.json.encode(arguments).decode())


def raw(*pieces: bytes, status: int = 200, headers: Mapping[str, str] | None = None, cut: bool = False) -> RawReply:
    """A reply of exactly these bytes, each piece in a read of its own: wire faults, HTTP errors, cut streams.

    The content type is `text/event-stream` for status 200 and `application/json` otherwise, unless `headers` says
    another. With `cut` the connection breaks after the last piece.
    """
    default = "text/event-stream" if status == 200 else "application/json"
    named = {"content-type": default} | {name.lower(): value for name, value in (headers or {}).items()}
    return RawReply(pieces, status, tuple((n.encode(), v.encode()) for n, v in named.items()), cut)


def as_reply(value: AnyReply) -> Reply | RawReply:
    """The reply that a str, a call or a list of calls stands for; ConfigError for anything else."""
    if isinstance(value, Reply | RawReply):
        return value
    if isinstance(value, str):
        return Reply(value)
    calls = (value,) if isinstance(value, Call) else value
    if isinstance(calls, Sequence) and calls and all(isinstance(each, Call) for each in calls):
        return Reply(calls=tuple(calls))
    raise ConfigError(f"{value!r} is no reply; give text, call(...), a list of calls, say(...) or raw(...).")


def in_turn(replies: Iterable[AnyReply]) -> Answer:
    """One reply after the other, whoever asks; ScriptExhausted when there is none left."""
    script = [as_reply(reply) for reply in replies]
    asked = 0

    def answer(request: Request) -> Reply | RawReply:
        nonlocal asked
        asked += 1
        if asked > len(script):
            raise ScriptExhausted(
                f"Request {asked} came, but the script has {_count(len(script), 'reply', 'replies')}."
            )
        return script[asked - 1]

    return answer


def per_conversation(replies: Iterable[AnyReply]) -> Answer:
    """The reply at the place each conversation has reached, and from the start again when the replies are used up.

    The place is the number of assistant messages in the request, so any number of agents can be served at once. A
    fault is met once, by who comes first to its place; who asks again gets the reply after it.
    """
    places: list[list[Reply | RawReply]] = []
    for reply in map(as_reply, replies):
        if not places or not _is_fault(places[-1][-1]):
            places.append([])
        places[-1].append(reply)
    if not places:
        raise ConfigError("The script has no replies.")

    def answer(request: Request) -> Reply | RawReply:
        place = places[turn(request) % len(places)]
        return place.pop(0) if len(place) > 1 else place[0]

    return answer


def turn(request: Request) -> int:
    """How many replies this conversation already has."""
    return sum(message.get("role") == "assistant" for message in request["messages"])


def wants_usage(request: Request) -> bool:
    """Whether the stream shall end in a usage frame."""
    options = request.get("stream_options")
    return isinstance(options, dict) and bool(options.get("include_usage"))


def token_cap(request: Request) -> int | None:
    """The most tokens that the reply may have; None for any number. InvalidRequest for what is no such number."""
    for key in ("max_completion_tokens", "max_tokens"):
        cap = request.get(key)
        if cap is not None:
            if type(cap) is not int or cap < 1:
                raise InvalidRequest(f"{key} is {cap!r}; it has to be a whole number from 1 on.", status=400)
            return cap
    return None


def decode_request(body: bytes) -> Request:
    """A chat-completion request as a dict; InvalidRequest with a sentence for anything else."""
    try:
        request: Any = msgspec.json.decode(body)
    except msgspec.MsgspecError as error:
        raise InvalidRequest(f"The request is not JSON: {error}.", status=400) from error
    if not isinstance(request, dict) or not _are_messages(request.get("messages")):
        raise InvalidRequest("The request needs a list of messages, each an object.", status=400)
    return request


def load_script(path: str | Path) -> list[Reply]:
    """Replies from a YAML or JSON file: a list of texts, or of mappings with `text`, `calls` and `usage`.

    Raises ConfigError, with the file's name and where it can the line, for what cannot be read or says something else.
    """
    try:
        from hotloop.lab.scriptfile import read_script
    except ModuleNotFoundError as error:
        if error.name != "yaml":
            raise
        raise ConfigError('A script in YAML or JSON needs PyYAML: pip install "hotloop[yaml]".') from None
    return read_script(Path(path))


def _is_fault(reply: Reply | RawReply) -> bool:
    """Whether a client will ask again after it."""
    return isinstance(reply, RawReply) and (reply.status != 200 or reply.cut)


def _are_messages(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(each, dict) for each in value)


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"
