"""What lies between an agent and its service: connections that are opened, and proxies that hold a reply back."""

from __future__ import annotations

import asyncio

from hotloop.models.transport import Receiver, Throttle, Transport


class Connecting:
    """A `Transport` that takes `seconds` to open a connection to `inner`: for every request, or, if they are `kept`,
    for as many as are under way at once."""

    def __init__(self, inner: Transport, seconds: float, *, kept: bool = True) -> None:
        self._inner = inner
        self._seconds = seconds
        self._kept = kept
        self._idle = 0

    async def send(self, body: bytes, receiver: Receiver) -> None:
        """See `Transport.send`."""
        opened = not self._idle
        if opened:
            await asyncio.sleep(self._seconds)
        else:
            self._idle -= 1
        try:
            await self._inner.send(body, _Connected(receiver, opened))
        finally:
            self._idle += self._kept

    async def warm(self, connections: int = 1) -> None:
        """See `Transport.warm`."""

    async def aclose(self) -> None:
        """See `Transport.aclose`."""
        await self._inner.aclose()


class HoldingBack:
    """A `Transport` that passes a reply of `inner` on when it is complete, as a proxy does that buffers."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner

    async def send(self, body: bytes, receiver: Receiver) -> None:
        """See `Transport.send`."""
        held = _Held(receiver)
        await self._inner.send(body, held)
        receiver.head(held.status, held.headers)
        receiver.data(bytes(held.body))

    async def warm(self, connections: int = 1) -> None:
        """See `Transport.warm`."""

    async def aclose(self) -> None:
        """See `Transport.aclose`."""
        await self._inner.aclose()


class _Connected:
    """Tells a receiver whether a connection was opened for it."""

    def __init__(self, receiver: Receiver, opened: bool) -> None:
        self.head, self.data = receiver.head, receiver.data
        self._receiver = receiver
        self._opened = opened

    def sent(self, connected: bool, throttle: Throttle | None) -> None:
        self._receiver.sent(self._opened, throttle)


class _Held:
    """Takes a reply and keeps it."""

    def __init__(self, receiver: Receiver) -> None:
        self.sent = receiver.sent
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.body = bytearray()

    def head(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        self.status, self.headers = status, headers

    def data(self, chunk: bytes) -> bool:
        self.body += chunk
        return False
