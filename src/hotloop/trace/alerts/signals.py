"""The figures that rules are about: what each reads from a run, and what it makes of a window of that."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from hotloop.trace.alerts.rule import AlertRule, When
from hotloop.trace.declared import Owners
from hotloop.trace.measured import Measured
from hotloop.trace.window import Window
from hotloop.units import NS_PER_S, show_ms


class Reading(NamedTuple):
    """A value of one run, of a tool, a model or a row ("" for the whole); `limit` is what the run's budget says."""

    of: str
    value: float
    weight: float = 1.0
    limit: float | None = None


Read = Callable[[Measured, AlertRule], Iterator[Reading]]
SumUp = Callable[[Window], float]
Show = Callable[[float, AlertRule], str]
OwnerOf = Callable[[Owners, str], str]


class Signal(NamedTuple):
    """A figure: how it is told, what is read of a run for it, what a window of that comes to, and whose it is.

    One that `falls` is held against the window before.
    """

    told: str
    read: Read
    sum_up: SumUp
    show: Show
    owner: OwnerOf
    falls: bool = False


def _seconds(seconds: float, rule: AlertRule) -> str:
    return show_ms(seconds * 1000)


def _share(share: float, rule: AlertRule) -> str:
    return f"{share:.1%}"


def _number(value: float, rule: AlertRule) -> str:
    return f"{value:,.1f}"


def _context(value: float, rule: AlertRule) -> str:
    return f"{value:.0%} of its limit" if rule.of_context else f"{value:,.0f} tokens"


def _p95(window: Window) -> float:
    return window.percentile(95)


def _jitter(window: Window) -> float:
    middle = window.percentile(50)
    return window.percentile(95) / middle if middle else 0.0


def _mean(window: Window) -> float:
    return window.total / window.weight if window.weight else 0.0


def _tool_times(run: Measured, rule: AlertRule) -> Iterator[Reading]:
    budget = run.record.limits.get("tools")
    limit = None if budget is None else budget / NS_PER_S
    return (Reading(tool, took / NS_PER_S, limit=limit) for tool, took in run.calls)


def _run_times(run: Measured, rule: AlertRule) -> Iterator[Reading]:
    if run.record.outcome == "ok":
        budget = run.record.limits.get("total")
        took = run.took if rule.limit is not None else run.rows["total"]  # a budget counts no wait for a session
        yield Reading("", took / NS_PER_S, limit=None if budget is None else budget / NS_PER_S)


def _contexts(run: Measured, rule: AlertRule) -> Iterator[Reading]:
    whole = run.record.declared.context_limit if rule.of_context else 1
    longest: dict[str, int] = {}
    for reply in run.replies:
        longest[reply.model] = max(longest.get(reply.model, 0), reply.usage.input_tokens or 0)
    for model, tokens in longest.items():
        if whole and tokens:
            yield Reading(model, tokens / whole)


def _cached(run: Measured, rule: AlertRule) -> Iterator[Reading]:
    for reply in run.replies:
        whole, cached = reply.usage.input_tokens, reply.usage.cached_tokens
        if whole and cached is not None:
            yield Reading(reply.model, cached, whole)


def _tpots(run: Measured, rule: AlertRule) -> Iterator[Reading]:
    return (Reading(model, tpot) for model, tpot in run.tpots)


def _over_budget(run: Measured, rule: AlertRule) -> Iterator[Reading]:
    if run.record.outcome == "ok":
        for row, limit in run.record.limits.items():
            if row in run.rows:
                yield Reading(row, float(run.rows[row] > limit))


def _errors(run: Measured, rule: AlertRule) -> Iterator[Reading]:
    if run.record.outcome in ("ok", "failed"):
        yield Reading("", float(run.record.outcome == "failed"))


def _of_row(owners: Owners, name: str) -> str:
    return owners.of_stage(name or "total")


SIGNALS: dict[When, Signal] = {
    "tool_p95": Signal("the p95 of the tool {of} is {value}", _tool_times, _p95, _seconds, Owners.of_tool),
    "end_to_end_p95": Signal("the p95 end to end is {value}", _run_times, _p95, _seconds, _of_row),
    "context": Signal("the p95 of the prompts of {of} is {value}", _contexts, _p95, _context, Owners.of_model),
    "cached_share_falls": Signal(
        "the cached share of the prompts of {of} is {value} below what it was",
        _cached,
        _mean,
        _share,
        Owners.of_model,
        True,
    ),
    "tpot_jitter": Signal(
        "the p95 of the time per token of {of} is {value} times its p50", _tpots, _jitter, _number, Owners.of_model
    ),
    "over_budget": Signal("{value} of the runs are over the budget of {of}", _over_budget, _mean, _share, _of_row),
    "error_rate": Signal("{value} of the runs fail", _errors, _mean, _share, _of_row),
}
"""The figures, by the `when` of a rule."""
