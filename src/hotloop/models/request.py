"""What a model is asked: a body whose first part is frozen bytes and whose messages only grow.

Options and tools are encoded once, in one fixed order, before the messages; what may change from turn to turn comes
after them. The prefix that a service caches so never changes by a byte.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec

from hotloop.models.dialects import Dialect

_encode = msgspec.json.encode


class RequestTemplate:
    """Makes request bodies for one model and one set of tools. `max_tokens` is the cap for each reply."""

    __slots__ = ("_bare", "_prefix", "_tokens_key", "dialect", "max_tokens", "stream")

    def __init__(
        self,
        model: str,
        dialect: Dialect,
        tools: Sequence[bytes] = (),
        *,
        temperature: float | None = None,
        max_tokens: int | None = None,
        stream: bool = True,
        prefix_cache: bool = True,
    ) -> None:
        self.dialect = dialect
        self.max_tokens = max_tokens
        self.stream = stream
        self._tokens_key = _encode(dialect.max_tokens)
        options: dict[str, Any] = {"model": model, "stream": stream}
        if stream:
            options["stream_options"] = msgspec.Raw(dialect.stream_options)
        if temperature is not None:
            options["temperature"] = temperature
        fixed = _encode(options)[:-1]
        if not prefix_cache and dialect.cache_off:
            fixed += b"," + dialect.cache_off
        offered = b',"tools":[%b]' % b",".join(tools) if tools else b""
        if prefix_cache and dialect.cache_key:
            key = hashlib.sha256(fixed + offered).hexdigest()[:32]
            fixed += b",%b:%b" % (_encode(dialect.cache_key), _encode(key))
        self._prefix = fixed + offered + b',"messages":['
        self._bare = self._prefix if dialect.forbids_tools and tools else fixed + b',"messages":['

    def body(self, messages: bytes | bytearray, *, tools: bool = True, max_tokens: int | None = None) -> bytes:
        """One request over these messages; `tools=False` asks for an answer without calls."""
        tail = b"]"
        if not tools and self._bare is self._prefix:
            tail += b',"tool_choice":"none"'
        if cap := max_tokens or self.max_tokens:
            tail += b",%b:%d" % (self._tokens_key, cap)
        return b"".join((self._prefix if tools else self._bare, messages, tail, b"}"))
