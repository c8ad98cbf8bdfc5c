"""A profile in a YAML (or JSON) file, and everything that is wrong in it, by line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import yaml

from hotloop.config.nodes import Faults, entries, line_of, parse, readings, under
from hotloop.errors import ConfigError
from hotloop.files import read_text
from hotloop.lab.profiles import Profile, faults_of
from hotloop.words import did_you_mean

_FIELDS = {field.name: field for field in msgspec.structs.fields(Profile)}


def read_profile(path: Path) -> Profile:
    """The profile in a file; see `hotloop.lab.profilefile.load_profile`."""
    if not read_text(path).strip():
        raise ConfigError(f"The profile {path} is empty; `hotloop sim --list --json` shows what is in one.")
    faults = Faults(path)
    lines: dict[str, int] = {}
    try:
        given = _fields(parse(path), faults, lines)
    except RecursionError:
        raise ConfigError(f"An alias in {path} refers to itself.") from None
    for where, what in faults_of(given):
        faults.add(lines.get(where) or lines[where.partition(".")[0]], where, what)
    faults.raise_any()
    profile: Profile = msgspec.convert(given, Profile)
    return profile


def _fields(root: yaml.Node, faults: Faults, lines: dict[str, int]) -> dict[str, Any]:
    """The values of the fields that the file gives; notes the line of each, and of each part."""
    given: dict[str, Any] = {}
    keys = entries(root, "", faults)
    for key, entry in keys.items():
        lines[key] = entry.line
        if key not in _FIELDS:
            hint = did_you_mean(key, _FIELDS) or f"; there are {', '.join(_FIELDS)}"
            faults.add(entry.line, key, f"unknown key{hint}")
            continue
        if isinstance(entry.node, yaml.MappingNode):
            lines.update((under(key, part), found.line) for part, found in entries(entry.node, key, faults).items())
        try:
            given[key] = readings(entry.node)[0]
        except ValueError as error:
            faults.add(entry.line, key, str(error))
        except LookupError as error:
            faults.add(entry.line, key, f"environment variable {error.args[0]} is not set")
    for name, field in _FIELDS.items():
        if field.required and name not in keys:
            faults.add(line_of(root), name, "is missing")
    return given
