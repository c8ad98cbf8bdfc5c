"""A program above a server's process, on POSIX: it starts it, and ends it when hotloop, however that ends, is gone.

It is run by its path and imports nothing but Python's own, so that it costs a server's start ten milliseconds.
"""

import os
import select
import signal
import sys
import threading
import time

_AGAIN = 1_000  # milliseconds between two looks at who the parent is
_GRACE = 0.3  # seconds in which the server may end, once its input has ended, and again once it is told to
_IGNORED = [signal.SIGPIPE, signal.SIGXFSZ]  # by Python, not by servers


def main(hotloop: int, command: list[str]) -> None:
    """Run the command, in this process group and with these standard streams, and end with its exit code."""
    server = _start(command)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it goes to the whole group, and is meant for the server
    for stream in (0, 1):
        os.close(stream)
    threading.Thread(target=_end_without, args=(hotloop, server), daemon=True).start()
    code = os.waitstatus_to_exitcode(os.waitpid(server, 0)[1])
    if _is_gone(hotloop, 0):
        os.killpg(0, signal.SIGKILL)  # with all that the server has started
    os._exit(code if code >= 0 else 128 - code)


def _start(command: list[str]) -> int:
    try:
        return os.posix_spawnp(command[0], command, os.environ, setsigdef=_IGNORED)
    except OSError as error:
        sys.exit(f"{command[0]}: {error.strerror}")


def _end_without(hotloop: int, server: int) -> None:
    """Wait until hotloop is gone, then end the server: as the protocol wants it, but soon."""
    while not _is_gone(hotloop, _AGAIN):
        pass
    time.sleep(_GRACE)
    os.killpg(0, signal.SIGTERM)
    time.sleep(_GRACE)
    os.kill(server, signal.SIGKILL)


def _is_gone(hotloop: int, milliseconds: int) -> bool:
    """Whether it is, within this time: nobody reads standard error (a fork of it might), or our parent is another.

    PR_SET_PDEATHSIG would tell of the thread that started this process, which may end before hotloop does.
    """
    reader = select.poll()
    reader.register(2, 0)
    return bool(reader.poll(milliseconds)) or os.getppid() != hotloop


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
