"""The ledger of one run: a list that stages are appended to while it happens.

Stages of the run itself are in lane 0, one after the other; each tool call has a lane of its own beside it. Recording
costs a few hundred nanoseconds a stage; everything that is to be read from a ledger is worked out later, by `Trace`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from hotloop.units import Clock, ms

Kind = Literal[
    "context",
    "memory",
    "queue",
    "connect",
    "prefill",
    "decode",
    "parse",
    "guard",
    "approval",
    "cache",
    "tool",
    "wait",
    "emit",
    "overhead",
]


UNKNOWN_FIRST = "first token unknown"
"""The note of a `decode` that is the whole reply, of whose first token nobody has told."""


class Stage(msgspec.Struct, frozen=True, gc=False):
    """One stretch of time with an owner; `start` and `end` are nanoseconds of the run's clock."""

    kind: Kind
    start: int
    end: int
    turn: int
    lane: int = 0
    name: str = ""
    note: str = ""


class Usage(msgspec.Struct, frozen=True, gc=False):
    """Tokens as the service counted them; None is unknown, which is not zero.

    `input_tokens` includes the cached ones, `output_tokens` the reasoning ones.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None


class CallFacts(msgspec.Struct, frozen=True, gc=False):
    """What came of one call; times in nanoseconds.

    `head_start` is how long before the end of the reply it began, `waited` how long it waited for others (`waited_for`)
    or for a place, `saved` what it did not take because the result was there already; `missed` tells that the cache was
    asked and had nothing. `outcome` is as in `ToolFinished`, or "pending" for a call that waits for a person, and
    "known" for one that had run before a pause. `sealed` is how long before the end of the reply the call was complete,
    `needs` are the ids of the calls that it had to wait for, `lane` is the one of its turn that its stages are in.
    """

    call_id: str
    name: str
    outcome: str
    head_start: int = 0
    waited_for: str = ""
    waited: int = 0
    saved: int = 0
    missed: bool = False
    sealed: int = 0
    needs: tuple[str, ...] = ()
    lane: int = 0


Why = Literal["first", "retry", "correction", "hedge", "fallback", "escalation", "repair", "prefill", "summary"]


class AttemptFacts(msgspec.Struct, frozen=True, gc=False):
    """One request to a service, whatever came of it; times in nanoseconds of the run's clock.

    `why` is "first", "retry" (after an error that may pass), "correction" (the request was changed after an error),
    "hedge" (beside a slow one), "fallback" (another service or model), "escalation" (a stronger model), "repair" (the
    answer had the wrong form), "prefill" (to have a prefix cached) or "summary" (of what is too long). `outcome` is
    "ok", "failed", "rejected" (a reply that was not good enough), "lost" (the other one of a hedge was first) or
    "cancelled"; `reason` tells why in words, and of an "ok" reply what was wrong with it though it was taken. `first`
    is when its first token came, 0 if none did, `usage` its tokens, as far as they are known. Of the `prompt_bytes` of
    its request the service has seen the first `known_bytes` before. `error` is the class of what it failed with.
    """

    turn: int
    service: str
    model: str
    why: Why
    start: int
    end: int
    outcome: str
    first: int = 0
    reason: str = ""
    usage: Usage = Usage()
    prompt_bytes: int = 0
    known_bytes: int = 0
    error: str = ""


class TurnFacts(msgspec.Struct, gc=False):
    """What one reply of the model was; times in nanoseconds, None is unknown.

    `ttft` is the first token (text, reasoning or call fragment) minus the start of the request, `tpot` the time
    between the first and the last token over the tokens after the first. `buffered` tells that all tokens came in
    one instant although a stream was asked for: something upstream held them back, and there is no TPOT. `burst` tells
    the same of the calls: they came together with the end of the reply, so that no tool could begin early. `discarded`
    is how many began early for a reply that came to nothing. `attempts` is how many requests it took. `gap` is the
    longest silence while it was written.
    """

    turn: int
    ttft: int | None = None
    tpot: int | None = None
    usage: Usage = Usage()
    attempts: int = 1
    buffered: bool = False
    salvaged: bool = False
    finish_reason: str = ""
    model: str | None = None
    tools: list[str] = []
    tools_ns: int = 0
    calls: list[CallFacts] = []
    burst: bool = False
    discarded: int = 0
    server_ms: dict[str, float] = {}
    gap: int = 0


class ToolFacts(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A tool that the model was offered: how it runs (`timeout` and `ttl` in seconds), and its definition's bytes."""

    read_only: bool = False
    timeout: float | None = None
    ttl: float | None = None
    retries: int = 0
    after: tuple[str, ...] = ()
    size: int = 0


class Spoken(msgspec.Struct, frozen=True, gc=False):
    """One call as text: its arguments, canonical where they fit the tool, and what the model read of its result."""

    call_id: str
    arguments: str | dict[str, Any]
    result: str


class Words(msgspec.Struct, gc=False):
    """What was said in a run, for whoever records it: its prompt, its calls, its answer."""

    prompt: str = ""
    calls: list[Spoken] = []
    answer: str = ""


class Ledger:
    """What happened in one run. `at` is where lane 0 has come to; `start` and `end` bound the run.

    Its budget counts from `since` on, which is later than `start` if it waited for its session; 0 before it counts.
    `sent` is how many bytes of the conversation the service `sent_to` has seen. `tools` are those that the model is
    offered, `words` what was said, None unless somebody records it. `asked` is the newest request, with when it was
    `begun` and `sent_at`. `shown_at` is when there was first something to show, 0 for not yet.
    """

    __slots__ = (
        "asked",
        "at",
        "attempts",
        "clock",
        "end",
        "facts",
        "name",
        "sent",
        "sent_to",
        "shown_at",
        "since",
        "stages",
        "start",
        "started",
        "tools",
        "trace_id",
        "turn",
        "turns",
        "words",
    )

    def __init__(self, clock: Clock, trace_id: str, name: str = "", started: float = 0.0) -> None:
        self.clock = clock
        self.trace_id = trace_id
        self.name = name
        self.started = started
        self.stages: list[Stage] = []
        self.turns: list[TurnFacts] = []
        self.attempts: list[AttemptFacts] = []
        self.facts: dict[str, Any] = {}
        self.tools: Mapping[str, ToolFacts] = {}
        self.words: Words | None = None
        self.turn = self.sent = self.since = self.shown_at = 0
        self.sent_to: object = None
        self.asked: Any = None
        self.start = self.at = self.end = clock()

    def mark(self, kind: Kind, note: str = "") -> int:
        """All of lane 0 since the last mark was `kind`; returns the time it is now."""
        now = self.clock()
        self.stages.append(Stage(kind, self.at, now, self.turn, 0, "", note))
        self.at = now
        return now

    def mark_at(self, kind: Kind, now: int, note: str = "") -> None:
        """The same up to a time that was taken before."""
        if now > self.at:
            self.stages.append(Stage(kind, self.at, now, self.turn, 0, "", note))
            self.at = now

    def add(self, kind: Kind, start: int, end: int, lane: int, name: str = "", note: str = "") -> None:
        """A stage beside the run itself, such as a tool call."""
        self.stages.append(Stage(kind, start, end, self.turn, lane, name, note))

    def shown(self, at: int) -> None:
        """At this time a person could be shown a text of the model, or what a tool is about; the earliest is kept."""
        if at < self.shown_at or not self.shown_at:
            self.shown_at = at

    def close(self) -> None:
        """The run has ended."""
        self.asked = None
        if self.shown_at:
            self.facts["first_feedback_ms"] = ms(self.shown_at - self.start)
        self.end = self.mark("overhead", "end of run")
