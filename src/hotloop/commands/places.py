"""Where agents keep what lasts, for commands that look into it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, NamedTuple, TypeAlias

from cyclopts import Parameter

from hotloop.commands.options import Name
from hotloop.config.spec import AgentSpec, load_spec
from hotloop.database import state_path
from hotloop.errors import ConfigError
from hotloop.fields import require

File: TypeAlias = Annotated[Path | None, Parameter(metavar="FILE")]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Place:
    """Options that say where to look.

    Parameters
    ----------
    agent_file
        An agent's file: look where this agent keeps its own.
    path
        The file to look into. [default: the one in your state folder]
    agent
        Only what belongs to the agent with this name.
    """

    agent_file: File = None
    path: File = None
    agent: Name | None = None


class Found(NamedTuple):
    """The file to look into, and the agent whose part of it is meant; None for all of it."""

    path: Path
    agent: str | None


def find(place: Place, usual: str, declared: Callable[[AgentSpec], str | None]) -> Found:
    """Where to look: at what an agent's file has `declared`, at the path that was given, or at the `usual` name.

    Raises ConfigError where nothing can be found.
    """
    if place.agent_file is None:
        missing = place.path is not None and not place.path.exists()
        require(not missing, f"There is no file {place.path}.")
        return Found(place.path or state_path(usual), place.agent)
    unsaid = place.path is None and place.agent is None
    require(unsaid, "The agent's file says what is its own, and where; leave out --path and --agent.")
    spec = load_spec(place.agent_file)
    name = declared(spec)
    if name == ":memory:":
        raise ConfigError(
            f"The agent of {place.agent_file} keeps it in its own process, and nobody else can look at it."
        )
    return Found(spec.folder / name if name else state_path(usual), spec.name)
