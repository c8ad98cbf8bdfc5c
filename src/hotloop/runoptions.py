"""What may be said of one run beside its prompt."""

from __future__ import annotations

import logging
import random
from collections.abc import Collection
from typing import TypedDict

from hotloop.errors import ConfigError
from hotloop.tools.running.caller import read_grants
from hotloop.tools.running.result import encodable
from hotloop.trace.w3c import Position, current_position, read_position
from hotloop.words import did_you_mean

_log = logging.getLogger("hotloop.trace")


class RunOptions(TypedDict, total=False):
    """Options of `Agent.run`, `stream` and their like.

    trace_id
        The run's id in its trace, in log lines and among paused runs, of 200 characters at most. [default: a new one]
    user
        For whom it is: kept results of tools with the scope "user" are theirs, and the audit log names them.
    grants
        What it may do that tools require, instead of the agent's.
    background
        Nobody waits for it: where requests have to wait for the service, others go first.
    traceparent, tracestate
        The W3C trace context of whoever asks, as the headers of their request say it: the run is part of that trace.
        What is no trace context is left out, with a warning in the log. [default: OpenTelemetry's current span]
    """

    trace_id: str | None
    user: str
    grants: Collection[str] | None
    background: bool
    traceparent: str | None
    tracestate: str | None


_LONGEST_ID = 200  # characters
_NAMES = frozenset(RunOptions.__annotations__)


def read_options(options: RunOptions) -> tuple[str, str, frozenset[str] | None]:
    """The run's id, its user and its grants. Raises ConfigError for what is none of these."""
    for name in options:
        if name not in _NAMES:
            raise ConfigError(f"A run has no option {name}{did_you_mean(name, _NAMES) or '.'}")
    run_id = options.get("trace_id") or f"req-{random.getrandbits(48):012x}"
    user, grants = options.get("user", ""), options.get("grants")
    for name, text in (("trace_id", run_id), ("user", user)):
        if not isinstance(text, str) or encodable(text) != text:
            raise ConfigError(f"{name} is {text!r}; give text.")
    if len(run_id) > _LONGEST_ID:
        raise ConfigError(f"The trace_id has {len(run_id):,} characters; give one of {_LONGEST_ID} at most.")
    return run_id, user, None if grants is None else read_grants(grants)


def read_parent(options: RunOptions) -> Position | None:
    """Where in a trace whoever asks stands, by these options or by OpenTelemetry; None if nowhere.

    Raises ConfigError for what is no text.
    """
    traceparent = options.get("traceparent")
    if traceparent is None:
        return current_position()
    tracestate = options.get("tracestate") or ""
    for name, text in (("traceparent", traceparent), ("tracestate", tracestate)):
        if not isinstance(text, str):
            raise ConfigError(f"{name} is {text!r}; give the header of that name, which is text.")
    found = read_position(traceparent, tracestate)
    if found is None:
        _log.warning("The traceparent %.100r is no W3C trace context; the run begins a trace of its own.", traceparent)
    return found
