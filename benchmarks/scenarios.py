"""Five agents at work: their tools, how long each takes, and what their models write."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from hotloop import Tool, tool
from hotloop.lab.script import Answer, Call, Reply, Request, per_conversation
from hotloop.tools.plan.plan import PLAN

Record = dict[str, Any]
OrderId = Annotated[str, Meta(pattern="^[0-9]{8}$")]

SECONDS: dict[str, float] = {}
"""How long each tool takes."""


def takes(seconds: float, **options: Any) -> Callable[[Callable[..., Any]], Tool]:
    """The function as a tool that answers after so many seconds."""

    def make(function: Callable[..., Any]) -> Tool:
        @wraps(function)
        async def answer(**arguments: Any) -> Any:
            await asyncio.sleep(seconds)
            return function(**arguments)

        made = tool(answer, **options)
        SECONDS[made.name] = seconds
        return made

    return make


@takes(0.150, read_only=True)
def query_order_status(order_id: OrderId) -> Record:
    """Current status of an order."""
    return {"order_id": order_id, "status": "shipped", "items": 3}


@takes(0.180, read_only=True)
def query_logistics(order_id: OrderId) -> Record:
    """Where the parcel of an order is."""
    return {"order_id": order_id, "location": "Shenzhen airport", "eta": "2025-01-10"}


@takes(0.090, read_only=True)
def get_customer(customer_id: str) -> Record:
    """Profile of a customer."""
    return {"customer_id": customer_id, "level": "gold"}


@takes(0.420, read_only=True)
def search_flights(origin: str, to: str, day: str) -> list[Record]:
    """Offers of flights; they go into the traveller's basket."""
    return [{"flight": "LH 716", "price": 612}, {"flight": "NH 224", "price": 655}]


@takes(0.350, read_only=True)
def search_hotels(city: str, nights: int) -> list[Record]:
    """Offers of hotels; they go into the traveller's basket."""
    return [{"hotel": "Park", "price": 480}, {"hotel": "Station", "price": 390}]


@takes(0.120, read_only=True)
def get_weather(city: str) -> Record:
    """The forecast for a city."""
    return {"city": city, "degrees": 14}


@takes(0.260, after=("search_flights", "search_hotels"))
def book_cheapest(most: int) -> Record:
    """Book the cheapest flight and hotel of the basket, if together they cost at most so much."""
    return {"booked": True, "price": 1002, "left": most - 1002}


@takes(0.080, read_only=True)
def find_customer(email: str) -> Record:
    """The customer with this address."""
    return {"id": "c-4711", "email": email}


@takes(0.140, read_only=True)
def list_orders(customer_id: str) -> list[Record]:
    """Orders of a customer, the last first."""
    return [{"id": "20250101", "total": 441}, {"id": "20241220", "total": 95}]


@takes(0.200, read_only=True)
def list_tickets(customer_id: str) -> list[Record]:
    """Open tickets of a customer."""
    return [{"id": "t-99", "text": "The kettle arrived broken."}]


@takes(0.160, read_only=True)
def check_refund(order_id: OrderId, ticket_id: str) -> Record:
    """Whether an order may be refunded for what a ticket says."""
    return {"order_id": order_id, "refund": True}


@takes(0.380, read_only=True)
def web_search(query: str) -> list[str]:
    """Pages about something."""
    return [f"{query}: page {number}" for number in range(3)]


@takes(0.110, read_only=True, reads=("stock:{sku}",))
def check_stock(sku: str) -> Record:
    """How many pieces of an article there are."""
    return {"sku": sku, "pieces": 12}


@takes(0.190, writes=("stock:{sku}",))
def reserve(sku: str, pieces: int) -> Record:
    """Reserve pieces of an article."""
    return {"sku": sku, "reserved": pieces}


@dataclass(frozen=True)
class Ask:
    """A call that the model writes. `waits` are the places of the calls before it in the reply that must end first.

    A `twin` is the same as a call before it, whose result it shares. `kept` is False if the next run does not find its
    result in the cache, because something was written since.
    """

    tool: Tool
    arguments: dict[str, Any]
    waits: tuple[int, ...] = ()
    twin: bool = False
    kept: bool = True

    def outcome(self, cached: bool) -> str:
        """What comes of it; `cached` in a run that finds the results of the one before."""
        if cached and self.kept and self.tool.read_only:
            return "cached"
        return "joined" if self.twin else "ok"


@dataclass(frozen=True)
class Turn:
    """A reply of the model: an `answer`, or calls, one by one or as the steps s1, s2, ... of a plan."""

    asks: Sequence[Ask] = ()
    is_plan: bool = False
    answer: str = ""

    def begun(self, count: int) -> Reply:
        """The reply as it is once so many of its calls are complete."""
        asks = self.asks[:count]
        if self.is_plan:
            text = _json({"steps": [_step(number, ask) for number, ask in enumerate(asks, 1)]})
            return Reply(calls=(Call(PLAN, text.removesuffix("]}")),))
        return Reply(self.answer, tuple(Call(ask.tool.name, _json(ask.arguments)) for ask in asks))

    @property
    def reply(self) -> Reply:
        """The whole reply."""
        whole = self.begun(len(self.asks))
        return Reply(calls=(Call(PLAN, whole.calls[0].arguments + "]}"),)) if self.is_plan else whole


