"""A run on the screen while it happens: what is being done on stderr, the answer on stdout as it is written."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing, redirect_stdout
from typing import Self, TextIO

import msgspec
from rich.console import Console
from rich.file_proxy import FileProxy
from rich.markup import escape

from hotloop.agent import Agent
from hotloop.commands.console import messages
from hotloop.events import (
    ApprovalNeeded,
    Event,
    ReplyFinished,
    Reset,
    Retrying,
    RunFinished,
    RunPaused,
    TextDelta,
    ToolFinished,
    ToolStarted,
    ToolStatus,
)
from hotloop.runs import Result
from hotloop.units import ns, show_ms, show_span
from hotloop.visible import answer_for, one_line, visible

_HOW = {
    "cached": ", from the cache",
    "joined": ", shared with the same call",
    "prefetched": ", begun ahead",
    "fallback": ", stood in: time was over",
}


class _Failure(msgspec.Struct):
    """What the model is told of a tool that failed."""

    error: str


class _Noise(FileProxy):
    """Takes what tools print, line by line; on a terminal each has a mark, so that none looks like one of ours."""

    def __init__(self, console: Console, file: TextIO) -> None:
        super().__init__(console, file)
        self._console = console
        self._mark = "│ " if console.is_terminal else ""
        self._begun = ""

    def write(self, text: str) -> int:
        *lines, self._begun = (self._begun + text).split("\n")
        for line in lines:
            shown = self._mark + visible(line, keep="\t")
            self._console.print(shown, style="dim", markup=False, soft_wrap=True)
        return len(text)

    def flush(self) -> None:
        if self._begun:
            self.write("\n")

    def isatty(self) -> bool:
        """Not one that shows colours."""
        return False


class Screen:
    """Shows events; to be used as a context manager, in which only it writes to stdout.

    `answer` is whether the model's text is written as it comes, `status` whether tools and retries are told.
    """

    def __init__(self, *, answer: bool, status: bool) -> None:
        self._out = sys.stdout
        self._err = messages()
        self._answer = answer
        self._status = status
        self._in_line = False
        self._at_work: set[str] = set()  # ids of calls; not each of them that ends has begun
        self._spinner = self._err.status("", spinner="dots", refresh_per_second=5)
        self._noise = _Noise(self._err, sys.stderr)
        self._others = redirect_stdout(self._noise)  # a tool that prints must not write into the answer

    def __enter__(self) -> Self:
        self._others.__enter__()
        with self._err.capture():
            self._tell("[dim] [/]")  # what a first line costs is not the run's
        self._wait()
        return self

    def __exit__(self, *error: object) -> None:
        try:
            self._spinner.stop()
            self._end_line()
            self._noise.flush()
        finally:  # also if nothing can be written any more
            self._others.__exit__(None, None, None)

    def show(self, event: Event) -> None:
        """Show one event."""
        match event:
            case TextDelta(text) if self._answer:
                self._spinner.stop()
                self._out.write(answer_for(self._out, text))
                self._out.flush()
                self._in_line = not text.endswith("\n")
            case Reset(reason):
                self._tell(f"[yellow]↻[/] the reply starts anew: {_said(reason)}")
            case Retrying(attempt, delay, reason):
                self._tell(f"[yellow]↻[/] attempt {attempt} {_soon(delay)}: {_said(reason)}")
            case ToolStarted(call_id, name, _, status):
                self._at_work.add(call_id)
                self._tell(f"[cyan]→[/] {_said(status or name)}")
                self._wait()
            case ToolStatus(_, _, status):
                self._tell(f"[cyan]·[/] {_said(status)}")
            case ToolFinished():
                self._at_work.discard(event.call_id)
                self._tell(_finished(event))
                self._wait()
            case ApprovalNeeded(_, name):
                self._tell(f"[yellow]?[/] {_said(name)} waits for a person")
            case ReplyFinished(_, calls) if calls:
                self._end_line()
                self._wait()

    def _tell(self, line: str) -> None:
        self._end_line()
        if self._status:
            self._err.print(line, soft_wrap=True)

    def _wait(self) -> None:
        """Show that something is going on, until there is text."""
        if self._status and self._err.is_terminal:
            self._spinner.update("[dim]tools at work[/]" if self._at_work else "[dim]thinking[/]")
            self._spinner.start()

    def _end_line(self) -> None:
        if self._in_line:
            self._out.write("\n")
            self._out.flush()
            self._in_line = False


async def follow(events: AsyncGenerator[Event], screen: Screen) -> Result | RunPaused:
    """Show a run to its end, or to its pause. Raises HotloopError."""
    async with aclosing(events):
        async for event in events:
            screen.show(event)
            if isinstance(event, RunFinished | RunPaused):
                last = event
    return last.result if isinstance(last, RunFinished) else last


async def watch(agent: Agent, prompt: str, screen: Screen) -> Result:
    """Run an agent whose tools need nobody's approval on one prompt, and show it. Raises HotloopError."""
    ended = await follow(agent.stream(prompt), screen)
    assert isinstance(ended, Result)
    return ended


def tell_if_cut(result: Result) -> None:
    """Say on stderr that an answer is not whole."""
    if result.finish_reason == "length":
        told = "The answer was cut by the token cap; a higher max_tokens allows a longer one."
        messages().print(f"[yellow]{told}[/]", soft_wrap=True)


def _soon(delay: float) -> str:
    return f"in {show_span(ns(delay))}" if delay else "now"


def _said(text: str) -> str:
    """The text, to be put into a line of markup."""
    return escape(one_line(text))


def _finished(event: ToolFinished) -> str:
    name, took = _said(event.name), f"[dim]{show_ms(event.ms)}"
    match event.outcome:
        case "error" | "refused" | "skipped":
            return f"[red]✗[/] {name} {took}[/]: {_said(_reason(event.content))}"
        case "discarded":
            return f"[yellow]✗[/] {name} {took}, for a reply that came to nothing[/]"
    return f"[green]✓[/] {name} {took}{_HOW.get(event.outcome, '')}[/]"


def _reason(content: str) -> str:
    """The sentence in what the model is told."""
    try:
        return msgspec.json.decode(content, type=_Failure).error
    except msgspec.MsgspecError:
        return content
