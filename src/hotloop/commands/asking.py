"""What a person must decide: asked on a terminal; calls are shown before, and how to decide about them later."""

from __future__ import annotations

import getpass
import shlex
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape

from hotloop.commands.console import messages
from hotloop.errors import ConfigError
from hotloop.tools.approvals.store import ApprovalStore, PendingCall
from hotloop.visible import one_line, visible

_YES_OR_NO = {"y": True, "yes": True, "n": False, "no": False, "": False}
_ANSWERS = _YES_OR_NO | {"l": None, "later": None}


def can_ask() -> bool:
    """Whether there is a person at a terminal."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def confirmed(question: str) -> bool:
    """Whether a person says yes to a question. Raises ConfigError if there is none to ask."""
    if not can_ask():
        raise ConfigError(f"{one_line(question)} Nobody is here to be asked: give --yes if it is meant.")
    return _said(question, "y/N", _YES_OR_NO) or False


def ask(store: ApprovalStore, run_id: str, by: str, reason: str = "") -> list[PendingCall]:
    """Ask about each call of a run that nobody has decided about, and keep what is said; what was left for later."""
    console, calls = messages(), undecided(store, run_id)
    for place, call in enumerate(calls):
        show_call(console, call)
        approved = _said(f"Approve {call.name}?", "y/N/later", _ANSWERS)
        if approved is None:
            return calls[place:]
        store.decide(run_id, call.call_id, call.digest, approved, by, reason)
    return []


def undecided(store: ApprovalStore, run_id: str) -> list[PendingCall]:
    """The calls of a run that nobody has decided about. Raises ConfigError if there is no such run."""
    return [each.call for each in store.load(run_id).calls if each.decision is None]


def login_name() -> str:
    """The name of whoever is at the terminal, "" if the system has none for them."""
    with suppress(KeyError, OSError):
        return getpass.getuser()
    return ""


def show_call(console: Console, call: PendingCall, mark: str = "[yellow]?[/]", note: str = "") -> None:
    """A call with its arguments: on one line, or on several if that were too long."""
    head = one_line(f"{call.call_id} {call.name}")
    line = visible(msgspec.json.format(call.arguments, indent=0))
    if cell_len(f"? {head} {line}") > console.width:
        line = visible(msgspec.json.format(call.arguments), keep="\n")
    console.print(mark, end=" ")
    console.print(f"{head} {line}", style="bold", markup=False, soft_wrap=True)
    if note:
        console.print(f"  {one_line(note)}", style="dim", markup=False, soft_wrap=True)


def say_waiting(run_id: str, calls: Sequence[PendingCall], config: Path) -> None:
    """Say that a run waits for decisions about these calls, if there are any, and with which command it goes on."""
    names = ", ".join(dict.fromkeys(call.name for call in calls))
    waits = f"waits for a decision about {names}. To approve (or --refuse) and go on:"
    choices = [word for call in calls for word in ("--approve", call.call_id)]
    command = shlex.join(["hotloop", "resume", str(config), run_id, *choices])
    sentence = f"Run {run_id} {waits if calls else 'is kept as far as it came. To go on:'}"
    messages().print(f"{one_line(sentence)}\n  {one_line(command)}", markup=False, soft_wrap=True)


def call_as_dict(call: PendingCall) -> dict[str, object]:
    """A call, ready for JSON."""
    return {
        "call_id": call.call_id,
        "name": call.name,
        "arguments": msgspec.Raw(call.arguments.encode()),
        "digest": call.digest,
    }


def _said(question: str, choices: str, answers: Mapping[str, bool | None]) -> bool | None:
    """What the person says, as one of the answers; None if there is nothing more to read."""
    console = messages()
    _forget_typed()
    while True:
        try:
            said = console.input(f"{escape(one_line(question))} \\[{choices}] ").strip().lower()
        except EOFError:
            console.print()
            return None
        if said in answers:
            return answers[said]


def _forget_typed() -> None:
    """Drop what was typed before the question was there: it is no answer to it."""
    with suppress(ImportError, OSError, ValueError):  # not on every system, and not for every stdin
        import termios

        with suppress(termios.error):
            termios.tcflush(sys.stdin, termios.TCIFLUSH)
