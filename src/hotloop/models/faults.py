"""Which error a service means, and when it says to come back."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any

import msgspec

from hotloop.errors import (
    AuthenticationError,
    ContextOverflow,
    InvalidRequest,
    Overloaded,
    RateLimited,
    ServiceError,
    ToolUseFailed,
)

_OVERFLOW = re.compile(
    r"context[ _-]?(length|window|size)|maximum context|prompt is too long|exceeds? the (available )?context"
    r"|too many (input )?tokens|reduce the length of the messages",
    re.IGNORECASE,
)
_TOO_LARGE = re.compile(r"request too large", re.IGNORECASE)
_TRY_AGAIN = re.compile(
    r"(?:try again|retry)(?: in| after)?\s+((?:[0-9.]+\s*(?:ms|m(?!s)|h|s)[a-z]*\s*)+)", re.IGNORECASE
)
_SPAN = re.compile(r"([0-9.]+)\s*(ms|h|m|s)")
_SPAN_S = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


def service_error(status: int, headers: Mapping[str, str], body: bytes | dict[str, Any]) -> ServiceError:
    """The typed error for an error reply; `body` is the raw body, or the error object found inside a stream."""
    error = _error_object(body)
    message = str(error.get("message") or error.get("detail") or error.get("error") or "no message").strip()
    code = error.get("code") or error.get("type")
    if inner := _status_of(error):
        status = inner
    kind = _kind(status, str(code or ""), message)
    text = f"The service answered {status}{f' ({code})' if code and str(code) != str(status) else ''}: {message[:500]}"
    made = kind(
        text + _ADVICE.get(kind, ""),
        status=status,
        code=None if code is None else str(code),
        retry_after=retry_after(headers, message) if kind in (RateLimited, Overloaded) else None,
    )
    if isinstance(made, ToolUseFailed):
        made.failed_generation = str(error.get("failed_generation") or "")
    return made


_ADVICE: dict[type[ServiceError], str] = {
    AuthenticationError: ". Check the API key and that it may use this model.",
    ContextOverflow: ". Shorten the conversation or the tool results, or use a model with a larger context.",
}


def retry_after(headers: Mapping[str, str], message: str = "") -> float | None:
    """Seconds until the service wants to be asked again, from its headers (names in lower case) or its words."""
    try:
        if value := headers.get("retry-after-ms"):
            return max(0.0, float(value) / 1000)
        if value := headers.get("retry-after"):
            return max(0.0, _seconds_or_date(value))
    except ValueError:
        pass
    resets = [
        _span(headers[f"x-ratelimit-reset-{what}"])
        for what in ("requests", "tokens")
        if headers.get(f"x-ratelimit-remaining-{what}") == "0" and f"x-ratelimit-reset-{what}" in headers
    ]
    if resets:
        return max(resets)
    found = _TRY_AGAIN.search(message)
    return _span(found[1]) if found else None


def _kind(status: int, code: str, message: str) -> type[ServiceError]:
    if code == "tool_use_failed":
        return ToolUseFailed
    if code == "context_length_exceeded" or (status in (400, 413, 422, 500) and _OVERFLOW.search(message)):
        return ContextOverflow
    if status in (429, 413) and _TOO_LARGE.search(message):
        return InvalidRequest
    if status == 429:
        return RateLimited
    if status in (401, 403):
        return AuthenticationError
    if status in (408, 409, 425, 498) or status >= 500:
        return Overloaded
    return InvalidRequest


def _error_object(body: bytes | dict[str, Any]) -> dict[str, Any]:
    value: Any = body
    if isinstance(body, bytes):
        try:
            value = msgspec.json.decode(body)
        except msgspec.DecodeError:
            return {"message": body[:300].decode("utf-8", "replace") or "an empty body"}
    if isinstance(value, list) and value:
        value = value[0]
    if isinstance(value, dict) and isinstance(value.get("error"), dict):
        value = value["error"]
    return value if isinstance(value, dict) else {"message": str(value)}


def _status_of(error: dict[str, Any]) -> int:
    for key in ("status", "code", "status_code"):
        value = error.get(key)
        if isinstance(value, str) and value.isdigit():
            value = int(value)
        if isinstance(value, int) and 400 <= value < 600:
            return value
    return {"rate_limit_exceeded": 429, "server_error": 500, "overloaded_error": 529}.get(
        str(error.get("type") or error.get("code")), 0
    )


def _seconds_or_date(value: str) -> float:
    try:
        return float(value)
    except ValueError:
        return parsedate_to_datetime(value).timestamp() - time.time()


def _span(text: str) -> float:
    """Seconds from "2m59.56s", "350ms" or a plain number."""
    parts = _SPAN.findall(text)
    if not parts:
        try:
            return max(0.0, float(text))
        except ValueError:
            return 0.0
    return sum(float(number) * _SPAN_S[unit] for number, unit in parts)
