"""Functions for sandboxed tools: each does one thing that a sandbox must carry, hold or survive."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Any

import msgspec

from hotloop import ToolError, tool

MISSING = object()


class Colour(Enum):
    RED = "red"


@dataclass
class Box:
    width: int


class Order(msgspec.Struct):
    at: datetime
    colour: Colour


@tool(read_only=True)
async def add(left: int, right: int = 1) -> int:
    """Add."""
    await asyncio.sleep(0)
    return left + right


def describe(order: Order, box: Box, mark: Any = MISSING) -> dict[str, Any]:
    return {"order": order, "box": box, "own mark": mark is MISSING}


def text(value: str) -> str:
    return value


def refuse(retryable: bool) -> None:
    raise ToolError("No such order: \udcff.", retryable=retryable)


def fail() -> None:
    print("looking for trouble")
    raise LookupError("trouble")


def leave() -> None:
    sys.exit(3)


def shout(megabytes: int) -> str:
    for _ in range(megabytes):
        sys.stdout.write("x" * (1 << 20))
        sys.stderr.write("y" * (1 << 20))
    return "done"


def spin() -> None:
    while True:
        pass


def hoard() -> None:
    held = []
    while True:
        held.append("x" * 1000 + str(len(held)))


def fill() -> None:
    Path("large").write_bytes(bytes(1 << 21))


def open_many() -> None:
    with contextlib.ExitStack() as files:
        for _ in range(100):
            files.enter_context(Path("x").open("w"))


def crash() -> None:
    ctypes.string_at(0)


def kill_itself() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def vanish() -> None:
    os._exit(7)


def scribble() -> None:
    """Write nonsense to every descriptor that is open."""
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            os.write(int(entry.name), b"\x80nonsense")
    os._exit(0)


def surroundings() -> dict[str, Any]:
    """What a process gets from the one that started it; and leave a file."""
    Path("left behind").write_text("x")
    return {
        "environment": dict(os.environ),
        "folder": str(Path.cwd()),
        "descriptors": [entry.name for entry in Path("/proc/self/fd").iterdir()],
        "arguments": sys.argv,
        "input": sys.stdin.read(),
        "pid": os.getpid(),
        "status": Path("/proc/self/status").read_text(),
    }


def look_around(port: int, read: list[str], write: list[str]) -> dict[str, Any]:
    """What can be reached from here."""
    return {
        "connects": can_connect(port),
        "read": [path for path in read if can_read(path)],
        "written": [path for path in write if can_write(path)],
        "processes": sum(entry.name.isdigit() for entry in Path("/proc").iterdir()),
    }


def can_connect(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def can_read(path: str) -> bool:
    try:
        return bool(Path(path).read_bytes())
    except OSError:
        return False


def can_write(path: str) -> bool:
    try:
        Path(path).write_text("x")
    except OSError:
        return False
    return True


@tool(sandbox="process")
def settle(mark: str, seconds: float) -> str:
    """Leave processes behind: a child, one in a session of its own, and one that has lost its parent."""
    sleep = [sys.executable, "-c", "import time; time.sleep(300)", mark]
    subprocess.Popen(sleep)
    subprocess.Popen(sleep, start_new_session=True)
    subprocess.run([sys.executable, "-c", f"import subprocess; subprocess.Popen({sleep!r}, start_new_session=True)"])
    time.sleep(seconds)
    return "settled"
