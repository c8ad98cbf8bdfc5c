"""One model at one endpoint, with one key, as all agents of the process know it."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import MutableMapping
from typing import Any
from weakref import WeakValueDictionary

from hotloop.errors import (
    CircuitOpen,
    ConnectError,
    MalformedReply,
    ModelError,
    Overloaded,
    RateLimited,
    ReplyTimeout,
    ServiceError,
    TransportError,
)
from hotloop.models.exchange import Exchange
from hotloop.models.http.target import chat_url
from hotloop.models.model import Model
from hotloop.models.policy.admission import Admission
from hotloop.models.policy.breaker import CircuitBreaker
from hotloop.models.policy.latencies import Latencies
from hotloop.models.policy.payoff import Payoff
from hotloop.models.policy.policy import Policy
from hotloop.models.prefix.watch import PrefixWatch
from hotloop.models.transport import Transport
from hotloop.units import NS_PER_S, ns, show_span

_CURIOUS = 8  # replies without a word of limits, after which only every eighth is looked at
_PATIENT = 4  # times the usual wait for a first token
_AT_FIRST = 2 * NS_PER_S
_LONGEST_HOLD = 60.0  # seconds; then one request tries whether it is still so
_ITS_FAULT = (ConnectError, TransportError, ReplyTimeout, MalformedReply, Overloaded)


class Service:
    """How a service does, and who may ask it now; `name` is for people. Times are nanoseconds of the run's clock."""

    def __init__(self, model: Model) -> None:
        self.name = model.where
        self.model = model.name
        self.caches = model.spoken.caches
        self.admission = Admission(model.policy)
        self.latencies = Latencies(model.policy.hedge_share)
        self.watch = PrefixWatch(model.spoken, self.name)
        self.payoff = Payoff()
        self.aside_last = True  # as long as it has not refused words of the user after results
        self._breaker = None if model.policy.breaker is None else CircuitBreaker(model.policy.breaker)
        self._replies = 0
        self._hedges = False  # nobody who asks it sends second requests
        self._tolerable = _AT_FIRST  # a wait for a first token that does not show that something is wrong
        self._endpoint = model.endpoint  # alive as long as its id is known by

    @property
    def is_guarded(self) -> bool:
        """Whether `require_closed` has to be asked before a request is sent."""
        return self._breaker is not None and self._breaker.is_open

    def require_closed(self, now: int) -> None:
        """Take a request on, as far as the circuit breaker is concerned; raises CircuitOpen."""
        if self._breaker is not None and (wait := self._breaker.wait(now)):
            told = self._breaker.describe(now)
            raise CircuitOpen(
                f"{self.name} is left alone for {show_span(wait)} more: {told}.", retry_after=wait / NS_PER_S
            )

    def give_up(self) -> None:
        """A request that was taken on tells nothing about the service: it was cancelled, or never sent."""
        if self._breaker is not None:
            self._breaker.release()

    def stall(self, policy: Policy) -> float | None:
        """The longest silence within a reply that is not taken for its end, in seconds."""
        stall = policy.stall
        return self.latencies.stall if isinstance(stall, str) else stall

    def hedge_after(self, size: int, now: int) -> int | None:
        """When to send a second request, counted from the first; None: not at all."""
        self._hedges = True
        self.latencies.asked()
        return None if self._is_unwell(now) else self.latencies.hedge_after(size)

    def may_hedge(self, tokens: int, now: int) -> bool:
        """Take a second request on, if that is allowed and there is room for it: it goes before nobody who waits."""
        if self._is_unwell(now) or not self.admission.try_enter(tokens, now, background=True):
            return False
        if self.latencies.may_hedge():
            return True
        self.admission.leave()
        return False

    def _is_unwell(self, now: int) -> bool:
        """Whether it is slow as a whole, or was closed off and is at most being tried again."""
        return self.latencies.slow_now() or (self._breaker is not None and self._breaker.is_open)

    def replied(self, exchange: Exchange, size: int, now: int, *, streamed: bool) -> None:
        """A reply was complete; `size` is how many bytes of its prompt were new.

        Of one that was not streamed, nobody knows when its first token came.
        """
        first = exchange.first or now
        ttft = first - exchange.begun if streamed else None
        self._replies += 1
        if not self.admission.free or self._replies <= _CURIOUS or self._replies % _CURIOUS == 0:
            self.admission.learn(exchange.headers, first, exchange.begun)
        if ttft is not None:
            self.latencies.silent(exchange.gap)
            if self._hedges and size:
                self.latencies.first_token(ttft, size)
            self._tolerable += (_PATIENT * ttft - self._tolerable) >> 3  # a moving average
        if self._breaker is not None:
            self._breaker.record(now, failed=False, ttft=ttft)

    def lost(self, exchange: Exchange, size: int, now: int) -> None:
        """Another request was faster; `size` as above."""
        self.latencies.first_token(now - exchange.begun, size)

    def failed(self, exchange: Exchange, error: ModelError, size: int, now: int, *, hurried: bool = False) -> None:
        """A request came to nothing; `size` as above, `hurried` tells that its run had no more time."""
        if exchange.headers:
            self.admission.learn(exchange.headers, exchange.first or now, exchange.begun)
        if self._hedges and isinstance(error, ReplyTimeout) and not exchange.first:
            self.latencies.first_token(now - exchange.begun, size)
        if isinstance(error, ServiceError) and error.retry_after:
            self.admission.hold(now + ns(min(error.retry_after, _LONGEST_HOLD)))
        hurried = hurried and (exchange.first > 0 or now - exchange.begun < self._tolerable)
        if hurried or isinstance(error, RateLimited):
            self.give_up()
        elif self._breaker is not None:
            self._breaker.record(now, failed=isinstance(error, _ITS_FAULT), ttft=None)


_MOST = 256  # services that are remembered while no agent asks them
_known: OrderedDict[tuple[Any, ...], Service] = OrderedDict()
_in_process: WeakValueDictionary[tuple[Any, ...], Service] = WeakValueDictionary()  # gone with their transports
_knowing = threading.Lock()


def service_of(model: Model) -> Service:
    """The service behind a model: one for all agents that mean the same endpoint, model, key and headers.

    They may wait longer or try more often than each other, but those that bound it otherwise (`breaker`,
    `max_concurrent`, `max_queued`, `hedge_share`) do not share it.

    It is remembered from one agent to the next: who makes one for each request learns as well. Raises ConfigError for
    an endpoint that is no URL.
    """
    secrets = hashlib.sha256(repr((model.key, sorted((model.headers or {}).items()))).encode()).digest()
    key = (_place(model.endpoint), model.name, model.spoken.name, secrets, *_shared(model.policy))
    known: MutableMapping[tuple[Any, ...], Service] = _known if isinstance(model.endpoint, str) else _in_process
    with _knowing:
        service = known.get(key) or Service(model)
        known[key] = service
        if isinstance(model.endpoint, str):
            _known.move_to_end(key)
            while len(_known) > _MOST:
                _known.popitem(last=False)
    return service


def _shared(policy: Policy) -> tuple[Any, ...]:
    return policy.breaker, policy.max_concurrent, policy.max_queued, policy.hedge_share


def _place(endpoint: str | Transport) -> str | int:
    """The same for the same endpoint, however it is written."""
    if not isinstance(endpoint, str):
        return id(endpoint)
    return endpoint if endpoint == "local" else chat_url(endpoint)
