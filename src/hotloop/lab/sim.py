"""A simulated model service: OpenAI-compatible, over real sockets, with the latency you choose."""

from __future__ import annotations

import asyncio
from typing import Self, Unpack

import msgspec

from hotloop.errors import ConfigError, HotloopError
from hotloop.lab.auto import auto
from hotloop.lab.httpd import Connection, HttpExchange
from hotloop.lab.profiles import Profile
from hotloop.lab.render import MODEL, error_body
from hotloop.lab.script import Replies
from hotloop.lab.service.emit import Stats
from hotloop.lab.service.simulation import Simulation, SimulationOptions

_MODELS = {"object": "list", "data": [{"id": MODEL, "object": "model", "created": 0, "owned_by": "hotloop"}]}


class SimulatedService:
    """Serves `replies` on loopback while its `async with` block runs.

    Its times are those of a profile (its name, its YAML file or itself), or: the first token leaves `ttft` seconds
    after the request has arrived, the others `tpot` seconds apart. Each token is a write of its own. `replies` is a
    list, in which every conversation goes its own way from the first reply on; or a function from the decoded request
    to a reply; or left out: then offered tools are called with words of the user's message where these fit, else with
    plain values. A reply ends at the request's token cap, with the finish reason "length".

    `faults` say what goes wrong how often ("429:2%,cut:1%,slow*20:3%", see `hotloop.lab.service.misbehaving`); at most
    `rpm` requests and `tpm` tokens a minute are taken, and no prompt that fills a `context_limit` (in tokens, of four
    bytes of a request each; else the profile's). What is left to chance goes by `seed`. Raises ConfigError for a
    profile or faults that there are not, and when the port is taken.
    """

    def __init__(
        self, replies: Replies = auto, *, host: str = "127.0.0.1", port: int = 0, **options: Unpack[SimulationOptions]
    ) -> None:
        self._simulation = Simulation(replies, **options)
        self._host = host
        self._port = port
        self._connections: set[Connection] = set()

    @property
    def profile(self) -> Profile:
        """What it is like in time."""
        return self._simulation.profile

    @property
    def url(self) -> str:
        """The base URL to give to an agent."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._port}/v1"

    @property
    def stats(self) -> Stats:
        """What was done so far, and how punctually."""
        return self._simulation.stats

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(self._connection, self._host, self._port, backlog=1024)
        except OSError as error:
            raise ConfigError(f"Cannot serve on {self._host} port {self._port}: {error}.") from error
        self._port = self._server.sockets[0].getsockname()[1]
        self._simulation.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        closed = [connection.closed for connection in self._connections]
        for connection in list(self._connections):
            connection.abort()
        await asyncio.gather(*closed)
        self._simulation.close()
        await self._server.wait_closed()

    def _connection(self) -> Connection:
        return Connection(self._handle, self._connections)

    def _handle(self, exchange: HttpExchange) -> None:
        for ending, method, answer in (
            ("/chat/completions", "POST", self._complete),
            ("/models", "GET", self._models),
            ("/stats", "GET", self._report),
        ):
            if exchange.path.endswith(ending):
                if exchange.method == method:
                    return answer(exchange)
                return exchange.respond(405, error_body(f"{exchange.path} takes {method}, not {exchange.method}."))
        return exchange.respond(404, error_body(f"There is no {exchange.path} here.", code="unknown_url"))

    def _models(self, exchange: HttpExchange) -> None:
        exchange.respond(200, msgspec.json.encode(_MODELS))

    def _report(self, exchange: HttpExchange) -> None:
        exchange.respond(200, msgspec.json.encode(self.stats))

    def _complete(self, exchange: HttpExchange) -> None:
        try:
            exchange.left = self._simulation.submit(exchange.body, exchange)
        except HotloopError as error:
            exchange.respond(400, error_body(str(error)))
        except Exception as error:
            _report_fault(error)
            exchange.respond(500, error_body(f"The script failed: {error!r}.", "server_error"))


def _report_fault(error: Exception) -> None:
    """A script that raises is a bug of its author's: the client gets a 500, the log the traceback."""
    context = {"message": "The simulated service's script failed.", "exception": error}
    asyncio.get_running_loop().call_exception_handler(context)
