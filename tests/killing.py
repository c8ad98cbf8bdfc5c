"""Processes that are started, and killed: by a test, or by themselves."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from typing import Any

ENOUGH = 30  # seconds, for anything on a busy machine


@contextmanager
def started(script: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """A process that runs this script, and is killed in the end."""
    command = [sys.executable, script, *map(str, arguments)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def die_at(number: int) -> None:
    """Let this process be killed at its SQL statement `number`, counted from 0 on connections that are made later."""
    statements = count()

    def trace(_: str) -> None:
        if next(statements) == number:
            os.kill(os.getpid(), signal.SIGKILL)

    class Mortal(sqlite3.Connection):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            self.set_trace_callback(trace)

    sqlite3.connect = partial(sqlite3.connect, factory=Mortal)
