"""How a tool that works elsewhere is told which run it works for: W3C trace context, as it goes over the wire."""

from __future__ import annotations

import hashlib
import re

from hotloop.tools.running.progress import reporter

_HEX_ID = re.compile(r"(?!0{32})[0-9a-f]{32}")


def current_traceparent() -> str:
    """The `traceparent` of the call at work, "" outside of one."""
    here = reporter.get()
    return traceparent_of(here.caller.run, here.call_id) if here is not None else ""


def traceparent_of(trace_id: str, call_id: str) -> str:
    """The `traceparent` of this call in this run, the same whenever it is asked for.

    A run's id that is a W3C trace id already stays as it is, any other is hashed to one.
    """
    trace = trace_id if _HEX_ID.fullmatch(trace_id) else _hashed(trace_id, 32)
    return f"00-{trace}-{_hashed(f'{trace_id}/{call_id}', 16)}-01"


def _hashed(text: str, digits: int) -> str:
    return hashlib.sha256(text.encode(errors="backslashreplace")).hexdigest()[:digits]
