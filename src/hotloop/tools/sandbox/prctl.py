"""What Linux can be asked to do for this process (`man 2 prctl`); elsewhere nothing is asked."""

from __future__ import annotations

import ctypes
import os
import sys

_SIGNAL_WHEN_PARENT_ENDS, _ADOPT_ORPHANS, _NO_NEW_PRIVILEGES = 1, 36, 38


def signal_when_parent_ends(number: int) -> None:
    """Have this process sent a signal as soon as the thread that started it has ended."""
    _ask(_SIGNAL_WHEN_PARENT_ENDS, number)


def adopt_orphans() -> None:
    """Make this process the parent of all its descendants that lose theirs."""
    _ask(_ADOPT_ORPHANS, 1)


def forbid_new_privileges() -> None:
    """Let no program that is started from here on have more rights than this process (setuid)."""
    _ask(_NO_NEW_PRIVILEGES, 1)


def _ask(option: int, value: int) -> None:
    if sys.platform != "linux":
        return
    if ctypes.CDLL(None, use_errno=True).prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
