"""The tools: how much of the time they are, what could run side by side, what was done before, what could hang."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from hotloop.insight.doctor.case import Case, listed, middle, usual
from hotloop.insight.doctor.measures import Made, Run
from hotloop.insight.doctor.rule import Rule, Seen
from hotloop.insight.doctor.turns import Turns
from hotloop.trace.stats import percentile
from hotloop.units import NS_PER_S, ms, show_ms
from hotloop.words import counted

_DOMINANT = 0.5  # of a run: then an infinitely fast model would not even halve it
_SMALL = 0.1  # of all time at work: twice as fast, it would win no more than 5 %, which nobody notices
_SLOW = NS_PER_S  # for one tool: the third grade of perceived latency, at which a train of thought breaks
_FAILING = 0.1  # of the calls of a tool: one in ten is beyond what models work around unnoticed
_FAILURES = 3  # calls: fewer may be a bad moment
_TAIL = 3.0  # times its median: a call that took unusually long


def _slow_tools(case: Case) -> Seen | None:
    """Tools are over their budget, take most of a run, or one takes very long, also without what other rules find."""
    slow = _slow_names(case)
    over, dominant = _over_budget(case), middle(_unexplained(case)) >= _DOMINANT
    names = slow or _slowest(case)
    costs = [sum(made.critical for made in run.calls if made.name in names) for run in case.runs]
    wall, held = sum(run.wall for run in case.runs), sum(run.held for run in case.runs)
    if not (over or dominant or (slow and sum(costs) >= _SMALL * (wall - held))):
        return None
    median, whole = middle([run.tools / run.wall for run in case.runs]), sum(run.tools for run in case.runs) / wall
    told = [f"over their budget in {counted(over, 'run')}"] if over else []
    told.append(f"{median:.0%} of the median run" if dominant else f"{whole:.0%} of all time")
    told.append(f"{listed(Counter(names), 2)} alone {show_ms(ms(usual(costs)))}")
    return Seen("; ".join(told), costs, case.counts(costs), {"share": median, "share_of_all": whole, "over": over})


def _serial_turns(case: Case) -> Seen | None:
    """Turn after turn with one call that takes nothing from the result before it."""
    costs = [_apart(run, turns) for run, turns in zip(case.runs, case.turns, strict=True)]
    if not case.costly(costs):
        return None
    names = Counter(_chain(turns.serial) for turns in case.turns if turns.serial)
    count = usual(len(turns.serial) for turns in case.turns)
    return Seen(
        f"{names.most_common(1)[0][0]}: each alone in a turn; {count:g} a run took nothing from the result before",
        costs,
        case.counts(costs),
        {"turns": count},
    )


def _serial_calls(case: Case) -> Seen | None:
    """Calls of one reply ran one after the other."""
    costs = [_held_up(run, turns) for run, turns in zip(case.runs, case.turns, strict=True)]
    if not case.costly(costs):
        return None
    late = [run for run, cost in zip(case.runs, costs, strict=True) if cost > 0]
    names = Counter(made.name for run in late for made in run.calls if made.waited)
    limit = late[0].record.facts.get("max_parallel")
    return Seen(
        f"{listed(names) or 'calls'} waited for others to end or for a place, {show_ms(ms(usual(costs)))} a run"
        f"{f'; max_parallel is {limit}' if limit else ''}",
        costs,
        case.counts(costs),
    )


def _repeated_calls(case: Case) -> Seen | None:
    """The same call was worked for again, and gave the same result."""
    costs = _repeated(case)
    if not case.costly(costs):
        return None
    within = sum(len(turns.again) for turns in case.turns)
    names = Counter(made.name for again in case.again for made in again)
    calls = sum(names.values())
    return Seen(
        f"{counted(calls, 'call')} had been made before with the same arguments and the same result, {within:,} of "
        f"them in the same run: {listed(names)}",
        costs,
        case.counts(costs),
        {"calls": calls, "within": within},
    )


def _failing_tools(case: Case) -> Seen | None:
    """Of the calls that a tool worked for, too many gave an error."""
    calls = Counter(made.name for run in case.runs for made in run.calls if made.worked)
    failed = Counter(made.name for run in case.runs for made in run.calls if _has_failed(made))
    names = {name for name, count in failed.items() if count >= _FAILURES and count > _FAILING * calls[name]}
    hits = [any(_has_failed(made) and made.name in names for made in run.calls) for run in case.runs]
    if not (names and case.many(sum(hits))):
        return None
    worst = max(sorted(names), key=lambda name: failed[name] / calls[name])
    return Seen(
        f"{failed[worst] / calls[worst]:.0%} of the calls of {worst} failed ({failed[worst]:,} of {calls[worst]:,})"
        + (f"; so did many of {listed(Counter(names - {worst}))}" if len(names) > 1 else ""),
        [_lost(run, turns, names) for run, turns in zip(case.runs, case.turns, strict=True)],
        hits,
        {"share": failed[worst] / calls[worst], "calls": sum(failed[name] for name in names)},
    )


def _no_timeout(case: Case) -> Seen | None:
    """A tool may take forever."""
    took: dict[str, list[int]] = {}
    for run in case.runs:
        for made in run.calls:
            facts = run.record.tools.get(made.name)
            if made.worked and run.ours and facts is not None and facts.timeout is None:
                took.setdefault(made.name, []).append(made.took)
    if not took:
        return None
    medians = {name: middle(times) for name, times in took.items()}
    costs = [sum(_tail(made, medians) for made in run.calls if made.name in took) for run in case.runs]
    worst = max(took, key=lambda name: max(took[name]))
    return Seen(
        f"{listed(Counter(took.keys()))} without a timeout; {worst} took {show_ms(ms(medians[worst]))} in the middle, "
        f"{show_ms(ms(percentile(took[worst], 95)))} at p95, {show_ms(ms(max(took[worst])))} at most",
        costs,
        [any(made.name in took for made in run.calls) for run in case.runs],
        {"longest_ms": ms(max(took[worst]))},
    )


def _unexplained(case: Case) -> list[float]:
    """Which share of a run tools are, without what other rules find; not of runs that were not needed at all."""
    shares = []
    for run, turns, again, answered in zip(case.runs, case.turns, _repeated(case), case.answered_before, strict=True):
        beside = sum(min(one.critical, other.critical) for one, other in turns.serial)
        if not answered:
            shares.append(max(run.tools - _held_up(run, turns) - beside - again, 0) / run.wall)
    return shares


def _over_budget(case: Case) -> int:
    """In how many runs tools took more than their budget, 0 if that is chance."""
    over = sum(run.tools > run.record.limits.get("tools", run.tools) for run in case.runs)
    return over if case.many(over) else 0


def _slowest(case: Case) -> set[str]:
    """The tool that takes most of all time."""
    times: Counter[str] = Counter()
    for run in case.runs:
        for made in run.calls:
            times[made.name] += made.critical
    return {name for name, _ in times.most_common(1)}


def _slow_names(case: Case) -> set[str]:
    """Tools that take very long, where that is waited for."""
    took: dict[str, list[int]] = {}
    for run in case.runs:
        for made in run.calls:
            if made.worked:
                took.setdefault(made.name, []).append(made.critical)
    return {name for name, times in took.items() if middle(times) >= _SLOW and case.many(len(times))}


def _apart(run: Run, turns: Turns) -> float:
    """What it costs that calls were not written in one reply: the later turns, and of two calls the shorter one."""
    return sum(run.thought.get(other.turn, 0) + min(one.critical, other.critical) for one, other in turns.serial)


def _chain(pairs: Sequence[tuple[Made, Made]]) -> str:
    """The tools of the first chain of such calls, as an arrow."""
    names = [pairs[0][0].name, pairs[0][1].name]
    for (_, before), (one, other) in pairwise(pairs):
        if one is not before:
            break
        names.append(other.name)
    return " → ".join(names)


def _held_up(run: Run, turns: Turns) -> float:
    """By how much calls of one reply ended later than if none had waited for another or for a place."""
    if len(run.calls) < 2:
        return 0
    late = _waited if run.ours else _in_line
    return sum(late(calls) for calls in turns.calls.values() if len(calls) > 1)


def _waited(calls: Sequence[Made]) -> int:
    """The same of one reply; steps of a plan wait for their arguments, which is as it should be."""
    if not any(made.waited for made in calls):
        return 0
    ran = [made for made in calls if made.worked and "." not in made.call_id]
    return max((made.end for made in ran), default=0) - max((made.end - made.waited for made in ran), default=0)


def _in_line(calls: Sequence[Made]) -> int:
    """The same where it is only known when calls ran: each began when the one before it had ended."""
    ran = sorted((made for made in calls if made.worked), key=lambda made: made.start)
    if len(ran) < 2 or any(after.start < one.end for one, after in pairwise(ran)):
        return 0
    return ran[-1].end - ran[0].start - max(made.took for made in ran)


def _repeated(case: Case) -> list[float]:
    """What repeated calls took in each run, with the turns that were made for nothing else."""
    return [
        float(sum(made.critical for made in again) + sum(run.thought.get(turn, 0) for turn in turns.repeated))
        for run, turns, again in zip(case.runs, case.turns, case.again, strict=True)
    ]


def _has_failed(made: Made) -> bool:
    return made.worked and made.outcome == "error"


def _lost(run: Run, turns: Turns, names: set[str]) -> float:
    """What failed calls of these tools took, with the turns that only made such calls once more."""
    failed = [made for made in run.calls if _has_failed(made) and made.name in names]
    first = {name: min(made.turn for made in failed if made.name == name) for name in {made.name for made in failed}}
    more = [
        turn for turn, calls in turns.calls.items() if all(first.get(made.name, turn) < turn for made in calls)
    ]  # to call it once more, with whatever arguments
    return float(sum(made.critical for made in failed) + sum(run.thought.get(turn, 0) for turn in more))


def _tail(made: Made, medians: dict[str, float]) -> float:
    """What a call took beyond the usual, if it took unusually long."""
    median = medians[made.name]
    return min(made.took - median, made.critical) if made.took > _TAIL * median else 0.0


RULES = (
    Rule(
        "slow-tools",
        "tools",
        "Tools take long",
        _slow_tools,
        do="Make it faster, or keep its results (ttl); begin it early (read_only=True) or while the model thinks "
        "(prefetch); cut it off (timeout, on_timeout).",
        otherwise="Make it faster, keep its results, begin it earlier.",
    ),
    Rule(
        "serial-turns",
        "tools",
        "Calls that need nothing of each other are made one by one",
        _serial_turns,
        do="Have the model write them in one reply: say in the instructions that it shall make all calls it needs at "
        "once, or give it one tool for all of them. hotloop runs them side by side.",
        otherwise="Have the model write them in one reply: allow parallel tool calls, and say so in the instructions.",
    ),
    Rule(
        "serial-calls",
        "tools",
        "Calls of one reply wait for each other",
        _serial_calls,
        do="Raise max_parallel; take sequential=True and after=... off tools that do not need them, and say what they "
        "read and write instead (reads, writes).",
        otherwise="Run the calls of one reply side by side.",
    ),
    Rule(
        "repeated-calls",
        "tools",
        "The same calls are made again",
        _repeated_calls,
        do="Keep results: @tool(ttl=..., scope=...), or Agent(tool_ttl=...) for all tools that only read. Within a "
        "run, see whether results say plainly what they are about.",
        otherwise="Keep results of tools that only read, for as long as they stay right.",
    ),
    Rule(
        "failing-tools",
        "tools",
        "Calls of a tool fail",
        _failing_tools,
        do="See why (logger hotloop.tools): what it depends on, its timeout, its arguments. Have it say what would "
        "help (ToolError); try again what may pass (retry, where it only reads); say what stands in: on_timeout.",
        otherwise="See why: what it depends on, its timeout, its arguments. Have its error say what would help.",
    ),
    Rule(
        "no-timeout",
        "tools",
        "A tool may take forever",
        _no_timeout,
        do="Give it a timeout (@tool(timeout=...), Agent(tool_timeout=...)), and say what stands in: on_timeout.",
        otherwise="Give every tool a timeout.",
    ),
)
