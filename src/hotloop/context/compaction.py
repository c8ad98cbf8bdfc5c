"""Keeps a conversation within its limit: the early part is summarized beside the runs, and swapped in between two."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import cached_property
from typing import NamedTuple

from hotloop.budget import Deadline
from hotloop.context.conversation import Conversation
from hotloop.context.estimate import PromptSize, TokenRates
from hotloop.context.settings import Context
from hotloop.errors import ContextOverflow, HotloopError
from hotloop.limit import stop
from hotloop.trace.ledger import AttemptFacts, Ledger, Usage
from hotloop.units import NS_PER_S

_log = logging.getLogger("hotloop.context")

_WAITED, _LEFT_OUT = "while the run waited", "left out"
_PATIENCE = 15 * NS_PER_S  # the longest that a run waits for a summary
_FOR_PROMPT = 0.9  # of a context: the rest is for the reply
_LOST = "The beginning of this conversation was left out, because it could not be summarized."


Summarize = Callable[[bytes, Deadline | None, list[AttemptFacts]], Awaitable[str]]
"""Summarizes messages; by a deadline, or (None) in the background. Notes its requests, raises HotloopError."""


class _Early(NamedTuple):
    """Messages that are to be summarized, and how many bytes a summary takes the place of."""

    messages: bytes
    later_half: bytes
    removed: int


class Compactor:
    """Keeps one conversation within `context.limit`; `rates` say how many tokens its bytes are."""

    def __init__(self, conversation: Conversation, context: Context, rates: TokenRates, summarize: Summarize) -> None:
        self.conversation = conversation
        self.aside = ""  # what is said in the prompts of this run only
        self._context = context
        self._rates = rates
        self._summarize = summarize
        self._edits = 0  # of the conversation when it was last looked at
        self._background: asyncio.Task[str] | None = None
        self._failures = 0  # of summaries in the background, one after the other
        self._not_before = 0  # the number of the turn after which one is tried again
        self._spent: list[AttemptFacts] = []  # requests that no run's ledger has yet
        self._first = 0  # the number of the first turn that the background summary leaves as it is

    @property
    def tokens(self) -> int:
        """About how many tokens the next prompt has."""
        if self._edits != self.conversation.edits:
            self._edits = self.conversation.edits
            self._size.moved()
        return self._size.tokens(self.conversation.messages, self.aside)

    @property
    def limit(self) -> int | None:
        """How many tokens a prompt may have: as declared, or as the service has said."""
        return self._context.limit or self._rates.limit

    @property
    def full(self) -> bool:
        """Whether the next prompt would be over the limit."""
        return self.limit is not None and self.tokens > self.limit

    def reported(self, length: int, usage: Usage) -> None:
        """What a service counted of a prompt that had so many bytes of messages."""
        if self.limit is not None and usage.input_tokens is not None:
            self._size.reported(length, usage.input_tokens)

    def look_ahead(self) -> None:
        """At the end of a turn: have the early part summarized, if the conversation has come to the threshold."""
        limit, turns = self.limit, self.conversation.turns
        keep = min(self._context.keep, len(turns) - 1)
        if self._background is not None or limit is None or keep < 1 or self.conversation.number < self._not_before:
            return
        if self.tokens < limit * self._context.compact_at:
            return
        self._first = turns[-keep].number
        self._background = asyncio.create_task(self._ahead(self._before(turns[-keep].start)))

    def swap_in(self, ledger: Ledger, how: str = "in the background") -> None:
        """At the beginning of a turn: put a summary that is ready in the place of what it stands for."""
        if self._background is not None and self._background.done():
            task, self._background = self._background, None
            summary = "" if task.cancelled() else task.result()
            place = next((turn.start for turn in self.conversation.turns if turn.number == self._first), 0)
            if place and summary:
                self._put(place, summary, ledger, how)
            self._failures = 0 if summary else self._failures + 1
            self._not_before = self.conversation.number + (2**self._failures if self._failures else 0)
            self._told(ledger)

    async def make_room(self, ledger: Ledger, deadline: Deadline, told: int | None = None) -> bool:
        """Shorten the prompt, so that it fits; where the limit is not known, to half. False if nothing can be left out.

        `told` is a limit that the service has named. Waits for the summary that this takes, for 15 s at most; what
        cannot be summarized by then is left out.
        """
        if told is not None:
            self._rates.limit = int(told * _FOR_PROMPT)
        earlier = deadline.before_answer(ledger.clock(), _PATIENCE)
        failures = self._failures
        if self._background is not None and await self._waited(ledger, earlier):
            return True
        place = self._place()
        if not place:
            return False
        summary = "" if self._failures > failures else await self._now(place, earlier)
        self._put(place, summary or _LOST, ledger, _WAITED if summary else _LEFT_OUT)
        self._told(ledger)
        ledger.mark("context", "summarized" if summary else "left out")
        return True

    async def _now(self, place: int, deadline: Deadline) -> str:
        """The summary, "" if there is none."""
        try:
            return await self._summary(self._before(place), deadline)
        except HotloopError as error:
            _log.warning("A conversation is too long and could not be summarized; its beginning is left out: %s", error)
            return ""

    @property
    def busy(self) -> bool:
        """Whether a summary is being made in the background."""
        return self._background is not None and not self._background.done()

    def go_on(self, before: Compactor) -> None:
        """Take over the summary that is being made of what the conversation was before it was read again."""
        self._background, before._background = before._background, None
        self._first, self._spent = before._first, before._spent
        self._failures, self._not_before = before._failures, before._not_before

    def abandon(self) -> None:
        """Give up a summary that is being made."""
        task, self._background = self._background, None
        if task is not None and not (loop := task.get_loop()).is_closed():
            loop.call_soon_threadsafe(task.cancel)

    async def aclose(self) -> None:
        """Give it up, and return when it has ended, if it belongs to this event loop."""
        task = self._background
        self.abandon()
        if task is not None and task.get_loop() is asyncio.get_running_loop():
            await stop([task])

    async def _waited(self, ledger: Ledger, deadline: Deadline) -> bool:
        """Wait for the summary that is being made in the background; whether the prompt fits with it."""
        task, left, edits = self._background, deadline.remaining_ns(ledger.clock()), self.conversation.edits
        if task is not None and task.get_loop() is asyncio.get_running_loop():
            await asyncio.wait([task], timeout=None if left is None else left / NS_PER_S)
        self.swap_in(ledger, _WAITED)
        ledger.mark("context", "waited for the summary")
        if self._background is not None:  # it comes too late
            self.abandon()
            self._failures += 1
        return self.conversation.edits != edits and not self.full

    async def _ahead(self, early: _Early) -> str:
        """The summary, "" if there is none."""
        try:
            return await self._summary(early, None)
        except Exception as error:
            _log.warning("A conversation could not be summarized in the background; it is tried again: %r", error)
            return ""

    async def _summary(self, early: _Early, deadline: Deadline | None) -> str:
        """The summary of these messages, or, if they are too much for the model, of their later half; "" if too long.

        Raises HotloopError.
        """
        try:
            text = await self._summarize(early.messages, deadline, self._spent)
        except ContextOverflow:
            if not early.later_half:
                raise
            text = await self._summarize(early.later_half, deadline, self._spent)
        return text if len(text.encode(errors="replace")) < early.removed else ""

    def _before(self, place: int) -> _Early:
        """What is before `place`, as it is now."""
        conversation = self.conversation
        whole = bytes(conversation.messages[: place - 1])
        starts = [turn.start for turn in conversation.turns if turn.start < place]
        half = whole[: starts[0]] + whole[starts[len(starts) // 2] :] if len(starts) > 1 else b""
        return _Early(whole, half, place - conversation.head)

    @cached_property
    def _size(self) -> PromptSize:
        return PromptSize(self._rates)

    def _place(self) -> int:
        """Where to cut: before the newest turns that are to be kept, or later if that is not enough; 0 if nowhere."""
        context, messages, turns = self._context, self.conversation.messages, self.conversation.turns
        left = 0.5 if self.limit is None else min(0.5, self.limit * context.compact_at / max(self.tokens, 1))
        least = len(messages) * (1 - left)
        kept = turns[-context.keep].start if len(turns) > context.keep else 0
        places = [turn.start for turn in turns[1:]] + self.conversation.steps[1:]
        return next((place for place in places if place >= max(kept, least)), places[-1] if places else 0)

    def _put(self, place: int, summary: str, ledger: Ledger, how: str) -> None:
        before = self.tokens
        self.conversation.summarize(place, summary)
        facts = {"how": how, "tokens_before": before, "tokens_after": self.tokens}
        ledger.facts.setdefault("compaction", []).append(facts)

    def _told(self, ledger: Ledger) -> None:
        """The ledger has the requests for summaries that no other one has."""
        ledger.attempts += self._spent
        self._spent.clear()
