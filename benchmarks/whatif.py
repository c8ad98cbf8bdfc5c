"""How right what-if is: what it predicts of recorded runs, next to what the same requests really take after the change.

    python benchmarks/whatif.py                   all combinations, in virtual time
    python benchmarks/whatif.py --only plan       those with this in their name
    python benchmarks/whatif.py --seed 7          other chances at the services
    python benchmarks/whatif.py --json FILE --svg docs/whatif.svg

Each combination is a world (whatifworlds.py) and a change (whatifcases.py). The world runs, is recorded, and what-if
predicts from the records what the change would make of it; then the change is really made and the world runs again. The
same requests come again, whose tools take the same times; what is left to chance at the services is drawn anew. Takes a
minute. Exit code 0: half of the predicted p50 are at most 5 % off, and 95 % of them at most 12 %. 1: they are not.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from experiments import Progress
from figures import table
from overhead import show_progress
from whatifcases import Case, cases
from whatifplot import Point, svg_plot, text_plot
from whatifworlds import World, as_imported, run_world

from hotloop.insight.whatif import Prediction, whatif
from hotloop.trace.record import TraceRecord
from hotloop.trace.stats import percentile
from hotloop.units import NS_PER_MS

MEDIAN, P95 = 0.05, 0.12
FIGURES = ("p50", "mean", "p95")
WORST = 6


@dataclass(frozen=True)
class Outcome:
    """A combination: what was predicted, and what came; in milliseconds."""

    case: Case
    prediction: Prediction
    real: dict[str, float]

    def predicted(self, figure: str) -> float:
        """One of `FIGURES`."""
        value: float = getattr(self.prediction.times.after, figure).value
        return value

    def error(self, figure: str) -> float:
        """How far off that was, as a share."""
        return self.predicted(figure) / self.real[figure] - 1

    def cells(self) -> list[str]:
        """A line of the table."""
        times = (self.prediction.times.before.p50.value, self.predicted("p50"), self.real["p50"])
        return [self.case.name, *(f"{time:,.0f}" for time in times), *(f"{self.error(each):+.1%}" for each in FIGURES)]

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        predicted = {figure: self.predicted(figure) for figure in FIGURES}
        errors = {figure: self.error(figure) for figure in FIGURES}
        before = self.prediction.times.before.p50.value
        return {"name": self.case.name, "before": before, "predicted": predicted, "real": self.real, "error": errors}


class Worlds:
    """Runs worlds, each once for each seed."""

    def __init__(self) -> None:
        self._ran: dict[str, list[TraceRecord]] = {}

    def runs(self, world: World, seed: int) -> list[TraceRecord]:
        """The records of a world's runs."""
        key = repr((world, seed))
        if key not in self._ran:
            self._ran[key] = run_world(world, seed)
        return self._ran[key]


def measure(chosen: Sequence[Case], seed: int, progress: Progress) -> list[Outcome]:
    """Predict and run them all."""
    worlds, outcomes = Worlds(), []
    for place, case in enumerate(chosen):
        progress(f"{place} of {len(chosen)}: {case.name}")
        before = worlds.runs(case.world, seed)
        recorded = [as_imported(_copied(record)) for record in before] if case.imported else before
        prediction = whatif(recorded, case.edits)
        after = worlds.runs(case.after, seed + 1)
        times = [(record.end - record.start) / NS_PER_MS for record in after if record.outcome == "ok"]
        real = {"p50": percentile(times, 50), "mean": sum(times) / len(times), "p95": percentile(times, 95)}
        outcomes.append(Outcome(case, prediction, real))
    return outcomes


def _copied(record: TraceRecord) -> TraceRecord:
    return msgspec.msgpack.decode(msgspec.msgpack.encode(record), type=TraceRecord)


def errors(outcomes: Sequence[Outcome], figure: str) -> list[float]:
    """How far off each prediction of a figure is, whichever way."""
    return [abs(outcome.error(figure)) for outcome in outcomes]


def held(outcomes: Sequence[Outcome]) -> bool:
    """Whether the bounds are kept."""
    off = errors(outcomes, "p50")
    return percentile(off, 50) <= MEDIAN and percentile(off, 95) <= P95


def show(outcomes: Sequence[Outcome]) -> None:
    """Print it all for a person."""
    heading = ["", "before", "predicted", "real", *FIGURES]
    print("p50 in ms, before the change and after it, and how far off the prediction is:\n")
    print(f"{table(heading, outcomes, '<>>>>>>')}\n")
    print(text_plot(points(outcomes)))
    print(f"\nhow far off {len(outcomes)} predictions are:\n")
    print(f"{'':6}{'median':>9}{'p95':>9}{'most':>9}")
    for figure in FIGURES:
        off = errors(outcomes, figure)
        print(f"{figure:6}{percentile(off, 50):>9.1%}{percentile(off, 95):>9.1%}{max(off):>9.1%}")
    worst = sorted(outcomes, key=lambda outcome: -abs(outcome.error("p50")))[:WORST]
    print("\nfarthest off at the p50:")
    for outcome in worst:
        print(f"  {outcome.error('p50'):+.1%}  {outcome.case.name}")
    print(f"\nmedian at most {MEDIAN:.0%} and p95 at most {P95:.0%} off: {'met' if held(outcomes) else 'NOT MET'}")


def points(outcomes: Sequence[Outcome]) -> list[Point]:
    """For a plot."""
    return [Point(each.real["p50"], each.predicted("p50"), each.case.name) for each in outcomes]


def main() -> int:
    """Measure, print, and say by the exit code whether the bounds are kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="TEXT", default="", help="only combinations with this in their name")
    parser.add_argument("--seed", type=int, default=1, help="decides what is left to chance at services")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the figures to this file as well")
    parser.add_argument("--svg", metavar="FILE", type=Path, help="write the plot to this file as well")
    asked = parser.parse_args()
    logging.disable(logging.WARNING)  # of services that fail, as they are told to
    chosen = [case for case in cases() if asked.only in case.name]
    if not chosen:
        print(f"no combination has {asked.only!r} in its name", file=sys.stderr)
        return 2
    outcomes = measure(chosen, asked.seed, show_progress)
    show_progress("")
    show(outcomes)
    if asked.json:
        told = [outcome.to_dict() for outcome in outcomes]
        asked.json.write_text(json.dumps({"seed": asked.seed, "held": held(outcomes), "combinations": told}, indent=2))
    if asked.svg:
        asked.svg.write_text(svg_plot(points(outcomes), band=P95))
    return 0 if held(outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
