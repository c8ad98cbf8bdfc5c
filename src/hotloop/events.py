"""What can happen during a run, in the order a caller sees it.

A run is: text and calls as the model writes them (`TextDelta`, `ReasoningDelta`, `CallOpened`, `CallSealed`,
`ReplyFinished`), tools as they work (`ToolStarted`, `ToolStatus`, `ToolFinished`), and `RunFinished` at the end, or
`ApprovalNeeded` for each call that a person must decide about and `RunPaused` at the end.
`Reset` says that what was shown of the newest reply no longer holds, because it is asked for again.
"""

from __future__ import annotations

from typing import Any

import msgspec


class Event(msgspec.Struct, frozen=True, gc=False, tag_field="event", tag=True):
    """Base of all events; `msgspec.json.encode(event)` gives its JSON, with the class name under "event"."""


class TextDelta(Event, frozen=True, gc=False):
    """The next piece of the model's text."""

    text: str


class ReasoningDelta(Event, frozen=True, gc=False):
    """The next piece of the model's reasoning: output tokens, but not the answer."""

    text: str


class CallOpened(Event, frozen=True, gc=False):
    """The model has begun to write a call of this tool; `slot` numbers the calls of one reply from 0."""

    slot: int
    name: str


class CallSealed(Event, frozen=True, gc=False):
    """The call's arguments are complete JSON text and can no longer change."""

    slot: int
    name: str
    arguments: str


class OutputPartial(Event, frozen=True, gc=False):
    """What is there of a structured answer so far: `value` as plain lists, dicts and scalars, complete ones only."""

    value: Any


class ReplyFinished(Event, frozen=True, gc=False):
    """The model's reply of this turn is complete."""

    finish_reason: str
    calls: int


class Reset(Event, frozen=True, gc=False):
    """The newest reply is being asked for again: drop the text and calls that were shown of it."""

    reason: str


class Retrying(Event, frozen=True, gc=False):
    """A request failed and will be sent again after `delay` seconds."""

    attempt: int
    delay: float
    reason: str


class ToolStarted(Event, frozen=True, gc=False):
    """A tool has started; `status` is its text for a person ("" when it has none)."""

    call_id: str
    name: str
    arguments: str
    status: str


class ToolStatus(Event, frozen=True, gc=False):
    """A tool at work reports where it is."""

    call_id: str
    name: str
    status: str


class ToolFinished(Event, frozen=True, gc=False):
    """A call has its result; `content` is what the model will read.

    `outcome` is "ok", "cached" (kept from before), "joined" (shared with an identical call), "prefetched" (begun before
    the model made it), "fallback" (something stood in, because its time was over), "error", "refused" (by the guard or
    a person), "skipped" (to save time), "unknown" (it was begun before a crash, and what came of it is not known),
    "discarded" (it began early, for a reply that came to nothing) or "cancelled" (with its run).
    """

    call_id: str
    name: str
    content: str
    outcome: str
    ms: float


class ApprovalNeeded(Event, frozen=True, gc=False):
    """A person must decide about this call; `digest` stands for exactly this call with these (canonical) arguments."""

    call_id: str
    name: str
    arguments: str
    digest: str


class RunPaused(Event, frozen=True, gc=False):
    """The run waits for people's decisions and is saved as `run_id`; the last event of a stream that pauses."""

    run_id: str
    calls: list[Any]
    trace: Any


class RunFinished(Event, frozen=True, gc=False):
    """The run has its answer; `result` is the same object that `Agent.run` returns."""

    result: Any
