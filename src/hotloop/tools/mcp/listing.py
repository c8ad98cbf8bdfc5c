"""What an MCP server offers: as it was listed last, in this process or before, kept in the user's cache."""

from __future__ import annotations

import asyncio
import logging
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from hotloop.tools.mcp.endpoint import Endpoint

if TYPE_CHECKING:
    from mcp import Client, types

_log = logging.getLogger("hotloop.tools.mcp")
_MOST_PAGES = 100


class Hints(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What a server says of a tool's effects; None where it says nothing."""

    read_only_hint: bool | None = None
    destructive_hint: bool | None = None
    idempotent_hint: bool | None = None


class Listed(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A tool as its server lists it."""

    name: str
    input_schema: dict[str, Any]
    description: str = ""
    annotations: Hints = Hints()


class Listing(msgspec.Struct, frozen=True):
    """All tools of a server, by name, so that the same tools are the same listing."""

    tools: tuple[Listed, ...]


async def list_tools(client: Client) -> Listing:
    """What the server offers, all pages of it. Raises what the SDK's client raises."""
    found: dict[str, Listed] = {}
    cursor, pages = None, 0
    while client.server_capabilities.tools is not None:
        page = await client.list_tools(cursor=cursor)
        found |= {tool.name: _listed(tool) for tool in page.tools}
        cursor, pages = page.next_cursor, pages + 1
        if cursor and pages == _MOST_PAGES:
            _log.warning("After %s pages of tools no more are asked for; the server offers more.", pages)
        if not cursor or pages == _MOST_PAGES:
            break
    return Listing(tuple(found[name] for name in sorted(found)))


def _listed(tool: types.Tool) -> Listed:
    hints, description = tool.annotations, tool.description or tool.title or ""
    if hints is None:
        return Listed(tool.name, tool.input_schema, description)
    effects = Hints(hints.read_only_hint, hints.destructive_hint, hints.idempotent_hint)
    return Listed(tool.name, tool.input_schema, description, effects)


class ListingCache:
    """Where the listing of one server is kept, for this process and the next one."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._name = endpoint.name
        self._path = _folder() / f"{endpoint.key}.json"
        self._listing: Listing | None = None
        self._complained = False

    def get(self) -> Listing | None:
        """The last listing; None if there never was one that can be read."""
        if self._listing is None:
            self._listing = self._read()
        return self._listing

    async def put(self, listing: Listing) -> None:
        """Keep this listing, and say what is other than before."""
        before = self.get()
        if listing == before:
            return
        self._listing = listing
        if before is not None:
            _log.warning("The MCP server %s offers other tools than before: %s.", self._name, _changes(before, listing))
        try:
            await asyncio.to_thread(self._write, listing)
        except OSError as error:
            _log.warning("The tools of the MCP server %s could not be kept in %s: %s", self._name, self._path, error)

    def _read(self) -> Listing | None:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=Listing)
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            if not self._complained:
                _log.warning("%s cannot be read and will be written anew: %s", self._path, error)
            self._complained = True
            return None

    def _write(self, listing: Listing) -> None:
        """Replace the file as a whole: others may be reading it."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".listing-", dir=self._path.parent) as scratch:
            whole = Path(scratch) / self._path.name
            whole.write_bytes(msgspec.json.encode(listing))
            whole.replace(self._path)


def _folder() -> Path:
    from hotloop.models.local.weights import weights_folder  # not at the top: it brings zipfile and more

    return weights_folder().parent / "mcp"


def _changes(before: Listing, after: Listing) -> str:
    """What is other, in words: "new refund; gone cancel; changed status (description, schema)"."""
    old, new = ({tool.name: tool for tool in each.tools} for each in (before, after))
    changed = [f"{name} ({_other(old[name], new[name])})" for name in old.keys() & new.keys() if old[name] != new[name]]
    parts = {"new": new.keys() - old.keys(), "gone": old.keys() - new.keys(), "changed": changed}
    return "; ".join(f"{what} {', '.join(sorted(names))}" for what, names in parts.items() if names)


def _other(before: Listed, after: Listed) -> str:
    parts = {"description": "description", "input_schema": "schema", "annotations": "hints"}
    return ", ".join(word for part, word in parts.items() if getattr(before, part) != getattr(after, part))
