"""What keeps a sandboxed process and all that it starts together without bubblewrap: a process above them.

It adopts what lost its parent (on Linux), so that nothing can leave by forking twice. When the sandboxed process has
ended, or hotloop wants that or is gone, it kills all that is left, and only then ends itself.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import time
from collections import defaultdict
from contextlib import suppress
from pathlib import Path

from hotloop.tools.sandbox.prctl import adopt_orphans, signal_when_parent_ends

_PAUSE = 0.001  # seconds between two looks at what is left
_SIGNALS = (signal.SIGCHLD, signal.SIGTERM)
_PROC = Path("/proc/self")


def fork_below(result: int, folder: str) -> None:
    """Return in a new process; the calling one stays above it, and ends, with its exit code, when nothing is left.

    It has it end as well when it gets SIGTERM, when the thread that started it ends, and when nobody reads `result` any
    longer. In the end it deletes `folder`.
    """
    alarms, bell = os.pipe()
    _write_signals(bell)
    adopt_orphans()
    signal_when_parent_ends(signal.SIGTERM)
    above = os.getpid()
    child = os.fork()
    if child:
        code = _watch(child, alarms, result)
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(code)
    _forget_signals()
    os.close(alarms)
    os.close(bell)
    os.setsid()
    signal_when_parent_ends(signal.SIGKILL)
    if os.getppid() != above:
        os._exit(1)


def _write_signals(bell: int) -> None:
    """Have each signal that matters written to this pipe, as a byte."""
    os.set_blocking(bell, False)
    signal.set_wakeup_fd(bell, warn_on_full_buffer=False)
    for number in _SIGNALS:
        signal.signal(number, lambda *_: None)


def _forget_signals() -> None:
    signal.set_wakeup_fd(-1)
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_DFL)


def _watch(child: int, alarms: int, result: int) -> int:
    """Wait for the child or for a reason to end it, end the rest, return its exit code as a shell would write it."""
    poll = select.poll()
    poll.register(alarms, select.POLLIN)
    poll.register(result, 0)  # tells only that nobody reads it any longer
    ended: dict[int, int] = {}
    while child not in ended:
        if any(fd == result or signal.SIGTERM in os.read(fd, 512) for fd, _ in poll.poll()):
            break
        _bury(ended)
    while _bury(ended):
        _kill_below(child)
        time.sleep(_PAUSE)
    code = os.waitstatus_to_exitcode(ended[child])
    return code if code >= 0 else 128 - code


def _bury(ended: dict[int, int]) -> bool:
    """Collect those who have ended, with their status; False if there is nobody left who could end."""
    with suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return True
            ended[pid] = status
    return False


def _kill_below(child: int) -> None:
    """Kill all processes below this one, a group at a time: no fork can slip out of a group while it is killed."""
    for group in _groups_below(os.getpid()) if _PROC.is_dir() else {child}:
        with suppress(ProcessLookupError, PermissionError):  # it has just ended
            os.killpg(group, signal.SIGKILL)


def _groups_below(root: int) -> set[int]:
    """The process groups of all that descend from this process, its own left out."""
    families: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    for entry in _PROC.parent.iterdir():
        if entry.name.isdigit():
            with suppress(OSError):  # it has ended
                parent, group = _parent_and_group(entry)
                families[parent].append((int(entry.name), group))
    found, below = set(), [root]
    while below:
        for pid, group in families[below.pop()]:
            below.append(pid)
            found.add(group)
    return found - {os.getpgid(root)}


def _parent_and_group(process: Path) -> tuple[int, int]:
    """From the line of facts about a process; its name, in brackets among them, may have any characters."""
    _, parent, group = (process / "stat").read_text(errors="replace").rpartition(")")[2].split()[:3]
    return int(parent), int(group)
