"""A receiver that notes what came of a reply, and when."""

from __future__ import annotations

from hotloop.lab.virtual import run_virtual
from hotloop.models.transport import Transport
from hotloop.models.wire.chatstream import ChatStream
from hotloop.units import NS_PER_MS, clock


class Recorder:
    """Notes chunks and their times, in ms from its making; has enough after `enough` of them."""

    def __init__(self, enough: int | None = None) -> None:
        self.now = clock()
        self.start = self.now()
        self.enough = enough
        self.status = 0
        self.headers: dict[bytes, bytes] = {}
        self.times: list[float] = []
        self.chunks: list[bytes] = []

    def sent(self, connected, throttle) -> None:
        assert not self.status

    def head(self, status, headers) -> None:
        self.status, self.headers = status, dict(headers)

    def data(self, chunk) -> bool:
        self.times.append((self.now() - self.start) / NS_PER_MS)
        self.chunks.append(chunk)
        return len(self.chunks) == self.enough

    @property
    def body(self) -> bytes:
        """All that came."""
        return b"".join(self.chunks)

    def parsed(self):
        """The reply."""
        stream = ChatStream()
        stream.feed(self.body)
        stream.close()
        return stream.reply()


def exchange(transport: Transport, body: bytes, enough: int | None = None) -> Recorder:
    """What one request gets, in virtual time."""

    async def main():
        recorder = Recorder(enough)
        await transport.send(body, recorder)
        return recorder

    return run_virtual(main())
