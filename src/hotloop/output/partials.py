"""A reader of a run is told the value of the answer while it is being written."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from hotloop.events import Event, OutputPartial, ReplyFinished, Reset, TextDelta
from hotloop.models.ask import Listener
from hotloop.models.transport import Emit, Throttle
from hotloop.models.wire.assembler import CallAssembler
from hotloop.output.output import FINAL_ANSWER
from hotloop.output.scanner import PartialScanner


class Partials:
    """Stands between one reply and whoever is told of it: `emit` and `listener`, who hear all that comes.

    Of an answer that is `wrapped`, its "value" is told.
    """

    __slots__ = ("_call", "_emit", "_listener", "_read", "_slot", "_text", "_wrapped")

    def __init__(self, emit: Emit, listener: Listener | None, wrapped: bool) -> None:
        self._emit = emit
        self._listener = listener
        self._wrapped = wrapped
        self._text = self._call = PartialScanner()
        self._slot = -1
        self._read = 0

    def emit(self, events: Sequence[Event], throttle: Throttle | None = None) -> None:
        """Tell these events, and what they add to an answer in text."""
        for event in events:
            if isinstance(event, TextDelta):
                self._text.feed(event.text)
            elif isinstance(event, Reset):
                self._text = PartialScanner()
        if partial := self._partial(self._text):
            last = events[-1:] if isinstance(events[-1], ReplyFinished) else []
            events = [*events[: len(events) - len(last)], *partial, *last]
        self._emit(events, throttle)

    def heard(self, calls: CallAssembler) -> None:
        """See `Listener.heard`."""
        if self._listener is not None:
            self._listener.heard(calls)
        if writing := calls.writing(FINAL_ANSWER):
            self._scan(*writing)

    async def discard(self) -> None:
        """See `Listener.discard`."""
        self._slot = -1
        if self._listener is not None:
            await self._listener.discard()

    def _scan(self, slot: int, fragments: Sequence[str]) -> None:
        if slot != self._slot:
            self._slot, self._read, self._call = slot, 0, PartialScanner()
        for fragment in fragments[self._read :]:
            self._call.feed(fragment)
        self._read = len(fragments)
        if partial := self._partial(self._call):
            self._emit(partial)

    def _partial(self, scanner: PartialScanner) -> list[Event]:
        value = scanner.take()
        if self._wrapped and value is not msgspec.UNSET:
            value = value.get("value", msgspec.UNSET)
        return [] if value is msgspec.UNSET else [OutputPartial(value)]
