"""Who may write to a conversation: one at a time, first come, first served, also among the processes of a machine."""

from __future__ import annotations

import asyncio
import hashlib
import os
import sys
import threading
import weakref
from collections import deque
from collections.abc import AsyncIterator
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from hotloop.context.sessions.record import SessionKey
from hotloop.errors import SessionBusy
from hotloop.sqlitefile import explained

# Locks on single bytes of a file are the process's own: they end when it does, however it does, and no child has them.
if sys.platform == "win32":
    import msvcrt

    _PLACES = 1 << 30  # its C library counts no further

    def _take(file: int, place: int) -> None:
        os.lseek(file, place, os.SEEK_SET)
        msvcrt.locking(file, msvcrt.LK_NBLCK, 1)

    def _give_back(file: int, place: int) -> None:
        os.lseek(file, place, os.SEEK_SET)
        with suppress(OSError):  # it was not locked
            msvcrt.locking(file, msvcrt.LK_UNLCK, 1)
else:
    import fcntl

    _PLACES = 1 << 62

    def _take(file: int, place: int) -> None:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)

    def _give_back(file: int, place: int) -> None:
        fcntl.lockf(file, fcntl.LOCK_UN, 1, place)


_FIRST_PAUSE, _LONGEST_PAUSE = 0.001, 0.02  # seconds between two tries for what another process has
_Turn = Future[None]


class Writers:
    """Those who write to the conversations of a store or wait for it, in whatever threads and event loops.

    Those of other processes count too if they use the lock file `path` (None: there are none). Of each file a process
    has one of these, by `writers`: closing a file gives up all locks that the process has on it.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._file: int | None = None  # open while anybody is in a line
        self._begin()
        _all.add(self)

    def _begin(self) -> None:
        self._brief = threading.Lock()  # held by who looks at what follows; never for long
        self._lines: dict[int, deque[_Turn]] = {}  # by place; the first in a line writes

    @asynccontextmanager
    async def writing(self, key: SessionKey, *, wait: bool) -> AsyncIterator[None]:
        """See `SessionStore.writing`."""
        place = _place(key)
        turn = self._join(place)
        try:
            if not turn.done():
                _require(wait, key)
                await asyncio.wrap_future(turn)
            pause = _FIRST_PAUSE
            while not self._takes(place):
                _require(wait, key)
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
            yield
        finally:
            self._leave(place, turn)

    def _join(self, place: int) -> _Turn:
        """Stand in line; done when it is one's turn."""
        turn: _Turn = Future()
        turn.set_running_or_notify_cancel()  # who waits for it may be cancelled, the turn not
        with self._brief:
            line = self._lines.setdefault(place, deque())
            line.append(turn)
            if line[0] is turn:
                turn.set_result(None)
        return turn

    def _leave(self, place: int, turn: _Turn) -> None:
        with self._brief:
            line = self._lines.get(place)
            if line is None or turn not in line:  # it was in a line of the process that this one was forked from
                return
            was_first = line[0] is turn
            line.remove(turn)
            if was_first and self._file is not None:
                _give_back(self._file, place)
            if was_first and line:
                line[0].set_result(None)
            if not line:
                del self._lines[place]
            if not self._lines:
                self._close()

    def _takes(self, place: int) -> bool:
        """Take the place among all processes, if it is free."""
        if self._path is None:
            return True
        with self._brief, explained(self._path, "sessions"):
            if self._file is None:
                self._path.parent.mkdir(0o700, parents=True, exist_ok=True)
                self._file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                _take(self._file, place)
            except (BlockingIOError, PermissionError):
                return False
            return True

    def _close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def forked(self) -> None:
        """In a child: nobody of it is in a line yet."""
        self._close()
        self._begin()


def _place(key: SessionKey) -> int:
    name = f"{len(key.agent)} {key.agent}{key.id}".encode(errors="surrogatepass")
    return int.from_bytes(hashlib.blake2b(name, digest_size=8).digest()) % _PLACES


def _require(wait: bool, key: SessionKey) -> None:
    if not wait:
        raise SessionBusy(f"Another run is writing to session {key.id}; wait for its end, or stop it.")


_all: weakref.WeakSet[Writers] = weakref.WeakSet()
_of_files: weakref.WeakValueDictionary[str, Writers] = weakref.WeakValueDictionary()
_sharing = threading.Lock()


def writers(path: Path) -> Writers:
    """The writers of this process that use the lock file `path`."""
    real = os.path.realpath(path)
    with _sharing:
        found = _of_files.get(real)
        if found is None:
            found = _of_files[real] = Writers(Path(real))
        return found


def _in_child() -> None:
    _sharing.release()
    for each in list(_all):
        each.forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_sharing.acquire, after_in_parent=_sharing.release, after_in_child=_in_child)
