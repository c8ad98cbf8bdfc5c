"""A request body as parts with their places in its bytes; what is cut off at its end counts as far as it goes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from hotloop.errors import ConfigError

HEAD_ROLES = ("system", "developer")

_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?$)|[{}\[\]:,]|[^\s{}\[\]:,"]+', re.DOTALL)
_STEP = 4096  # bytes compared at once
_NAMES = 12  # of a path
_OPENING, _CLOSING = (b"{", b"["), (b"}", b"]")


class Part(NamedTuple):
    """A value inside a body: its name in an object, or its number in an array, and where it is."""

    name: str
    start: int
    end: int


class Body(NamedTuple):
    """A body taken apart: `options` are its fields by name, `tools` and `messages` what these lists hold."""

    data: bytes
    options: dict[str, Part]
    tools: list[Part]
    messages: list[Part]

    def text(self, part: Part) -> bytes:
        """A part's bytes."""
        return self.data[part.start : part.end]

    def fields(self, part: Part) -> dict[str, Part]:
        """The values directly inside a part, by name or number."""
        return {each.name: each for each in children(self.data, part.start)}

    def plain(self, part: Part, *names: str) -> str:
        """The text at this path inside a part; "" if there is none."""
        for name in names:
            found = self.fields(part).get(name)
            if found is None:
                return ""
            part = found
        return decoded(self.text(part))


def read_body(data: bytes) -> Body:
    """Take a body apart, or its front. Raises ConfigError for what is no JSON object."""
    if not data.lstrip().startswith(b"{"):
        raise ConfigError("This is no request body: it does not begin as a JSON object.")
    options = {part.name: part for part in children(data, 0)}
    lists = [options.pop(name, None) for name in ("tools", "messages")]
    tools, messages = ([] if part is None else list(children(data, part.start)) for part in lists)
    return Body(data, options, tools, messages)


def children(data: bytes, start: int) -> Iterator[Part]:
    """The values directly inside the object or array that begins at `start`, in order; none of any other value."""
    name, count, depth = "", 0, 0
    begin = end = -1  # of the value that is being read
    for token in _TOKEN.finditer(data, start):
        mark = token[0]
        if depth == 0 and mark not in _OPENING:
            return
        if depth == 1 and mark in (b",", b"}", b"]"):
            if begin >= 0:
                yield Part(name or str(count), begin, end)
            name, count, begin = "", count + 1, -1
        elif depth == 1 and mark == b":":
            name, begin = decoded(data[begin:end]), -1
        elif depth >= 1:
            begin, end = begin if begin >= 0 else token.start(), token.end()
        depth += (mark in _OPENING) - (mark in _CLOSING)
        if depth == 0:
            return
    if begin >= 0:
        yield Part(name or str(count), begin, end)


def path_to(data: bytes, part: Part, at: int) -> list[str]:
    """The names that lead from a part towards the innermost value in which byte `at` is; of many the first few."""
    path: list[str] = []
    while len(path) < _NAMES:
        inner = next((each for each in children(data, part.start) if each.start <= at < each.end), None)
        if inner is None:
            break
        path.append(inner.name)
        part = inner
    return path


def tokens(data: bytes, part: Part) -> Iterator[re.Match[bytes]]:
    """The JSON tokens of a part, without the white space between them."""
    return _TOKEN.finditer(data, part.start, part.end)


def decoded(token: bytes) -> str:
    """The text that a JSON string is; of anything else, or of a string that is cut off, its bytes as text."""
    try:
        return msgspec.json.decode(token, type=str)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return token.decode(errors="replace")


def common(one: bytes, other: bytes) -> int:
    """How many bytes two texts have in common from their start on."""
    least = min(len(one), len(other))
    at = 0
    while at < least and one[at : at + _STEP] == other[at : at + _STEP]:
        at += _STEP
    at = min(at, least)
    while at < least and one[at] == other[at]:
        at += 1
    return at


def field_of(value: bytes | bytearray, name: str) -> str:
    """The text of one field of a JSON object; "" if it has none of that name."""
    data = bytes(value)
    return next((decoded(data[part.start : part.end]) for part in children(data, 0) if part.name == name), "")
