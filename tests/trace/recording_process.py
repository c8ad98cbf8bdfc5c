"""Processes whose runs are recorded: `python recording_process.py WHAT FILE ...`."""

from __future__ import annotations

import os
import sys
import time
from itertools import count

from hotloop import Agent
from hotloop.testing import ScriptedModel
from hotloop.trace.recording import recorder


def agent(path: str | None, *exporters: object) -> Agent:
    """An agent whose model always gives the same answer."""
    model = ScriptedModel(lambda request: "There.")
    return Agent(name="orders", model="m", endpoint=model, traces=path or False, exporters=exporters)


def runs(path: str, number: str) -> None:
    """So many runs."""
    ours = agent(path)
    for each in range(int(number)):
        ours.run_sync("Where?", trace_id=f"run-{each}")
    print(f"{number} runs")


def raises(path: str) -> None:
    """A run, and then an error that nobody handles."""
    agent(path).run_sync("Where?", trace_id="run-0")
    raise ValueError("as the test says")


def endless(path: str) -> None:
    """Runs without end, each told when it was."""
    recorder._GATHERING = 0.02
    ours = agent(path)
    for number in count():
        ours.run_sync("Where?", trace_id=f"run-{number}")
        print(number, flush=True)


def forks(path: str) -> None:
    """Runs of a parent and, while they wait to be recorded, one of its child."""
    ours = agent(path)
    for number in range(5):
        ours.run_sync("Where?", trace_id=f"run-{number}")
    if child := os.fork():
        os.waitpid(child, 0)
        print("parent")
    else:
        agent(path).run_sync("Where?", trace_id="run-1000")
        print("child")


def full(path: str) -> None:
    """Many runs where no file may be larger than 32 KB."""
    import resource
    import signal

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (32_768, 32_768))
    recorder._GATHERING = 0.001
    runs(path, "50")


def stuck() -> None:
    """A run whose exporter does not end."""

    class Stuck:
        def export(self, records: object) -> None:
            time.sleep(60)

        def close(self) -> None: ...

    recorder._AT_EXIT = 0.1
    agent(None, Stuck()).run_sync("Where?")


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
