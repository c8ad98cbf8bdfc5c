"""`hotloop session`: the conversations that are kept, for whoever looks after them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from cyclopts import App, Parameter
from rich.filesize import decimal
from rich.markup import escape
from rich.table import Table

from hotloop.commands.asking import confirmed
from hotloop.commands.console import messages, moment, plain_table, results, show_rows, write_json
from hotloop.commands.conversation import called, messages_of, show_summary, show_turn, show_words
from hotloop.commands.launch import run_async
from hotloop.commands.options import Flag, Json, Name
from hotloop.commands.places import Place, find
from hotloop.context.sessions.record import SessionInfo, SessionKey
from hotloop.context.sessions.sqlite import SQLiteSessions
from hotloop.errors import ConfigError
from hotloop.fields import require
from hotloop.visible import one_line
from hotloop.words import counted, did_you_mean

T = TypeVar("T")

_HELP = """Look into the conversations that agents keep: list them, read them, hand them out, delete them.

Example: hotloop session list --user ann"""

session = App(name="session", help=_HELP)
_ANYWHERE = Place()


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Which:
    """Options that say which conversations are meant, beside the id of one.

    Parameters
    ----------
    all_of_user
        All conversations of this user instead.
    agent
        Only what is of the agent with this name.
    """

    all_of_user: Name | None = None
    agent: Name | None = None


_ANY = Which()


@session.command(name="list")
def list_(
    *, user: Name | None = None, agent: Name | None = None, place: Place = _ANYWHERE, as_json: Json = False
) -> int:
    """List the conversations, the latest first.

    Example: hotloop session list --agent-file agent.yaml

    Parameters
    ----------
    user
        Only those of this user.
    agent
        Only those of the agent with this name.
    as_json
        Print one object with all of them instead.
    """
    path, agent = _find(place, agent)
    infos = _asked(path, lambda store: store.sessions(agent, user))
    if as_json:
        write_json({"path": str(path), "sessions": infos})
    elif infos:
        show_rows(_table(infos))
    else:
        results().print(f"No sessions in {path}.", style="dim", markup=False, soft_wrap=True)
    return 0


@session.command
def show(session_id: str, /, *, agent: Name | None = None, place: Place = _ANYWHERE, as_json: Json = False) -> int:
    """Print a conversation: who said what, with calls and results cut to a line.

    Example: hotloop session show user-42

    Parameters
    ----------
    session_id
        The conversation's id, as list shows it.
    agent
        The name of its agent, where several have a conversation with this id.
    as_json
        Print what export prints instead.
    """
    if as_json:
        return export(session_id, which=Which(agent=agent), place=place)
    path, agent = _find(place, agent)
    _asked(path, lambda store: _show(store, agent, session_id))
    return 0


@session.command
def export(
    session_id: str | None = None,
    /,
    *,
    which: Which = _ANY,
    place: Place = _ANYWHERE,
) -> int:
    """Print a conversation, or all of a user, as JSON with everything that is kept.

    Example: hotloop session export --all-of-user ann > ann.json

    Parameters
    ----------
    session_id
        The conversation's id.
    """
    path, agent = _find(place, which.agent)
    told = _asked(path, lambda store: _exported(store, agent, session_id, which.all_of_user))
    write_json({"user": which.all_of_user, "sessions": told} if session_id is None else told[0])
    return 0


@session.command
def delete(
    session_id: str | None = None,
    /,
    *,
    which: Which = _ANY,
    yes: Flag = False,
    place: Place = _ANYWHERE,
    as_json: Json = False,
) -> int:
    """Delete a conversation, or all of a user, with everything that is kept of it.

    Example: hotloop session delete user-42

    Parameters
    ----------
    session_id
        The conversation's id.
    yes
        Do not ask.
    as_json
        Print one object with what was deleted instead.
    """
    path, agent = _find(place, which.agent)
    infos = _asked(path, lambda store: _meant(store, agent, session_id, which.all_of_user))
    if infos and not yes and not confirmed(f"Delete {_counted(infos)}?"):
        messages().print("Nothing was deleted.")
        return 1
    _asked(path, lambda store: _delete(store, infos))
    if as_json:
        write_json({"path": str(path), "deleted": [{"agent": each.agent, "id": each.id} for each in infos]})
    else:
        messages().print(one_line(f"Deleted: {_counted(infos)}."), markup=False, soft_wrap=True)
    return 0


def _find(place: Place, agent: str | None) -> tuple[Path, str | None]:
    """The file to look into, and the agent whose conversations are meant; None for those of all."""
    path, spec = find(place, "sessions.db", lambda spec: spec.sessions.path)
    if spec is None:
        return path, agent
    require(agent is None, "The agent's file says which agent is meant; leave out --agent.")
    return path, spec.name


def _asked(path: Path, question: Callable[[SQLiteSessions], Awaitable[T]]) -> T:
    """What the store in this file answers."""

    async def ask() -> T:
        async with aclosing(SQLiteSessions(path)) as store:
            return await question(store)

    return run_async(ask())


async def _meant(
    store: SQLiteSessions, agent: str | None, session_id: str | None, user: str | None
) -> list[SessionInfo]:
    """The one conversation with this id, or all of a user. Raises ConfigError unless it is clear which."""
    require((session_id is None) != (user is None), "Give a session, or --all-of-user for all that a user has.")
    infos = await store.sessions(agent, user)
    if session_id is None:
        return infos
    meant = [each for each in infos if each.id == session_id]
    if not meant:
        raise ConfigError(f"There is no session {session_id} in {store.path}{_near(session_id, infos)}")
    if len(meant) > 1:
        agents = ", ".join(each.agent for each in meant)
        raise ConfigError(f"Several agents have a session {session_id}: {agents}. Say whose, with --agent.")
    return meant


def _near(session_id: str, infos: list[SessionInfo]) -> str:
    return did_you_mean(session_id, [each.id for each in infos]) or "."


async def _show(store: SQLiteSessions, agent: str | None, session_id: str) -> None:
    (info,) = await _meant(store, agent, session_id, None)
    key, console = SessionKey(info.agent, info.id), results()
    stored = await store.load(key)
    console.print(one_line(_about(info)), style="bold", markup=False, soft_wrap=True)
    if stored is not None and stored.state.instructions:
        show_words(console, "system", stored.state.instructions)
    console.print()
    summary = stored.state.summary if stored is not None else None
    for turn in await store.turns(key):
        show_turn(console, turn)
        if summary is not None and turn.number == summary.turn:
            show_summary(console, summary)


async def _exported(
    store: SQLiteSessions, agent: str | None, session_id: str | None, user: str | None
) -> list[dict[str, Any]]:
    return [await _everything(store, info) for info in await _meant(store, agent, session_id, user)]


async def _everything(store: SQLiteSessions, info: SessionInfo) -> dict[str, Any]:
    """All that is kept of a conversation, ready for JSON."""
    key = SessionKey(info.agent, info.id)
    stored = await store.load(key)
    turns = await store.turns(key)
    results = {call_id: await store.result(key, call_id) for turn in turns for call_id in called(turn)}
    return msgspec.structs.asdict(info) | {
        "state": None if stored is None else stored.state,
        "turns": [{"number": each.number, "at": each.at, "messages": messages_of(each)} for each in turns],
        "results": {call_id: whole for call_id, whole in results.items() if whole is not None},
    }


async def _delete(store: SQLiteSessions, infos: list[SessionInfo]) -> None:
    """All at once, for the file is made anew; after the runs that write to them."""
    keys = [SessionKey(info.agent, info.id) for info in infos]
    async with AsyncExitStack() as held:
        for key in keys:
            await held.enter_async_context(store.writing(key, wait=True))
        await store.delete(*keys)


def _about(info: SessionInfo) -> str:
    owner = f"user {info.user}" if info.user else ""
    agent = f"agent {info.agent}" if info.agent else ""
    size = f"{counted(info.turns, 'turn')} · {decimal(info.bytes)} · last used {moment(info.updated)}"
    return " · ".join(filter(None, (info.id, agent, owner, size)))


def _counted(infos: list[SessionInfo]) -> str:
    """Which conversations, in words."""
    what = f"session {infos[0].id}" if len(infos) == 1 else counted(len(infos), "session")
    users = {info.user for info in infos if info.user}
    owner = f" of {min(users)}" if len(users) == 1 else ""
    return f"{what}{owner} ({counted(sum(info.turns for info in infos), 'turn')})"


def _table(infos: list[SessionInfo]) -> Table:
    table = plain_table("session", "agent", "user", "turns", "size", "last used", numbers=3)
    for info in infos:
        names = (escape(one_line(name)) or "-" for name in (info.id, info.agent, info.user))
        table.add_row(*names, f"{info.turns:,}", decimal(info.bytes), moment(info.updated))
    return table
