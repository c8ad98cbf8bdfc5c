"""How many streams one simulated service holds on time, and what that costs it.

    python benchmarks/streams.py

A service in a process of its own, and clients that do nothing but read in another, each on a core of its own. All
streams of a case run at once for five seconds. A write is late by as much as it happens after the moment that the
profile gives. Exit code 0: in every case 99 % of the writes are late by less than a token's time. 1: they are not.
2: no figures, and why.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import selectors
import socket
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from figures import show as digits
from overhead import machine, show_progress
from platforms import CLIENT_CPU, SERVICE_CPU, loop_factory, pin
from processes import Child, Unusable

from hotloop.lab.profiles import Curve, Profile
from hotloop.lab.sim import SimulatedService

SECONDS = 5.0
BUSY = 0.05
HEADING = ["", "streams", "tokens/s", "p50 late", "p95", "p99", "CPU"]  # as in docs/simulator.md
SCHEDULED = Path("/proc/self/schedstat")  # Linux: nanoseconds on a core, and waiting for one
REQUEST = b'{"model":"simulated","stream":true,"messages":[{"role":"user","content":"Count."}]}'
HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nhost: streams\r\ncontent-length: %d\r\n\r\n" % len(REQUEST)


@dataclass
class Case:
    """So many streams of one kind of service, and what was found: milliseconds, shares of 1."""

    kind: str
    streams: int
    tpot_ms: float
    found: dict[str, float] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """What it is called in the table."""
        return f"{self.kind} at {self.tpot_ms:g} ms"

    @property
    def met(self) -> bool:
        """Whether it was on time."""
        return self.found["late_p99_ms"] < self.tpot_ms

    def cells(self) -> list[str]:
        """The line as text."""
        found = self.found
        late = [f"{digits(found[f'late_{each}_ms'])} ms" for each in ("p50", "p95", "p99")]
        return [self.name, f"{self.streams:,}", f"{found['rate']:,.0f}", *late, f"{found['cpu_share'] * 100:.0f} %"]


CASES = [Case("lpu", 150, 2.0), Case("gpu", 150, 2.0), Case("lpu", 1000, 20.0), Case("gpu", 1000, 20.0)]


def measure(case: Case) -> None:
    """Run a case in two processes of its own. Raises Unusable when one of them dies."""
    serving = ["streams.py", "--serve", case.kind, "--tpot", str(case.tpot_ms)]
    with Child("the service", sys.executable, *serving) as service:
        port = service.read().strip()
        reading = ["streams.py", "--read", port, "--streams", str(case.streams)]
        with Child("the clients", sys.executable, *reading) as clients:
            clients.read()
        service.write("")
        case.found = json.loads(service.read())


def serve(kind: str, tpot_ms: float) -> None:
    """The service: prints its port, serves until it is told a line, and prints how punctual it was."""
    pin(SERVICE_CPU)
    profile = Profile(name="streams", kind=kind, base_ms=50.0, per_prompt_token_ms=0.0, tpot_ms=Curve(tpot_ms))
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        print(json.dumps(runner.run(_serve(profile))), flush=True)


async def _serve(profile: Profile) -> dict[str, float]:
    reply = " ".join(["word"] * round(SECONDS * 1e3 / profile.tpot_ms.at(1)))
    async with SimulatedService(lambda _: reply, profile=profile) as service:
        gc.collect()
        gc.freeze()
        print(service.url.rsplit(":", 1)[1].partition("/")[0], flush=True)
        cpu, wall, waited = time.process_time(), time.perf_counter(), _waited()
        await asyncio.to_thread(sys.stdin.readline)
        cpu, wall, waited = time.process_time() - cpu, time.perf_counter() - wall, _waited() - waited
    stats = service.stats
    late = {f"late_{each}_ms": getattr(stats, f"late_{each}_ms") for each in ("p50", "p95", "p99")}
    shares = {"late_share": stats.late_tokens / stats.tokens, "cpu_share": cpu / wall, "waited": waited / wall}
    return late | shares | {"rate": stats.tokens / wall}


def _waited() -> float:
    """Seconds in which this process could have gone on, and had to wait for its core; 0 where nobody knows."""
    return int(SCHEDULED.read_text().split()[1]) / 1e9 if SCHEDULED.exists() else 0.0


def read(port: int, streams: int) -> None:
    """The clients: so many at once, each reading one reply; prints a line when all have ended."""
    pin(CLIENT_CPU)
    buffer = bytearray(1 << 16)
    with selectors.DefaultSelector() as selector:
        for _ in range(streams):
            client = socket.create_connection(("127.0.0.1", port))
            client.sendall(HEAD + REQUEST)
            selector.register(client, selectors.EVENT_READ)
        left = streams
        while left:
            for key, _ in selector.select():
                got = key.fileobj.recv_into(buffer)
                if not got or buffer.endswith(b"0\r\n\r\n", 0, got):
                    selector.unregister(key.fileobj)
                    key.fileobj.close()
                    left -= 1
    print("done", flush=True)


def main() -> int:
    """Measure, print, and say by the exit code whether all was on time."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", metavar="FILE", type=Path, help="write machine and figures to this file as well")
    for option, kind in (("--serve", str), ("--tpot", float), ("--read", int), ("--streams", int)):
        parser.add_argument(option, type=kind, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.serve:
        serve(asked.serve, asked.tpot)
        return 0
    if asked.read:
        read(asked.read, asked.streams)
        return 0
    try:
        for case in CASES:
            show_progress(f"{case.streams} streams, {case.name}")
            measure(case)
    except Unusable as problem:
        print(f"\nno figures: {problem}", file=sys.stderr)
        return 2
    show_progress("")
    show(asked.json)
    return 0 if all(case.met for case in CASES) else 1


def show(file: Path | None) -> None:
    """Print the table for a person, in Markdown, and write it to a file."""
    about: dict[str, Any] = machine()
    print(
        f"hotloop {about['hotloop']}, {about['python']}, {about['loop']}, {about['platform']}, {about['cores']} cores"
    )
    print("\nhow much later than it was due a write happened; CPU: of one core\n")
    for cells in (HEADING, ["---"] * len(HEADING), *(case.cells() for case in CASES)):
        print(f"| {' | '.join(cells)} |")
    overdue, waited = (max(case.found[name] for case in CASES) for name in ("late_share", "waited"))
    print(f"\nTokens sent with a later one: at most {overdue:.2%}. Waiting for a core taken by others: {waited:.0%}.")
    for case in CASES:
        if not case.met:
            print(f"NOT MET: {case.name}, {case.streams:,} streams.")
    if waited > BUSY:
        print("The machine is busy with something else: these figures say little about the service.")
    if file:
        file.write_text(json.dumps({"machine": about, "cases": [asdict(case) for case in CASES]}, indent=2) + "\n")


if __name__ == "__main__":
    sys.exit(main())
