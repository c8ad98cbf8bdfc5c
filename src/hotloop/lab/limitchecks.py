"""Checks of what is to hold while an agent runs: its times, its budget, its alerts."""

from __future__ import annotations

from collections.abc import Iterator

from hotloop.budget.budget import Budget
from hotloop.budget.spending import rows_of
from hotloop.lab.candidate import Candidate, Finding, names_of
from hotloop.units import NS_PER_S
from hotloop.visible import one_line
from hotloop.words import did_you_mean


def deadline(candidate: Candidate) -> Iterator[Finding]:
    """Whether a run ends in time, whatever the service and the tools do."""
    budget = candidate.spec.budget
    advice = "Give budget.total and budget.answer_reserve: the run then answers from what it has before time is up."
    if budget is None or budget.total is None:
        yield Finding("deadline", "warning", "Runs have no deadline.", advice)
    elif not budget.is_deadline:
        told = (
            f"budget.total ({budget.total:g} s) is only held against runs afterwards: without an answer_reserve it is"
        )
        yield Finding("deadline", "warning", f"{told} no deadline.", advice)
    else:
        yield Finding("deadline", "ok", f"Runs end after {budget.total:g} s at the latest.")


def measures(candidate: Candidate) -> Iterator[Finding]:
    """Whether there is a limit for whatever the budget has done when one is exceeded."""
    budget = candidate.spec.budget
    for place, action in _never_done(budget) if budget is not None else ():
        told = f"{place} is {action}, but there is no limit that could be exceeded."
        yield Finding("measures", "warning", told, "Give budget.total, or a limit of a stage or of each turn.")


def degrading(candidate: Candidate) -> Iterator[Finding]:
    """Whether a run that is to degrade can."""
    budget = candidate.spec.budget
    degrades = budget is not None and any(row.on_exceed == "degrade" for row in rows_of(budget))
    if budget is not None and degrades and not budget.degrade and not any(tool.optional for tool in candidate.tools):
        told = "Runs are to degrade, but there is no step in budget.degrade, and no optional tool to leave out."
        advice = "Give a step, like {max_tokens: 120}, or a tool optional=True."
        yield Finding("degrading", "warning", told, advice)


def turn_limits(candidate: Candidate) -> Iterator[Finding]:
    """Whether a turn can exceed its limit before the run exceeds its own."""
    limits = {} if candidate.spec.budget is None else candidate.spec.budget.limits()
    for name, limit in limits.items():
        of_run = name.removeprefix("turn.")
        whole = limits.get(of_run, limit)
        if limit > whole:
            told = f"budget.{name} ({_seconds(limit)}) is over budget.{of_run} ({_seconds(whole)}): "
            told += "a run is over its limit before a turn is over that."
            yield Finding("turn limits", "hint", told, "Give a turn less than the run.")


def tool_times(candidate: Candidate) -> Iterator[Finding]:
    """Whether every tool ends, and before the run has to."""
    usual, budget = candidate.spec.tools.timeout, candidate.spec.budget
    total = budget.total if budget is not None and budget.total is not None else None
    times = {tool.name: usual if tool.timeout is None else tool.timeout for tool in candidate.tools}
    late = [name for name, seconds in times.items() if total is not None and seconds >= total]
    if late:
        told = f"{names_of(late)} may take as long as a whole run ({total:g} s), or longer, before a timeout ends it."
        yield Finding("tool times", "hint", told, "Give a shorter timeout, at the tool or as tools.timeout.")
    elif times:
        yield Finding("tool times", "ok", f"Every tool has a timeout, the longest of {max(times.values()):g} s.")


def alerts(candidate: Candidate) -> Iterator[Finding]:
    """Whether the tools that alerts are about are there."""
    names = [tool.name for tool in candidate.tools]
    for number, rule in enumerate(candidate.spec.telemetry.alerts):
        if rule.tool is not None and rule.tool not in names:
            told = f"telemetry.alerts[{number}] is about the tool {one_line(rule.tool)}, which the agent does not have"
            told += did_you_mean(rule.tool, names) or "."
            advice = "Give the name of one of its tools, or none: then it is about each of them."
            yield Finding("alerts", "warning", told, advice)


def _never_done(budget: Budget) -> Iterator[tuple[str, str]]:
    """Where something is said to be done, and what, without a limit that it would be done for."""
    turn = None if budget.turn is None else budget.turn.on_exceed
    said = {"budget.on_exceed": budget.on_exceed, "budget.turn.on_exceed": turn}
    acting = [row for row in rows_of(budget) if row.on_exceed != "abort" or row.part != "memory"]  # which stops no run
    done = {"budget.turn.on_exceed" if row.of_turn and turn is not None else "budget.on_exceed" for row in acting}
    for place, action in said.items():
        if action in ("degrade", "abort") and place not in done:
            yield place, action


def _seconds(limit: int) -> str:
    return f"{limit / NS_PER_S:g} s"
