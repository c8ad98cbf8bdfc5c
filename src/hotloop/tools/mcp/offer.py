"""Which tools of an MCP server an agent gets, under which names, and what is believed of their effects."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from hotloop.errors import ToolDefinitionError
from hotloop.tools.defining.foreign import LONGEST_NAME, foreign_tool, is_readable, naming, plain_name, with_hash
from hotloop.tools.defining.tool import Tool
from hotloop.tools.mcp.listing import Listed, Listing
from hotloop.words import listed

_log = logging.getLogger("hotloop.tools.mcp")

Call = Callable[[str, dict[str, Any]], Awaitable[str]]


class Choice(msgspec.Struct, frozen=True):
    """What its user says of a server's tools: which to take (None: all), and by which rules they run.

    `rules` go by the server's own names. Its hints are believed only with `trust_hints`.
    """

    include: frozenset[str] | None = None
    read_only: frozenset[str] = frozenset()
    rules: dict[str, dict[str, Any]] = {}
    trust_hints: bool = False

    def unknown(self, listing: Listing) -> str:
        """A sentence about a tool that the user names and the server does not offer, "" if there is none."""
        offered = [tool.name for tool in listing.tools]
        named = {"include": self.include or (), "read_only": self.read_only, "rules": self.rules}
        for option, names in named.items():
            for name in names:
                if name not in offered:
                    return f"{option} names {name}, which it does not offer; it offers {listed(name, offered)}"
        return ""


def offer(server: str, listing: Listing, choice: Choice, call: Call) -> list[Tool]:
    """The chosen tools of this listing; `call` gets a tool's own name and its arguments.

    Raises ToolDefinitionError for names that meet, and for schemas or rules that cannot be.
    """
    if unknown := choice.unknown(listing):
        raise ToolDefinitionError(f"The MCP server {server}: {unknown}")
    taken: dict[str, str] = {}
    tools = []
    for tool in listing.tools:
        if choice.include is not None and tool.name not in choice.include:
            continue
        made = _tool(server, tool, choice, call)
        if made.name in taken:
            raise ToolDefinitionError(
                f"The MCP server {server} offers {taken[made.name]} and {tool.name}, which would both be called "
                f"{made.name}; take one of them with include=, or give one another name in rules="
            )
        taken[made.name] = tool.name
        tools.append(made)
    return tools


def offered_name(server: str, tool: str) -> str:
    """The name under which models see a server's tool; with a hash if it is too long, or not all of it can be shown."""
    whole = f"{server}_{tool}"
    name = plain_name(whole)
    return name if is_readable(tool) and len(name) <= LONGEST_NAME else with_hash(name, whole)


def _tool(server: str, tool: Listed, choice: Choice, call: Call) -> Tool:
    async def work(**arguments: Any) -> str:
        return await call(tool.name, arguments)

    said = tool.description if is_readable(tool.name) else naming(tool.name, tool.description)
    told = {"name": offered_name(server, tool.name), "description": said}
    try:
        return foreign_tool(schema=tool.input_schema, call=work, **told | _options(server, tool, choice))
    except ToolDefinitionError as error:
        raise ToolDefinitionError(
            f"The MCP server {server}: {error}. Without it, name the others in include="
        ) from error.__cause__


def _options(server: str, tool: Listed, choice: Choice) -> dict[str, Any]:
    """The rules for one tool: a hint can take a permission away, but only its user gives one."""
    hints, trusted = tool.annotations, choice.trust_hints
    options = {
        "read_only": tool.name in choice.read_only or (trusted and hints.read_only_hint is True),
        "idempotent": trusted and hints.idempotent_hint is True and hints.destructive_hint is not True,
        **choice.rules.get(tool.name, {}),
    }
    if options["read_only"] and (hints.read_only_hint is False or hints.destructive_hint is True):
        _log.warning(
            "%s of the MCP server %s is not taken as read-only: the server says that it changes things.",
            tool.name,
            server,
        )
        options["read_only"] = False
    return options
