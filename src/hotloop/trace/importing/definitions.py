"""Which tools a model was offered, and how large their definitions are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from hotloop.trace.importing import names
from hotloop.trace.importing.messages import FLAT_TOOLS
from hotloop.trace.ledger import ToolFacts

_PARAMETERS = "model_request_parameters"  # pydantic-ai's, before it followed the conventions
_LISTS = ("tools", "function_tools", "functions")


class Definitions:
    """Collects the tools of one request after the other."""

    def __init__(self) -> None:
        self.tools: dict[str, ToolFacts] = {}
        self._seen: set[str] = set()

    def add(self, attributes: Mapping[str, Any]) -> None:
        """The tools that these attributes of a request tell of."""
        for text in _texts(attributes):
            if text not in self._seen:
                self._seen.add(text)
                self._add(text)

    def _add(self, text: str) -> None:
        try:
            value = msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError):
            return
        for tool in _tools(value):
            about = tool.get("function", tool)
            name = about.get("name") if isinstance(about, dict) else None
            if isinstance(name, str) and name:
                self.tools[name] = ToolFacts(size=len(msgspec.json.encode(tool)))


def _texts(attributes: Mapping[str, Any]) -> Iterator[str]:
    flat = [value for key, value in attributes.items() if key.startswith(FLAT_TOOLS) and isinstance(value, str)]
    if flat:
        yield from flat
        return
    known = names.told(attributes, names.DEFINITIONS) or attributes.get(_PARAMETERS) or attributes.get(names.PARAMETERS)
    yield from (each for each in (known if isinstance(known, list) else [known]) if isinstance(each, str))


def _tools(value: Any) -> list[dict[str, Any]]:
    if isinstance(value, dict):
        inside = next((value[name] for name in _LISTS if isinstance(value.get(name), list)), None)
        value = [value] if inside is None else inside
    return [tool for tool in value if isinstance(tool, dict)] if isinstance(value, list) else []
