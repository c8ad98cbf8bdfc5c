"""What a request to a model failed with, by whatever name: the class of ours that says the same."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from hotloop.trace.importing.names import STATUS, told_count

_OURS = {
    "RateLimited": ("ratelimit", "toomanyrequests", "throttl", "resourceexhausted", "quotaexceeded"),
    "Overloaded": ("overloaded", "internalserver", "servererror", "unavailable", "badgateway", "gatewaytimeout"),
    "ConnectError": ("connecterror", "connecttimeout", "connectionrefused", "connectionrefusederror"),
    "ReplyTimeout": ("timeout", "deadlineexceeded"),
    "TransportError": ("connection", "remoteprotocol", "readerror", "writeerror", "chunkedencoding", "networkerror"),
    "MalformedReply": ("responsevalidation", "jsondecode", "malformed"),
    "AuthenticationError": ("authentication", "permissiondenied", "unauthorized", "forbidden"),
    "ContextOverflow": ("contextlength", "contextwindow", "contextoverflow"),
    "InvalidRequest": ("badrequest", "unprocessable", "notfounderror", "invalidrequest"),
}  # parts of names in lower case and without what joins words; the first one that there is counts
_JOINTS = re.compile(r"[\s_.-]+")
_STATUS = re.compile(r"\b(?:status|error|http)(?:[ _]?code)?\W{0,3}([45]\d\d)\b", re.IGNORECASE)
_STATUS_ONLY = re.compile(r"[45]\d\d")


def class_of(error: str, attributes: Mapping[str, Any], message: str = "") -> str:
    """The class of ours for an `error`, its class, its status or its kind in other words; itself if there is none.

    A status in the span's attributes or in its `message` tells what a class does not.
    """
    if _STATUS_ONLY.fullmatch(error):
        return class_of_status(int(error))
    plain = _JOINTS.sub("", error).lower()
    named = next((ours for ours, parts in _OURS.items() if ours == error or any(each in plain for each in parts)), "")
    return named or _by_status(attributes, message) or error


def class_of_status(status: int) -> str:
    """The class of ours for the status of a refusal."""
    if status == 429:
        return "RateLimited"
    if status in (401, 403):
        return "AuthenticationError"
    return "Overloaded" if status in (408, 409, 425) or status >= 498 else "InvalidRequest"


def _by_status(attributes: Mapping[str, Any], message: str) -> str:
    status = told_count(attributes, STATUS) or 0
    found = _STATUS.search(message)
    status = status if status >= 400 else int(found[1]) if found else 0
    return class_of_status(status) if status else ""
