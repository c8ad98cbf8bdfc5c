"""Which changes to an agent a command is to predict, as options."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, TypeAlias

from cyclopts import Parameter
from cyclopts.types import NonNegativeInt

from hotloop.commands.options import Count, Duration, Flag, Name, Names, Share, share_of
from hotloop.errors import ConfigError
from hotloop.fields import require
from hotloop.insight.edits import (
    Cache,
    ContextCap,
    Eager,
    Edit,
    Hedge,
    Parallel,
    Plan,
    Prefetch,
    PrefixReuse,
    SeenCache,
    Service,
    ShapedResults,
    SingleFlight,
    ToolTime,
    Without,
)
from hotloop.lab.profilefile import load_profile
from hotloop.units import parse_duration

Given: TypeAlias = Annotated[list[str], Parameter(negative=(), metavar="TOOL=VALUE")]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Changes:
    """Options that say what is changed; several of them are changed together.

    Parameters
    ----------
    service
        Another service: a profile of `hotloop sim --list`, or a file that `hotloop probe` wrote.
    in_place_of
        Only for requests to this model.
    others
        So many more replies are always running at that service; else the recorded runs meet each other there.
    max_parallel
        So many calls of a reply at once.
    eager
        Calls start while the model still writes the reply.
    late
        Calls start when the reply is complete.
    plan
        Dependent calls of several turns are written in one reply.
    tool
        A tool takes another time, like search=80ms, or times as long, like search=0.5x.
    without
        A kind of work that takes no time: approval, cache, connect, context, guard, memory, overhead, queue, or a tool.
    cache
        So many calls of a tool find their results kept, like search=0.6 or search=60%.
    cache_seen
        Results of read-only tools are kept for so long, with the hits that the recorded calls would have had.
    single_flight
        Equal calls of read-only tools at the same time are one.
    prefix_cache
        The service keeps what it has read of earlier prompts.
    context_cap
        No prompt has more than so many tokens.
    max_result
        The model reads at most so many tokens of a result.
    hedge
        A second request beside one that is slower than 95 % of them.
    prefetch
        This share of the calls of read-only tools is guessed while the model is thinking.
    """

    service: Name | None = None
    in_place_of: Name | None = None
    others: NonNegativeInt | None = None
    max_parallel: Count | None = None
    eager: Flag = False
    late: Flag = False
    plan: Flag = False
    tool: Given | None = None
    without: Names | None = None
    cache: Given | None = None
    cache_seen: Annotated[Duration | None, Parameter(show_default=False)] = None
    single_flight: Flag = False
    prefix_cache: Flag = False
    context_cap: Count | None = None
    max_result: Count | None = None
    hedge: Flag = False
    prefetch: Annotated[Share | None, Parameter(show_default=False)] = None

    def edits(self) -> list[Edit]:
        """What is changed, in an order in which each sees what the ones before have made. Raises ConfigError."""
        require(not (self.eager and self.late), "Calls start early or late: leave out --eager or --late.")
        return [
            *self._service(),
            *([ContextCap(self.context_cap)] if self.context_cap is not None else []),
            *([ShapedResults(self.max_result)] if self.max_result is not None else []),
            *([PrefixReuse()] if self.prefix_cache else []),
            *([Hedge()] if self.hedge else []),
            *([Plan()] if self.plan else []),
            *([Parallel(self.max_parallel)] if self.max_parallel is not None else []),
            *([Eager(on=self.eager)] if self.eager or self.late else []),
            *map(_tool_time, self.tool or ()),
            *map(Without, self.without or ()),
            *map(_cache, self.cache or ()),
            *([SeenCache(self.cache_seen)] if self.cache_seen is not None else []),
            *([SingleFlight()] if self.single_flight else []),
            *([Prefetch(self.prefetch)] if self.prefetch is not None else []),
        ]

    def _service(self) -> list[Edit]:
        if self.service is not None:
            return [Service(load_profile(self.service), self.in_place_of, self.others)]
        alone = self.in_place_of is None and self.others is None
        require(alone, "--in-place-of and --others say how --service is used: name a service.")
        return []


def _tool_time(text: str) -> ToolTime:
    name, value = _pair("--tool", text)
    try:
        if value.endswith("x"):
            return ToolTime(name, factor=float(value[:-1]))
        return ToolTime(name, seconds=parse_duration(value))
    except ValueError:
        raise ConfigError(f"--tool {text}: {value!r} is no time; write it like {name}=80ms or {name}=0.5x.") from None


def _cache(text: str) -> Cache:
    name, value = _pair("--cache", text)
    try:
        return Cache(name, share_of(value))
    except ValueError as error:
        raise ConfigError(f"--cache {text}: {error}.") from None


def _pair(option: str, text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise ConfigError(f"{option} {text!r} names no tool with a value; write it like {option} search=...")
    return name, value
