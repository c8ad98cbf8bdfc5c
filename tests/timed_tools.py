"""Tools that note when they ran, and runs of scripted agents read in milliseconds of the virtual clock."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from typing import Any, NamedTuple

from hotloop import Agent, Result, tool
from hotloop.errors import ToolError
from hotloop.events import Event
from hotloop.testing import ScriptedModel, run_virtual
from hotloop.tools.defining.tool import Tool


class Span(NamedTuple):
    """When a tool was at work with this key."""

    name: str
    key: str
    start: float
    end: float


class Notes:
    """What ran: `begun` as it starts, `spans` when it has ended, in whatever way."""

    def __init__(self) -> None:
        self.begun: list[tuple[float, str]] = []
        self.spans: list[Span] = []

    def tool(self, name: str, ms: float = 300, *, fails: int = 0, **options: Any) -> Tool:
        """A tool that takes its time, fails so often, and gives what it was asked for."""

        left = fails

        async def work(key: str = "") -> str:
            nonlocal left
            start = now_ms()
            self.begun.append((start, f"{name} {key}".strip()))
            try:
                await asyncio.sleep(ms / 1000)
            finally:
                self.spans.append(Span(name, key, start, now_ms()))
            if left:
                left -= 1
                raise ToolError(f"{name} is down.")
            return f"{key} {name}".strip()

        return tool(work, name=name, **options)

    def times(self) -> dict[str, tuple[float, float]]:
        """Start and end by name and key."""
        return {f"{span.name} {span.key}".strip(): (span.start, span.end) for span in self.spans}


class Ran(NamedTuple):
    """A run: what came of it, what the model was asked, and its events as (ms, event)."""

    result: Result
    model: ScriptedModel
    events: list[tuple[float, Any]]

    @property
    def contents(self) -> list[str]:
        """The results that the last request gave the model."""
        return results_of(self.model.requests[-1])

    @property
    def errors(self) -> list[str]:
        """What those results say went wrong, "" where nothing did."""
        return [error_of(content) for content in self.contents]

    @property
    def calls(self) -> list[Any]:
        """What the ledger says of the first reply's calls."""
        return self.result.trace.turns[0].calls

    def of(self, kind: type[Event]) -> list[tuple[float, Any]]:
        """The events of one kind."""
        return [(at, event) for at, event in self.events if isinstance(event, kind)]


def now_ms() -> float:
    """Milliseconds since the virtual clock began."""
    return round((asyncio.get_running_loop().time() - 1) * 1000, 3)


def agent_of(script: Any, *tools: Any, ttft: float = 0.0, tpot: float = 0.0, **options: Any) -> Agent:
    """An agent with these tools on a scripted model."""
    return Agent(model="m", endpoint=ScriptedModel(script, ttft=ttft, tpot=tpot), tools=tools, **options)


def ran(script: Any, *tools: Any, ttft: float = 0.0, tpot: float = 0.0, **options: Any) -> Ran:
    """A run in virtual time."""
    model = ScriptedModel(script, ttft=ttft, tpot=tpot)
    agent = Agent(model="m", endpoint=model, tools=tools, **options)

    async def main() -> list[tuple[float, Any]]:
        return [(now_ms(), event) async for event in agent.stream("go")]

    events = run_virtual(main())
    return Ran(events[-1][1].result, model, events)


def results_of(request: dict[str, Any]) -> list[str]:
    """The tool results at the end of a request."""
    contents: list[str] = []
    for message in reversed(request["messages"]):
        if message["role"] != "tool":
            break
        contents.insert(0, message["content"])
    return contents


def error_of(content: str) -> str:
    """The error that a result tells, "" for none."""
    try:
        value = json.loads(content)
    except ValueError:
        return ""
    return value.get("error", "") if isinstance(value, dict) else ""


def in_time(main: Coroutine[Any, Any, Any]) -> tuple[Any, float]:
    """What `main` gives in virtual time, and how many milliseconds it took."""

    async def timed() -> tuple[Any, float]:
        return await main, now_ms()

    return run_virtual(timed())


def frame(delta: dict[str, Any], finish_reason: str | None = None) -> bytes:
    """One frame of a streamed reply."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"


def head(index: int, name: str, arguments: str = "") -> bytes:
    """The frame that opens a call."""
    function = {"name": name, "arguments": arguments}
    return frame({"tool_calls": [{"index": index, "id": f"c{index}", "type": "function", "function": function}]})


def more(index: int, arguments: str) -> bytes:
    """The frame that goes on with a call's arguments."""
    return frame({"tool_calls": [{"index": index, "function": {"arguments": arguments}}]})


def end(finish_reason: str = "tool_calls") -> bytes:
    """The frames that end a reply."""
    return frame({}, finish_reason) + b"data: [DONE]\n\n"
