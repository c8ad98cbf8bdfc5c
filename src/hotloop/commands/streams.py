"""The standard streams: that all three are there, and what becomes of output that cannot be written."""

from __future__ import annotations

import errno
import io
import os
import sys
from typing import TextIO

_UNWRITABLE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF}


def prepare_streams() -> None:
    """Open the null device for each standard stream that is closed; write "?" for what a stream cannot encode.

    Otherwise the next file or socket would get the number of the closed stream, and what is meant for the one would
    be written into the other.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # the lowest free number is the stream's own
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode, encoding="utf-8", closefd=False))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that lacks a character is no reason to fail


def is_unwritable(error: Exception) -> bool:
    """Whether it says that output cannot be written, rather than that the program is wrong."""
    return isinstance(error, OSError) and (isinstance(error, BrokenPipeError) or error.errno in _UNWRITABLE)


def complain(text: str) -> None:
    """Write a line to stderr, if that can be written at all."""
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        discard(sys.stderr)


def discard(stream: TextIO) -> None:
    """Send what the stream still holds nowhere, so that flushing it at exit fails no more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
