"""`hotloop run`: one prompt to the agent that a file declares."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from hotloop.agent import Agent, Result
from hotloop.commands.console import messages, show_trace, write_json
from hotloop.commands.launch import run_async
from hotloop.commands.options import Flag, Json
from hotloop.commands.screen import Screen, tell_if_cut, watch
from hotloop.commands.weights import have_weights
from hotloop.config.spec import load_spec
from hotloop.errors import ConfigError, HotloopError
from hotloop.trace.trace import Trace


def run(
    config: Path,
    prompt: Annotated[str, Parameter(allow_leading_hyphen=True)],
    /,
    *,
    as_json: Json = False,
    log: Flag = False,
    stream: bool | None = None,
    trace_id: str | None = None,
    quiet: Flag = False,
) -> int:
    """Answer one prompt with the agent that a YAML file declares.

    The answer goes to stdout; what the agent is doing, its timeline and its budget go to stderr.

    Example: hotloop run agent.yaml "Where is order 20250101?"

    Parameters
    ----------
    config
        The agent's file; see docs/configuration.md.
    prompt
        What to ask; - reads it from stdin.
    as_json
        Print one object with output, usage, finish_reason and trace instead; of a failed run, with error and trace.
    log
        Write the run's log lines to stderr.
    stream
        Write the model's text as it comes, also what precedes its calls. [default: on a terminal]
    trace_id
        The run's id in its trace and log lines. [default: a new one]
    quiet
        Nothing but the answer, and what is wrong with it.
    """
    with _failure_as_json() if as_json else nullcontext(), _log_lines() if log else nullcontext():
        spec = load_spec(config)
        agent = Agent.from_spec(spec)
        words = sys.stdin.read() if prompt == "-" else prompt
        if not words.strip():
            raise ConfigError("The prompt is empty; say what the agent should do.")
        embedded = spec.inference.endpoint == "local"
        have_weights(spec.inference.endpoint, spec.inference.model)
        streams = not as_json and (sys.stdout.isatty() if stream is None else stream)
        status = not (as_json or quiet)
        result = run_async(_answer(agent, words, trace_id, warm=embedded, streams=streams, status=status))
    if as_json:
        write_json(as_dict(result))
    elif not streams:
        print(result.output)
    tell_if_cut(result)
    return 0 if held(result.trace) else 1


async def _answer(
    agent: Agent, prompt: str, trace_id: str | None, *, warm: bool, streams: bool, status: bool
) -> Result:
    async with agent:
        try:
            with Screen(answer=streams, status=status) as screen:
                if warm:
                    await agent.warm()  # loading a model is no part of a run
                result = await watch(agent, prompt, screen, trace_id)
        except HotloopError as error:
            if status and error.trace and error.trace.turns:
                show_trace(messages(), error.trace)
            raise
    if status:
        show_trace(messages(), result.trace)
    return result


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
def _failure_as_json() -> Iterator[None]:
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
