"""Where a service listens: the parts of its URL."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

from hotloop.errors import ConfigError

_UNFIT = re.compile(r"[\x00-\x20\x7f]")


class Target(NamedTuple):
    """Where a service listens and what to ask for there; `unix` is a socket's path or ""."""

    host: str
    port: int
    tls: bool
    path: str
    authority: str
    unix: str = ""


def chat_url(endpoint: str) -> str:
    """The chat-completions URL of an endpoint given as a base URL or in full; a bare host means its /v1."""
    if endpoint.startswith("unix:"):
        return endpoint
    parts = split_url(endpoint)
    if "://" not in endpoint:
        raise _no_url(endpoint)
    path = parts.path.rstrip("/")
    if not path.endswith("/chat/completions"):
        path = f"{path or '/v1'}/chat/completions"
    return urlunsplit(parts._replace(path=path, fragment=""))


def parse_target(url: str) -> Target:
    """The target of a chat-completions URL; raises ConfigError for what is not http(s) or a unix socket."""
    if url.startswith("unix:"):
        return Target("localhost", 0, False, "/v1/chat/completions", "localhost", "/" + url[5:].lstrip("/"))
    parts = split_url(url)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if _UNFIT.search(parts.netloc + path):
        raise ConfigError(f"The endpoint {_shown(url)} has a space or a control character in it; write it like %20.")
    if "@" in parts.netloc:
        raise ConfigError("The endpoint has a user or a password in it; give the key as api_key or as a header.")
    if parts.scheme == "http+unix" and parts.hostname:
        return Target("localhost", 0, False, path, "localhost", unquote(parts.netloc))
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise _no_url(url)
    tls = parts.scheme == "https"
    return Target(parts.hostname, parts.port or (443 if tls else 80), tls, path, parts.netloc)


def split_url(url: str) -> SplitResult:
    """The parts of a URL, its port among them; raises ConfigError where there are none."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as fault:
        why = "what is before the @ cannot be part of one" if "@" in url else str(fault)  # it may quote a password
        raise ConfigError(f"The endpoint {_shown(url)} is no URL: {why}.") from None
    return parts


def _no_url(endpoint: str) -> ConfigError:
    what = f"The endpoint {_shown(endpoint)} is no URL"
    return ConfigError(f'{what}; it begins with http:// or https://, or is "local".')


def _shown(url: str) -> str:
    """The URL for a message: without its query and what may be a password."""
    place, _, query = url.partition("?")
    before, _, place = place.rpartition("@")
    return repr(f"{before and '***@'}{place}{query and '?***'}")
