"""The `hotloop` command. What it needs is imported once Ctrl-C is looked after."""

from __future__ import annotations

import atexit
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress

from hotloop.commands.launch import INTERRUPTED

_TO_RECORD = 0.5  # seconds for what ran until then


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; its exit code.

    0: what was asked for held. 1: it did not (a budget exceeded, requests failed). 2: it could not be done.
    3: the run waits for a person. 130: stopped by Ctrl-C.
    """
    try:
        from hotloop.commands.outcome import outcome

        return outcome(list(sys.argv[1:] if arguments is None else arguments))
    except KeyboardInterrupt:
        return _stop()


def _stop() -> int:
    """Leave at once: unloading all that was imported would take longer than stopping did."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of whoever presses it twice
    with suppress(OSError):
        print("\nstopped", file=sys.stderr, flush=True)
        sys.stdout.flush()
    if (recording := sys.modules.get("hotloop.trace.recording.recorder")) is not None:
        recording.recorder.flush(_TO_RECORD)
    atexit.register(os._exit, INTERRUPTED)
    return INTERRUPTED
