"""What an OpenAPI document says and where: its values with their places, references followed inside it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import msgspec

from hotloop.errors import ConfigError, ToolDefinitionError
from hotloop.tools.openapi.source import parse, read_source

_READ = re.compile(r"3\.[01](\..*)?")


class Document(msgspec.Struct, frozen=True, eq=False):
    """A document and what it is called in messages; `url` is where it was fetched from, "" for a file."""

    source: str
    url: str
    root: Any

    @property
    def top(self) -> Node:
        """The whole document."""
        return Node(self.root, "", self)


class Node(msgspec.Struct, frozen=True, eq=False):
    """A value in a document, None where there is none, and its place as a person finds it."""

    value: Any
    place: str
    document: Document

    def __bool__(self) -> bool:
        return self.value is not None

    def get(self, key: str) -> Node:
        """The value under a key of a mapping; nothing has only nothing in it."""
        return self._part(key, self._mapping().get(key))

    def find(self, key: str) -> Node:
        """The same, a reference there followed."""
        return self.get(key).followed()

    def names(self) -> list[str]:
        """The keys of a mapping."""
        return list(self._mapping())

    def items(self) -> Iterator[tuple[str, Node]]:
        """The keys and values of a mapping."""
        return ((key, self._part(key, value)) for key, value in self._mapping().items())

    def elements(self) -> list[Node]:
        """The elements of a list."""
        if not isinstance(self._or([]), list):
            raise self.fault("expected a list")
        return [Node(value, f"{self.place}[{number}]", self.document) for number, value in enumerate(self._or([]))]

    def text(self, key: str, default: str = "") -> str:
        """The text under a key."""
        node = self.get(key)
        if not isinstance(node._or(""), str):
            raise node.fault("expected text")
        return node.value if node else default

    def flag(self, key: str) -> bool:
        """Whether a key says true."""
        return self.get(key).value is True

    def followed(self) -> Node:
        """What stands here in the end, if it is a reference."""
        node, passed = self, set()
        while isinstance(node.value, dict) and isinstance(reference := node.value.get("$ref"), str):
            if reference in passed:
                raise self.fault(f"the reference {reference!r} leads to itself")
            passed.add(reference)
            node = node._referred(reference)
        return node

    def fault(self, message: str) -> ToolDefinitionError:
        """An error that says where in which document something is wrong."""
        return ToolDefinitionError(f"{self.document.source}: {self.place or 'the document'}: {message}")

    def _referred(self, reference: str) -> Node:
        if not reference.startswith("#"):
            raise self.fault(
                f"the reference {reference!r} leads out of the document; bundle the documents into one file first"
            )
        node = self.document.top
        for part in unquote(reference[1:]).split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            if isinstance(node.value, list) and key.isdecimal():
                node = dict(enumerate(node.elements())).get(int(key), Node(None, "", self.document))
            else:
                node = node.get(key) if isinstance(node.value, dict) else Node(None, "", self.document)
        if not node:
            raise self.fault(f"the reference {reference!r} leads nowhere")
        return node

    def _part(self, key: str, value: Any) -> Node:
        return Node(value, f"{self.place}.{key}" if self.place else key, self.document)

    def _mapping(self) -> dict[str, Any]:
        mapping = self._or({})
        if not isinstance(mapping, dict):
            raise self.fault("expected keys with values")
        return mapping

    def _or(self, default: Any) -> Any:
        return default if self.value is None else self.value


def read_document(source: str | Path) -> Document:
    """The document at a path or an http(s) URL.

    Raises ConfigError for what cannot be read or fetched, and for what is no OpenAPI 3.0 or 3.1.
    """
    name, url, text = read_source(source)
    root = parse(name, text)
    if not isinstance(root, dict):
        raise ConfigError(f"{name} is no OpenAPI document: expected keys with values.")
    if "swagger" in root:
        raise ConfigError(f"{name} is Swagger {root['swagger']}; convert it to OpenAPI 3 first.")
    if not _READ.fullmatch(str(root.get("openapi"))):
        raise ConfigError(f"{name}: openapi: expected 3.0 or 3.1, got {root.get('openapi')!r}.")
    return Document(name, url, root)
