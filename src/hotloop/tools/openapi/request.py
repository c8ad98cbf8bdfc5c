"""From arguments to a request: every value in its place, so that none of them can change what is asked of whom."""

from __future__ import annotations

import re
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

import msgspec

from hotloop.errors import ArgumentsError
from hotloop.tools.openapi.auth import Security, places
from hotloop.tools.openapi.bodies import Body
from hotloop.tools.openapi.slots import LeftOut, Slot
from hotloop.tools.openapi.styles import Pair, joined, pairs, simple, text_of

_VARIABLE = re.compile(r"\{([^{}]*)\}")
_PRINTABLE = re.compile(r"|[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?")


class RequestPlan(msgspec.Struct, frozen=True):
    """How an operation is requested: what of whom, with which credentials, and where its arguments go."""

    method: str
    server: str
    path: str
    security: Security
    slots: list[Slot]
    body: Body | None


class Request(NamedTuple):
    """A request without credentials."""

    method: str
    url: str
    headers: list[tuple[str, str]]
    content: bytes | None


def check_path(plan: RequestPlan) -> None:
    """Raise LeftOut for a path that cannot be filled in."""
    if "?" in plan.path or "#" in plan.path:
        raise LeftOut("its path has a query or a fragment")
    for name in _VARIABLE.findall(plan.path):
        if not any(slot.place == "path" and slot.name == name for slot in plan.slots):
            raise LeftOut(f"no parameter is described for {{{name}}} in its path")


def build(plan: RequestPlan, arguments: dict[str, Any]) -> Request:
    """The request for these arguments. Raises ArgumentsError for a value that its place cannot hold."""
    given = [(slot, value) for slot in plan.slots if (value := _value(slot, arguments)) is not msgspec.UNSET]
    path = _path(plan.path, {slot.name: _in_path(slot, value) for slot, value in given if slot.place == "path"})
    query = _query(plan, [(slot, value) for slot, value in given if slot.place == "query"])
    headers = [(slot.name, _in_header(slot, value)) for slot, value in given if slot.place == "header"]
    content = _content(plan.body, [(slot, value) for slot, value in given if slot.place == "body"])
    if content is not None and plan.body:
        charset = "; charset=utf-8" if plan.body.kind == "text" and "charset" not in plan.body.media_type else ""
        headers.append(("content-type", plan.body.media_type + charset))
    return Request(plan.method, f"{plan.server}{path}{'?' if query else ''}{query}", headers, content)


def _value(slot: Slot, arguments: dict[str, Any]) -> Any:
    """What goes into a slot, UNSET for nothing; null is nothing but in a body, which can say null."""
    value = arguments.get(slot.argument, msgspec.UNSET)
    if value is None and slot.place != "body":
        value = msgspec.UNSET
    if value is msgspec.UNSET and slot.required:
        raise ArgumentsError(f"{slot.argument} is missing.")
    return msgspec.json.encode(value).decode() if slot.json and value is not msgspec.UNSET else value


def _path(template: str, values: dict[str, str]) -> str:
    """The path with its values in it, which may not lead to another path, whoever decodes it on the way."""
    path = _VARIABLE.sub(lambda found: values[found[1]], template)
    if any(part in (".", "..") for part in re.split(r"[/\\]", unquote(path))):
        raise ArgumentsError('A value that goes into the path may not have "." or ".." as one of its parts.')
    return quote(path, safe="/%,=!$&'()*+;:@~")


def _in_path(slot: Slot, value: Any) -> str:
    text = simple(value, slot.explode)
    if not text:
        raise ArgumentsError(f"{slot.argument} may not be empty: it is a part of the path.")
    return text


def _query(plan: RequestPlan, given: list[tuple[Slot, Any]]) -> str:
    written: list[Pair] = []
    for slot, value in given:
        own = pairs(slot.name, value, slot.style, slot.explode)
        if isinstance(value, dict):
            _check_names(plan, slot, own)
        written += own
    return joined(written)


def _check_names(plan: RequestPlan, slot: Slot, own: list[Pair]) -> None:
    """The keys of an object can become names of the query: not such as others have, credentials among them."""
    taken = {(other.place, other.name.lower()) for other in plan.slots if other is not slot} | places(plan.security)
    for name, _ in own:
        if ("query", unquote(name).lower()) in taken:
            raise ArgumentsError(f"{slot.argument} may not have the key {unquote(name)!r}.")


def _in_header(slot: Slot, value: Any) -> str:
    text = simple(value, slot.explode, text_of)
    if not _PRINTABLE.fullmatch(text):
        raise ArgumentsError(f"{slot.argument} goes into a header: it may have printable ASCII only.")
    return text


def _content(body: Body | None, given: list[tuple[Slot, Any]]) -> bytes | None:
    if body is None or not (given or body.required):
        return None
    wholes = [value for slot, value in given if not slot.name]
    value = wholes[0] if wholes else {slot.name: value for slot, value in given}
    match body.kind:
        case "json":
            return msgspec.json.encode(value)
        case "text":
            return text_of(value or "").encode()
    if wholes:
        return joined(pairs("", value, "form", True)).encode()
    return joined(pair for slot, value in given for pair in pairs(slot.name, value, slot.style, slot.explode)).encode()
