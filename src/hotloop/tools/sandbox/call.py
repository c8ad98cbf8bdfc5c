"""Runs a tool's function in a process of its own: within limits, and gone with all that it has started."""

from __future__ import annotations

import asyncio
import functools
import inspect
import os
import pickle
import sys
import types
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from hotloop.errors import ToolDefinitionError, ToolError
from hotloop.tools.defining.tool import Tool
from hotloop.tools.running.threads import DaemonPool
from hotloop.tools.sandbox.process import Ended, SandboxProcess
from hotloop.tools.sandbox.result import read_result
from hotloop.tools.sandbox.wire import Request, SandboxLimits, find

_PARALLEL = 32  # processes at the same time; further calls wait
_threads = DaemonPool(_PARALLEL)


def check_sandboxed(function: Callable[..., Any]) -> None:
    """Raise ToolDefinitionError for a function that another process cannot find by its name."""
    if os.name != "posix":
        raise ToolDefinitionError("sandbox= needs a Unix, such as Linux; leave it out on this system")
    kind = _unreachable(function)
    if kind:
        raise ToolDefinitionError(
            f"sandbox= runs it in another process, which cannot find {kind} by name; "
            "write it with def at the top level of a file"
        )


async def run_sandboxed(tool: Tool, arguments: Mapping[str, Any]) -> str:
    """Run the tool's function, sync or async, in a new Python process; returns its value, encoded for the model.

    When it returns, raises or is cancelled, no process is left of it.
    Raises ToolError as the function did; for any other exception, and for a limit that it ran into, one that says so;
    ToolUnavailable if the process broke down.
    """
    limits = tool.sandbox or SandboxLimits()
    process = SandboxProcess(_request(tool.name, tool.function, arguments, limits))
    return read_result(tool.name, await _outlive(process), limits)


def _unreachable(function: Any) -> str:
    """What it is that cannot be found, "" if it can."""
    if isinstance(function, functools.partial):
        return "a functools.partial"
    if isinstance(function, types.MethodType):
        return "a bound method"
    if not isinstance(function, types.FunctionType):
        return "a callable object"
    if function.__name__ == "<lambda>":
        return "a lambda"
    if "<locals>" in function.__qualname__:
        return "a function that is defined inside another"
    if function.__module__ == "__main__" and not hasattr(sys.modules["__main__"], "__file__"):
        return "a function of an interactive session"
    return ""


def _request(name: str, function: Callable[..., Any], arguments: Mapping[str, Any], limits: SandboxLimits) -> Request:
    _check_found(name, function)
    module, script = _home(function)
    try:
        pickled = pickle.dumps(_without_defaults(function, arguments))
    except Exception as error:  # a class may raise anything
        raise ToolError(f"{name} cannot be given its arguments in another process: {error}") from error
    return Request(module, script, function.__qualname__, pickled, limits)


def _check_found(name: str, function: Callable[..., Any]) -> None:
    """What is found by name must be the function itself, not what a decorator was put around, or a later namesake."""
    place = f"{function.__module__}.{function.__qualname__}"
    try:
        found = find(sys.modules[function.__module__], function.__qualname__)
    except (KeyError, AttributeError):
        found = None
    if found is not function:
        raise ToolError(f"{name} cannot be run in another process: {place} is not the function of this tool.")


def _home(function: Callable[..., Any]) -> tuple[str, str]:
    """The module to import, or the script to load, that has the function."""
    if function.__module__ != "__main__":
        return function.__module__, ""
    main = sys.modules["__main__"]
    if main.__spec__ is not None and main.__spec__.name != "__main__":  # python -m module
        return main.__spec__.name, ""
    return "", str(Path(main.__file__ or "").absolute())


def _without_defaults(function: Callable[..., Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The function has its defaults itself; a copy of one (a marker, say) would be another object."""
    defaults = {name: parameter.default for name, parameter in inspect.signature(function).parameters.items()}
    return {name: value for name, value in arguments.items() if name not in defaults or value is not defaults[name]}


async def _outlive(process: SandboxProcess) -> Ended:
    """Wait for its end; cancelled, stop it, and raise when it has ended."""
    with closing(process):
        job = asyncio.get_running_loop().run_in_executor(_threads, process.run)
        try:
            await asyncio.wait([job])
        except asyncio.CancelledError:
            process.stop()
            await _settle(job) if process.began else job.cancel()
            raise
        return job.result()


async def _settle(job: asyncio.Future[Ended]) -> None:
    while not job.done():
        with suppress(asyncio.CancelledError):  # once is enough
            await asyncio.wait([job])
    job.exception()
