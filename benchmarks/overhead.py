"""What hotloop costs on top of the model service and the tools, in ratios to a floor measured in the same minute.

    python benchmarks/overhead.py                 against our own floor, about a minute and a half
    python benchmarks/overhead.py --quick         the same in fewer rounds, under a minute
    python benchmarks/overhead.py --frameworks    and against agent frameworks (make them first: environments.py)

The floor (contestants/floor.py) does the same work with nothing around it; docs/benchmarks.md says what each line
means. Exit code 0: every bound is met. 1: one is not. 2: no figures, and why.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.metadata
import importlib.util
import json
import os
import platform
import sys
from contextlib import ExitStack
from pathlib import Path

import environments
from experiments import (
    FLOOR_EXPERIMENTS,
    RECORDER_EXPERIMENT,
    SDK,
    Progress,
    against,
    against_frameworks,
    imports,
    ledger_stage,
)
from figures import Row, table
from platforms import loop_factory
from processes import Contestant, Service, Unusable

FRAMEWORKS = [SDK, *(name for name in environments.NAMES if name not in (SDK, "aiohttp", "estimate"))]
HEADING = ["", "hotloop", "other", "", "ratio", "95 % interval", "bound", "", ""]
FRAMEWORKS_HEADING = ["", "theirs", "ours", "", "ratio", "95 % interval", "bound", "", ""]


@dataclasses.dataclass
class Report:
    """All rows."""

    floor: list[Row] = dataclasses.field(default_factory=list)
    frameworks: list[Row] = dataclasses.field(default_factory=list)


def measure(quick: bool, frameworks: bool, progress: Progress) -> Report:
    """Everything against the floor, and if asked against frameworks."""
    report = Report()
    share = 3 if quick else 1
    with ExitStack() as stack:
        service = stack.enter_context(Service())

        def start(name: str, python: Path | str = sys.executable) -> Contestant:
            return stack.enter_context(Contestant(name, python, service))

        ours, floor, unrecorded = start("hotloop"), start("floor"), start("unrecorded")
        report.floor += imports(_aiohttp_python(), share, progress)
        for experiment in FLOOR_EXPERIMENTS:
            report.floor += against(ours, floor, experiment.fewer(share), progress)
        report.floor += against(ours, unrecorded, RECORDER_EXPERIMENT.fewer(share), progress)
        report.floor.append(ledger_stage())
        if frameworks:
            others = [start(name, environments.python_of(name)) for name in FRAMEWORKS]
            report.frameworks += against_frameworks(ours, others, share, progress)
    return report


def _aiohttp_python() -> Path | str | None:
    if environments.ready("aiohttp"):
        return environments.python_of("aiohttp")
    return sys.executable if importlib.util.find_spec("aiohttp") else None


def check_environments(frameworks: bool) -> None:
    """Raises Unusable when something to be measured is not installed."""
    if not importlib.util.find_spec("hotloop"):
        raise Unusable(f"hotloop is not installed for {sys.executable}: pip install -e .")
    if missing := [name for name in FRAMEWORKS if frameworks and not environments.ready(name)]:
        raise Unusable(f"not made yet: {', '.join(missing)}; run: {sys.executable} benchmarks/environments.py")


def machine() -> dict[str, str | int | None]:
    """What the figures come from."""
    return {
        "hotloop": importlib.metadata.version("hotloop"),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "platform": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "loop": loop_factory().__module__.partition(".")[0],
    }


def show_progress(text: str) -> None:
    """On a terminal one line that is overwritten, else nothing but the first round of each experiment."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)
    elif "round 0" in text:
        print(text.partition(", round 0")[0], file=sys.stderr, flush=True)


def show(report: Report) -> None:
    """Print the tables for a person."""
    about = machine()
    print(
        f"hotloop {about['hotloop']}, {about['python']}, {about['loop']}, {about['platform']}, {about['cores']} cores:"
        " contestants on core 0, the service on core 1\n"
    )
    print(table(HEADING, report.floor))
    if report.frameworks:
        print("\n" + table(FRAMEWORKS_HEADING, report.frameworks))


def main() -> int:
    """Measure, print, and say by the exit code whether every bound is met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frameworks", action="store_true", help="compare with agent frameworks too")
    parser.add_argument("--quick", action="store_true", help="a third of the rounds: wider intervals")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write machine and rows to this file as well")
    asked = parser.parse_args()
    try:
        check_environments(asked.frameworks)
        report = measure(asked.quick, asked.frameworks, show_progress)
    except Unusable as problem:
        print(f"\nno figures: {problem}", file=sys.stderr)
        return 2
    show_progress("")
    show(report)
    if asked.json:
        figures = {"machine": machine(), **dataclasses.asdict(report)}
        asked.json.write_text(json.dumps(figures, indent=2) + "\n")
    return 1 if any(row.met is False for row in report.floor + report.frameworks) else 0


if __name__ == "__main__":
    sys.exit(main())
