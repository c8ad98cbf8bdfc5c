"""The seam to whoever thinks: request bytes go out, reply bytes come in.

HTTP, the embedded engine, the scripted model and the simulator all are a `Transport`; everything above (parsing,
retries, the loop, the ledger) is the same for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from hotloop.events import Event


class Throttle(Protocol):
    """Back-pressure on a reply that is arriving; `paused` tells that it is being held up."""

    paused: bool

    def pause(self) -> None:
        """Stop reading until `resume`."""

    def resume(self) -> None:
        """Read on."""


class Emit(Protocol):
    """Takes events as they happen; may pause the throttle of the reply they came from when its reader is behind."""

    def __call__(self, events: Sequence[Event], throttle: Throttle | None = None) -> None: ...


def nobody(events: Sequence[Event], throttle: Throttle | None = None) -> None:
    """Nobody wants to hear of these events."""


class Receiver(Protocol):
    """Takes one reply as it arrives. Its methods are called on the event loop, in this order, and never block."""

    def sent(self, connected: bool, throttle: Throttle | None) -> None:
        """The request has been handed over; `connected` tells that a connection was made for it just now.

        `throttle` slows the reply down where the transport can.
        """

    def head(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        """The reply's status and headers."""

    def data(self, chunk: bytes) -> bool:
        """The next bytes of the body. True means: the reply is complete, do not wait for the end of the body."""


class Transport(Protocol):
    """One service. `send` may be called concurrently."""

    async def send(self, body: bytes, receiver: Receiver) -> None:
        """Send one chat-completion request and feed its reply to `receiver`; return when the reply has ended.

        Raises ConnectError or TransportError. When cancelled, the reply is abandoned and its connection closed.
        """

    async def warm(self, connections: int = 1) -> None:
        """Prepare: open connections, load weights."""

    async def aclose(self) -> None:
        """Close everything this transport holds."""
