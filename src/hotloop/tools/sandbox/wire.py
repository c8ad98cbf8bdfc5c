"""What passes between hotloop and the process of a sandboxed call: a request into it, one outcome back."""

from __future__ import annotations

from operator import attrgetter
from types import ModuleType
from typing import Any, Literal

import msgspec

from hotloop.errors import ConfigError
from hotloop.tools.defining.tool import Tool

LimitHit = Literal["cpu", "memory", "file_size", "open_files"]
MIB = 1 << 20
AROUND_RESULT = 1 << 14
"""Bytes that an outcome may have besides a result: the name of an error, the end of a traceback."""


class SandboxLimits(msgspec.Struct, frozen=True):
    """What a sandboxed process may use: seconds of CPU time, bytes, numbers.

    A process that it starts has the same limits for itself. `memory` is address space, and under bubblewrap also what
    its temporary folder takes; `file_size` is the longest file it may write. `processes` counts its threads too, and is
    held only under bubblewrap and not for root. `result` is the length up to which a result is read.
    """

    cpu: int = 10
    memory: int = 512 * MIB
    file_size: int = 16 * MIB
    open_files: int = 64
    processes: int = 64
    result: int = 4 * MIB

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                raise ConfigError(f"The sandbox limit {name}={value!r} is no limit; give a whole number, 1 or more.")


class Request(msgspec.Struct, frozen=True):
    """A call. `arguments` are pickled: they go into the sandbox, and nothing pickled ever comes out of it.

    The function is `name` in a module, or in a script if it was defined in `__main__`. It runs in `folder`, which is
    its own; `contained` tells that bubblewrap keeps all that it starts together.
    """

    module: str
    script: str
    name: str
    arguments: bytes
    limits: SandboxLimits
    folder: str = ""
    contained: bool = False


class Returned(msgspec.Struct, frozen=True, tag=True):
    """The function's value, encoded for the model."""

    text: str


class Refused(msgspec.Struct, frozen=True, tag=True):
    """The function raised a ToolError."""

    message: str
    retryable: bool


class Failed(msgspec.Struct, frozen=True, tag=True):
    """The function, or loading its module, raised what it did not foresee; `limit` names the limit it ran into."""

    error: str
    traceback: str
    loaded: bool
    limit: LimitHit | None = None


Outcome = Returned | Refused | Failed


def find(module: ModuleType, name: str) -> Any:
    """What a module has under this name; of a tool, the function that it was made of. Raises AttributeError."""
    found = attrgetter(name)(module)
    return found.function if isinstance(found, Tool) else found
