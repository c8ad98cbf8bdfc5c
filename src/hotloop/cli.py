"""The `hotloop` command: runs what the command line asks for, and turns what happens into an exit code."""

from __future__ import annotations

import atexit
import os
import sys
import tempfile
import traceback
from collections.abc import Sequence
from importlib.metadata import version

from hotloop.commands.launch import INTERRUPTED
from hotloop.commands.streams import complain, discard, is_unwritable, prepare_streams
from hotloop.errors import ConfigError, HotloopError
from hotloop.visible import indented

_UNUSABLE = 2
_READER_GONE = 1  # as rich has it


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; its exit code.

    0: what was asked for held. 1: it did not (a budget exceeded, requests failed). 2: it could not be done.
    3: the run waits for a person. 130: stopped by Ctrl-C.
    """
    prepare_streams()
    tokens = list(sys.argv[1:] if arguments is None else arguments)
    debug = _take_debug(tokens)
    try:
        code = _outcome(tokens, debug)
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError as error:
        if not is_unwritable(error):
            raise
        return _output_lost(error)
    return code


def _outcome(tokens: list[str], debug: bool) -> int:
    try:
        return _execute(tokens)
    except KeyboardInterrupt:
        return _stop()
    except HotloopError as error:
        return _fail(str(error))
    except Exception as error:
        if debug or is_unwritable(error):
            raise
        return _fail(f"{type(error).__name__}: {error}\nThis is a bug. Its traceback is in {_write_traceback()}")


def _execute(tokens: list[str]) -> int:
    if tokens == ["--version"]:  # answered at once, without the packages that the commands need
        print(version("hotloop"))
        return 0
    try:
        from hotloop.commands.app import execute
    except ModuleNotFoundError as error:
        if error.name not in ("cyclopts", "rich"):
            raise
        raise ConfigError('The command line needs more packages: pip install "hotloop[cli]"') from None
    return execute(tokens)


def _take_debug(tokens: list[str]) -> bool:
    """Whether --debug is among the options of whichever command; it is taken out."""
    end = tokens.index("--") if "--" in tokens else len(tokens)
    if "--debug" not in tokens[:end]:
        return False
    tokens.remove("--debug")
    return True


def _fail(sentence: str) -> int:
    complain(f"error: {indented(sentence)}")
    return _UNUSABLE


def _stop() -> int:
    """Leave at once: unloading all that was imported would take longer than stopping did."""
    complain("\nstopped")
    sys.stdout.flush()
    atexit.register(os._exit, INTERRUPTED)
    return INTERRUPTED


def _output_lost(error: OSError) -> int:
    """Be silent when whoever read our output wants no more, as `head` does; else say why it cannot be written."""
    discard(sys.stdout)
    if isinstance(error, BrokenPipeError):
        discard(sys.stderr)  # it may be the one that nobody reads
        return _READER_GONE
    return _fail(f"The output cannot be written: {error.strerror}.")


def _write_traceback() -> str:
    told = traceback.format_exc().encode(errors="backslashreplace")
    with tempfile.NamedTemporaryFile(prefix="hotloop-", suffix=".log", delete=False) as file:
        file.write(told)
    return file.name
