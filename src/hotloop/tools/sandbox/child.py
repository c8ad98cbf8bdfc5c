"""The inside of a sandbox: the process that runs one function, within its limits, and sends back what came of it."""

from __future__ import annotations

import errno
import faulthandler
import importlib
import inspect
import os
import pickle
import resource
import select
import sys
import traceback
from collections.abc import Awaitable
from contextlib import suppress
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import msgspec

from hotloop.errors import ToolError
from hotloop.tools.defining.tool import encode_result
from hotloop.tools.running.result import encodable, words_of
from hotloop.tools.sandbox.prctl import forbid_new_privileges
from hotloop.tools.sandbox.tree import fork_below
from hotloop.tools.sandbox.wire import (
    AROUND_RESULT,
    Failed,
    LimitHit,
    Outcome,
    Refused,
    Request,
    Returned,
    SandboxLimits,
    find,
)

_SCRIPT = "__mp_main__"  # as multiprocessing calls it
_LONGEST = AROUND_RESULT // 8  # characters, of up to four bytes, of each of the two texts about an error
_LIMIT_BY_ERROR: dict[int | None, LimitHit] = {errno.EFBIG: "file_size", errno.EMFILE: "open_files"}


def main(result: int) -> NoReturn:
    """Read a request from standard input, run it, write its outcome to the descriptor `result`, end the process."""
    data = sys.stdin.buffer.read()
    with Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    if not _is_awaited(result):
        _give_up()
    request = msgspec.msgpack.decode(data, type=Request)
    if not request.contained:
        fork_below(result, request.folder)
    faulthandler.enable()
    forbid_new_privileges()
    _limit(request.limits, request.contained)
    _write(result, msgspec.msgpack.encode(_run(request)))
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):  # the tool may have closed or replaced it
            stream.flush()
    os._exit(0)


def _is_awaited(result: int) -> bool:
    """Whether anybody will read the result: hotloop may have been killed before anything bound this process to it."""
    poll = select.poll()
    poll.register(result, 0)
    return not poll.poll(0)


def _give_up() -> NoReturn:
    with suppress(OSError):  # it is empty, and hotloop's to delete if that is still there
        Path.cwd().rmdir()
    os._exit(1)


def _limit(limits: SandboxLimits, contained: bool) -> None:
    _lower(resource.RLIMIT_CORE, 0)
    _lower(resource.RLIMIT_CPU, limits.cpu, 1)  # a second between the signal that says so and the one that kills
    _lower(resource.RLIMIT_FSIZE, limits.file_size)
    _lower(resource.RLIMIT_NOFILE, limits.open_files)
    if sys.platform != "darwin":  # which refuses it
        _lower(resource.RLIMIT_AS, limits.memory)
    if contained:  # elsewhere it would count all that the user runs
        _lower(resource.RLIMIT_NPROC, limits.processes)


def _lower(kind: int, limit: int, grace: int = 0) -> None:
    """Set a limit for good, unless a lower one holds already."""
    highest = resource.getrlimit(kind)[1]
    hard = limit + grace if highest == resource.RLIM_INFINITY else min(limit + grace, highest)
    resource.setrlimit(kind, (min(limit, hard), hard))


def _run(request: Request) -> Outcome:
    loaded = False
    try:
        module = sys.modules["__main__"] = _load(request)  # where pickle looks for the classes of a script
        function = find(module, request.name)
        arguments = pickle.loads(request.arguments)
        loaded = True
        value = function(**arguments)
        return Returned(encode_result(_wait_for(value) if inspect.isawaitable(value) else value))
    except ToolError as error:
        return Refused(words_of(error)[:_LONGEST], error.retryable)
    except MemoryError as error:
        error.__traceback__ = None  # and with it what the function's frames hold
        return Failed("MemoryError", "", loaded, "memory")
    except BaseException as error:
        limit = _LIMIT_BY_ERROR.get(error.errno) if isinstance(error, OSError) else None
        return Failed(_describe(error)[:_LONGEST], encodable(traceback.format_exc())[-_LONGEST:], loaded, limit)


def _wait_for(value: Awaitable[Any]) -> Any:
    import asyncio  # a large part of the time that a start takes

    async def wait() -> Any:
        return await value

    return asyncio.run(wait())


def _load(request: Request) -> ModuleType:
    """The module that has the function; a script is not "__main__" to itself, so that it only defines what it has."""
    if not request.script:
        return importlib.import_module(request.module)
    module = sys.modules[_SCRIPT] = ModuleType(_SCRIPT)
    module.__file__ = request.script
    SourceFileLoader(_SCRIPT, request.script).exec_module(module)
    return module


def _describe(error: BaseException) -> str:
    words = words_of(error)
    return f"{type(error).__name__}{words and f': {words}'}"


def _write(result: int, data: bytes) -> None:
    with suppress(BrokenPipeError), open(result, "wb") as pipe:  # hotloop has read as much as it wants
        pipe.write(data)
