"""What came of a sandboxed call: its result, or an error in words that the model can act on and a log with the rest."""

from __future__ import annotations

import logging
import signal

import msgspec

from hotloop.errors import ToolError, ToolUnavailable
from hotloop.tools.sandbox.process import Ended
from hotloop.tools.sandbox.wire import MIB, Failed, LimitHit, Outcome, Refused, Returned, SandboxLimits

_log = logging.getLogger("hotloop.tools")
_LIMIT_BY_SIGNAL: dict[str, LimitHit] = {"SIGXCPU": "cpu", "SIGXFSZ": "file_size"}


def read_result(name: str, ended: Ended, limits: SandboxLimits) -> str:
    """The text that the model reads. Raises ToolError for an end without one, ToolUnavailable for a breakdown."""
    if ended.too_long:
        raise ToolError(f"{name} gave a result longer than {_size(limits.result)}; it has to return less.")
    match _outcome(ended.sent):
        case Returned(text):
            return text
        case Refused(message, retryable):
            raise ToolError(message, retryable=retryable)
        case Failed() as failed:
            raise _failure(name, failed, ended.printed, limits)
        case None:
            raise _breakdown(name, ended, limits)


def _outcome(sent: bytes) -> Outcome | None:
    try:
        return msgspec.msgpack.decode(sent, type=Outcome)
    except msgspec.DecodeError:  # it was cut off, or the tool wrote to a descriptor that is not its own
        return None


def _failure(name: str, failed: Failed, printed: bytes, limits: SandboxLimits) -> ToolError:
    """As without a sandbox, what the function did not foresee may go better the next time."""
    if failed.limit:
        reason = f"{name} {_excess(failed.limit, limits)}."
    elif failed.loaded:
        reason = f"{name} failed: {failed.error}"
    else:
        reason = f"{name} cannot be loaded in its sandbox: {failed.error}"
    _tell(reason, failed.traceback, printed)
    return ToolError(reason, retryable=failed.loaded and not failed.limit)


def _breakdown(name: str, ended: Ended, limits: SandboxLimits) -> ToolError:
    word = _signal(ended.code - 128)
    kind: type[ToolError] = ToolUnavailable
    if word in _LIMIT_BY_SIGNAL:
        reason, kind = f"{name} {_excess(_LIMIT_BY_SIGNAL[word], limits)}.", ToolError
    elif word == "SIGKILL":
        reason = f"{name} was killed, as the system does when it has no memory left."
    elif word:
        reason = f"{name} crashed ({word})."
    else:
        reason = f"{name} ended its process without a result (exit code {ended.code})."
    _tell(reason, "", ended.printed)
    return kind(reason)


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return ""


def _excess(limit: LimitHit, limits: SandboxLimits) -> str:
    """What it did that it must not, as the rest of a sentence."""
    return {
        "cpu": f"used more than {limits.cpu} s of CPU time",
        "memory": f"needed more than {_size(limits.memory)} of memory",
        "file_size": f"wrote a file longer than {_size(limits.file_size)}",
        "open_files": f"opened more than {limits.open_files} files at once",
    }[limit]


def _size(count: int) -> str:
    return f"{count:,} bytes" if count % MIB else f"{count // MIB:,} MiB"


def _tell(reason: str, traceback: str, printed: bytes) -> None:
    """To the log, with where it happened and the last that the tool printed."""
    output = printed.decode(errors="replace")
    _log.warning("The tool %s%s%s", reason, traceback and f"\n{traceback}", output and f"\nIt printed last:\n{output}")
