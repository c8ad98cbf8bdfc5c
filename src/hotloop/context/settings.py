"""How an agent's context is arranged: its limit, what is left out or summarized, and what is said only when needed."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec

from hotloop.errors import ConfigError
from hotloop.fields import Count, Natural, Seconds, SomeShare, Text, check_fields, require


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """Which earlier turns of a session the model sees; a turn is a prompt and all that came of it.

    With `turns` no more than so many of the newest, with `age` none that is older (seconds). When there are more or
    older ones, they are cut back to three quarters of that at once, so that the prefix which the service caches changes
    seldom. With `relevant`, besides the newest `turns`, so many of the earlier ones as fit the request best by their
    words.

    Raises ConfigError for other values, and for `relevant` without `turns`.
    """

    turns: Count | None = None
    age: Seconds | None = None
    relevant: Natural = 0

    def __post_init__(self) -> None:
        check_fields(Window, msgspec.structs.asdict(self), "Window")
        require(self.turns is not None or self.age is not None, "A window has turns, an age, or both.")
        also = "A window with relevant turns has turns too: how many of the newest are seen anyway."
        require(not self.relevant or self.turns is not None, also)


class _Texts(msgspec.Struct):
    name: Text
    instructions: Text


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """Instructions that are added to a conversation with the first request that needs them, and stay in it.

    `when` says whether a request does: a regular expression that is searched in it, whatever the case, or a function.
    Raises ConfigError for other values.
    """

    name: Text
    instructions: Text
    when: str | Callable[[str], bool]

    def __post_init__(self) -> None:
        check_fields(_Texts, {"name": self.name, "instructions": self.instructions}, "Task")
        if isinstance(self.when, str):
            try:
                re.compile(self.when)
            except re.error as error:
                told = f"The task {self.name} has a `when` that is no regular expression, {self.when!r}: {error}."
                raise ConfigError(told) from None
        else:
            wrong = f"The task {self.name} has {self.when!r} as its `when`; give a regular expression or a function."
            require(callable(self.when), wrong)

    def needed(self, prompt: str) -> bool:
        """Whether this request needs the instructions. Raises ConfigError if `when` raises anything."""
        if isinstance(self.when, str):
            return re.search(self.when, prompt, re.IGNORECASE) is not None
        try:
            return bool(self.when(prompt))
        except Exception as error:
            told = f"The `when` of the task {self.name} failed: {type(error).__name__}: {error}"
            raise ConfigError(told) from error


class _Sizes(msgspec.Struct):
    limit: Count | None
    compact_at: SomeShare
    keep: Count
    window: Window | None


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """How the context of an agent is arranged.

    `limit` is how many tokens a prompt may have, tools and instructions included (None: as many as the service takes).
    A session that has come to `compact_at` of it is summarized in the background, but for its newest `keep` turns, by
    `summarizer` (a Model; None: the agent's own). Where a prompt is over the limit, it waits for that. `window` says
    which turns are sent at all. `tasks` are instructions for some requests; `volatile` gives, for each request, what
    is true only now (the time, a place), and is sent last, so that the prefix stays; it is not kept. `count_tokens`
    counts the tokens of a text, for who has a tokeniser.

    Raises ConfigError for other values.
    """

    limit: Count | None = None
    compact_at: SomeShare = 0.7
    keep: Count = 4
    window: Window | None = None
    summarizer: Any = None
    tasks: tuple[Task, ...] = ()
    volatile: str | Callable[[], str] | None = None
    count_tokens: Callable[[str], int] | None = None

    def __post_init__(self) -> None:
        check_fields(_Sizes, {name: getattr(self, name) for name in _Sizes.__struct_fields__}, "Context")
        names = [task.name for task in self.tasks if isinstance(task, Task)]
        require(len(names) == len(self.tasks), "Context(tasks=...): make each with Task(...).")
        require(len(set(names)) == len(names), "Two tasks have the same name; give each its own.")
        is_volatile = self.volatile is None or isinstance(self.volatile, str) or callable(self.volatile)
        require(is_volatile, "Context(volatile=...): give a text, or a function that gives one.")
        counts = self.count_tokens is None or callable(self.count_tokens)
        require(counts, "Context(count_tokens=...): give a function of a text that counts its tokens.")
