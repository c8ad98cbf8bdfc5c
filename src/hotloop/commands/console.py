"""Where output goes: results to stdout, everything else to stderr; colours and movement only on a terminal."""

from __future__ import annotations

import sys
from typing import Any

import msgspec
from rich.console import Console
from rich.text import Text

from hotloop.trace.text import budget_table, timeline, tools_line
from hotloop.trace.trace import Trace
from hotloop.visible import one_line, visible

_WIDEST = 100  # columns: longer bars say no more
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


def show_trace(console: Console, trace: Trace) -> None:
    """Timeline and budget of a run."""
    console.print()
    bars = visible(timeline(trace, min(console.width, _WIDEST)), keep="\n")
    console.print(_coloured(bars, _TIMELINE_COLOURS), soft_wrap=True)
    if told := tools_line(trace):
        console.print(one_line(told), soft_wrap=True, style="dim", markup=False)
    console.print()
    console.print(_coloured(budget_table(trace), _BUDGET_COLOURS), soft_wrap=True)


def write_json(value: Any) -> None:
    """One JSON document on stdout, in UTF-8 whatever the terminal's encoding."""
    sys.stdout.flush()
    sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(value)) + b"\n")
    sys.stdout.buffer.flush()


def _coloured(text: str, patterns: tuple[str, ...]) -> Text:
    """`text` with each pattern's named groups in the style that is their name."""
    coloured = Text(text)
    for pattern in patterns:
        coloured.highlight_regex(pattern)
    return coloured
