"""Whether the diagnosis finds faults that were planted, and nothing else: precision and recall.

    python benchmarks/doctor.py

Agents on simulated services, in virtual time: every fault of `hotloop.lab.faulty` alone and every pair that can go
together, in several scenarios, and the scenarios as they are. docs/doctor.md says what the tables mean. A minute or two
on two cores. Exit code 0: nothing was missed, and less than 5 % of what was found is a false alarm. 1: it is not so.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from figures import columns
from overhead import machine, show_progress

from hotloop.insight.doctor import diagnose
from hotloop.lab.faulty.cases import APART, IMPLIED, Planted, cases
from hotloop.lab.faulty.planted import FAULTS
from hotloop.lab.faulty.scenarios import SCENARIOS

SEEDS, SCENARIOS_A_PAIR = 2, 2
MOST_FALSE = 0.05
RUNS, MOST_SECONDS = 10_000, 1.5
RULES = list(dict.fromkeys(fault.finds for fault in FAULTS.values()))


@dataclass(frozen=True)
class Judged:
    """A case, what was found in it, what was to be found, and what may be found beside."""

    planted: Planted
    found: frozenset[str]
    expected: frozenset[str]
    allowed: frozenset[str]

    @property
    def missed(self) -> frozenset[str]:
        """What was not found."""
        return self.expected - self.found

    @property
    def false(self) -> frozenset[str]:
        """What was found and is not there."""
        return self.found - self.expected - self.allowed

    def __str__(self) -> str:
        where = f"{self.planted.scenario}, seed {self.planted.seed}, {' + '.join(self.planted.faults) or 'no fault'}"
        told = [f"missed {', '.join(sorted(self.missed))}"] if self.missed else []
        told += [f"false {', '.join(sorted(self.false))}"] if self.false else []
        return f"{where}: {'; '.join(told)}"


@dataclass(frozen=True)
class Tally:
    """What became of one rule, or of all: in so many cases its fault was planted, and in so many it was not."""

    name: str
    planted: int
    found: int
    without: int
    false: int

    @property
    def recall(self) -> float:
        """The share of planted faults that were found."""
        return self.found / self.planted if self.planted else 1.0

    @property
    def precision(self) -> float:
        """The share of findings whose fault was planted."""
        return self.found / (self.found + self.false) if self.found + self.false else 1.0

    def cells(self) -> list[str]:
        """The tally as text."""
        missed, shares = self.planted - self.found, (f"{self.precision:.1%}", f"{self.recall:.1%}")
        return [self.name, f"{self.planted:,}", f"{missed:,}", *shares, f"{self.without:,}", f"{self.false:,}"]


@dataclass(frozen=True)
class Report:
    """All cases, and how many seconds of CPU a diagnosis of many runs takes."""

    judged: list[Judged]
    seconds: float

    @property
    def tallies(self) -> list[Tally]:
        """Each rule, then all of them together."""
        each = [tally(self.judged, rule) for rule in RULES]
        return [*each, Tally("all", *(sum(getattr(one, name) for one in each) for name in _COUNTS))]

    @property
    def met(self) -> bool:
        """Whether every bound is met."""
        whole = self.tallies[-1]
        return whole.recall == 1 and 1 - whole.precision < MOST_FALSE and self.seconds < MOST_SECONDS

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        wrong = [str(each) for each in self.judged if each.missed or each.false]
        rules = [vars(one) | {"precision": one.precision, "recall": one.recall} for one in self.tallies]
        return {"cases": len(self.judged), "rules": rules, "wrong": wrong, "seconds": self.seconds}


_COUNTS = ("planted", "found", "without", "false")


def tally(judged: Sequence[Judged], rule: str) -> Tally:
    """What became of one rule. Where it is allowed but not demanded, it is neither right nor wrong."""
    planted = [each for each in judged if rule in each.expected]
    without = [each for each in judged if rule not in each.expected | each.allowed]
    return Tally(
        rule,
        len(planted),
        sum(rule in each.found for each in planted),
        len(without),
        sum(rule in each.found for each in without),
    )


def judge(planted: Planted) -> Judged:
    """Play a case, and diagnose it."""
    logging.getLogger("hotloop").setLevel(logging.CRITICAL)  # agents with faults warn of them
    found = frozenset(finding.rule for finding in diagnose(planted.play()))
    return Judged(planted, found, frozenset(planted.expected), frozenset(planted.allowed))


def measure(progress: Callable[[str], None]) -> Report:
    """All cases, on all cores."""
    every = list(cases(SCENARIOS_A_PAIR, SEEDS))
    judged: list[Judged] = []
    with ProcessPoolExecutor() as pool:
        for each in pool.map(judge, every, chunksize=8):
            judged.append(each)
            progress(f"case {len(judged):,} of {len(every):,}")
    return Report(judged, seconds_for_many())


def seconds_for_many() -> float:
    """Seconds of CPU for a diagnosis of many runs of three turns."""
    some = Planted("desk", 1).play()
    many = [deepcopy(some[place % len(some)]) for place in range(RUNS)]
    began = time.process_time()
    diagnose(many)
    return time.process_time() - began


def confusion(judged: Iterable[Judged]) -> str:
    """Faults that were planted alone, and in how many of so many cases which rules found something."""
    found: dict[str, Counter[str]] = {}
    counts: Counter[str] = Counter()
    for each in judged:
        if len(each.planted.faults) < 2:
            name = "".join(each.planted.faults) or "(none)"
            counts[name] += 1
            found.setdefault(name, Counter()).update(each.found)
    lines = [["planted alone", "cases", "found"]]
    for name, rules in found.items():
        told = ", ".join(f"{rule} {times}" for rule, times in rules.most_common())
        lines.append([name, f"{counts[name]}", told or "nothing"])
    return columns(lines, "<><")


def show(report: Report) -> None:
    """Print the tables for a person."""
    about = machine()
    pairs = sum(len(each.planted.faults) == 2 for each in report.judged)
    print(f"hotloop {about['hotloop']}, {about['python']}, {about['platform']}, {about['cores']} cores\n")
    print(
        f"{len(report.judged):,} cases, {pairs:,} of them with two faults, of {len(FAULTS)} faults in "
        f"{len(SCENARIOS)} scenarios ({', '.join(SCENARIOS)})\n"
    )
    print(confusion(report.judged))
    heading = ["rule", "planted", "missed", "precision", "recall", "not planted", "false alarms"]
    print(f"\n{columns([heading, *(each.cells() for each in report.tallies)], '<>>>>>>')}\n")
    print("Implied, and neither right nor wrong:")
    for implied in IMPLIED:
        print(f"  {implied.fault} -> {implied.rule}: {implied.why}")
    print("Not planted together:")
    for apart in APART:
        where = f" ({', '.join(apart.only)})" if apart.only else ""
        print(f"  {apart.fault} and {', '.join(apart.others) or 'anything'}{where}: {apart.why}")
    for each in report.judged:
        if each.missed or each.false:
            print(each)
    print(f"\n{RUNS:,} runs are diagnosed in {report.seconds:.2f} s of CPU (bound: {MOST_SECONDS:g} s)")
    print(f"no miss, less than {MOST_FALSE:.0%} false: {'met' if report.met else 'NOT MET'}")


def main() -> int:
    """Measure, print, and say by the exit code whether every bound is met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", metavar="FILE", type=Path, help="write machine and figures to this file as well")
    asked = parser.parse_args()
    report = measure(show_progress)
    show_progress("")
    show(report)
    if asked.json:
        asked.json.write_text(json.dumps({"machine": machine()} | report.to_dict(), indent=2) + "\n")
    return 0 if report.met else 1


if __name__ == "__main__":
    sys.exit(main())
