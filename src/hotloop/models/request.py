"""What a model is asked: a body whose first part is frozen bytes and whose messages only grow.

Options and tools are encoded once, in one fixed order, before the messages; what may change from turn to turn comes
after them. The prefix that a service caches so never changes by a byte.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from hotloop.models.dialects import Dialect

_encode = msgspec.json.encode
_OF_ANY = b'{"role":"'
_OF_USER = b'{"role":"user"'
_WORDS = re.compile(_OF_USER + rb',"content":"(?:[^"\\]|\\.)*"\}', re.DOTALL)
_Pieces = tuple[bytes | bytearray | memoryview, ...]


class AnswerForm(msgspec.Struct, frozen=True):
    """How a structured answer is asked for, in one of two ways; as JSON.

    `response_format` constrains what is written as text. `tool` is the definition of a tool whose arguments are the
    answer and `choice` the `tool_choice` that makes the model call it.
    """

    response_format: bytes = b""
    tool: bytes = b""
    choice: bytes = b""


class RequestTemplate:
    """Makes request bodies for one model and one set of tools. `max_tokens` is the cap for each reply."""

    __slots__ = (
        "_bare",
        "_end",
        "_last_end",
        "_prefix",
        "_sticky",
        "_tokens_key",
        "dialect",
        "max_tokens",
        "model",
        "scored",
        "stream",
    )

    def __init__(
        self,
        model: str,
        dialect: Dialect,
        tools: Sequence[bytes] = (),
        *,
        answer: AnswerForm | None = None,
        temperature: float | None = None,
        max_tokens: int | None = None,
        stream: bool = True,
        prefix_cache: bool = True,
        scored: bool = False,
    ) -> None:
        self.model = model
        self.dialect = dialect
        self.max_tokens = max_tokens
        self.stream = stream
        self.scored = scored
        self._tokens_key = _encode(dialect.max_tokens)
        options: dict[str, Any] = {"model": model, "stream": stream}
        if stream:
            options["stream_options"] = msgspec.Raw(dialect.stream_options)
        if temperature is not None:
            options["temperature"] = temperature
        if scored:
            options["logprobs"] = True
        fixed = _encode(options)[:-1]
        if not prefix_cache and dialect.cache_off:
            fixed += b"," + dialect.cache_off
        form = answer or AnswerForm()
        own = [form.tool] if form.tool else []
        self._prefix = fixed + _offered([*tools, *own]) + b',"messages":['
        self._bare = self._prefix if dialect.forbids_tools else fixed + _offered(own) + b',"messages":['
        held = b',"response_format":' + form.response_format if form.response_format else b""
        forced = b',"tool_choice":' + form.choice if form.choice else b""
        forbidden = b',"tool_choice":"none"' if tools and dialect.forbids_tools else b""
        self._end = (held if not tools or dialect.schema_with_tools else b"") + (b"" if tools else forced)
        self._last_end = held + (forced or forbidden)
        self._sticky = _sticky(dialect, self._prefix) if prefix_cache else None

    @property
    def front(self) -> bytes:
        """What every body begins with, up to the first message."""
        return self._prefix

    def body(
        self,
        messages: bytes | bytearray,
        *,
        tools: bool = True,
        max_tokens: int | None = None,
        session: str = "",
        aside: str = "",
        aside_last: bool = True,
    ) -> bytes:
        """One request over these messages; `tools=False` asks for an answer without calls.

        `session` names the conversation, for services that keep one where its prefix is cached. `aside` is said in this
        request only: last, or, where a service takes no words of the user after results, with the user's last words.
        """
        tail = self._end if tools else self._last_end
        if cap := max_tokens or self.max_tokens:
            tail += b",%b:%d" % (self._tokens_key, cap)
        if self._sticky is not None:
            tail += self._sticky(session)
        front = self._prefix if tools else self._bare
        if aside:
            said = _with_aside if aside_last else _with_early_aside
            return b"".join((front, *said(messages, aside), b"]", tail, b"}"))
        return b"".join((front, messages, b"]", tail, b"}"))


def _with_aside(messages: bytes | bytearray, aside: str) -> _Pieces:
    """The messages and what is said aside: at the end of the user's words, where these are the last message.

    No other message is touched, so that the next request begins with the same bytes; and no two messages in a row are
    the user's, which some services refuse.
    """
    if messages.startswith(_OF_USER, messages.rfind(_OF_ANY)):
        return memoryview(messages)[:-2], _encode(f"\n\n{aside}")[1:], b"}"
    return messages, b"," if messages else b"", _OF_USER, b',"content":', _encode(aside), b"}"


def _with_early_aside(messages: bytes | bytearray, aside: str) -> _Pieces:
    """The messages, with what is said aside at the end of the user's last words, wherever these are."""
    found = _WORDS.match(messages, max(messages.rfind(_OF_USER), 0))
    if found is None:
        return _with_aside(messages, aside)
    end, whole = found.end() - 2, memoryview(messages)
    return whole[:end], _encode(f"\n\n{aside}")[1:-1], whole[end:]


def _offered(definitions: Sequence[bytes]) -> bytes:
    return b',"tools":[%b]' % b",".join(definitions) if definitions else b""


def _sticky(dialect: Dialect, front: bytes) -> Callable[[str], bytes] | None:
    """What keeps requests of one conversation, or with one front, where their prefix is cached; None: nothing does."""
    if not dialect.sticky:
        return None
    common = _digest(front)

    def sticky(session: str) -> bytes:
        if session:  # whose it is concerns no service, and another agent may have one of the same name
            key = _digest(common.encode() + session.encode(errors="surrogatepass"))
        else:
            key = common if dialect.sticky_front else ""
        return b"," + dialect.sticky % _encode(key) if key else b""

    return sticky


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]
