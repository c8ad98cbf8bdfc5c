"""Tables that can be shown on a screen or be written as Markdown."""

from __future__ import annotations

from typing import NamedTuple

from rich.markup import escape

from hotloop.commands.console import plain_table, results, show_rows
from hotloop.visible import one_line

_COLOURS = {"worse": "red", "over": "red", "newly over": "red", "better": "green", "ok": "green"}


class Grid(NamedTuple):
    """Rows of text under headings, of which the first `texts` are left aligned and the others numbers."""

    title: str
    headings: tuple[str, ...]
    rows: list[tuple[str, ...]]
    texts: int = 1

    def show(self) -> None:
        """Print it on stdout, each row on a line of its own, however long."""
        table = plain_table(*self.headings, numbers=len(self.headings) - self.texts)
        for row in self.rows:
            table.add_row(*map(_coloured, row))
        results().print(f"\n[bold]{escape(self.title)}[/]", soft_wrap=True)
        show_rows(table)

    def markdown(self) -> str:
        """The same for a page or a pull request."""
        numbers = len(self.headings) - self.texts
        lines = [self.headings, ("---",) * self.texts + ("---:",) * numbers, *self.rows]
        table = "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines)
        return f"\n**{self.title}**\n\n{table}"


def _coloured(text: str) -> str:
    shown = escape(one_line(text))
    return f"[{_COLOURS[text]}]{shown}[/]" if text in _COLOURS else shown


def _cell(text: str) -> str:
    return one_line(text).replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")
