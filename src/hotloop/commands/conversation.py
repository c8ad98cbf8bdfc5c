"""A conversation that was kept, on the screen: who said what, one turn after the other."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from rich.console import Console
from rich.text import Text

from hotloop.commands.console import moment
from hotloop.context.conversation import Summary
from hotloop.context.messages import Message, as_list, read
from hotloop.context.sessions.record import StoredTurn
from hotloop.visible import one_line, visible

_MARGIN = 8  # columns for who speaks
_STYLES = {"user": "cyan", "model": "green", "summary": "yellow"}


def messages_of(turn: StoredTurn) -> msgspec.Raw:
    """Its messages as a list in JSON."""
    return msgspec.Raw(as_list(turn.messages))


def called(turn: StoredTurn) -> list[str]:
    """The ids of its calls that have results."""
    return [message.tool_call_id for message in read(turn.messages) if message.tool_call_id]


def show_turn(console: Console, turn: StoredTurn) -> None:
    """A turn: what was said in full, calls and their results as far as they fit on a line."""
    console.print(f"{turn.number} · {moment(turn.at)}", style="bold", soft_wrap=True)
    for message in read(turn.messages):
        for who, text in _parts(message):
            show_words(console, who, text)
    console.print()


def show_summary(console: Console, summary: Summary) -> None:
    """What the model reads in the place of the turns before."""
    console.print(f"the model reads a summary of all up to here (turn {summary.turn})", style="bold", soft_wrap=True)
    show_words(console, "summary", summary.text)
    console.print()


def show_words(console: Console, who: str, text: str) -> None:
    """What somebody said, beside who it was; calls and results on one line."""
    room, style = max(console.width - _MARGIN, 1), _STYLES.get(who, "dim")
    if who in ("call", "result"):
        line = Text(one_line(text[: 4 * room]), "dim")
        line.truncate(room, overflow="ellipsis")
        lines = [line]
    else:
        lines = list(Text(visible(text.strip(), keep="\n\t")).wrap(console, room, overflow="fold"))
    for place, line in enumerate(lines):
        shown = Text.assemble((f"{'' if place else who:{_MARGIN}}", style), line)
        shown.rstrip()
        console.print(shown, soft_wrap=True)


def _parts(message: Message) -> Iterator[tuple[str, str]]:
    who = {"assistant": "model", "tool": "result"}.get(message.role, message.role)
    if message.content:
        yield who, message.content
    for call in message.tool_calls:
        yield "call", f"{call.function.name} {call.function.arguments}"
