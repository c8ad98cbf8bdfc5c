"""A command on a terminal of its own, with a person at it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

HOTLOOP = (sys.executable, "-c", "import sys; from hotloop.cli import main; sys.exit(main())")
ENOUGH = 20  # seconds, for anything on a busy machine
_MOVEMENT = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """Shows what a process writes, and types what a person would."""

    def __init__(self, process: subprocess.Popen[bytes], ours: int) -> None:
        self.process = process
        self._ours = ours
        self._shown = b""

    def until(self, text: str) -> None:
        """Wait until this is shown, after all that was waited for before."""
        while text not in (shown := self._text()):
            piece = self._read()
            assert piece, f"it ended with {shown!r}"
            self._shown += piece
        self._shown = shown.split(text, 1)[1].encode()

    def type(self, text: str) -> None:
        """Type this on the keyboard."""
        os.write(self._ours, text.encode())

    def interrupt(self) -> None:
        """Press Ctrl-C; again if nothing comes of it, as when Python is just about to read from the terminal."""
        for _ in range(ENOUGH):
            self.process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(1)
                return

    def end(self) -> tuple[int, str]:
        """The exit code, and what was shown since what was waited for last."""
        while piece := self._read():
            self._shown += piece
        return self.process.wait(ENOUGH), self._text()

    def _read(self) -> bytes:
        with suppress(OSError):  # Linux says so once the terminal's last user has gone
            return os.read(self._ours, 4096)
        return b""

    def _text(self) -> str:
        return _MOVEMENT.sub("", self._shown.decode(errors="ignore")).replace("\r", "")


@contextmanager
def on_a_terminal(*arguments: object, **environment: str) -> Iterator[Terminal]:
    """Run `hotloop` with these arguments."""
    ours, theirs = os.openpty()
    settings = {"TERM": "xterm", "COLUMNS": "80", "NO_COLOR": "1"} | environment
    command = [*HOTLOOP, *map(str, arguments)]
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=os.environ | settings)
    os.close(theirs)
    try:
        yield Terminal(process, ours)
    finally:
        process.kill()
        process.wait(ENOUGH)
        os.close(ours)
