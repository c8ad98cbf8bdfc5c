"""A simulated service inside the process: a transport that answers as a profile says, in virtual or real time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Unpack

from hotloop.errors import TransportError
from hotloop.lab.auto import auto
from hotloop.lab.script import Headers, Replies
from hotloop.lab.service.emit import Stats
from hotloop.lab.service.simulation import Simulation, SimulationOptions
from hotloop.models.transport import Receiver


class SimulatedTransport:
    """A `Transport` to a service that only exists here, and else is what `SimulatedService` is, arguments included.

    With a `tpot` of 0 a reply arrives in one read, otherwise each token in its own. Sending raises InvalidRequest for a
    body that is no request, whatever the script raises, and TransportError for a reply that is cut off.
    """

    def __init__(self, replies: Replies = auto, **options: Unpack[SimulationOptions]) -> None:
        self._simulation = Simulation(replies, **options)

    @property
    def stats(self) -> Stats:
        """What was done so far."""
        return self._simulation.stats

    async def send(self, body: bytes, receiver: Receiver) -> None:
        """See `Transport`."""
        sink = _ReceiverSink(receiver)
        receiver.sent(False, None)
        leave = self._simulation.submit(body, sink)
        try:
            await sink.over
        finally:
            leave()

    async def warm(self, connections: int = 1) -> None:
        """Nothing to prepare."""

    async def aclose(self) -> None:
        """Nothing to close: what is not under way holds nothing."""


class _ReceiverSink:
    """A `Sink` that hands everything to a receiver until that has enough."""

    def __init__(self, receiver: Receiver) -> None:
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._receiver = receiver

    def head(self, status: int, headers: Headers) -> None:
        self._receiver.head(status, list(headers))

    def send(self, pieces: Sequence[bytes], over: bool) -> None:
        try:
            enough = any(self._receiver.data(piece) for piece in pieces if not self.over.done())
        except Exception as error:
            self.over.set_exception(error)
        else:
            if (over or enough) and not self.over.done():
                self.over.set_result(None)

    def cut(self) -> None:
        if not self.over.done():
            self.over.set_exception(TransportError("the connection broke in the middle of the reply"))
