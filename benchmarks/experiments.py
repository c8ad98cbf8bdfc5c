"""What is measured, how often, and what must hold.

Contestants take turns: a block of runs each, in alternating order, round after round, so that a busy moment of the
machine meets both. A row compares the figures of the same round.
"""

from __future__ import annotations

import subprocess
import sys
import time
import timeit
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean
from typing import Any

from figures import Bound, Row, at_least, at_most, compare, ratio_at_least, ratio_at_most
from processes import Block, Contestant, Unusable, environment

IDEAL_MS = 20 + 11 * 2 + 20 + 95 * 2  # workload A at 20/2: twelve chunks of calls, then 96 tokens
RUNTIME_SLACK = ratio_at_most(1.5)
LEAST_ADVANTAGE = ratio_at_least(40)
LATE = 0.01  # from this share of late tokens on, a row says so
SDK = "openai_sdk"
IMPORT_ROUNDS = 10
STAGE_ROUNDS, STAGES = 50, 1000

Blocks = list[Block]
Progress = Callable[[str], None]


@dataclass(frozen=True)
class Line:
    """One figure of an experiment, from the blocks of one contestant's turn."""

    name: str
    unit: str
    figure: Callable[[Blocks], float]
    bound: Bound | None = None


@dataclass(frozen=True)
class Experiment:
    """Blocks that each contestant runs when it is its turn, and what is read from them."""

    title: str
    orders: list[dict[str, Any]]
    rounds: int
    lines: list[Line]

    def fewer(self, share: int) -> Experiment:
        """The same with only one round in `share`."""
        return replace(self, rounds=max(2, self.rounds // share))


def cpu_ms(blocks: Blocks) -> float:
    """CPU a run."""
    return blocks[0].cpu_per_run * 1e3


def p50_ms(blocks: Blocks) -> float:
    """Median wall time of a run."""
    return blocks[0].p50 * 1e3


def p95_ms(blocks: Blocks) -> float:
    """95th percentile of the wall time of a run."""
    return blocks[0].p95 * 1e3


def runs_per_s(blocks: Blocks) -> float:
    """Runs a second of wall time."""
    return blocks[0].runs / blocks[0].wall


def runs_per_core_s(blocks: Blocks) -> float:
    """Runs a second of CPU: what one core can do, however busy the service's core is."""
    return 1 / blocks[0].cpu_per_run


def us_per_read(blocks: Blocks) -> float:
    """CPU a read of one token; tokens that the late service sent along with others are no reads."""
    return blocks[0].cpu / (blocks[0].tokens * (1 - blocks[0].late)) * 1e6


def us_per_more_token(blocks: Blocks) -> float:
    """CPU that a token adds to a run, from a run with few tokens and one with many."""
    few, many = blocks
    cpu = many.cpu_per_run - few.cpu_per_run
    return cpu / (many.tokens / many.runs - few.tokens / few.runs) * 1e6


FLOOR_EXPERIMENTS = [
    Experiment(
        "A: two turns, three tools, 96 tokens",
        [{"workload": "A", "service": "0/0", "runs": 100}],
        30,
        [Line("A, CPU a run", "ms", cpu_ms, RUNTIME_SLACK), Line("A, wall p50", "ms", p50_ms, RUNTIME_SLACK)],
    ),
    Experiment(
        "tokens that arrive together: T1000 less T100",
        [{"workload": "T100", "service": "0/0", "runs": 40}, {"workload": "T1000", "service": "0/0", "runs": 20}],
        20,
        [Line("CPU a token, together", "µs", us_per_more_token, RUNTIME_SLACK)],
    ),
    Experiment(
        "tokens that arrive one by one: T1000 at 1 ms in 32 sessions",
        [{"workload": "T1000", "service": "0/1", "sessions": 32, "seconds": 1.0}],
        4,
        [Line("CPU a token, one by one", "µs", us_per_read, RUNTIME_SLACK)],
    ),
    Experiment(
        "B: nine turns, eight results of 2 KB",
        [{"workload": "B", "service": "0/0", "runs": 40}],
        20,
        [Line("B, CPU a run", "ms", cpu_ms, RUNTIME_SLACK), Line("B, wall p50", "ms", p50_ms, RUNTIME_SLACK)],
    ),
    Experiment(
        f"200 sessions of A at 20/2 ms, ideal {IDEAL_MS} ms",
        [{"workload": "A", "service": "20/2", "sessions": 200, "seconds": 1.5}],
        4,
        [
            Line("200 sessions, p50", "ms", p50_ms),
            Line("200 sessions, p95", "ms", p95_ms, at_most(IDEAL_MS * 1.1, "ms")),
            Line("200 sessions, runs", "/s", runs_per_s),
        ],
    ),
    Experiment(
        "A saturated: 50 sessions at 0/0",
        [{"workload": "A", "service": "0/0", "sessions": 50, "seconds": 0.6}],
        6,
        [Line("saturated, runs of a core", "/s", runs_per_core_s, at_least(3000, "/s"))],
    ),
]

RECORDER_EXPERIMENT = Experiment(
    "A with the ledger recording and not",
    [{"workload": "A", "service": "0/0", "runs": 100}],
    30,
    [Line("A, ledger on or off", "ms", cpu_ms)],
)

FRAMEWORK_EXPERIMENT = Experiment(
    "A with frameworks",
    [{"workload": "A", "service": "0/0", "runs": 10}],
    8,
    [Line("A, CPU a run", "ms", cpu_ms)],
)


def take_turns(contestants: list[Contestant], experiment: Experiment, progress: Progress) -> list[list[Blocks]]:
    """For every contestant the blocks of each round; one round more is run first and not counted."""
    taken: dict[str, list[Blocks]] = {contestant.name: [] for contestant in contestants}
    for number in range(experiment.rounds + 1):
        progress(f"{experiment.title}, round {number} of {experiment.rounds}")
        for contestant in contestants[:: -1 if number % 2 else 1]:
            taken[contestant.name].append([contestant.measure(order) for order in experiment.orders])
    return [taken[contestant.name][1:] for contestant in contestants]


def against(ours: Contestant, other: Contestant, experiment: Experiment, progress: Progress) -> list[Row]:
    """An experiment's rows, hotloop against another contestant."""
    our_rounds, other_rounds = take_turns([ours, other], experiment, progress)
    late = mean(block.late for blocks in our_rounds + other_rounds for block in blocks)
    note = f"the service sent {late:.0%} of the tokens late" if late >= LATE else ""
    rows = []
    for line in experiment.lines:
        figures = [line.figure(blocks) for blocks in our_rounds]
        others = [line.figure(blocks) for blocks in other_rounds]
        row = compare(line.name, line.unit, figures, other.name, others, line.bound)
        rows.append(replace(row, note=note))
    return rows


def against_frameworks(ours: Contestant, others: list[Contestant], share: int, progress: Progress) -> list[Row]:
    """How many times the CPU of hotloop each of the others takes, the leanest first; the bound is on that one.

    The OpenAI SDK is shown among them, but it is no framework: the bound passes over it.
    """
    our_rounds, *their_rounds = take_turns([ours, *others], FRAMEWORK_EXPERIMENT.fewer(share), progress)
    our_cpu = [cpu_ms(blocks) for blocks in our_rounds]
    rows = [
        compare(f"A, CPU a run, {other.name}", "ms", [cpu_ms(blocks) for blocks in rounds], ours.name, our_cpu)
        for other, rounds in zip(others, their_rounds, strict=True)
    ]
    rows.sort(key=lambda row: row.ratio)
    leanest = next(row for row in rows if not row.name.endswith(SDK))
    return [LEAST_ADVANTAGE.judge(row) if row is leanest else row for row in rows]


def imports(aiohttp_python: Path | str | None, share: int, progress: Progress) -> list[Row]:
    """What `import hotloop` takes in a fresh process, against a bare interpreter's start and `import aiohttp`."""
    started, ours, theirs = [], [], []
    rounds = IMPORT_ROUNDS // share
    for number in range(rounds + 1):
        progress(f"imports, round {number} of {rounds}")
        started.append(_start_ms())
        ours.append(_import_ms(sys.executable, "hotloop"))
        if aiohttp_python:
            theirs.append(_import_ms(aiohttp_python, "aiohttp"))
    rows = [compare("import hotloop", "ms", ours[1:], "bare python", started[1:], at_most(100, "ms"))]
    if theirs:
        rows.append(compare("import hotloop", "ms", ours[1:], "import aiohttp", theirs[1:], ratio_at_most(100 / 160)))
    return rows


def ledger_stage() -> Row:
    """What one stage costs to record, against appending to a list."""
    stages = [_stage_ns("mark('decode')") for _ in range(STAGE_ROUNDS)]
    appends = [_stage_ns("append(None)") for _ in range(STAGE_ROUNDS)]
    return compare("ledger, one stage", "ns", stages, "list.append", appends, at_most(1000, "ns"))


def _stage_ns(statement: str) -> float:
    """Nanoseconds a statement, with the garbage collector on."""
    from hotloop.trace.ledger import Ledger  # overhead.py first checks that hotloop is installed

    ledger = Ledger(time.perf_counter_ns, "benchmark")
    names = {"mark": ledger.mark, "append": [].append}
    return timeit.timeit(statement, "import gc; gc.enable()", number=STAGES, globals=names) / STAGES * 1e9


def _start_ms() -> float:
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    return (time.perf_counter() - started) * 1e3


def _import_ms(python: Path | str, module: str) -> float:
    timed = f"import time; t = time.perf_counter(); import {module}; print(time.perf_counter() - t)"
    done = subprocess.run([python, "-c", timed], check=False, capture_output=True, text=True, env=environment())
    if done.returncode:
        raise Unusable(f"import {module} failed:\n{done.stderr}")
    return float(done.stdout) * 1e3
