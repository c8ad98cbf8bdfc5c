"""Where a service listens: the parts of its URL."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from hotloop.errors import ConfigError


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
    trimmed = endpoint.rstrip("/")
    if trimmed.endswith("/chat/completions"):
        return trimmed
    return trimmed + ("/chat/completions" if urlsplit(trimmed).path else "/v1/chat/completions")


def parse_target(url: str) -> Target:
    """The target of a chat-completions URL; raises ConfigError for what is not http(s) or a unix socket."""
    if url.startswith("unix:"):
        return Target("localhost", 0, False, "/v1/chat/completions", "localhost", "/" + url[5:].lstrip("/"))
    parts = urlsplit(url)
    try:
        port = parts.port
    except ValueError as fault:
        raise ConfigError(f"The endpoint {url!r} has no valid port: {fault}.") from None
    if parts.scheme == "http+unix" and parts.hostname:
        return Target("localhost", 0, False, parts.path, "localhost", unquote(parts.netloc))
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(f"The endpoint {url!r} is no URL; write it like https://api.groq.com/openai/v1.")
    tls = parts.scheme == "https"
    path = parts.path + (f"?{parts.query}" if parts.query else "")
    return Target(parts.hostname, port or (443 if tls else 80), tls, path, parts.netloc.rpartition("@")[2])
