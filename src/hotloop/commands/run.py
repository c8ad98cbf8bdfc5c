"""`hotloop run`: one prompt to the agent that a file declares."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from hotloop.commands.answering import Answering
from hotloop.commands.asking import login_name
from hotloop.commands.options import Flag, Json, Name, Names
from hotloop.commands.telling import Manner, tell
from hotloop.errors import ConfigError

_MOST_LOG_LINES = 10_000  # that are held back


def run(
    config: Path,
    prompt: Annotated[str, Parameter(allow_leading_hyphen=True)],
    /,
    *,
    as_json: Json = False,
    log: Flag = False,
    stream: bool | None = None,
    trace_id: Annotated[Name | None, Parameter(metavar="ID")] = None,
    grant: Names | None = None,
    user: Name | None = None,
    session: Annotated[Name | None, Parameter(metavar="ID")] = None,
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
        Write the model's text as it comes, also what precedes its calls; not of an agent whose answers are values.
        [default: on a terminal]
    trace_id
        The run's id in its trace and log lines. [default: a new one]
    grant
        What the run may do that tools require; repeat it for more. [default: the file's tools.grants]
    user
        For whom it runs; memory, tools' results that are kept for a user, and the audit log go by it.
    session
        The conversation that the prompt belongs to: it goes on from one command to the next. It is kept when the
        answer is there; see `hotloop session`. [default: none, the prompt stands alone]
    quiet
        Nothing but the answer, and what is wrong with it; you are not asked.
    """
    with _log_lines() if log else nullcontext():
        streams = not as_json and (sys.stdout.isatty() if stream is None else stream)
        manner = Manner(as_json, streams, status=not (as_json or quiet))
        answering = Answering(config, manner, login_name())
        words = sys.stdin.read() if prompt == "-" else prompt
        if not words.strip():
            raise ConfigError("The prompt is empty; say what the agent should do.")
        agent, user = answering.agent, user or ""
        asked = agent if session is None else agent.session(session, user=user)
        ended = answering.begin(asked.stream(words, trace_id=trace_id, user=user, grants=grant))
    return tell(ended, answering.manner, config)


@contextmanager
def _log_lines() -> Iterator[None]:
    """Write the log lines to stderr, at the end: a run that is logged may still have a line of its answer open."""
    from logging.handlers import MemoryHandler

    logger = logging.getLogger("hotloop.trace")
    handler = MemoryHandler(_MOST_LOG_LINES, logging.CRITICAL, logging.StreamHandler(sys.stderr))
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        handler.close()
