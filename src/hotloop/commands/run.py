"""`hotloop run`: one prompt to the agent that a file declares."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from hotloop.agent import Agent, Result
from hotloop.commands.answering import Answering, Pause, Start
from hotloop.commands.asking import call_as_dict, login_name, say_waiting, show_call
from hotloop.commands.console import messages, write_json
from hotloop.commands.options import Flag, Json
from hotloop.commands.screen import tell_if_cut
from hotloop.commands.weights import have_weights
from hotloop.config.spec import load_spec
from hotloop.errors import ConfigError, HotloopError
from hotloop.trace.trace import Trace

_PAUSED = 3


def run(
    config: Path,
    prompt: Annotated[str, Parameter(allow_leading_hyphen=True)],
    /,
    *,
    as_json: Json = False,
    log: Flag = False,
    stream: bool | None = None,
    trace_id: str | None = None,
    grant: Annotated[list[str] | None, Parameter(negative=(), metavar="NAME")] = None,
    user: Annotated[str, Parameter(show_default=False, metavar="NAME")] = "",
    quiet: Flag = False,
) -> int:
    """Answer one prompt with the agent that a YAML file declares.

    The answer goes to stdout; what the agent is doing, its timeline and its budget go to stderr.
    On a terminal you are asked about calls that need an approval; elsewhere the run then waits for `hotloop resume`.

    Example: hotloop run agent.yaml "Where is order 20250101?"

    Parameters
    ----------
    config
        The agent's file; see docs/configuration.md.
    prompt
        What to ask; - reads it from stdin.
    as_json
        Print one object with output, usage, finish_reason and trace instead; of a failed run, with error and trace,
        and of one that waits, with paused and trace.
    log
        Write the run's log lines to stderr.
    stream
        Write the model's text as it comes, also what precedes its calls. [default: on a terminal]
    trace_id
        The run's id in its trace and log lines. [default: a new one]
    grant
        What the run may do that tools require; repeat it for more. [default: the file's tools.grants]
    user
        For whom it runs; tools' results that are kept for a user, and the audit log, go by it.
    quiet
        Nothing but the answer, and what is wrong with it; you are not asked.
    """
    with failure_as_json() if as_json else nullcontext(), _log_lines() if log else nullcontext():
        spec = load_spec(config)
        agent = Agent.from_spec(spec)
        words = sys.stdin.read() if prompt == "-" else prompt
        if not words.strip():
            raise ConfigError("The prompt is empty; say what the agent should do.")
        have_weights(spec.inference.endpoint, spec.inference.model)
        streams = not as_json and (sys.stdout.isatty() if stream is None else stream)
        embedded = spec.inference.endpoint == "local"
        status = not (as_json or quiet)
        answering = Answering(agent, config, embedded, as_json, streams, status, login_name())
        how: Any = {"trace_id": trace_id, "user": user, "grants": grant}
        ended = answering.begin(Start(partial(agent.run, words, **how), partial(agent.stream, words, **how)))
    return tell(ended, answering)


def tell(ended: Result | Pause, answering: Answering) -> int:
    """Write the answer, or that the run waits; the exit code."""
    if isinstance(ended, Pause):
        return _tell_pause(ended, answering)
    if answering.as_json:
        write_json(as_dict(ended))
    elif not answering.streams:
        print(ended.output)
    tell_if_cut(ended)
    return 0 if held(ended.trace) else 1


def _tell_pause(pause: Pause, answering: Answering) -> int:
    if answering.as_json:
        paused = {"run_id": pause.run_id, "calls": [call_as_dict(call) for call in pause.calls]}
        write_json({"paused": paused, "trace": pause.trace.to_dict() if pause.trace else None})
    elif answering.status and not answering.asks:
        for call in pause.calls:
            show_call(messages(), call)
    say_waiting(pause.run_id, pause.calls, answering.config)
    return _PAUSED


def held(trace: Trace) -> bool:
    """Whether no row of the budget was exceeded."""
    return all(row.verdict != "over" for row in trace.budget())


def as_dict(result: Result) -> dict[str, object]:
    """A result, ready for JSON."""
    return {
        "output": result.output,
        "usage": result.usage,
        "finish_reason": result.finish_reason,
        "trace": result.trace.to_dict(),
    }


@contextmanager
def failure_as_json() -> Iterator[None]:
    """Write what is raised as one object, with the trace as far as the run came (null before it began)."""
    try:
        yield
    except HotloopError as error:
        told = {
            "kind": type(error).__name__,
            "message": str(error),
            "stage": error.stage,
            "retryable": error.retryable,
        }
        write_json({"error": told, "trace": error.trace.to_dict() if error.trace else None})
        raise


@contextmanager
def _log_lines() -> Iterator[None]:
    logger = logging.getLogger("hotloop.trace")
    handler = logging.StreamHandler(sys.stderr)
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
