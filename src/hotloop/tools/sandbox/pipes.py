"""The pipes of a sandboxed process: its request goes in, what it sends and prints comes out, and neither can grow."""

from __future__ import annotations

import os
import selectors
from collections.abc import Callable
from io import FileIO
from socket import socket
from subprocess import Popen
from typing import IO

_READ = 1 << 16  # bytes at once
_PRINTED = 1 << 13  # bytes


class Pipes:
    """Moves what can be moved, whenever it is told to; a byte to `alarm` ends a wait.

    `sent` is what came back so far, `too_long` that it would have been more than `longest` bytes, `printed` the last of
    what was printed.
    """

    def __init__(self, process: Popen[bytes], result: FileIO, alarm: socket, request: bytes, longest: int) -> None:
        self.sent = bytearray()
        self.printed = b""
        self.too_long = False
        self._left = memoryview(request)
        self._longest = longest
        self._selector = selectors.DefaultSelector()
        self._selector.register(alarm, selectors.EVENT_READ, lambda _: alarm.recv(1))
        self._add(process.stdin, selectors.EVENT_WRITE, self._feed)
        self._add(process.stdout, selectors.EVENT_READ, self._take_printed)
        self._add(result, selectors.EVENT_READ, self._take_sent)

    @property
    def open(self) -> bool:
        """Whether anything may still pass."""
        return len(self._selector.get_map()) > 1

    def move(self, timeout: float) -> bool:
        """Wait up to so many seconds until something can be moved, and move it; False if nothing could."""
        ready = self._selector.select(timeout)
        for key, _ in ready:
            if not key.data(key.fd):
                self._selector.unregister(key.fileobj)
                key.fileobj.close()  # type: ignore[union-attr]  # they are files
        return bool(ready)

    def close(self) -> None:
        """Stop moving; files that are still open are closed by whoever opened them."""
        self._selector.close()

    def _add(self, file: IO[bytes] | None, event: int, move: Callable[[int], bool]) -> None:
        assert file is not None
        os.set_blocking(file.fileno(), False)
        self._selector.register(file, event, move)

    def _feed(self, fd: int) -> bool:
        try:
            self._left = self._left[os.write(fd, self._left) :]
        except BrokenPipeError:  # it ended before it had read all
            return False
        return bool(self._left)

    def _take_sent(self, fd: int) -> bool:
        data = os.read(fd, _READ)
        self.sent += data
        self.too_long = len(self.sent) > self._longest
        return bool(data) and not self.too_long

    def _take_printed(self, fd: int) -> bool:
        data = os.read(fd, _READ)
        self.printed = (self.printed + data)[-_PRINTED:]
        return bool(data)
