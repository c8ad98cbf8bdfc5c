"""From a response to what the model reads: JSON, text, a note of what it was, or why it was an error."""

from __future__ import annotations

from http.client import responses
from typing import TYPE_CHECKING, Any

import msgspec

from hotloop.errors import ToolError, ToolUnavailable
from hotloop.tools.openapi.auth import Credentials
from hotloop.tools.openapi.slots import is_json
from hotloop.words import short

if TYPE_CHECKING:
    import httpx2

_MOST_BYTES = 4 << 20
_LONGEST = 500  # characters of an error's text
_PASSING = {408, 425, 429}
_TEXTS = ("text/", "application/xml", "application/yaml", "application/javascript", "application/x-www-form-urlencoded")


async def read_reply(response: httpx2.Response, allowed: Credentials) -> Any:
    """The result in a response, the credentials it was asked with masked if it repeats them.

    Raises ToolUnavailable if it says that the same may succeed later (it is not retryable if that is a second or more
    away, for which no retry waits), ToolError for any other error in it.
    """
    body, whole = await _read(response)
    location = response.headers.get("location", "")
    for secret in allowed.secrets:
        body, location = body.replace(secret.encode(), b"***"), location.replace(secret, "***")
    if not response.is_success:
        raise _error(response, body, location, allowed.variables)
    if not whole:
        raise ToolError(f"The answer is larger than {_MOST_BYTES >> 20} MiB; ask for less of it.")
    return _result(response, body, location)


async def _read(response: httpx2.Response) -> tuple[bytes, bool]:
    """The body, and whether that is all of it."""
    body = bytearray()
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) > _MOST_BYTES:
            return bytes(body[:_MOST_BYTES]), False
    return bytes(body), True


def _result(response: httpx2.Response, body: bytes, location: str) -> Any:
    media_type = response.headers.get("content-type", "")
    if not body:
        return {"status": response.status_code} | ({"location": location} if location else {})
    if is_json(media_type) or not media_type:
        try:
            return msgspec.json.decode(body)
        except (msgspec.DecodeError, RecursionError):
            media_type = media_type or "text/plain"
    if is_json(media_type) or media_type.lower().startswith(_TEXTS) or "+xml" in media_type:
        return body.decode(response.encoding or "utf-8", errors="replace")
    return {"status": response.status_code, "type": media_type, "bytes": len(body)}


def _error(response: httpx2.Response, body: bytes, location: str, variables: str) -> ToolError:
    status = response.status_code
    words = [f"The service answered {status} {responses.get(status, 'Unknown')}", _said(body)]
    if status in (401, 403) and variables:
        words.append(f"The credentials come from the environment variable {variables}")
    if 300 <= status < 400 and location:
        words.append(f"It sends on to {location.partition('?')[0]}, which is not followed")
    if wait := response.headers.get("retry-after", "").strip():
        words.append(f"It asks to wait {wait} s" if wait.isdecimal() else f"It asks to wait until {wait}")
    message = ". ".join(word.rstrip(".") for word in words if word) + "."
    if status >= 500 or status in _PASSING:
        return ToolUnavailable(message, retryable=wait in ("", "0"))
    return ToolError(message)


def _said(body: bytes) -> str:
    """The error in the service's words: the title and detail of problem+json, or how its text begins."""
    try:
        problem = msgspec.json.decode(body, type=_Problem)
        said = ": ".join(part for part in (problem.title, problem.detail) if part)
    except (msgspec.DecodeError, RecursionError):
        said = ""
    return short(said or " ".join(body[: 4 * _LONGEST].decode(errors="replace").split()), _LONGEST)


class _Problem(msgspec.Struct):
    """An error as RFC 9457 has it."""

    title: str = ""
    detail: str = ""
