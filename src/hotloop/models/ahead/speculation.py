"""Reading ahead: while tools run, the service is given what the next prompt is known to begin with.

That is the reply's calls and those results, from the first on, that are there already. It pays where a long result
comes early beside a slow tool: then the service reads it while it would have nothing to do.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence

import msgspec

from hotloop.errors import ModelError
from hotloop.limit import stop
from hotloop.models.ahead.prefill import prefill
from hotloop.models.client import Client
from hotloop.models.dialects import Dialect
from hotloop.models.sizes import estimated_tokens
from hotloop.models.translation import translated
from hotloop.trace.ledger import Ledger
from hotloop.trace.stats import percentile

_log = logging.getLogger("hotloop.prefix")

_LEAST = 256  # new tokens that are worth a request
_REMEMBERED = 16  # newest times of a tool


class Work(msgspec.Struct, frozen=True):
    """A reply's calls at work. The next prompt is the `history` that the service has read, and what comes `so_far`.

    `so_far` gives the messages of the calls and of those results that can follow them already, `running` the names
    of the calls that have no result yet and when they began, 0 for not yet.
    """

    ledger: Ledger
    history: bytearray
    so_far: Callable[[], bytes | bytearray]
    running: Callable[[], Iterable[tuple[str, int]]]
    session: str = ""


class Speculator:
    """Reads ahead for the runs of one program, at that of its `clients` whose service has answered last.

    `tools` are the names of the program's tools, `dialect` is the one in which its conversations are kept. Whether it
    pays at a service is known to all that ask it.
    """

    def __init__(self, clients: Sequence[Client], tools: Collection[str], dialect: Dialect) -> None:
        able = [each for each in clients if each.dialect.caches and each.dialect.partial_history]
        self._clients: dict[object, Client] = {each.service: each for each in able}
        self._took: dict[str, deque[int]] = {name: deque(maxlen=_REMEMBERED) for name in tools}
        self._dialect = dialect

    @property
    def able(self) -> bool:
        """Whether there is any service that caches and takes a history with calls that have no results yet."""
        return bool(self._clients)

    def begin(self, work: Work) -> Speculation | None:
        """A reply's calls have begun; None if its results are not to be read ahead."""
        client = self._clients.get(work.ledger.sent_to)
        if client is None:
            return None
        client.service.payoff.settle()
        return Speculation(self, client, work)

    def took(self, name: str, nanoseconds: int) -> None:
        """A call has ended after so long."""
        if name in self._took:  # a model may call what there is not
            self._took[name].append(nanoseconds)

    def left(self, running: Iterable[tuple[str, int]], now: int) -> float:
        """Nanoseconds until the last of these calls is expected to end, judged by how long such calls took before."""
        known = [(took, begun or now) for name, begun in running if (took := self._took.get(name))]
        return max((percentile(took, 50) + begun - now for took, begun in known), default=0)

    def prompt(self, client: Client, messages: bytearray) -> bytes | bytearray:
        """A conversation as this client's service is sent it."""
        return messages if client.dialect == self._dialect else translated(messages, client.dialect)


class Speculation:
    """The results of one reply's calls, read ahead as they come."""

    __slots__ = ("_ahead", "_client", "_payoff", "_sent", "_speculator", "_task", "_work")

    def __init__(self, speculator: Speculator, client: Client, work: Work) -> None:
        self._speculator = speculator
        self._client = client
        self._work = work
        self._payoff = client.service.payoff
        self._sent = 0  # bytes of what has come
        self._ahead: bool | None = None  # None: this turn tells nothing about what reading ahead brings
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
            self._payoff.expect(self._work.ledger, estimated_tokens(self._work.so_far()), self._ahead)

    def _consider(self) -> None:
        """Have what has come be read, if it is much, and if there seems to be time for it."""
        if self._ahead is False or self._task is not None:
            return
        left = self._speculator.left(self._work.running(), self._work.ledger.clock())
        if left <= 0:
            return
        come = self._work.so_far()
        tokens = estimated_tokens(come[self._sent :])
        if tokens < _LEAST or left <= self._payoff.cost(tokens):
            return
        if self._ahead is None:
            self._ahead = self._payoff.choose()
        if self._ahead:
            self._sent = len(come)
            messages = self._speculator.prompt(self._client, self._work.history + b"," + come)
            self._task = asyncio.get_running_loop().create_task(self._send(messages))

    async def _send(self, messages: bytes | bytearray) -> None:
        """Have the prompt read, and more that comes meanwhile; once it was not, nothing more of this reply is."""
        try:
            read = await prefill(self._client, messages, ledger=self._work.ledger, session=self._work.session)
        except ModelError as error:
            self._ahead = None
            self._payoff.failed(True)
            if self._payoff.off:
                _log.warning("Nothing more is read ahead at %s: %s", self._client.service.name, error)
            return
        if read is None:
            self._ahead = None
            return
        self._payoff.failed(False)
        self._task = None
        self._consider()
