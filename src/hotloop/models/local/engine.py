"""The embedded engine as a transport: requests in, the replies of an OpenAI-compatible service out."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from hotloop.errors import ConfigError, TransportError
from hotloop.models.local import grammar, smollm2, template, worker
from hotloop.models.local.gguf import read_gguf
from hotloop.models.local.prepared import Prepare, Prepared
from hotloop.models.local.reply import EngineFault, ReplyWriter
from hotloop.models.local.request import BadRequest, Function, JsonObject, read_request
from hotloop.models.local.weights import Progress, fetch_weights
from hotloop.models.transport import Receiver

SMOLLM2 = "smollm2"

_CLOSED = "The embedded engine was closed before its reply was complete."


class LocalTransport:
    """A language model in this process, by llama.cpp.

    `model` is "smollm2", whose weights are fetched when they are first needed (`weights.fetch_weights` does it with
    progress), or the path of any GGUF file. Transports for the same file share one engine: one copy of the weights,
    one request at a time, and as many `threads` as the first asked for (default: half the usable cores, 2 to 8).
    Loading holds the interpreter for about a quarter of a second, so `warm` it before serving. Raises ConfigError if
    llama.cpp is not installed, WeightsError for a file that is missing or no GGUF.
    """

    def __init__(self, model: str = SMOLLM2, *, threads: int | None = None) -> None:
        if importlib.util.find_spec("xllamacpp") is None:
            raise ConfigError('The embedded model needs llama.cpp: pip install "hotloop[local]"')
        self._threads = threads
        self._engine: worker.Engine | None = None
        self._prefix = ""
        self._prepare: Prepare
        self._locate: Callable[[Progress], Path]
        if model == SMOLLM2:
            self._key, self._locate, self._prepare = model, fetch_weights, smollm2.prepare
            self._prefix = smollm2.EXAMPLES
        else:
            file = read_gguf(Path(model).expanduser())
            self._key, self._locate = str(file.path), lambda _: file.path
            self._prepare = partial(template.prepare, ends=file.ends)
        self.model = model

    async def send(self, body: bytes, receiver: Receiver) -> None:
        """See `Transport.send`; also raises WeightsError.

        The reply is a stream of events, whether the request asks for one or not. A request that cannot be served is
        answered with 400.
        """
        try:
            prepared = self._prepare(read_request(body))
        except BadRequest as error:
            receiver.sent(False, None)
            _refuse(receiver, EngineFault(400, str(error)))
            return
        delivery = Delivery(prepared, self.model, receiver)
        receiver.sent(False, None)  # no throttle: a reply is never longer than the context
        try:
            await self._do(delivery.work)
        finally:
            delivery.abandon()

    async def warm(self, connections: int = 1) -> None:
        """Fetch and load the weights, and evaluate what every prompt begins with. Raises WeightsError."""
        await self._do(self._warm)

    async def aclose(self) -> None:
        """Free the model, unless other transports use it; the transport can be used again."""
        if self._engine is None:
            return
        self._engine = None
        if engine := worker.release(self._key):
            await asyncio.wrap_future(engine.close())
            engine.join()

    async def _do(self, work: worker.Work) -> None:
        if self._engine is None:
            self._engine = worker.acquire(self._key, lambda: worker.Engine(self._locate, self._threads))
        try:
            await asyncio.wrap_future(self._engine.submit(work))
        except worker.Closed:
            raise TransportError(_CLOSED) from None

    def _warm(self, model: worker.Model) -> None:
        if self._prefix:
            model.ask({"prompt": self._prefix, "n_predict": 0}, lambda _: None)


class Delivery:
    """Has one request answered, and brings the reply from the engine's thread to a receiver on the event loop."""

    def __init__(self, prepared: Prepared, model: str, receiver: Receiver) -> None:
        self._prepared = prepared
        self._write = ReplyWriter(prepared.read, model)
        self._receiver = receiver
        self._loop = asyncio.get_running_loop()
        self._over = False
        self._begun = False

    def abandon(self) -> None:
        """Nothing more is delivered; the model stops at its next step."""
        self._over = True

    def work(self, model: worker.Model) -> None:
        """Ask and deliver, in the engine's thread."""
        prepared = self._prepared
        try:
            for function in prepared.checked:
                _require_held(model, function)
            model.ask(prepared.body, self._chunk, chat=prepared.chat)
        except worker.Unreadable as error:
            self._call(self._fail, EngineFault(400, str(error)))
        except EngineFault as fault:
            self._call(self._fail, fault)

    def _chunk(self, chunk: JsonObject) -> bool:
        if not self._over and (written := self._write(chunk)):
            self._call(self._data, written)
        return self._over

    def _data(self, written: bytes) -> None:
        if self._over:
            return
        if not self._begun:
            self._begun = True
            self._receiver.head(200, [(b"content-type", b"text/event-stream")])
        if self._receiver.data(written):
            self.abandon()

    def _fail(self, fault: EngineFault) -> None:
        if self._begun and not self._over:
            self._receiver.data(b"data: %b\n\n" % fault.body)
        elif not self._over:
            _refuse(self._receiver, fault)
        self._over = True

    def _call(self, function: Callable[[Any], None], argument: object) -> None:
        try:
            self._loop.call_soon_threadsafe(function, argument)
        except RuntimeError:  # the event loop is gone, and with it the receiver
            self._over = True


def _require_held(model: worker.Model, function: Function) -> None:
    if not model.holds(grammar.check(function), grammar.MARK):
        raise EngineFault(
            400,
            f"The schema of {function.name} cannot be held while decoding. Look for a pattern with look-around, \\b, "
            "\\A, \\Z or a back reference, limits that exclude each other, options of oneOf that overlap, uniqueItems, "
            "contains, minProperties, propertyNames, not, if, and keys that depend on others.",
        )


def _refuse(receiver: Receiver, fault: EngineFault) -> None:
    receiver.head(fault.status, [(b"content-type", b"application/json")])
    receiver.data(fault.body)
