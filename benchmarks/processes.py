"""The processes of a benchmark: one service, and one a contestant, each asleep while it is another's turn."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import urllib.request
from pathlib import Path
from statistics import median, quantiles
from typing import Any, Self

from workload import Task

HERE = Path(__file__).resolve().parent
PATIENCE = 120.0  # seconds that one block may take


def environment() -> dict[str, str]:
    """The environment of a measured process: no proxy, nobody to report to, and compiled modules are kept."""
    told = {"NO_PROXY": "127.0.0.1", "AGNO_TELEMETRY": "false", "HAYSTACK_TELEMETRY_ENABLED": "False"}
    told |= {"LANGSMITH_TRACING": "false", "OTEL_SDK_DISABLED": "true", "DO_NOT_TRACK": "1"}
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"} | told


class Unusable(Exception):
    """No figures can be had; the message says why and what to do."""


class Child:
    """A Python process that writes a line when it is ready or has done what it was told."""

    def __init__(self, name: str, python: Path | str, *arguments: str) -> None:
        self.name = name
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115  closed by __exit__
        self._process = subprocess.Popen(
            [python, *arguments],
            cwd=HERE,
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.communicate()
        self._errors.close()

    def write(self, line: str) -> None:
        """Tell the process something."""
        assert self._process.stdin
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def read(self) -> str:
        """Its next line; raises Unusable when it has died, or takes longer than PATIENCE."""
        assert self._process.stdout
        watchdog = threading.Timer(PATIENCE, self._process.kill)
        watchdog.start()
        line = self._process.stdout.readline()
        watchdog.cancel()
        if not line:
            raise Unusable(f"{self.name} died or took over {PATIENCE:.0f} s:\n{self.complaint()}")
        return line

    def complaint(self) -> str:
        """The end of what it wrote to its standard error."""
        self._errors.seek(0)
        return self._errors.read()[-2000:]


class Service(Child):
    """The model service."""

    def __init__(self) -> None:
        super().__init__("service", sys.executable, "service.py")
        self.port = int(self.read())

    def late_share(self) -> float:
        """The share of paced tokens since the last call that had no write of their own, the service being late."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/late") as reply:
            return float(reply.read())


class Contestant(Child):
    """One contestant, with the service that it talks to."""

    def __init__(self, name: str, python: Path | str, service: Service) -> None:
        super().__init__(name, python, "contestant.py", name, str(service.port))
        self._service = service

    def measure(self, order: dict[str, Any]) -> Block:
        """One block of runs as ordered (`contestant.py`); raises Unusable when an answer is wrong or a run fails."""
        self._service.late_share()
        try:
            self.write(json.dumps(order))
        except BrokenPipeError:
            raise Unusable(f"{self.name} died:\n{self.complaint()}") from None
        figures = json.loads(self.read())
        if "error" in figures:
            raise Unusable(f"{self.name}, {order}: {figures['error']}\n{self.complaint()}")
        return Block(order["workload"], figures, self._service.late_share())


class Block:
    """The figures of one block; times in seconds, `late` is the share of tokens that had no write of their own."""

    def __init__(self, workload: str, figures: dict[str, Any], late: float) -> None:
        self.late = late
        self.cpu: float = figures["cpu"]
        self.wall: float = figures["wall"]
        self._walls: list[float] = figures["walls"]
        task = Task(workload, "")
        self.tokens: float = figures["characters"] * task.answer_tokens / len(task.answer)

    @property
    def runs(self) -> int:
        """Runs that ended in this block."""
        return len(self._walls)

    @property
    def cpu_per_run(self) -> float:
        """CPU time of the whole process, user and system, a run."""
        return self.cpu / self.runs

    @property
    def p50(self) -> float:
        """Median wall time of a run."""
        return median(self._walls)

    @property
    def p95(self) -> float:
        """95th percentile of the wall time of a run."""
        return quantiles(self._walls, n=20, method="inclusive")[-1]
