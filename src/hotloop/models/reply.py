"""What a model's reply is, once it is complete."""

from __future__ import annotations

from typing import Any

import msgspec


class Usage(msgspec.Struct, frozen=True, gc=False):
    """Tokens as the service counted them; None is unknown, which is not zero.

    `input_tokens` includes the cached ones, `output_tokens` the reasoning ones.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None

    def __add__(self, other: Usage) -> Usage:
        return Usage(*map(_add, msgspec.structs.astuple(self), msgspec.structs.astuple(other)))


class Call(msgspec.Struct, frozen=True, gc=False):
    """One tool call as the model wrote it; `arguments` is JSON text unless the model failed to write JSON.

    `extra` holds the fields of the call that only its service understands, to be echoed to it.
    """

    name: str
    arguments: str
    extra: dict[str, Any] = {}


class Reply(msgspec.Struct, frozen=True):
    """A complete reply. It is the answer only if it has no calls."""

    text: str
    calls: list[Call]
    finish_reason: str
    usage: Usage
    reasoning: str = ""
    model: str | None = None
    server_ms: dict[str, float] = {}
    salvaged: bool = False


def _add(left: int | None, right: int | None) -> int | None:
    return right if left is None else left if right is None else left + right
