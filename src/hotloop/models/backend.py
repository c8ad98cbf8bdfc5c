"""Declared models, made ready: the ways to their services, and what all agents know of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from hotloop.models.ask import Thinker
from hotloop.models.chain import Chain
from hotloop.models.client import Client
from hotloop.models.dialects import Dialect
from hotloop.models.http.target import chat_url
from hotloop.models.http.transport import HttpTransport
from hotloop.models.model import Model
from hotloop.models.rejection import Predicate
from hotloop.models.request import AnswerForm, RequestTemplate
from hotloop.models.service import service_of
from hotloop.models.transport import Transport

Form = Callable[[Dialect, bool, bool], AnswerForm | None]


class Backend:
    """The connections of one agent to one model. `stream` and `prefix_cache` are the agent's."""

    def __init__(self, model: Model, *, stream: bool = True, prefix_cache: bool = True) -> None:
        self.model = model
        self.dialect = model.spoken
        self.service = service_of(model)
        self.transport = _transport(model)
        self.stream = stream
        self._prefix_cache = prefix_cache

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
        )
        return Client(self.transport, request, self.service, tool_names=names)


class Backends:
    """All models of one agent, in order of preference; `reject` says which replies make it ask the next one."""

    def __init__(self, models: Sequence[Backend], reject: Sequence[Predicate] = ()) -> None:
        self.all = list(models)
        self._reject = reject

    def thinker(self, tools: Sequence[bytes], names: frozenset[str], form: Form | None = None) -> Thinker:
        """Who thinks for programs that offer these tools; `form` is asked how each service gives structured answers."""
        clients: list[Thinker] = [
            each.client(tools, names, form(each.dialect, each.stream, bool(tools)) if form else None)
            for each in self.all
        ]
        return clients[0] if len(clients) == 1 else Chain(clients, self._reject)

    async def warm(self, connections: int) -> None:
        """Open so many connections to each."""
        await asyncio.gather(*(each.transport.warm(connections) for each in self.all))

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
