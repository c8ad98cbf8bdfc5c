"""W3C trace context: where a run and its calls stand in a trace that goes through several systems."""

from __future__ import annotations

import hashlib
import re
import sys
from typing import Protocol, runtime_checkable

import msgspec

_PARENT = (
    r"(?!ff)(?P<version>[0-9a-f]{2})-(?!0{32})(?P<trace>[0-9a-f]{32})-(?!0{16})(?P<span>[0-9a-f]{16})"
    r"-(?P<flags>[0-9a-f]{2})(?P<more>-[^\s]*)?"
)
_HEX_ID = r"(?!0{32})[0-9a-f]{32}"
_STATE = r"[\x20-\x7e\t]{1,512}"
_SAMPLED, _KNOWN = 1, 3  # of the flags: recorded; all that have a meaning


class Position(msgspec.Struct, frozen=True, omit_defaults=True):
    """A span of a trace, as `traceparent` and `tracestate` tell it; with no `span_id`, the trace before its first span.

    `own` tells that spans of ours are recorded below it.
    """

    trace_id: str
    span_id: str = ""
    flags: int = _SAMPLED
    state: str = ""
    own: bool = False

    @property
    def sampled(self) -> bool:
        """Whether it is recorded, and so should be what is below it."""
        return bool(self.flags & _SAMPLED)

    @property
    def traceparent(self) -> str:
        """The header that says this; "" before the first span."""
        return f"00-{self.trace_id}-{self.span_id}-{self.flags:02x}" if self.span_id else ""

    def facts(self) -> dict[str, str]:
        """What a ledger keeps of it."""
        named = {"traceparent": self.traceparent, "tracestate": self.state}
        return {name: text for name, text in named.items() if text}

    def below(self, span_id: str) -> Position:
        """A span of ours in the same trace."""
        return msgspec.structs.replace(self, span_id=span_id)


@runtime_checkable
class Positions(Protocol):
    """Who records spans, and so knows where a run stands."""

    def position(self, run_id: str, parent: Position | None) -> Position | None:
        """Where this run of somebody at `parent` (None: of nobody) stands, `own` if it is recorded; else `parent`."""


def read_position(traceparent: str, tracestate: str = "") -> Position | None:
    """Where these headers place whoever sent them; None for a `traceparent` that is none.

    A `tracestate` that cannot be sent on is left out, as the standard has it.
    """
    found = re.fullmatch(_PARENT, traceparent)
    if found is None or (found["more"] and found["version"] == "00"):
        return None
    state = tracestate.strip() if re.fullmatch(_STATE, tracestate) else ""
    return Position(found["trace"], found["span"], int(found["flags"], 16) & _KNOWN, state)


def current_position() -> Position | None:
    """OpenTelemetry's current span here; None if there is none. OpenTelemetry is not imported for it."""
    api = sys.modules.get("opentelemetry.trace")
    if api is None:
        return None
    span = api.get_current_span().get_span_context()
    if not span.is_valid:
        return None
    flags = int(span.trace_flags) & _KNOWN
    return Position(f"{span.trace_id:032x}", f"{span.span_id:016x}", flags, span.trace_state.to_header())


def w3c_trace_id(run_id: str) -> str:
    """The trace id of a run of nobody: its own id if that is one already, else a hash of it."""
    return run_id if re.fullmatch(_HEX_ID, run_id) else _hashed(run_id, 32)


def span_id_of(run_id: str, what: str) -> str:
    """The id of the span of this part of a run, such as a call by its id: the same whenever it is asked for."""
    return _hashed(f"{run_id}/{what}", 16)


def _hashed(text: str, digits: int) -> str:
    return hashlib.sha256(text.encode(errors="backslashreplace")).hexdigest()[:digits]
