"""Functions that a declaration names as "module:function"."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from hotloop.errors import ConfigError
from hotloop.words import did_you_mean

_NAME = re.compile(r"\w+(\.\w+)*:\w+")


def load_function(name: str, folder: Path, role: str) -> Callable[..., Any]:
    """Import it, with `folder` on the import path as for a script that lies in it.

    `role` says in messages what it is for, with a place for its name. Raises ConfigError, which says why it cannot be
    had.
    """
    if not _NAME.fullmatch(name):
        raise unusable(name, role, "it is not of the form module:function")
    place = str(folder.resolve())
    if place not in sys.path:
        sys.path.insert(0, place)
    module_name, attribute = name.split(":")
    module = _import(name, role, module_name, folder)
    found: Any = getattr(module, attribute, None)
    if found is None:
        hint = did_you_mean(attribute, [each for each, value in vars(module).items() if callable(value)])
        raise unusable(name, role, f"{module_name} has no {attribute}{hint}")
    if not callable(found):
        raise unusable(name, role, f"it is a value of type {type(found).__name__}, which cannot be called")
    return found  # type: ignore[no-any-return]


def unusable(name: str, role: str, why: str) -> ConfigError:
    """The error for a function that cannot be had."""
    stop = "" if why.endswith((".", "?")) else "."
    return ConfigError(f"{role.format(name)} cannot be had: {why}{stop}")


def _import(name: str, role: str, module_name: str, folder: Path) -> ModuleType:
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:  # a script that lacks its `if __name__ == "__main__"` may end itself
        if isinstance(error, ModuleNotFoundError) and f"{module_name}.".startswith(f"{error.name}."):
            where = f"neither in {folder.resolve()} nor installed"
            raise unusable(name, role, f"there is no module {error.name}, {where}") from None
        why = f"importing {module_name} failed: {type(error).__name__}: {error}"
        raise unusable(name, role, why) from error
    meant = folder.resolve() / f"{module_name.replace('.', '/')}.py"
    if meant.exists() and module.__file__ and not meant.samefile(module.__file__):
        raise unusable(name, role, f"another module {module_name} is imported already, from {module.__file__}")
    return module
