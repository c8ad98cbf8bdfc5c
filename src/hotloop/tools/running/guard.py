"""What a call is allowed: grants, allow-lists, and whether a person has to agree."""

from __future__ import annotations

import logging
from enum import Enum
from typing import Any

from hotloop.errors import ToolRefused
from hotloop.tools.defining.tool import Allowed, Tool

_log = logging.getLogger("hotloop.tools")


def check(tool: Tool, arguments: dict[str, Any], grants: frozenset[str]) -> None:
    """Raise ToolRefused if the run lacks a grant that the tool requires, or an argument is not on its allow-list."""
    if not tool.requires <= grants:
        missing = ", ".join(sorted(tool.requires - grants))
        raise ToolRefused(f"{tool.name} is not allowed here: this run was not granted {missing}.")
    for name, allowed in tool.allow.items():
        value = arguments.get(name)
        for item in value if isinstance(value, list | tuple | set | frozenset) else (value,):
            if not _passes(tool, name, allowed, item.value if isinstance(item, Enum) else item):
                raise ToolRefused(f"{tool.name} is not allowed with this {name}; it would have to {allowed.told}.")


def needs_approval(tool: Tool, arguments: dict[str, Any]) -> bool:
    """Whether a person must agree to this call. A test of the tool's that fails counts as yes."""
    if tool.approval == "never" or tool.approval == "always":
        return tool.approval == "always"
    try:
        return bool(tool.approval(arguments))
    except Exception as error:
        _log.warning("The approval test of %s failed, so a person is asked: %r", tool.name, error, exc_info=error)
        return True


def _passes(tool: Tool, name: str, allowed: Allowed, value: Any) -> bool:
    try:
        return bool(allowed.test(value))
    except Exception as error:
        _log.warning("The allow-list of %s for %s failed, so the call is refused: %r", tool.name, name, error)
        return False
