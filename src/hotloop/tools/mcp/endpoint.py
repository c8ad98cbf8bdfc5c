"""Where an MCP server is: a command that starts it, or the URL it listens at."""

from __future__ import annotations

import hashlib
from typing import Annotated, Any, TypeVar
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from hotloop.errors import ConfigError

_SECRET = 4  # characters from which on a value is worth hiding

T = TypeVar("T")


class Endpoint(msgspec.Struct, frozen=True):
    """A server by its `name`, reached by `command` with `env`, or at `url` with `headers`; `timeout` in seconds."""

    name: Annotated[str, Meta(pattern=r"^[a-zA-Z0-9_-]{1,32}\Z")]
    command: tuple[Annotated[str, Meta(min_length=1)], ...] = ()
    url: Annotated[str, Meta(pattern="^https?://")] = ""
    env: dict[str, str] = {}
    headers: dict[str, str] = {}
    timeout: Annotated[float, Meta(gt=0)] | None = None

    def __post_init__(self) -> None:
        if bool(self.command) == bool(self.url):
            raise ValueError("give command= to start it, or url= to reach it, one of the two")
        if (self.headers and self.command) or (self.env and self.url):
            raise ValueError("env= goes with command=, and headers= with url=")
        if self.url and not self.host:
            raise ValueError(f"there is no host in {self.url!r}")
        for key, value in (self.env | self.headers).items():
            if any(char in key + value for char in "\r\n\0"):
                raise ValueError(f"{key} has a line break or a null in it")

    @property
    def place(self) -> str:
        """Where it is, in words for a message: nothing of it is secret."""
        if self.command:
            return f"the command {self.command[0]!r}"
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

    @property
    def host(self) -> str:
        """The host of its URL, "" for a command."""
        return urlsplit(self.url).hostname or ""

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


def read_options(kind: type[T], server: str, **options: Any) -> T:
    """What these options of an `MCPServer` mean; None stands for the default. Raises ConfigError."""
    given = {option: value for option, value in options.items() if value is not None}
    try:
        return msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        raise ConfigError(f"The MCP server {server}: {error}.") from None
