"""Which tools an agent has, declared: from modules and from servers, and the rules that they run by."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta

from hotloop.fields import Count, Natural, Seconds, Secrets, Text, require
from hotloop.masks import masked
from hotloop.tools.prefetch.settings import Prefetch

Command: TypeAlias = Annotated[tuple[Text, ...], Meta(extra={"secret": True})]


class RulesSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Rules for a tool that a server lists, and other words for it; see `ToolOptions`.

    Times are seconds, `max_result` tokens.
    """

    name: Text | None = None
    description: Text | None = None
    approval: Literal["never", "always"] = "never"
    requires: tuple[Text, ...] = ()
    secrets: tuple[Text, ...] = ()
    optional: bool = False
    timeout: Seconds | None = None
    retry: Natural | None = None
    ttl: Seconds | None = None
    scope: Literal["run", "session", "user", "global"] | None = None
    keep: tuple[Text, ...] = ()
    max_result: Count | None = None
    summarize: bool = False
    sequential: bool = False


class MCPSpec(msgspec.Struct, frozen=True, kw_only=True):
    """An MCP server; see `hotloop.tools.mcp.MCPServer`. `timeout` is seconds for connecting."""

    name: Text
    command: Command | None = None
    url: Text | None = None
    env: Secrets | None = None
    headers: Secrets | None = None
    trust_hints: bool = False
    read_only: tuple[Text, ...] = ()
    include: tuple[Text, ...] | None = None
    rules: dict[str, RulesSpec] = {}
    timeout: Seconds = 30.0

    def __post_init__(self) -> None:
        one = bool(self.command) != bool(self.url)
        require(one, "An MCP server has a command, which starts it, or a url, where it is: give one of the two.")

    def __repr__(self) -> str:
        return masked(self)


class OpenAPISpec(msgspec.Struct, frozen=True, kw_only=True):
    """An OpenAPI document; see `hotloop.tools.openapi.tools_from_openapi`. `timeout` is seconds for one call."""

    source: Text
    base_url: Text | None = None
    prefix: str = ""
    include: tuple[Text, ...] | None = None
    auth: Secrets | None = None
    timeout: Seconds | None = None
    approval: Literal["never", "always"] = "never"
    rules: dict[str, RulesSpec] = {}

    def __repr__(self) -> str:
        return masked(self)


class ToolsSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Which tools there are, as "module:function" or from servers, how they run, and what they may do.

    `timeout` is seconds for one call, `max_result` tokens of a result; `audit` and `approvals` are files.
    """

    use: tuple[Text, ...] = ()
    mcp: tuple[MCPSpec, ...] = ()
    openapi: tuple[OpenAPISpec, ...] = ()
    parallel: bool = True
    max_parallel: Count = 8
    timeout: Seconds = 30.0
    retry: Natural = 0
    shortlist: Count | None = None
    plan: bool = False
    prefetch: Prefetch | None = None
    max_result: Count | None = None
    grants: tuple[Text, ...] = ()
    audit: Text | None = None
    approvals: Text | None = None
