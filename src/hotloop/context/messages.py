"""The messages of a conversation, read from the JSON that they are kept as."""

from __future__ import annotations

import msgspec


class Function(msgspec.Struct, gc=False):
    """What a call names."""

    name: str = ""
    arguments: str = ""


class Call(msgspec.Struct, gc=False):
    """A call that the model asks for."""

    function: Function


class Message(msgspec.Struct, gc=False):
    """What is said in a message, by whom; what it lacks is empty."""

    role: str = ""
    content: str | None = None
    reasoning_content: str = ""
    tool_calls: list[Call] = []
    tool_call_id: str = ""


_decode = msgspec.json.Decoder(list[Message]).decode


def as_list(data: bytes | bytearray | memoryview) -> bytes:
    """Messages that are parted by commas, as a list in JSON."""
    return b"".join((b"[", data, b"]"))


def read(data: bytes | bytearray | memoryview) -> list[Message]:
    """Messages that are parted by commas. Raises msgspec.MsgspecError if they are none."""
    return _decode(as_list(data))
