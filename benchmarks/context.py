"""What a long conversation costs: CPU a turn, bytes that stay, tokens that are read again, and time that users wait.

    python benchmarks/context.py               --growth, --shared and --stall, two minutes
    python benchmarks/context.py --frameworks  --growth next to agent frameworks (make them first: environments.py)
    python benchmarks/context.py --cached      on the embedded model, some minutes
    python benchmarks/context.py --estimate    how far the estimate of a prompt's tokens is off (estimate.py)

growth: the CPU of a turn against the history before it (growth.py). shared: how much of each prompt is as before
(layouts.py). cached: what that is worth to a service that caches (embedded.py). stall: how long users wait for
summaries (stalls.py). docs/benchmarks.md says what each line means. Exit code 0: every bound is met. 1: one is not.
2: no figures, and why.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import embedded
import estimate
import growth
import layouts
import stalls
from figures import table
from overhead import machine, show_progress
from processes import Unusable

from hotloop.errors import HotloopError

FEW_TALKS = 3  # of each kind


@dataclass(frozen=True)
class Part:
    """What was found in one part: for a person, for a program, and whether its bounds are met."""

    name: str
    shown: str
    figures: Any
    met: bool


def measure_growth(quick: bool, frameworks: bool) -> Part:
    """CPU against history."""
    found = growth.measure(quick, frameworks, show_progress)
    rows = growth.rows(found)
    title = "CPU of a turn after so much history (medians), and what each KB of it adds:"
    figures = {"growth": [asdict(each) for each in found], "slopes": [asdict(row) for row in rows]}
    return Part("growth", f"{title}\n\n{growth.shown(found)}", figures, all(row.met is not False for row in rows))


def measure_shared() -> Part:
    """Bytes that stay."""
    found = layouts.measure()
    title = "How much of a prompt is byte for byte what the prompt before began with, and what is left to read:"
    return _part("shared", title, layouts.HEADING, found, layouts.held(found))


def measure_cached(quick: bool) -> Part:
    """Tokens that are read again."""
    found = asyncio.run(embedded.measure(quick, show_progress))
    title = "Tokens of a turn's prompt that came from the cache of the embedded model, and the time to the first token:"
    return _part("cached", title, embedded.heading(found), found, embedded.held(found))


def measure_stall() -> Part:
    """Time that users wait."""
    found = stalls.measure()
    title = f"What summaries add to a conversation of {stalls.TURNS} turns, on the virtual clock:"
    return _part("stall", title, stalls.HEADING, found, all(each.held for each in found))


def measure_estimate(quick: bool) -> Part:
    """How far the estimate of tokens is off."""
    found = estimate.errors(FEW_TALKS if quick else estimate.TALKS)
    title = "How far off the estimate of a prompt's tokens is, in per cent: median, 95th percentile and worst:"
    figures = [asdict(each) for each in found]
    return Part("estimate", f"{title}\n\n{estimate.table(found)}", figures, estimate.held(found))


def _part(name: str, title: str, heading: list[str], found: list[Any], met: bool) -> Part:
    return Part(name, f"{title}\n\n{table(heading, found)}", [asdict(each) for each in found], met)


def parts(asked: argparse.Namespace) -> list[Callable[[], Part]]:
    """What is to be measured."""
    none = not any((asked.growth, asked.shared, asked.cached, asked.stall, asked.estimate))
    every = [
        (asked.growth or asked.frameworks or none, lambda: measure_growth(asked.quick, asked.frameworks)),
        (asked.shared or none, measure_shared),
        (asked.cached, lambda: measure_cached(asked.quick)),
        (asked.stall or none, measure_stall),
        (asked.estimate, lambda: measure_estimate(asked.quick)),
    ]
    return [part for wanted, part in every if wanted]


def show(part: Part) -> None:
    """Print a part for a person."""
    show_progress("")
    print(f"\n{part.shown}\n\n{part.name}: {'met' if part.met else 'NOT MET'}", flush=True)


def main() -> int:
    """Measure, print, and say by the exit code whether every bound is met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--growth", action="store_true", help="CPU of a turn against the history before it")
    parser.add_argument("--frameworks", action="store_true", help="the same next to agent frameworks")
    parser.add_argument("--shared", action="store_true", help="bytes that consecutive prompts share")
    parser.add_argument("--cached", action="store_true", help="cached tokens and first tokens on the embedded model")
    parser.add_argument("--stall", action="store_true", help="time that summaries add to a user's turn")
    parser.add_argument("--estimate", action="store_true", help="how far the estimate of tokens is off")
    parser.add_argument("--quick", action="store_true", help="fewer rounds, shorter conversations: wider intervals")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write machine and figures to this file as well")
    asked = parser.parse_args()
    about, found = machine(), []
    print(", ".join(f"{name} {value}" for name, value in about.items()))
    try:
        for measure in parts(asked):
            found.append(measure())
            show(found[-1])
    except (Unusable, HotloopError) as problem:
        print(f"\nno figures: {problem}", file=sys.stderr)
        return 2
    if asked.json:
        figures = {part.name: {"met": part.met, "figures": part.figures} for part in found}
        asked.json.write_text(json.dumps({"machine": about} | figures, indent=2) + "\n")
    return 0 if all(part.met for part in found) else 1


if __name__ == "__main__":
    sys.exit(main())
