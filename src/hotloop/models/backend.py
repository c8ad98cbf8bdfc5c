"""Declared models, made ready: the ways to their services, and what all agents know of them."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import msgspec

from hotloop.budget import Degrade
from hotloop.fields import require
from hotloop.models.ahead.prefill import prefill_front
from hotloop.models.ask import Thinker
from hotloop.models.chain import Chain
from hotloop.models.client import Client
from hotloop.models.dialects import Dialect
from hotloop.models.http.target import chat_url
from hotloop.models.http.transport import HttpTransport
from hotloop.models.model import Model
from hotloop.models.rejection import Predicate
from hotloop.models.request import AnswerForm, RequestTemplate
from hotloop.models.routing.routed import RoutedThinker
from hotloop.models.routing.router import Router
from hotloop.models.service import service_of
from hotloop.models.stepped import SteppedThinker
from hotloop.models.transport import Transport
from hotloop.words import listed

_log = logging.getLogger("hotloop.models")

Form = Callable[[Dialect, bool, bool], AnswerForm | None]


class Backend:
    """The connections of one agent to one model. `stream` and `prefix_cache` are the agent's.

    With `scored` the service is to tell how sure the model is of each token.
    """

    def __init__(self, model: Model, *, stream: bool = True, prefix_cache: bool = True, scored: bool = False) -> None:
        self.model = model
        self.dialect = model.spoken
        self.service = service_of(model)
        self.transport = _transport(model)
        self.stream = stream
        self._prefix_cache = prefix_cache
        self._scored = scored and self.dialect.logprobs
        if scored and not self._scored:
            _log.warning(
                "The cascade's confidence has no effect on %s: %s services are not known to tell how sure a model is.",
                model.name,
                self.dialect.name,
            )

    def client(self, tools: Sequence[bytes], names: frozenset[str], answer: AnswerForm | None = None) -> Client:
        """Who asks this model, offering tools with these definitions."""
        model = self.model
        request = RequestTemplate(
            model.name,
            self.dialect,
            tools,
            answer=answer,
            temperature=model.temperature,
            max_tokens=model.max_tokens,
            stream=self.stream,
            prefix_cache=self._prefix_cache,
            scored=self._scored,
        )
        return Client(self.transport, request, self.service, model.policy, tool_names=names)


class Backends:
    """All models of one agent. The `first` is asked first, or, of a router, the one that it chooses.

    Those in `fallback` follow in their order; `reject` says which replies make it ask the next one. A model of one of
    the `steps` answers first once a run has taken it. Raises ConfigError for a step whose model there is not.
    """

    def __init__(
        self,
        first: Model | Router,
        fallback: Sequence[Model] = (),
        reject: Sequence[Predicate] = (),
        *,
        stream: bool = True,
        prefix_cache: bool = True,
        steps: Sequence[Degrade] = (),
    ) -> None:
        ready = partial(Backend, stream=stream, prefix_cache=prefix_cache)
        self._router = first if isinstance(first, Router) else None
        if isinstance(first, Router):
            self._routes = {name: ready(model, scored=first.scored(name)) for name, model in first.models.items()}
        else:
            self._routes = {first.name: ready(first)}
        self._fallback = [ready(model) for model in fallback]
        self._reject = reject
        self.all = [*self._routes.values(), *self._fallback]
        self._steps: dict[int, Backend] = {}
        for place, step in enumerate(steps):
            if step.model is not None:
                self._steps[place] = self._known(step.model) or ready(step.model)
        self.all += [each for each in self._steps.values() if each not in self.all]

    def _known(self, model: Any) -> Backend | None:
        """The one that a step means, by its name or as it is declared; None for a model of its own."""
        if isinstance(model, str):
            named = {each.model.name: each for each in self.all} | self._routes
            unknown = f"Degrade(model=...): the agent has no model {model!r}; there are {listed(model, named)}."
            require(model in named, unknown)
            return named[model]
        require(isinstance(model, Model), f"Degrade(model=...) is {model!r}; make it with Model(...).")
        return next((each for each in self.all if each.model == model), None)

    def thinker(self, tools: Sequence[bytes], names: frozenset[str], form: Form | None = None) -> Thinker:
        """Who thinks for programs that offer these tools; `form` is asked how each service gives structured answers."""

        client = partial(self._client, tools=tools, names=names, form=form)
        routes: dict[str, Thinker] = {name: client(backend) for name, backend in self._routes.items()}
        first = RoutedThinker(self._router, routes) if self._router else next(iter(routes.values()))
        usual = Chain([first, *map(client, self._fallback)], self._reject) if self._fallback else first
        if not self._steps:
            return usual
        steps = {place: Chain([client(each), usual], self._reject) for place, each in self._steps.items()}
        return SteppedThinker(usual, steps)

    def _client(self, backend: Backend, tools: Sequence[bytes], names: frozenset[str], form: Form | None) -> Client:
        answer = form(backend.dialect, backend.stream, bool(tools)) if form else None
        return backend.client(tools, names, answer)

    def clients(self, tools: Sequence[bytes], form: Form | None = None) -> list[Client]:
        """Who asks each of the models, to have a prompt read that they may be sent."""
        return [self._client(each, tools, frozenset(), form) for each in self.all]

    @property
    def fingerprint(self) -> str:
        """Stands for who may answer, how they are asked, and how one of them is chosen; it shows no key."""
        asked = [msgspec.structs.astuple(each.model) for each in self.all]
        router = self._router
        chosen = router and (router.default, router.rules, id(router.classifier), router.cascade, router.per)
        return hashlib.sha256(repr((asked, chosen, self._reject)).encode()).hexdigest()

    def that_cache_anyway(self) -> str:
        """The services that cannot be told not to cache prefixes, "" if there is none."""
        return " and ".join(dict.fromkeys(each.dialect.name for each in self.all if not each.dialect.cache_off))

    async def warm(self, connections: int) -> None:
        """Open so many connections to each. Raises ModelError if the first cannot be reached."""
        await self._each([each.transport.warm(connections) for each in self.all])

    async def prefill(self, tools: Sequence[bytes], instructions: bytes, form: Form | None = None) -> None:
        """Have each model that caches prefixes read what every conversation begins with. Raises as `warm` does."""
        await self._each([prefill_front(each, instructions) for each in self.clients(tools, form)])

    async def _each(self, works: Sequence[Awaitable[Any]]) -> None:
        """Prepare all of them; only the first has to succeed, the others may never be asked."""
        ends = await asyncio.gather(*works, return_exceptions=True)
        for backend, end in zip(self.all[1:], ends[1:], strict=True):
            if isinstance(end, BaseException):
                _log.warning("%s at %s could not be prepared: %s", backend.model.name, backend.service.name, end)
        if isinstance(ends[0], BaseException):
            raise ends[0]

    async def aclose(self) -> None:
        """Close all connections of this event loop."""
        for each in self.all:
            await each.transport.aclose()


def _transport(model: Model) -> Transport:
    if not isinstance(model.endpoint, str):
        return model.endpoint
    if model.endpoint == "local":
        from hotloop.models.local.engine import LocalTransport

        return LocalTransport(model.name)
    headers = model.headers or {}
    if model.key:
        headers = {"authorization": f"Bearer {model.key}"} | headers
    return HttpTransport(chat_url(model.endpoint), headers, connect_timeout=model.policy.connect)
