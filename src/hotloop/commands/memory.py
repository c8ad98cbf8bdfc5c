"""`hotloop memory`: what is known of users, for whoever looks after it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Annotated, TypeAlias, TypeVar

from cyclopts import App, Parameter
from rich.text import Text

from hotloop.commands.asking import confirmed
from hotloop.commands.console import messages, moment, results, write_json
from hotloop.commands.launch import run_async
from hotloop.commands.options import Flag, Json, Name
from hotloop.commands.places import Place, find
from hotloop.config.contextspec import MemorySpec
from hotloop.config.spec import AgentSpec
from hotloop.context.memory.memory import Fact, Memory
from hotloop.errors import ConfigError
from hotloop.fields import require
from hotloop.visible import one_line
from hotloop.words import counted, did_you_mean, short

T = TypeVar("T")
Ask: TypeAlias = Callable[[Memory], Awaitable[T]]
Words: TypeAlias = Annotated[str, Parameter(allow_leading_hyphen=True)]
SessionId: TypeAlias = Annotated[Name | None, Parameter(metavar="ID")]

_HELP = """Look into what agents know of a user: list it, add to it, search it, hand it out, delete it.

Example: hotloop memory list --user ann"""

memory = App(name="memory", help=_HELP)
_ANYWHERE = Place()
_PATIENCE = 60.0  # seconds: a person waits until an embedding is loaded, other than a run


@memory.command(name="list")
def list_(*, user: Name, place: Place = _ANYWHERE, as_json: Json = False) -> int:
    """List all that is known of a user, the oldest first.

    Example: hotloop memory list --user ann

    Parameters
    ----------
    user
        Of whom.
    as_json
        Print what export prints instead.
    """
    path, facts = _asked(place, lambda kept: kept.export(user))
    return _tell(path, user, facts, as_json)


@memory.command
def add(
    text: Words, /, *, user: Name, session: SessionId = None, place: Place = _ANYWHERE, as_json: Json = False
) -> int:
    """Add a fact about a user, in a sentence or two.

    Example: hotloop memory add "Ann speaks French." --user ann

    Parameters
    ----------
    text
        The fact.
    user
        About whom.
    session
        The conversation that it is for. [default: all of the user's]
    as_json
        Print one object with the fact instead.
    """

    async def remember(kept: Memory) -> Fact:
        return kept.remember(text, user=user, session=session or "")

    _, fact = _asked(place, remember, new=True)
    if as_json:
        write_json(fact)
    else:
        _show(fact)
    return 0


@memory.command
def search(
    request: Words,
    /,
    *,
    user: Name,
    session: SessionId = None,
    place: Place = _ANYWHERE,
    as_json: Json = False,
) -> int:
    """Show which facts a request of a user would bring along, the best first.

    Example: hotloop memory search "Which language do I speak?" --user ann

    Parameters
    ----------
    request
        What the user would say.
    user
        Who would.
    session
        In which conversation. [default: in a new one]
    as_json
        Print one object with the facts instead.
    """
    path, facts = _asked(place, lambda kept: kept.recall(request, user=user, session=session or ""))
    return _tell(path, user, facts, as_json)


@memory.command
def export(*, user: Name, place: Place = _ANYWHERE) -> int:
    """Print all that is known of a user as JSON.

    Example: hotloop memory export --user ann > ann.json

    Parameters
    ----------
    user
        Of whom.
    """
    return list_(user=user, place=place, as_json=True)


@memory.command
def delete(
    fact: Annotated[Name | None, Parameter(metavar="ID")] = None,
    /,
    *,
    user: Name,
    all_facts: Annotated[Flag, Parameter(name="--all")] = False,
    yes: Flag = False,
    place: Place = _ANYWHERE,
    as_json: Json = False,
) -> int:
    """Delete a fact about a user, or all that is known of them.

    Example: hotloop memory delete --user ann --all

    Parameters
    ----------
    fact
        The fact's id, as list shows it.
    user
        About whom.
    all_facts
        All that is known of this user instead.
    yes
        Do not ask.
    as_json
        Print one object with what was deleted instead.
    """
    require((fact is None) == all_facts, "Give the id of a fact, or --all for all that is known of the user.")
    path, known = _asked(place, lambda kept: kept.export(user))
    meant = [each for each in known if fact in (None, each.id)]
    if fact is not None and not meant:
        near = did_you_mean(fact, [each.id for each in known]) or "."
        raise ConfigError(f"There is no fact {fact} about {user} in {path}{near}")
    what = f"{repr(short(meant[0].text)) if fact else counted(len(meant), 'fact')} about {user}"
    if meant and not yes and not confirmed(f"Delete {what}?"):
        messages().print("Nothing was deleted.")
        return 1
    _asked(place, lambda kept: kept.delete(user) if fact is None else kept.forget(fact, user=user))
    if as_json:
        write_json({"path": str(path), "user": user, "deleted": [each.id for each in meant]})
    else:
        messages().print(one_line(f"Deleted: {what}."), markup=False, soft_wrap=True)
    return 0


def _asked(place: Place, question: Ask[T], *, new: bool = False) -> tuple[Path, T]:
    """The file that was looked into, and what the memory in it answers."""
    path, spec = find(place, "memory.db", lambda spec: _declared(spec).path, new=new)
    declared = MemorySpec() if spec is None else _declared(spec)

    async def ask() -> T:
        async with aclosing(Memory(path, limit=declared.limit, timeout=_PATIENCE, embed=declared.embed)) as kept:
            return await question(kept)

    return path, run_async(ask())


def _declared(spec: AgentSpec) -> MemorySpec:
    if spec.memory is None:
        raise ConfigError("The agent of this file has no memory; declare one with a section memory.")
    return spec.memory


def _tell(path: Path, user: str, facts: Sequence[Fact], as_json: bool) -> int:
    if as_json:
        write_json({"path": str(path), "user": user, "facts": facts})
        return 0
    for fact in facts:
        _show(fact)
    if not facts:
        nothing = f"Nothing is known of {user} in {path}."
        results().print(one_line(nothing), style="dim", markup=False, soft_wrap=True)
    return 0


def _show(fact: Fact) -> None:
    about = f"{fact.id}  {moment(fact.at)}  "
    session = f"  (in session {one_line(fact.session)})" if fact.session else ""
    results().print(Text.assemble((about, "dim"), one_line(fact.text), (session, "dim")), soft_wrap=True)
