"""Which error a service means, and when it says to come back."""

from __future__ import annotations

import math
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
from hotloop.models.wire.frames import decode_json

_CONTEXT_LIMIT = re.compile(
    r"(?:maximum context length|context (?:length|window|size))\D{0,40}?(\d[\d,]*)", re.IGNORECASE
)
_OVERFLOW = re.compile(
    r"context[ _-]?(length|window|size)|maximum context|prompt is too long|exceeds? the (available )?context"
    r"|too many (input )?tokens|reduce the length of the messages",
    re.IGNORECASE,
)
_TOO_LARGE = re.compile(r"request too large", re.IGNORECASE)
_SPAN = re.compile(
    r"([0-9]+(?:\.[0-9]+)?|\.[0-9]+)\s*(ms|milliseconds?|s|sec(?:ond)?s?|m|min(?:ute)?s?|h|hours?)(?![a-z])",
    re.IGNORECASE,
)
_TRY_AGAIN = re.compile(rf"(?:try again|retry)(?: in| after)?\s+((?:{_SPAN.pattern}\s*)+)", re.IGNORECASE)
_UNIT_S = {"s": 1.0, "m": 60.0, "h": 3600.0}
_TAGS = re.compile(r"<(style|script)\b.*?</\1>|<[^>]*>", re.DOTALL | re.IGNORECASE)
_STATUS = {  # of errors inside a stream that name none
    "rate_limit_exceeded": 429,
    "rate_limit_error": 429,
    "RESOURCE_EXHAUSTED": 429,
    "overloaded_error": 529,
    "invalid_request_error": 400,
    "BadRequestError": 400,
    "authentication_error": 401,
    "invalid_api_key": 401,
    "permission_error": 403,
    "not_found_error": 404,
}


def service_error(status: int, headers: Mapping[str, str], body: bytes | dict[str, Any]) -> ServiceError:
    """The typed error for an error reply; `body` is the raw body, or the error object found inside a stream (200)."""
    error = _error_object(body)
    message = str(error.get("message") or error.get("detail") or error.get("error") or "no message").strip()
    code = error.get("code") or error.get("type")
    status = _status_of(error) or (status if status >= 300 else _status_by_name(error))
    if 300 <= status < 400:
        message = f"it redirects to {headers.get('location', 'nowhere')}; use that as the endpoint"
    kind = _kind(status, str(code or ""), message)
    text = f"The service answered {status}{f' ({code})' if code and str(code) != str(status) else ''}: {message[:500]}"
    wait = retry_after(headers, message) if kind in (RateLimited, Overloaded) else None
    advice = _ADVICE.get(kind, "") if wait is None else f"It asks to wait {wait:g} s."
    made = kind(
        f"{text.rstrip('.!')}. {advice}".rstrip(),
        status=status,
        code=None if code is None else str(code),
        retry_after=wait,
    )
    if isinstance(made, ToolUseFailed):
        made.failed_generation = str(error.get("failed_generation") or "")
    if isinstance(made, ContextOverflow):
        made.limit = _context_limit(error, message)
    return made


_ADVICE: dict[type[ServiceError], str] = {
    AuthenticationError: "Check the API key and that it may use this model.",
    ContextOverflow: "Shorten the conversation or the tool results, or use a model with a larger context.",
}


def _context_limit(error: dict[str, Any], message: str) -> int | None:
    """How many tokens a context takes, as llama.cpp tells in a field, and others in words."""
    if isinstance(told := error.get("n_ctx"), int):
        return told
    found = _CONTEXT_LIMIT.search(message)
    return int(found[1].replace(",", "")) if found else None


def retry_after(headers: Mapping[str, str], message: str = "") -> float | None:
    """Seconds until the service wants to be asked again, from its headers (names in lower case) or its words."""
    for name, unit in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        seconds = _seconds_or_date(headers.get(name, ""))
        if seconds is not None:
            return seconds * unit
    resets = [
        span(value)
        for name, value in headers.items()
        if name.startswith("x-ratelimit-reset-") and headers.get(name.replace("reset", "remaining"), "0") == "0"
    ]
    if known := [seconds for seconds in resets if seconds is not None]:
        return max(known)
    found = _TRY_AGAIN.search(message)
    return span(found[1]) if found else None


def is_error(value: Any) -> bool:
    """True for an object that is an error which nothing is wrapped around."""
    if not isinstance(value, dict) or "choices" in value:
        return False
    return value.get("object") == "error" or any(isinstance(value.get(key), str) for key in ("message", "detail"))


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
            value = decode_json(body)
        except msgspec.DecodeError:
            return {"message": _words(body)}
    if isinstance(value, list) and value:
        value = value[0]
    if isinstance(value, dict) and isinstance(value.get("error"), dict):
        value = value["error"]
    return value if isinstance(value, dict) else {"message": value}


def _words(body: bytes) -> str:
    """What a person reads of a body that is no JSON, such as a gateway's error page."""
    text = _TAGS.sub(" ", body[:4096].decode("utf-8", "replace"))
    return " ".join(text.split())[:300] or "an empty body"


def _status_of(error: dict[str, Any]) -> int:
    for key in ("status", "code", "status_code"):
        value = error.get(key)
        if isinstance(value, str) and re.fullmatch("[45][0-9][0-9]", value):
            value = int(value)
        if isinstance(value, int) and 400 <= value < 600:
            return value
    return 0


def _status_by_name(error: dict[str, Any]) -> int:
    names = (str(error.get(key)) for key in ("code", "type", "status"))
    return next((_STATUS[name] for name in names if name in _STATUS), 500)


def _seconds_or_date(value: str) -> float | None:
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - time.time()
        except (ValueError, OverflowError):
            return None
    return max(0.0, seconds) if math.isfinite(seconds) else None


def span(text: str) -> float | None:
    """Seconds from "2m59.56s", "350ms" or a plain number."""
    parts = _SPAN.findall(text)
    if not parts:
        return _seconds_or_date(text)
    return sum(
        float(number) * (1e-3 if unit.lower().startswith(("ms", "mil")) else _UNIT_S[unit[0].lower()])
        for number, unit in parts
    )
