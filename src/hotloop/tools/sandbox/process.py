"""A sandboxed process seen from outside: started, attended to, and ended with all that it has started."""

from __future__ import annotations

import logging
import math
import os
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, closing, suppress
from io import FileIO
from pathlib import Path
from typing import NamedTuple

import msgspec

from hotloop.errors import ToolUnavailable
from hotloop.tools.sandbox.bubblewrap import FOLDER, bubblewrap, kill_bubblewrap
from hotloop.tools.sandbox.pipes import Pipes
from hotloop.tools.sandbox.wire import AROUND_RESULT, Request

_CHILD = (
    "import sys; result = int(sys.argv[1]); sys.path[:] = sys.argv[2:]; del sys.argv[1:]; "
    "from hotloop.tools.sandbox.child import main; main(result)"
)
_KEPT = ("PATH", "LANG", "TZ")  # of the environment, with LC_*
_TICK, _SHORT_TICK = 0.5, 0.05  # seconds between two looks at a process with open pipes, and at one without
_LAST = 0.1  # seconds to wait for more from a process that has ended
_GRACE = 2.0  # seconds in which it must have ended all that it has started; then it is killed alone

_log = logging.getLogger("hotloop.tools")


class Ended(NamedTuple):
    """What a process left: its exit code (128 + signal), what it sent, and the last that it printed.

    It is `too_long` if it was ended because it sent too much.
    """

    code: int = 0
    sent: bytes = b""
    printed: bytes = b""
    too_long: bool = False


class SandboxProcess:
    """A process for one request. `run` lasts as long as it and belongs in a thread; `stop` and `close` in another.

    `began` tells that `run` was called.
    """

    def __init__(self, request: Request) -> None:
        self.began = False
        self._request = request
        self._contained = self._stopped = False
        self._kill_at: float | None = None  # by time.monotonic, once it was told to end
        self._alarm, self._bell = socket.socketpair()

    def run(self) -> Ended:
        """Start it and wait for its end. Raises ToolUnavailable if it cannot be started."""
        self.began = True
        limits = self._request.limits
        prefix = bubblewrap(self._request.script, limits.memory)
        if self._stopped:
            return Ended()
        self._contained = bool(prefix)
        with ExitStack() as stack:
            folder = FOLDER if prefix else stack.enter_context(_fresh_folder())
            ours, theirs = (stack.enter_context(FileIO(end, mode)) for end, mode in zip(os.pipe(), "rw", strict=True))
            process = stack.enter_context(_start(prefix, folder, theirs.fileno()))
            theirs.close()
            request = msgspec.structs.replace(self._request, folder=folder, contained=self._contained)
            data = msgspec.msgpack.encode(request)
            pipes = stack.enter_context(closing(Pipes(process, ours, self._alarm, data, limits.result + AROUND_RESULT)))
            return self._attend(process, pipes)

    def stop(self) -> None:
        """Have it end, with all that it has started, and `run` return soon."""
        self._stopped = True
        self._bell.send(b"!")

    def close(self) -> None:
        """Give back what `stop` needs; `run` has returned, or will never be called."""
        self._alarm.close()
        self._bell.close()

    def _attend(self, process: subprocess.Popen[bytes], pipes: Pipes) -> Ended:
        """Keep its pipes moving until it has ended, and see to it that it does."""
        while process.poll() is None:
            self._see_to_its_end(process, pipes.too_long)
            if pipes.open:
                pipes.move(_TICK)
            else:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_SHORT_TICK)
        last = time.monotonic() + _LAST
        while pipes.open and time.monotonic() < last:  # they are closed when the last of its processes has ended
            pipes.move(_LAST)
        code = process.returncode if process.returncode >= 0 else 128 - process.returncode
        return Ended(code, bytes(pipes.sent), pipes.printed, pipes.too_long)

    def _see_to_its_end(self, process: subprocess.Popen[bytes], too_long: bool) -> None:
        """Tell it to end when it is to, and kill it if it then does not."""
        if self._kill_at is None:
            if too_long or self._stopped:
                self._kill_at = time.monotonic() + _GRACE
                self._tell_to_end(process)
        elif time.monotonic() >= self._kill_at:
            _log.error("A sandboxed process does not end and is killed; what it has started may go on.")
            process.kill()
            self._kill_at = math.inf

    def _tell_to_end(self, process: subprocess.Popen[bytes]) -> None:
        if self._contained:
            kill_bubblewrap(process.pid)
        else:
            process.terminate()


def _fresh_folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="hotloop-", ignore_cleanup_errors=True)


def _start(prefix: list[str], folder: str, result: int) -> subprocess.Popen[bytes]:
    """Python, seeing no more of this process than the import path; `result` is a descriptor that it gets."""
    python = [sys.executable, "-I", "-B", "-c", _CHILD, str(result)]
    try:
        return subprocess.Popen(
            [*prefix, *python, *(str(Path(entry).absolute()) for entry in sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            bufsize=0,
            pass_fds=[result],
            cwd="/" if prefix else folder,
            env=_environment(folder),
            start_new_session=True,
        )
    except OSError as error:
        raise ToolUnavailable(f"No process can be started for the tool: {error}.") from error


def _environment(folder: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name in _KEPT or name.startswith("LC_")}
    return kept | {"HOME": folder, "TMPDIR": folder}
