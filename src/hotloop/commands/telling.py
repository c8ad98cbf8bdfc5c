"""What is told of a run at its end, to a person or to a program, and the exit code that goes with it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from hotloop.commands.asking import call_as_dict, can_ask, say_waiting, show_call
from hotloop.commands.console import messages, write_json
from hotloop.commands.screen import tell_if_cut
from hotloop.events import RunPaused
from hotloop.runs import Result
from hotloop.tools.defining.tool import encode_result
from hotloop.trace.trace import Trace
from hotloop.visible import answer_for

_PAUSED = 3


class Manner(NamedTuple):
    """How runs are shown: as one JSON object at the end; or text as it comes (`streams`), what goes on (`status`)."""

    as_json: bool
    streams: bool
    status: bool

    @property
    def asks(self) -> bool:
        """Whether there is a person to ask."""
        return self.status and can_ask()


def tell(ended: Result | RunPaused, manner: Manner, config: Path) -> int:
    """Write the answer, or that the run waits; the exit code."""
    if isinstance(ended, RunPaused):
        return _tell_pause(ended, manner, config)
    if manner.as_json:
        write_json(as_dict(ended))
    elif not manner.streams:
        print(answer_for(sys.stdout, _as_text(ended.output)))
    tell_if_cut(ended)
    return 0 if held(ended.trace) else 1


def _tell_pause(pause: RunPaused, manner: Manner, config: Path) -> int:
    if manner.as_json:
        paused = {"run_id": pause.run_id, "calls": [call_as_dict(call) for call in pause.calls]}
        write_json({"paused": paused, "trace": pause.trace.to_dict() if pause.trace else None})
    elif manner.status and not manner.asks:
        for call in pause.calls:
            show_call(messages(), call)
    say_waiting(pause.run_id, pause.calls, config)
    return _PAUSED


def held(trace: Trace) -> bool:
    """Whether no row of the budget was exceeded."""
    return all(row.verdict != "over" for row in trace.budget())


def as_dict(result: Result) -> dict[str, object]:
    """A result, ready for JSON."""
    output = result.output
    return {
        "output": output if isinstance(output, str) else msgspec.Raw(encode_result(output).encode()),
        "usage": result.usage,
        "finish_reason": result.finish_reason,
        "trace": result.trace.to_dict(),
    }


def _as_text(output: Any) -> str:
    """An answer for a person: text as it is, a value of another type as JSON."""
    return output if isinstance(output, str) else msgspec.json.format(encode_result(output))
