"""Reading ahead: while tools run, the service is given what the next prompt is known to begin with.

That is the reply's calls and those results, from the first on, that are there already. It pays where a long result
comes early beside a slow tool: then the service reads it while it would have nothing to do.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from statistics import median
from weakref import WeakKeyDictionary

from hotloop.errors import ModelError
from hotloop.limit import stop
from hotloop.models.ahead.prefill import prefill
from hotloop.models.client import Client
from hotloop.models.policy.payoff import Payoff
from hotloop.models.service import Service
from hotloop.models.sizes import estimated_tokens
from hotloop.trace.ledger import Ledger

_log = logging.getLogger("hotloop.prefix")

_LEAST = 256  # new tokens that are worth a request
_REMEMBERED = 16  # newest times of a tool

SoFar = Callable[[], bytes | bytearray]
Running = Callable[[], Iterable[tuple[str, int]]]

_payoffs: WeakKeyDictionary[Service, Payoff] = WeakKeyDictionary()


class Speculator:
    """Reads ahead for the runs of one program. What it has brought is known to all that ask the same service."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.payoff = _payoffs.setdefault(client.service, Payoff())
        self._able = client.dialect.caches and client.dialect.partial_history
        self._took: dict[str, deque[int]] = {}

    def begin(self, ledger: Ledger, so_far: SoFar, running: Running, session: str = "") -> Speculation | None:
        """A reply's calls have begun; None if its results are not to be read ahead.

        `so_far` gives the conversation's messages with those results that can be in it already, `running` the names
        of the calls that have no result yet and when they began, 0 for not yet.
        """
        self.payoff.settle()
        return Speculation(self, ledger, so_far, running, session) if self._able else None

    def took(self, name: str, nanoseconds: int) -> None:
        """A tool has ended after so long."""
        self._took.setdefault(name, deque(maxlen=_REMEMBERED)).append(nanoseconds)

    def left(self, running: Iterable[tuple[str, int]], now: int) -> float:
        """Nanoseconds until the last of these calls is expected to end, judged by how long such calls took before."""
        known = [(self._took[name], begun or now) for name, begun in running if name in self._took]
        return max((median(took) + begun - now for took, begun in known), default=0)


class Speculation:
    """The results of one reply's calls, read ahead as they come."""

    __slots__ = ("_ahead", "_ledger", "_read", "_running", "_sent", "_session", "_so_far", "_speculator", "_task")

    def __init__(
        self, speculator: Speculator, ledger: Ledger, so_far: SoFar, running: Running, session: str = ""
    ) -> None:
        self._speculator = speculator
        self._ledger = ledger
        self._so_far = so_far
        self._running = running
        self._session = session
        self._read = self._sent = ledger.sent
        self._ahead: bool | None = None  # None until there was anything to decide
        self._task: asyncio.Task[None] | None = None
        self._consider()

    def finished(self, name: str, took: int) -> None:
        """A call has its result, after so many nanoseconds. Called on the event loop; does not block."""
        self._speculator.took(name, took)
        self._consider()

    async def end(self) -> None:
        """All results are there, or the run is over: the next prompt waits for nothing that is still being read."""
        if self._task is not None:
            await stop([self._task])
        if self._ahead is not None:
            tokens = estimated_tokens(self._so_far()[self._read :])
            self._speculator.payoff.expect(self._ledger, tokens, self._ahead)

    def _consider(self) -> None:
        """Have what has come be read, if it is much, and if there seems to be time for it."""
        if self._ahead is False or self._task is not None:
            return
        messages = self._so_far()
        tokens = estimated_tokens(messages[self._sent :])
        if tokens < _LEAST:
            return
        payoff = self._speculator.payoff
        left = self._speculator.left(self._running(), self._ledger.clock())
        if left <= payoff.cost(tokens):
            return
        if self._ahead is None:
            self._ahead = payoff.choose()
        if self._ahead:
            self._sent = len(messages)
            self._task = asyncio.get_running_loop().create_task(self._send(messages))

    async def _send(self, messages: bytes | bytearray) -> None:
        payoff = self._speculator.payoff
        try:
            await prefill(self._speculator.client, messages, ledger=self._ledger, session=self._session)
        except ModelError as error:
            payoff.failed(True)
            if payoff.off:
                _log.warning("Nothing more is read ahead at %s: %s", self._speculator.client.service.name, error)
        else:
            payoff.failed(False)
            self._task = None
            self._consider()  # more may have come meanwhile
