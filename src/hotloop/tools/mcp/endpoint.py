"""Where an MCP server is: a command that starts it, or the URL it listens at."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

import msgspec

from hotloop.errors import ConfigError

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,32}")
_SECRET = 4  # characters from which on a value is worth hiding


class Endpoint(msgspec.Struct, frozen=True):
    """A server by its `name`, reached by `command` with `env`, or at `url` with `headers`; `timeout` in seconds."""

    name: str
    command: tuple[str, ...]
    url: str
    env: dict[str, str]
    headers: dict[str, str]
    timeout: float | None

    @property
    def place(self) -> str:
        """Where it is, in words for a message: nothing of it is secret."""
        if self.command:
            return f"the command {self.command[0]!r}"
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

    @property
    def key(self) -> str:
        """The same for the same server, and says nothing of it."""
        return hashlib.sha256(msgspec.json.encode([self.command or self.url, self.name])).hexdigest()

    def masked(self, text: str) -> str:
        """The text without the values of `env` and `headers`."""
        for value in (*self.env.values(), *self.headers.values()):
            if len(value) >= _SECRET:
                text = text.replace(value, "***")
        return text


def read_endpoint(
    name: str,
    command: Sequence[str] | None,
    url: str | None,
    env: Mapping[str, str] | None,
    headers: Mapping[str, str] | None,
    timeout: float | None,
) -> Endpoint:
    """The endpoint that these options of an `MCPServer` mean. Raises ConfigError for what cannot work."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ConfigError(
            f"An MCP server's name begins the names of its tools; {name!r} is not 1 to 32 of a-z A-Z 0-9 _ -"
        )
    fault = (
        _fault_of_place(command, url)
        or _fault_of_texts("env", env, "command", command)
        or _fault_of_texts("headers", headers, "url", url)
        or _fault_of_timeout(timeout)
    )
    if fault:
        raise ConfigError(f"The MCP server {name}: {fault}.")
    return Endpoint(name, tuple(command or ()), url or "", dict(env or {}), dict(headers or {}), timeout)


def _fault_of_place(command: Sequence[str] | None, url: str | None) -> str:
    if (command is None) == (url is None):
        return "give command= to start it, or url= to reach it, one of the two"
    if url is not None:
        return "" if _is_url(url) else f"url is {url!r}; give the http:// or https:// address of its endpoint"
    if isinstance(command, str) or not command or not all(isinstance(part, str) and part for part in command):
        return f'command is {command!r}; give the program and its arguments, as in ["npx", "-y", "a-server"]'
    return ""


def _is_url(url: object) -> bool:
    try:
        parts = urlsplit(url) if isinstance(url, str) else None
    except ValueError:
        return False
    return parts is not None and parts.scheme in ("http", "https") and bool(parts.hostname)


def _fault_of_texts(option: str, texts: Mapping[str, str] | None, needs: str, given: object) -> str:
    if texts is None:
        return ""
    if given is None:
        return f"{option} is for a server with {needs}="
    if not isinstance(texts, Mapping):
        return f"{option} is {texts!r}; give names and values"
    for key, value in texts.items():
        if not isinstance(key, str) or not isinstance(value, str):
            return f"{option}: {key} is {type(value).__name__}, not text; is the variable it comes from set?"
        if any(char in key + value for char in "\r\n\0"):
            return f"{option}: {key} has a line break or a null in it"
    return ""


def _fault_of_timeout(timeout: object) -> str:
    if timeout is None or (type(timeout) in (int, float) and 0 < timeout < math.inf):  # type: ignore[operator]
        return ""
    return f"timeout is {timeout!r}; give seconds, more than 0, or None for no limit"
