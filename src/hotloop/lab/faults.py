"""What networks and services do wrong, as data, and a transport that does it to the requests of another one."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from hotloop.errors import ConnectError, TransportError
from hotloop.lab.render import error_body
from hotloop.models.transport import Receiver, Throttle, Transport


class Refuse(msgspec.Struct, frozen=True):
    """There is no connection."""


class Late(msgspec.Struct, frozen=True):
    """The request is taken, and answered `seconds` later than it would be."""

    seconds: float


class Answer(msgspec.Struct, frozen=True):
    """An error instead of the reply, with `retry_after` seconds if the service says when to come back."""

    status: int
    retry_after: float | None = None

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """As they are sent."""
        wait = [] if self.retry_after is None else [(b"retry-after", b"%g" % self.retry_after)]
        return [(b"content-type", b"application/json"), *wait]

    @property
    def body(self) -> bytes:
        """As it is sent."""
        return error_body("This is a fault, made for a test.", "server_error")


class Cut(msgspec.Struct, frozen=True):
    """The connection breaks after so many bytes of the reply's body; None: before any byte of the reply."""

    after: int | None


class Stall(msgspec.Struct, frozen=True):
    """Nothing more comes after so many bytes of the reply's body, for `seconds`, or ever (None)."""

    after: int
    seconds: float | None = None


class Corrupt(msgspec.Struct, frozen=True):
    """One bit is wrong in each of `count` bytes of the reply's body, the first of them after so many others."""

    after: int
    count: int = 1

    def of(self, chunk: bytes, before: int) -> bytes:
        """The chunk as it arrives; `before` is how many bytes came before it."""
        first, end = max(0, self.after - before), max(0, self.after + self.count - before)
        return chunk[:first] + bytes(byte ^ 0x80 for byte in chunk[first:end]) + chunk[end:]


Fault = Refuse | Late | Answer | Cut | Stall | Corrupt
Faults = Iterable[Fault | None]

ALL_KINDS: tuple[Fault, ...] = (
    Refuse(),
    Late(0.5),
    Late(5.0),
    Answer(429),
    Answer(429, retry_after=0.3),
    Answer(500),
    Answer(503),
    Answer(503, retry_after=0.3),
    Cut(None),
    Cut(0),
    Cut(150),
    Stall(150, 0.5),
    Stall(150),
    Corrupt(30, 4),
)


def mixed_faults(share: float, seed: int = 0, kinds: Sequence[Fault] = ALL_KINDS) -> Iterator[Fault | None]:
    """For each request in turn, without end, one of `kinds` with the chance `share`; the same for the same seed."""
    chance = random.Random(seed)
    while True:
        yield chance.choice(kinds) if chance.random() < share else None


class FaultyTransport:
    """A `Transport` that does to each request of `inner`, in their order, what `faults` says: None is nothing.

    Requests after the last fault go well, and a fault that lies after the end of its reply does no harm. `met` is what
    was done so far.
    """

    def __init__(self, inner: Transport, faults: Faults) -> None:
        self.met: list[Fault | None] = []
        self._inner = inner
        self._faults = iter(faults)

    async def send(self, body: bytes, receiver: Receiver) -> None:
        """See `Transport.send`."""
        fault = next(self._faults, None)
        self.met.append(fault)
        match fault:
            case None:
                await self._inner.send(body, receiver)
            case Refuse():
                raise ConnectError("Nothing listens there, as the test says.")
            case Answer():
                receiver.sent(False, None)
                receiver.head(fault.status, fault.headers)
                receiver.data(fault.body)
            case Late():
                receiver.sent(False, None)
                await asyncio.sleep(fault.seconds)
                await self._inner.send(body, _Answered(receiver))
            case Corrupt():
                await self._inner.send(body, _Corrupted(receiver, fault))
            case Cut(None):
                receiver.sent(False, None)
                raise _broken()
            case Cut() | Stall():
                await _Part(receiver, fault).send(self._inner, body)

    async def warm(self, connections: int = 1) -> None:
        """See `Transport.warm`."""
        await self._inner.warm(connections)

    async def aclose(self) -> None:
        """See `Transport.aclose`."""
        await self._inner.aclose()


class _Answered:
    """Takes a reply whose request is known to be sent."""

    def __init__(self, receiver: Receiver) -> None:
        self.head, self.data = receiver.head, receiver.data

    def sent(self, connected: bool, throttle: Throttle | None) -> None: ...


class _Corrupted:
    """Takes a reply and passes it on with wrong bits."""

    def __init__(self, receiver: Receiver, fault: Corrupt) -> None:
        self.sent, self.head = receiver.sent, receiver.head
        self._receiver = receiver
        self._fault = fault
        self._came = 0

    def data(self, chunk: bytes) -> bool:
        before = self._came
        self._came += len(chunk)
        return self._receiver.data(self._fault.of(chunk, before))


class _Part:
    """Takes a reply and passes it on as far as it goes; after a silence that ends, the rest together."""

    def __init__(self, receiver: Receiver, fault: Cut | Stall) -> None:
        self.sent, self.head = receiver.sent, receiver.head
        self._receiver = receiver
        self._fault = fault
        self._left = fault.after or 0
        self._kept = b""
        self._silence: asyncio.Future[None] | None = None
        self._complete = False

    def data(self, chunk: bytes) -> bool:
        if self._silence is None:
            passed, chunk = chunk[: self._left], chunk[self._left :]
            self._left -= len(passed)
            self._pass(passed)
            if chunk and not self._complete:
                self._fall_silent()
        if self._silence is not None and not self._silence.done():
            self._kept += chunk
            return self._seconds is None
        self._pass(chunk)
        return self._complete

    async def send(self, inner: Transport, body: bytes) -> None:
        """Have it sent, and return when the reply has come to its end; raises TransportError if it is cut."""
        try:
            await inner.send(body, self)
            if self._silence is not None:
                if isinstance(self._fault, Cut):
                    raise _broken()
                await self._silence
        finally:
            if self._silence is not None:
                self._silence.cancel()

    @property
    def _seconds(self) -> float | None:
        return self._fault.seconds if isinstance(self._fault, Stall) else None

    def _fall_silent(self) -> None:
        loop = asyncio.get_running_loop()
        self._silence = loop.create_future()
        if self._seconds is not None:
            loop.call_later(self._seconds, self._go_on)

    def _go_on(self) -> None:
        if self._silence is not None and not self._silence.done():
            self._silence.set_result(None)
            self._pass(self._kept)

    def _pass(self, chunk: bytes) -> None:
        if chunk and not self._complete:
            self._complete = self._receiver.data(chunk)


def _broken() -> TransportError:
    return TransportError("The connection broke, as the test says.")
