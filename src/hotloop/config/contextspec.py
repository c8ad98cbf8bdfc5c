"""What an agent's model sees and what lasts, declared: its context, its memory, its sessions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta

from hotloop.config.modelspec import ModelSpec
from hotloop.context.settings import Context, Task, Window
from hotloop.fields import Count, Seconds, SomeShare, Text

TextOrFile: TypeAlias = Annotated[str, Meta(extra={"file": True})]


class FunctionSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A "module:function" where there may also be a text."""

    function: Text


Load: TypeAlias = Callable[[FunctionSpec], Callable[..., Any]]


class TaskSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Instructions for some requests; see `hotloop.Task`. `when` is a regular expression or a function."""

    name: Text
    instructions: TextOrFile
    when: Text | FunctionSpec

    def __post_init__(self) -> None:
        self.declared(_not_imported_yet)

    def declared(self, load: Load) -> Task:
        """The task that it declares. Raises ConfigError."""
        when = load(self.when) if isinstance(self.when, FunctionSpec) else self.when
        return Task(name=self.name, instructions=self.instructions, when=when)


class ContextSpec(msgspec.Struct, frozen=True, kw_only=True):
    """How the context is arranged; see `hotloop.Context`. `limit` is tokens, `keep` turns."""

    limit: Count | None = None
    compact_at: SomeShare = 0.7
    keep: Count = 4
    window: Window | None = None
    summarizer: ModelSpec | None = None
    tasks: tuple[TaskSpec, ...] = ()
    volatile: Text | FunctionSpec | None = None

    def __post_init__(self) -> None:
        self.declared(_not_imported_yet)

    def declared(self, load: Load) -> Context:
        """The context that it declares. Raises ConfigError."""
        return Context(
            limit=self.limit,
            compact_at=self.compact_at,
            keep=self.keep,
            window=self.window,
            summarizer=None if self.summarizer is None else self.summarizer.declared(),
            tasks=tuple(task.declared(load) for task in self.tasks),
            volatile=load(self.volatile) if isinstance(self.volatile, FunctionSpec) else self.volatile,
        )


class MemorySpec(msgspec.Struct, frozen=True, kw_only=True):
    """Facts outside of conversations; see `hotloop.Memory`. `path` is a file, `timeout` seconds."""

    path: Text | None = None
    limit: Count = 8
    timeout: Seconds = 0.05
    embed: Literal["local"] | None = None


class SessionsSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Where conversations are kept, a file or ":memory:", and what becomes of a run that finds one at work."""

    path: Text | None = None
    busy: Literal["queue", "reject", "merge"] = "queue"


def _not_imported_yet(_: FunctionSpec) -> Callable[..., Any]:
    """Stands for a function while only the declaration is read."""
    return bool
