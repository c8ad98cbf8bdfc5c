"""How long `hotloop explain` takes over many recorded runs: benchmarks/explaining.py [--runs 10000].

The runs are real ones of an agent in the lab, in virtual time; they are recorded in a file as always.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from hotloop import Agent, tool
from hotloop.lab.profiletable import PROFILES
from hotloop.lab.script import call, per_conversation, say
from hotloop.lab.simtransport import SimulatedTransport
from hotloop.testing import run_virtual
from hotloop.trace.recorder import recorder
from hotloop.units import show_ms

_ORDERS = 40
_TOGETHER = 10


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


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--runs", type=int, default=10_000)
    runs = options.parse_args().runs
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "traces.db"
        run_virtual(_record(store, runs))
        command = [str(Path(sys.executable).with_name("hotloop")), "explain", "--store", str(store)]
        before = time.perf_counter()
        told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        took = time.perf_counter() - before
    print(told)
    print(f"{runs:,} runs explained in {took:.1f} s, {show_ms(took * 1000 / runs)} each")


if __name__ == "__main__":
    main()
