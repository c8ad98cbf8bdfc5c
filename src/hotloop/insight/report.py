"""How runs did against their budget, and how long a person waited: for a first sign, and for the answer.

A wait is graded by what it does to whoever waits. Up to 0.1 s it is not felt, up to 1 s a train of thought goes on
(J. Nielsen, "Response Times: The 3 Important Limits", 1993); between them, from 0.3 s on, one sees a machine at work
(I. Grigorik, "High Performance Browser Networking", 2013); after 3 s half of the visitors of a page have left it
(Google, "The Need for Mobile Speed", 2016).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from hotloop.trace.measured import Measured
from hotloop.trace.record import TraceRecord
from hotloop.trace.rows import ALL_ROWS
from hotloop.trace.stats import percentile
from hotloop.trace.text import columns
from hotloop.units import ms, show_ms
from hotloop.words import counted

GRADES = {"instant": 100.0, "quick": 300.0, "fluent": 1000.0, "slow": 3000.0}
"""The longest waits that have these grades, in milliseconds; whoever waits longer is "lost"."""


class Line(msgspec.Struct, frozen=True):
    """One row of the budget over all runs; times in milliseconds.

    `stage` is named as in `Budget.limits`; of a turn's the longest turn counts. `acceptable` is the newest run's limit,
    None without one; `over` is how many runs have exceeded their own. The `verdict` is "over" if half of the runs have,
    "at times" if some have, else "ok", or "-" without a limit. `share` is of the time of all runs.
    """

    stage: str
    acceptable: float | None
    p50: float
    p95: float
    over: int
    verdict: str
    share: float


class Wait(msgspec.Struct, frozen=True):
    """How long people waited in so many `runs`, in milliseconds, with the grades of half of them and of 95 %."""

    runs: int
    p50: float
    p95: float
    grade: str
    grade_p95: str


class Report(msgspec.Struct, frozen=True):
    """What `runs` took, of which so many `stopped` because their budget was used up.

    `feedback` is the wait for the first text or the first status of a tool, `answer` that for the end of the runs that
    answered; None where no run tells. `degraded` counts in how many runs something was done to save time.
    """

    runs: int
    stopped: int
    lines: list[Line]
    feedback: Wait | None
    answer: Wait | None
    degraded: dict[str, int]


def grade(wait: float) -> str:
    """The grade of a wait of so many milliseconds."""
    return next((name for name, most in GRADES.items() if wait <= most), "lost")


def first_feedback(record: TraceRecord) -> float | None:
    """Milliseconds until there was something to show: text, or the status of a tool; None if there was nothing.

    Of runs that were recorded elsewhere the first token of a reply without calls counts, or else the answer.
    """
    known: float | None = record.facts.get("first_feedback_ms")
    if known is not None:
        return known
    answering = {turn.turn for turn in record.turns if not turn.tools}
    firsts = [each.first for each in record.attempts if each.first and each.turn in answering]
    ends = firsts or ([record.end] if record.outcome == "ok" else [])
    return ms(min(ends) - record.start) if ends else None


def report(records: Iterable[TraceRecord]) -> Report:
    """The report of these runs, at least one. Raises ValueError if there is none."""
    taken = _Taken()
    for record in records:
        taken.add(record)
    return taken.report()


class _Taken:
    """What runs took, collected one by one."""

    def __init__(self) -> None:
        self._runs = self._stopped = 0
        self._newest = float("-inf")
        self._limits: dict[str, int] = {}  # of the newest run
        self._times: dict[str, list[float]] = {}
        self._over: Counter[str] = Counter()
        self._feedback: list[float] = []
        self._answers: list[float] = []
        self._degraded: Counter[str] = Counter()

    def add(self, record: TraceRecord) -> None:
        self._runs += 1
        self._stopped += record.error == "BudgetExceeded"
        for row, took in Measured(record).rows.items():
            if row in ALL_ROWS or row in record.limits:
                self._times.setdefault(row, []).append(ms(took))
            self._over[row] += took > record.limits.get(row, took)
        if record.started >= self._newest:
            self._newest, self._limits = record.started, record.limits
        if (shown := first_feedback(record)) is not None:
            self._feedback.append(shown)
        if record.outcome == "ok":
            self._answers.append(ms(record.end - record.start))
        self._degraded.update({each["what"] for each in record.facts.get("degraded", ())})

    def report(self) -> Report:
        if not self._runs:
            raise ValueError("there is no run to report of")
        rows = [*ALL_ROWS, *(row for row in self._times if row not in ALL_ROWS)]
        lines = [self._line(row) for row in rows]
        waits = _wait(self._feedback), _wait(self._answers)
        return Report(self._runs, self._stopped, lines, *waits, dict(self._degraded.most_common()))

    def _line(self, row: str) -> Line:
        times, limit = self._times[row], self._limits.get(row)
        total = sum(self._times["total"])
        over = self._over[row]
        verdict = "-" if limit is None else "ok" if not over else "over" if 2 * over >= len(times) else "at times"
        share = sum(times) / total if total else 0.0
        acceptable = None if limit is None else ms(limit)
        return Line(row, acceptable, percentile(times, 50), percentile(times, 95), over, verdict, share)


def _wait(waits: Sequence[float]) -> Wait | None:
    if not waits:
        return None
    p50, p95 = percentile(waits, 50), percentile(waits, 95)
    return Wait(len(waits), p50, p95, grade(p50), grade(p95))


def report_lines(found: Report) -> list[str]:
    """The report for a person: the budget as a table, then the waits, then what was done to save time."""
    several = found.runs > 1
    table, rule = columns([_HEAD_OF_SEVERAL, *map(_cells, found.lines)], (0, 5)) if several else _of_one(found)
    last = table.index(next(line for line in table if line.startswith("total")))
    lines = [table[0], rule, *table[1:last], rule, *table[last:], ""]
    waits = {"first feedback": found.feedback, "answer": found.answer}
    lines += [f"{name:<14}  {_told(wait, several)}" for name, wait in waits.items() if wait is not None]
    if found.stopped:
        lines.append(f"stopped by the budget: {_of_runs(found.stopped, found.runs)}")
    return lines + [f"degraded: {what} ({_of_runs(runs, found.runs)})" for what, runs in found.degraded.items()]


_HEAD_OF_SEVERAL = ("stage", "acceptable", "p50", "p95", "over", "verdict", "share")


def _cells(line: Line) -> tuple[str, ...]:
    acceptable = "-" if line.acceptable is None else show_ms(line.acceptable)
    over = "-" if line.acceptable is None else f"{line.over:,}"
    return line.stage, acceptable, show_ms(line.p50), show_ms(line.p95), over, line.verdict, f"{line.share:.1%}"


def _of_one(found: Report) -> tuple[list[str], str]:
    rows = [_cells(line) for line in found.lines]
    head = ("stage", "acceptable", "actual", "verdict", "share")
    return columns([head, *((row[0], row[1], row[2], row[5], row[6]) for row in rows)], (0, 3))


def _told(wait: Wait, several: bool) -> str:
    if not several:
        return f"{show_ms(wait.p50)} · {wait.grade}"
    return f"p50 {show_ms(wait.p50)} · {wait.grade}, p95 {show_ms(wait.p95)} · {wait.grade_p95} ({wait.runs:,} runs)"


def _of_runs(some: int, runs: int) -> str:
    return f"{some:,} of {counted(runs, 'run')}"


def report_dict(found: Report) -> dict[str, Any]:
    """The report, ready for JSON."""
    told: dict[str, Any] = msgspec.to_builtins(found)
    return told
