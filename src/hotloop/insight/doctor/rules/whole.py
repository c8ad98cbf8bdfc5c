"""The run as a whole: whether it was needed at all, how many turns it took, and what the loop itself costs."""

from __future__ import annotations

from collections import Counter

from hotloop.insight.doctor.case import Case, middle
from hotloop.insight.doctor.measures import Run
from hotloop.insight.doctor.rule import Rule, Seen
from hotloop.trace.ledger import Stage
from hotloop.trace.path import steps_back
from hotloop.units import NS_PER_MS, ms, show_ms

_MANY = 6  # turns with calls: more than half of the ten that an agent has by default
_OWN = 5 * NS_PER_MS  # a turn: ten times what a run of hotloop costs, and less than most frameworks take


def _repeated_answer(case: Case) -> Seen | None:
    """The same question was given the same answer by a model again."""
    if not case.many(sum(case.answered_before)):
        return None
    asked = Counter(run.record.prompt.digest for run in case.runs if run.record.prompt is not None)
    often = max(asked.values())
    return Seen(
        f"an earlier run had asked the same, and got the same answer; one question came {often:,} times",
        [run.wall if again else 0 for run, again in zip(case.runs, case.answered_before, strict=True)],
        case.answered_before,
        {"most_often": often},
    )


def _too_many_turns(case: Case) -> Seen | None:
    """A run takes many turns, each with a reply to wait for, also without those that other rules find."""
    counts = [run.acting - len(turns.needless) for run, turns in zip(case.runs, case.turns, strict=True)]
    hits = [count > _MANY or run.record.error == "TurnLimit" for count, run in zip(counts, case.runs, strict=True)]
    if not case.many(sum(hits)):
        return None
    thoughts = [_thought(run) for run in case.runs]
    costs = [max(count - _MANY, 0) * thought for count, thought in zip(counts, thoughts, strict=True)]
    turns = middle([run.acting for run in case.runs])
    return Seen(
        f"{turns:g} turn{'' if turns == 1 else 's'} with calls in the median run, {max(counts)} at most; for each the "
        f"model takes {show_ms(ms(middle(thoughts)))}",
        costs,
        hits,
        {"turns": turns},
    )


def _loop_overhead(case: Case) -> Seen | None:
    """Time goes to code that is neither a model nor a tool, nor the store of the sessions."""
    owns = [_own(run) for run in case.runs]
    costs = [own if _is_slow(run, own) else 0 for run, own in zip(case.runs, owns, strict=True)]
    if not case.costly(costs):
        return None
    turn = middle([own / max(len(run.replies), 1) for run, own in zip(case.runs, owns, strict=True)])
    return Seen(
        f"{show_ms(ms(turn))} a turn are neither a model's nor a tool's",
        costs,
        case.counts(costs),
        {"turn_ms": ms(turn)},
    )


def _own(run: Run) -> int:
    """What the code of a run took, without the store of its session, whose time is that of a disk."""
    if not _is_slow(run, run.own):
        return run.own
    path = steps_back(run.record.stages, run.record.end)
    return run.own - sum(end - start for stage, start, end in path if _is_of_store(stage))


def _is_of_store(stage: Stage) -> bool:
    return stage.kind == "context" and stage.note.startswith("session ")  # loaded, committed


def _is_slow(run: Run, own: int) -> bool:
    limit = run.record.limits.get("other")
    return own >= _OWN * max(len(run.replies), 1) or (limit is not None and own > limit)


def _thought(run: Run) -> float:
    """What the model takes for a turn with calls."""
    acting = [run.thought.get(reply.turn, 0) for reply in run.replies if reply.acts]
    return sum(acting) / len(acting) if acting else 0.0


RULES = (
    Rule(
        "repeated-answer",
        "whole",
        "The same answer was generated again",
        _repeated_answer,
        do="Keep answers: Agent(answers=AnswerCache(...)).",
        otherwise="Keep answers by question, for as long as they stay right.",
    ),
    Rule(
        "too-many-turns",
        "whole",
        "A run takes many turns",
        _too_many_turns,
        do="Let the model write calls that need each other at once: Agent(plan=True). Or give it one tool that does "
        "the whole errand. max_turns bounds how many there are.",
        otherwise="Give the model one tool that does the whole errand, and bound its turns.",
    ),
    Rule(
        "loop-overhead",
        "whole",
        "The loop itself takes time",
        _loop_overhead,
        do="Look for code of yours that keeps the event loop busy (predicates, token counters, readers of streams, "
        "other tasks), and move it into a thread or process. hotloop itself takes under 1 ms a run.",
        otherwise="Look for code that keeps the event loop busy, and for what the framework does between calls.",
    ),
)
