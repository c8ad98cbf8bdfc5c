"""How long `hotloop explain` takes over many recorded runs: benchmarks/explaining.py [--runs 10000].

The runs are real ones of an agent in the lab, in virtual time; they are recorded in a file as always. Half a minute.
Exit code 0: it took no longer than it may. 1: it did.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from overhead import machine

from hotloop import Agent, tool
from hotloop.lab.profiletable import PROFILES
from hotloop.lab.script import call, per_conversation, say
from hotloop.lab.simtransport import SimulatedTransport
from hotloop.testing import run_virtual
from hotloop.trace.recording.recorder import recorder
from hotloop.units import show_ms

_ORDERS = 40
_TOGETHER = 10
_BOUND_RUNS, _MOST_SECONDS = 10_000, 10.0  # more runs may take longer, in proportion; fewer not less


def _tool(name: str, seconds: float) -> object:
    async def look_up(order_id: str) -> dict[str, str]:
        """Look an order up."""
        await asyncio.sleep(seconds * (1 + int(order_id) % 7 / 7))
        return {"order_id": order_id, "status": "shipped"}

    return tool(look_up, name=name, read_only=True, timeout=3.0)


async def _record(store: Path, runs: int) -> None:
    """Three turns each: two calls side by side, one that depends on them, the answer."""
    replies = per_conversation(
        [
            [call("order_status", order_id="1234"), call("logistics", order_id="1234")],
            [call("customs", order_id="1234")],
            say("It was shipped yesterday, and will be there on Monday."),
        ]
    )
    tools = [_tool("order_status", 0.15), _tool("logistics", 0.18), _tool("customs", 0.3)]
    service = SimulatedTransport(replies, profile=PROFILES["gpu-h100x2-llama70b-fp8"])
    async with Agent(name="orders", model="m", endpoint=service, tools=tools, traces=store) as agent:
        for done in range(0, runs, _TOGETHER):
            await asyncio.gather(*(agent.run(f"Where is order {done % _ORDERS}?") for _ in range(_TOGETHER)))
            recorder.flush(30.0)


@dataclass(frozen=True)
class Explained:
    """What a whole `hotloop explain` took, in seconds: the time that somebody waits (`wall`), and of processors."""

    runs: int
    wall: float
    cpu: float

    @property
    def most(self) -> float:
        """The seconds that it may take."""
        return _MOST_SECONDS * max(self.runs / _BOUND_RUNS, 1.0)

    @property
    def met(self) -> bool:
        """Whether it took no longer."""
        return self.wall <= self.most

    def __str__(self) -> str:
        each = show_ms(self.wall * 1000 / self.runs)
        return (
            f"{self.runs:,} runs are explained in {self.wall:.1f} s, {each} each, with {self.cpu:.1f} s of CPU "
            f"(bound: {self.most:g} s): {'met' if self.met else 'NOT MET'}"
        )


def explain(runs: int) -> tuple[str, Explained]:
    """Record so many runs and have them explained: what was printed, and what it took."""
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "traces.db"
        run_virtual(_record(store, runs))
        command = [str(Path(sys.executable).with_name("hotloop")), "explain", "--store", str(store)]
        cpu, wall = _cpu_of_children(), time.perf_counter()
        told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        return told, Explained(runs, time.perf_counter() - wall, _cpu_of_children() - cpu)


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> int:
    """Measure, print, and say by the exit code whether the bound is met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=_BOUND_RUNS)
    parser.add_argument("--json", metavar="FILE", type=Path, help="write machine and figures to this file as well")
    asked = parser.parse_args()
    told, took = explain(asked.runs)
    about = machine()
    print(
        f"hotloop {about['hotloop']}, {about['python']}, {about['platform']}, {about['cores']} cores\n\n{told}\n{took}"
    )
    if asked.json:
        figures = asdict(took) | {"bound": took.most, "met": took.met}
        asked.json.write_text(json.dumps({"machine": about} | figures, indent=2) + "\n")
    return 0 if took.met else 1


if __name__ == "__main__":
    sys.exit(main())
