"""Where output goes: results to stdout, everything else to stderr; colours and movement only on a terminal."""

from __future__ import annotations

import sys
from datetime import datetime
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hotloop.insight.report import grade
from hotloop.models.routing.routed import RouteFacts
from hotloop.trace.text import budget_table, notes, timeline
from hotloop.trace.trace import Trace
from hotloop.units import show_ms
from hotloop.visible import one_line, visible

_WIDEST = 100  # columns: longer bars say no more
_UNBROKEN = 10_000  # columns
_BAR = "[▐█▏▎▍▌▋▊▉]+"
_TIMELINE_COLOURS = (
    rf"(?m)^.{{8}}.*? (?P<cyan>{_BAR})",
    rf"(?m)^.{{8}}first token +(?P<yellow>{_BAR})",
    rf"(?m)^.{{8}}(?:text|calls) +(?P<green>{_BAR})",
    r"^(?P<bold>.*)",
)
_BUDGET_COLOURS = (r"(?P<green>\bok\b)", r"(?P<red>\bover\b)", r"(?m)^(?P<bold>total.*)", r"(?P<dim>unattributed.*)")


def messages() -> Console:
    """The console on stderr."""
    return Console(stderr=True, highlight=False)


def results() -> Console:
    """The console on stdout."""
    return Console(highlight=False)


def show_marked(console: Console, mark: str, text: str, style: str = "") -> None:
    """A mark of one column, in markup, and beside it the text on as many lines as it takes."""
    lines = Text(one_line(text), style).wrap(console, max(console.width - 2, 1), overflow="fold")
    for line in lines:
        line.rstrip()
        console.print(mark, line, soft_wrap=True)
        mark = " "


def moment(at: float) -> str:
    """A time (Unix seconds) as a person here would write it: "2026-11-29 17:53:56"."""
    return datetime.fromtimestamp(at).strftime("%Y-%m-%d %H:%M:%S")


def plain_table(*columns: str, numbers: int = 0) -> Table:
    """A table without lines, whose last columns are numbers."""
    table = Table(*columns, box=None, pad_edge=False, header_style="bold", padding=(0, 3, 0, 0))
    for column in table.columns[len(columns) - numbers :]:
        column.justify = "right"
    return table


def show_rows(table: Table) -> None:
    """A table on stdout, each row on a line of its own, however long, so that what is in it can be copied."""
    console = results()
    console.width = _UNBROKEN
    console.print(table)


def show_trace(console: Console, trace: Trace) -> None:
    """Timeline of a run, what there is to say beside it, and its budget."""
    console.print()
    bars = visible(timeline(trace, min(console.width, _WIDEST)), keep="\n")
    console.print(_coloured(bars, _TIMELINE_COLOURS), soft_wrap=True)
    for told in [*_route_lines(trace), *notes(trace)]:
        show_marked(console, "[dim]·[/]", told, "dim")
    console.print()
    console.print(_coloured(budget_table(trace), _BUDGET_COLOURS), soft_wrap=True)
    if told := _waits(trace):
        console.print(told, style="dim", soft_wrap=True)


def _waits(trace: Trace) -> str:
    """How long a person waited for a first sign and for the answer, with the grades of that."""
    first = trace.facts.get("first_feedback_ms")
    if first is None:
        return ""
    waits = {"first feedback after": first, "answer after": trace.end_to_end_ms}
    return ", ".join(f"{what} {show_ms(wait)} ({grade(wait)})" for what, wait in waits.items())


def write_json(value: Any) -> None:
    """One JSON document on stdout, in UTF-8 whatever the terminal's encoding."""
    sys.stdout.flush()
    sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(value)) + b"\n")
    sys.stdout.buffer.flush()


def _route_lines(trace: Trace) -> list[str]:
    """Which model a router chose in each turn, why, and which one answered."""
    routes = trace.facts.get("routes", ())
    return [f"turn {each.turn}  route {each.route} ({each.why}){_instead(each)}" for each in routes]


def _instead(facts: RouteFacts) -> str:
    return f", answered by {facts.answered.route}" if facts.tried and facts.answered.route != facts.route else ""


def _coloured(text: str, patterns: tuple[str, ...]) -> Text:
    """`text` with each pattern's named groups in the style that is their name."""
    coloured = Text(text)
    for pattern in patterns:
        coloured.highlight_regex(pattern)
    return coloured
