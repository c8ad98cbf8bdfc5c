"""Places in JSON values, `.items[0].id`: how they are written, and what is there or is not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from hotloop.errors import ArgumentsError, ToolError
from hotloop.models.wire.frames import decode_json
from hotloop.words import listed, short

Path = tuple[str | int | None, ...]
"""Names, positions in lists, and None for all items of one, `[*]` or `[]`."""

_PART = re.compile(r"""\.([\w-]+)|\[(-?[0-9]{1,9}|\*?)\]|\[("(?:[^"\\]|\\.)*")\]|\['([^'\\]*)'\]""")
_PLAIN = re.compile(r"[\w-]+")


def parse_path(text: str) -> Path:
    """The parts of `items[0].id`, `["odd name"][-1]`, `[*].id`, each also after `$` or `$.`; "" and "$" are the whole.

    Raises ArgumentsError for what is no path.
    """
    rest = text.strip().removeprefix("$")
    if rest and rest[0] not in ".[":
        rest = f".{rest}"
    path, at = [], 0
    while at < len(rest):
        found = _PART.match(rest, at)
        if found is None:
            raise _no_path(text)
        path.append(_part(found, text))
        at = found.end()
    return tuple(path)


def write_path(path: Path) -> str:
    """The path as `parse_path` reads it, a leading name with its dot."""
    return "".join(map(_written, path))


def places(value: Any, path: Path, name: str) -> Iterator[tuple[str, Any]]:
    """What the path leads to in decoded JSON called `name`, each with its own name; several only through `[*]`.

    Raises ToolError, with what is there instead, if the path leads nowhere.
    """
    for at, part in enumerate(path):
        if part is None:
            for number, item in enumerate(_items(value, part, name)):
                yield from places(item, path[at + 1 :], f"{name}[{number}]")
            return
        value = _member(value, part, name) if isinstance(part, str) else _item(value, part, name)
        name += _written(part)
    yield name, value


def _no_path(text: str) -> ArgumentsError:
    return ArgumentsError(f'{short(text)!r} is no path; write one like items[0].id, items[*].id or ["odd name"]')


def _part(found: re.Match[str], text: str) -> str | int | None:
    name, position, quoted, plain = found.groups()
    if position is not None:
        return int(position) if position not in ("", "*") else None
    if not quoted:
        return name or plain or ""
    try:
        return str(decode_json(quoted))
    except ValueError:
        raise _no_path(text) from None


def _written(part: str | int | None) -> str:
    if not isinstance(part, str):
        return "[*]" if part is None else f"[{part}]"
    return f".{part}" if _PLAIN.fullmatch(part) else f"[{msgspec.json.encode(part).decode()}]"


def _member(value: Any, part: str, name: str) -> Any:
    if not isinstance(value, dict):
        instead = "; take [0] or [*]" if isinstance(value, list) else ""
        raise ToolError(f"{name} is {_kind(value)}, so it has no {_written(part)}{instead}")
    if part in value:
        return value[part]
    if value.keys() == {"error"}:
        raise ToolError(f"{name} is an error, so it has no {_written(part)}: {short(str(value['error']), 300)}")
    raise ToolError(f'{name} has no "{short(part)}"; it has: {listed(part, value)}')


def _item(value: Any, part: int, name: str) -> Any:
    items = _items(value, part, name)
    if -len(items) <= part < len(items):
        return items[part]
    count = "1 item" if len(items) == 1 else f"{len(items):,} items"
    raise ToolError(f"{name} has {count}, so there is no [{part}]")


def _items(value: Any, part: int | None, name: str) -> list[Any]:
    if isinstance(value, list):
        return value
    instead = f"; it has: {listed('', value)}" if isinstance(value, dict) else ""
    raise ToolError(f"{name} is {_kind(value)}, so it has no {_written(part)}{instead}")


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    kinds = {dict: "an object", list: "a list", str: "text", bool: "true or false"}
    return kinds.get(type(value), "a number")
