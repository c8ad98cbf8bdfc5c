"""An MCP server as a source of tools: what it offers is known from the last time, and it is connected when needed."""

from __future__ import annotations

import importlib.util
from collections.abc import Collection, Mapping, Sequence
from typing import Self

from hotloop.errors import ConfigError, ToolDefinitionError
from hotloop.tools.defining.foreign import ForeignRules
from hotloop.tools.defining.tool import Tool
from hotloop.tools.mcp.connections import Connections
from hotloop.tools.mcp.endpoint import Endpoint, read_options
from hotloop.tools.mcp.listing import Listing, ListingCache
from hotloop.tools.mcp.offer import Choice, offer


class MCPServer:
    """A server that `command` starts, with `env`, or that listens at `url` and is sent `headers`.

    `name` begins the names of its tools. They are taken as tools with effects, whatever it hints, unless `read_only`
    names them or `trust_hints` is set; a hint that a tool changes things holds always. `include` names the tools to
    take, `rules` gives some of them options of `tool`, `name` and `description` among them; both go by the server's own
    names. `timeout` is seconds for connecting, and for listing. Raises ConfigError for what cannot work, or if the
    package `mcp` is missing.
    """

    def __init__(
        self,
        command: Sequence[str] | None = None,
        *,
        name: str,
        url: str | None = None,
        env: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        trust_hints: bool = False,
        read_only: Collection[str] = (),
        include: Collection[str] | None = None,
        rules: Mapping[str, ForeignRules] | None = None,
        timeout: float | None = 30.0,
    ) -> None:
        self._endpoint = read_options(
            Endpoint, name, name=name, command=command, url=url, env=env, headers=headers, timeout=timeout
        )
        self._choice = read_options(
            Choice, name, include=include, read_only=read_only, rules=rules, trust_hints=trust_hints
        )
        if importlib.util.find_spec("mcp") is None:
            raise ConfigError(f'The MCP server {name} needs one more package: pip install "hotloop[mcp]".')
        self._cache = ListingCache(self._endpoint)
        self._connections = Connections(self._endpoint, self._cache.put)
        self._made: tuple[Listing, list[Tool]] | None = None

    @property
    def name(self) -> str:
        """What the names of its tools begin with."""
        return self._endpoint.name

    @property
    def connected(self) -> bool:
        """Whether this event loop has a connection that is open, or being opened."""
        return self._connections.open_here

    def known(self) -> list[Tool] | None:
        """Its tools as they were listed last, maybe by another process; None if that is not known, or does not fit."""
        try:
            return self._offer()
        except ToolDefinitionError:  # it may have changed since; `tools` will say
            return None

    async def tools(self) -> list[Tool]:
        """Its tools as it lists them itself, for which it is connected.

        Raises ToolUnavailable if it cannot be reached, ToolDefinitionError if what it offers cannot be used.
        """
        connection = await self._connections.here()
        await connection.listed()
        return self._offer() or []

    async def connect(self) -> None:
        """Connect before the first call needs it. Raises ToolUnavailable."""
        await self._connections.here()

    async def aclose(self) -> None:
        """End the connection of this event loop, and the process with it; the next call opens it again."""
        await self._connections.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"<MCPServer {self.name}: {self._endpoint.place}>"

    def _offer(self) -> list[Tool] | None:
        listing = self._cache.get()
        if listing is None:
            return None
        if self._made is None or self._made[0] != listing:
            self._made = listing, offer(self.name, listing, self._choice, self._connections.call)
        return list(self._made[1])
