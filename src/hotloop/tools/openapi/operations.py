"""The operations of an OpenAPI document, each with a name that services take for a tool's, and where its server is."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from urllib.parse import urljoin

import msgspec

from hotloop.errors import ConfigError
from hotloop.models.http.target import split_url
from hotloop.tools.defining.foreign import is_readable, naming, plain_name, with_hash
from hotloop.tools.openapi.document import Document, Node
from hotloop.tools.openapi.schemas import shorten
from hotloop.words import did_you_mean, free_name

READING = ("GET", "HEAD")
_METHODS = ("get", "head", "put", "post", "patch", "delete")
_LONGEST = 300  # characters of a description
_PREFIX = re.compile("[a-zA-Z0-9_-]{0,32}")


class Operation(msgspec.Struct, frozen=True, eq=False):
    """One operation: the tool's `name`, the method, the path with its parameters in braces, and what is said of it."""

    name: str
    method: str
    path: str
    item: Node
    node: Node

    @property
    def original(self) -> str:
        """What the document calls it: its `operationId`, or "GET /orders"."""
        return self.node.text("operationId") or f"{self.method} {self.path}"

    @property
    def description(self) -> str:
        """What it does; it begins with the original name where the tool's own does not show it."""
        return self._said if is_readable(self.original) else naming(self.original, self._said)

    @property
    def _said(self) -> str:
        """From its summary and the first paragraph of its description; without them what it is."""
        summary, text = (shorten(self.node.text(key), _LONGEST) for key in ("summary", "description"))
        if not summary and not text:
            return f"{self.method} {self.path}"
        if not summary or text.lower().startswith(summary.lower().rstrip(".")):
            return text
        return shorten(f"{summary.rstrip('.')}. {text}" if text else summary, _LONGEST)


def list_operations(document: Document, prefix: str) -> list[Operation]:
    """All operations, their names made valid and different from each other. Raises ConfigError for a useless prefix."""
    if not _PREFIX.fullmatch(prefix):
        raise ConfigError(f"prefix={prefix!r}; give up to 32 letters of a-z, A-Z, 0-9, _ and -")
    found: dict[str, Operation] = {}
    for path, method, item, node in _operations(document):
        name = free_name(prefix + _wanted(node.text("operationId"), f"{method}{path}"), found)
        found[name] = Operation(name, method.upper(), path, item, node)
    return list(found.values())


def _wanted(given: str, made: str) -> str:
    """The first of these names that is readable, else what is left of the one made of method and path, with a hash."""
    for name in (given, made):
        if is_readable(name):
            return plain_name(name).strip("_")
    return with_hash(plain_name(made), made)


def choose(operations: list[Operation], include: Collection[str] | None) -> list[Operation]:
    """The operations named by `include`, as the document or as the tool calls them; else all that are not deprecated.

    Raises ConfigError for a name that no operation has.
    """
    if include is None:
        return [operation for operation in operations if not operation.node.flag("deprecated")]
    if isinstance(include, str):
        raise ConfigError(f"include={include!r}; give a list of names, [{include!r}]")
    chosen = {operation.name for operation in named(operations, include, "include").values()}
    return [operation for operation in operations if operation.name in chosen]


def named(operations: list[Operation], wanted: Iterable[str], option: str) -> dict[str, Operation]:
    """The operations that an option names, by these names, which are the document's or the tools'.

    Raises ConfigError for a name that no operation has.
    """
    names = {operation.original: operation for operation in operations}
    names |= {operation.name: operation for operation in operations}
    for name in wanted:
        if name not in names:
            raise ConfigError(f"{option}: there is no operation {name!r}{did_you_mean(name, names) or '.'}")
    return {name: names[name] for name in wanted}


def server_of(operation: Operation, base_url: str | None) -> str:
    """The URL that the operation's path is appended to.

    Raises ConfigError if nobody says where the server is, or if that is no http(s) URL.
    """
    document = operation.node.document
    levels = (operation.node, operation.item, document.top)
    servers = next((servers for level in levels if (servers := level.get("servers").elements())), [])
    url = base_url or urljoin(document.url, _filled_in(servers[0]) if servers else "/")
    parts = split_url(url)
    if parts.query or parts.fragment or "@" in parts.netloc:
        raise ConfigError(
            f"{document.source}: the server's URL has a query, a fragment or a password; give base_url= without them."
        )
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(
            f"{document.source} does not say where its server is (it has {url!r}); give base_url=, which begins with "
            "http:// or https://."
        )
    return url.rstrip("/")


def _operations(document: Document) -> Iterator[tuple[str, str, Node, Node]]:
    for path, item in document.top.get("paths").items():
        if path.startswith("/"):
            item = item.followed()
            for method in _METHODS:
                if node := item.get(method):
                    yield path, method, item, node


def _filled_in(server: Node) -> str:
    """A server's URL with the defaults of its variables."""

    def default(found: re.Match[str]) -> str:
        value = server.get("variables").get(found[1]).get("default").value
        if value is None:
            raise server.fault(f"the variable {found[1]!r} has no default; give base_url=")
        return str(value)

    return re.sub(r"\{([^{}]*)\}", default, server.text("url"))
