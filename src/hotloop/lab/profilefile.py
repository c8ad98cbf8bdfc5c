"""Profiles by name or from a file, and back into one."""

from __future__ import annotations

from pathlib import Path

import msgspec

from hotloop.errors import ConfigError
from hotloop.files import write_whole
from hotloop.lab.profiles import Profile
from hotloop.lab.profiletable import PROFILES
from hotloop.words import listed

_NO_YAML = 'A profile in a file needs PyYAML: pip install "hotloop[yaml]".'


def load_profile(which: str | Path | Profile) -> Profile:
    """The profile with this name, or in this YAML file.

    Raises ConfigError for an unknown name, and for a file with all its faults, each with its line.
    """
    if isinstance(which, Profile):
        return which
    if known := PROFILES.get(str(which)):
        return known
    path = Path(which)
    if path.suffix not in (".yaml", ".yml", ".json") and not path.is_file():
        raise ConfigError(
            f"There is no profile {str(which)!r} and no such file; there are {listed(str(which), PROFILES)}."
        )
    try:
        from hotloop.lab.profileyaml import read_profile
    except ModuleNotFoundError as error:
        if error.name != "yaml":
            raise
        raise ConfigError(_NO_YAML) from None
    return read_profile(path)


def save_profile(profile: Profile, path: str | Path) -> None:
    """Write a profile to a YAML file, whole or not at all. Raises ConfigError when it cannot be written."""
    try:
        data = msgspec.yaml.encode(profile)
    except ImportError:
        raise ConfigError(_NO_YAML) from None
    write_whole(Path(path), data)
