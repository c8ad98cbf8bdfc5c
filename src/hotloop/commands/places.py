"""Where agents keep what lasts, for commands that look into it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, NamedTuple, TypeAlias

from cyclopts import Parameter

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
    """

    agent_file: File = None
    path: File = None


class Found(NamedTuple):
    """The file to look into, and the agent that was declared to keep it there; None if none was named."""

    path: Path
    spec: AgentSpec | None


def find(place: Place, usual: str, declared: Callable[[AgentSpec], str | None], *, new: bool = False) -> Found:
    """Where to look: at the path that an agent's file has `declared`, at the one that was given, or at the usual name.

    Raises ConfigError where nothing can be, and for a path where nothing is, unless it may be `new`.
    """
    if place.agent_file is None:
        missing = not new and place.path is not None and not place.path.exists()
        require(not missing, f"There is no file {place.path}.")
        return Found(place.path or state_path(usual), None)
    require(place.path is None, "The agent's file says where it is kept; leave out --path.")
    spec = load_spec(place.agent_file)
    name = declared(spec)
    if name == ":memory:":
        raise ConfigError(f"The agent of {place.agent_file} keeps it in its own process: nobody else can look at it.")
    return Found(spec.beside(name) or state_path(usual), spec)