@dataclass(frozen=True)
class Scenario:
    """A question and the calls of each reply that leads to the `answer`; `plan` is the same with all calls in one."""

    name: str
    question: str
    calls: Sequence[Sequence[Ask]]
    answer: str
    plan: Sequence[Ask] = ()
    max_parallel: int = 8

    @property
    def tools(self) -> list[Tool]:
        """The tools that it needs."""
        return list({ask.tool.name: ask.tool for asks in self.calls for ask in asks}.values())

    def turns(self, planned: bool) -> list[Turn]:
        """The replies of a run."""
        calls = [Turn(self.plan, is_plan=True)] if planned else [Turn(asks) for asks in self.calls]
        return [*calls, Turn(answer=self.answer)]

    def script(self) -> Answer:
        """What the model writes, for a simulated service or a scripted model: a plan whenever it may."""
        plain, planned = (per_conversation([turn.reply for turn in self.turns(way)]) for way in (False, True))
        return lambda request: planned(request) if _may_plan(request) else plain(request)


def _step(number: int, ask: Ask) -> Record:
    return {"id": f"s{number}", "tool": ask.tool.name, "arguments": ask.arguments}


def _may_plan(request: Request) -> bool:
    return any(offered["function"]["name"] == PLAN for offered in request.get("tools", ()))


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _ref(text: str) -> dict[str, str]:
    return {"$ref": text}


SCENARIOS = [
    Scenario(
        "order desk",
        "Where is order 20250101, and what is customer u-7788 entitled to?",
        [
            [
                Ask(query_order_status, {"order_id": "20250101"}),
                Ask(query_logistics, {"order_id": "20250101"}),
                Ask(get_customer, {"customer_id": "u-7788"}),
            ]
        ],
        "Your order has left the warehouse and is at Shenzhen airport now. It should be with you on Friday. As a gold "
        "customer you can still change the address until it arrives.",
    ),
    Scenario(
        "travel desk",
        "Book me the cheapest way to Tokyo on 4 March for five nights, at most 1,100 euros. Do I need a coat?",
        [
            [
                Ask(search_flights, {"origin": "FRA", "to": "HND", "day": "2025-03-04"}),
                Ask(search_hotels, {"city": "Tokyo", "nights": 5}),
                Ask(get_weather, {"city": "Tokyo"}),
                Ask(book_cheapest, {"most": 1100}, waits=(0, 1)),
            ]
        ],
        "You are booked: the Lufthansa flight in the afternoon and five nights at the Station hotel, together for "
        "1,002 euros. It will be mild, so a light coat is enough.",
    ),
    Scenario(
        "support desk",
        "ada@example.com writes that her kettle is broken. Can she have her money back?",
        [
            [Ask(find_customer, {"email": "ada@example.com"})],
            [Ask(list_orders, {"customer_id": "c-4711"}), Ask(list_tickets, {"customer_id": "c-4711"})],
            [Ask(check_refund, {"order_id": "20250101", "ticket_id": "t-99"})],
        ],
        "Yes. Her ticket about the kettle belongs to her last order, which may be refunded in full. Shall I do it now?",
        plan=[
            Ask(find_customer, {"email": "ada@example.com"}),
            Ask(list_orders, {"customer_id": _ref("s1.id")}, waits=(0,)),
            Ask(list_tickets, {"customer_id": _ref("s1.id")}, waits=(0,)),
            Ask(check_refund, {"order_id": _ref("s2[0].id"), "ticket_id": _ref("s3[0].id")}, waits=(1, 2)),
        ],
    ),
    Scenario(
        "research",
        "What do we know about tool latency in agents? Look from several sides.",
        [
            [
                Ask(web_search, {"query": "tool latency in language agents"}),
                Ask(web_search, {"query": "parallel function calling"}),
                Ask(web_search, {"query": "speculative tool execution"}),
                Ask(web_search, {"query": "tool latency in language agents"}, waits=(0,), twin=True),
                Ask(web_search, {"query": "tool result caching"}),
                Ask(web_search, {"query": "agent plan graphs"}),
            ]
        ],
        "Tools are a third to two thirds of an agent's time. Running them side by side, starting them early and "
        "keeping their results each take away a part of it.",
        max_parallel=4,
    ),
    Scenario(
        "stock room",
        "Reserve two A-100 and one B-200, tell me how many A-100 are left, and whether there is any C-300.",
        [
            [
                Ask(check_stock, {"sku": "A-100"}),
                Ask(check_stock, {"sku": "B-200"}, kept=False),
                Ask(reserve, {"sku": "A-100", "pieces": 2}, waits=(0,)),
                Ask(reserve, {"sku": "B-200", "pieces": 1}, waits=(1,)),
                Ask(check_stock, {"sku": "A-100"}, waits=(2,), kept=False),
                Ask(check_stock, {"sku": "C-300"}),
            ]
        ],
        "Two A-100 and one B-200 are reserved for you. Twelve A-100 are left, and there are twelve C-300 as well.",
    ),
]
