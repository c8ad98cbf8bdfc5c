"""How much of each prompt is byte for byte what the prompt before was: our layout, and the usual other ones.

The same conversation each time: 20 turns, each with one call. "Ours" is an agent with the feature; "naive" is an agent
without it, whose requests are rearranged on their way as many programs arrange them: the time and the facts in the
instructions, the tools in the order of the day, a window that slides with every turn.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from hotloop import Agent, Context, Memory, Model, Window, tool
from hotloop.models.prefix.parts import common
from hotloop.models.transport import Receiver, Transport
from hotloop.testing import ScriptedModel, call

TURNS, REQUESTS = 20, 2
SHOWN = (2, 5, 10, 15, 20)
WINDOW = 8  # turns
STAYS = 0.8  # of all bytes of our prompts, at least
USER = "ann"
INSTRUCTIONS = "You are the assistant of an order desk. Be brief, and name the order that you speak of. " * 8
PROMPT = "Where is order {}? The customer has asked for it {} times, and wants to have it {}."
RESULT = "It left the hub in Shenzhen on Monday and passed customs; it is expected on Thursday. " * 6
ANSWER = "It has left the hub in Shenzhen and is expected on Thursday before noon."
SUMMARY = "The customer asked for several orders; all have left the hub in Shenzhen and come on Thursday. " * 3
WISHES = ("before noon", "in the evening", "at the neighbour's", "at the office", "next week")
FACTS = tuple(f"When a parcel is to come {wish}, the customer is called first." for wish in WISHES)

Request = dict[str, Any]
Rearrange = Callable[[Request, int], None]
"""Changes a request; the number is that of its turn, from 1 on."""


class Rearranged:
    """A transport that rearranges every request."""

    def __init__(self, inner: Transport, rearrange: Rearrange) -> None:
        self._inner, self._rearrange = inner, rearrange

    async def send(self, body: bytes, receiver: Receiver) -> None:
        """See `Transport`."""
        request = msgspec.json.decode(body)
        self._rearrange(request, sum(message["role"] == "user" for message in request["messages"]))
        await self._inner.send(msgspec.json.encode(request), receiver)

    async def warm(self, connections: int = 1) -> None:
        """See `Transport`."""
        await self._inner.warm(connections)

    async def aclose(self) -> None:
        """See `Transport`."""
        await self._inner.aclose()


def time_of(turn: int) -> str:
    """What is true only in this turn."""
    return f"It is Thursday, 9 January 2025, {8 + turn // 6:02d}:{turn * 7 % 60:02d}."


def time_first(request: Request, turn: int) -> None:
    """The time at the end of the instructions."""
    request["messages"][0]["content"] += f"\n\n{time_of(turn)}"


def facts_first(request: Request, turn: int) -> None:
    """What is known of the user at the end of the instructions."""
    request["messages"][0]["content"] += f"\n\nKnown from earlier:\n- {FACTS[turn % len(FACTS)]}"


def tools_anyhow(request: Request, turn: int) -> None:
    """The tools in another order in every turn."""
    tools = request["tools"]
    request["tools"] = tools[turn % len(tools) :] + tools[: turn % len(tools)]


def sliding(request: Request, turn: int) -> None:
    """No more than the newest turns."""
    messages = request["messages"]
    begins = [place for place, message in enumerate(messages) if message["role"] == "user"]
    request["messages"] = messages[:1] + messages[begins[-WINDOW:][0] :]


def all_of_it(request: Request, turn: int) -> None:
    """Everything that is usual but the window."""
    for rearrange in (time_first, facts_first, tools_anyhow):
        rearrange(request, turn)


@dataclass(frozen=True)
class Layout:
    """A way to arrange prompts: how the agent's context is arranged, and its requests on their way."""

    name: str
    ours: bool
    context: Context | None = None
    rearrange: Rearrange | None = None
    remembers: bool = False


def layouts() -> list[Layout]:
    """All there are to compare, ours before the naive one."""
    turns = itertools.count(1)
    timed, window = Context(volatile=lambda: time_of(next(turns))), Context(window=Window(turns=WINDOW))
    small = Model(name="small", endpoint=ScriptedModel(lambda _: SUMMARY))
    return [
        Layout("nothing but the conversation", ours=True),
        Layout("the tools in changing order", ours=False, rearrange=tools_anyhow),
        Layout("the time, said last", ours=True, context=timed),
        Layout("the time in the instructions", ours=False, rearrange=time_first),
        Layout("facts from memory, said last", ours=True, remembers=True),
        Layout("facts in the instructions", ours=False, rearrange=facts_first),
        Layout("all of these, ours", ours=True, context=timed, remembers=True),
        Layout("all of these, naive", ours=False, rearrange=all_of_it),
        Layout(f"a window of {WINDOW} turns, cut now and then", ours=True, context=window),
        Layout(f"a window of {WINDOW} turns that slides", ours=False, rearrange=sliding),
        Layout("summaries in the background", ours=True, context=Context(limit=4000, keep=3, summarizer=small)),
    ]


@dataclass(frozen=True)
class Shared:
    """Bytes that prompts share with the one before, of how many, for every prompt but the first."""

    name: str
    ours: bool
    prompts: list[tuple[int, int]]

    @property
    def whole(self) -> float:
        """The share over the whole conversation."""
        return sum(same for same, _ in self.prompts) / sum(size for _, size in self.prompts)

    @property
    def least(self) -> float:
        """The smallest share of a prompt."""
        return min(same / size for same, size in self.prompts)

    @property
    def to_read(self) -> int:
        """Bytes of all these prompts that are not as before: what a service has to read however well it caches."""
        return sum(size - same for same, size in self.prompts)

    def at(self, turn: int) -> float:
        """The share of the first prompt of this turn, counted from 1."""
        same, size = self.prompts[REQUESTS * (turn - 1) - 1]
        return same / size

    def cells(self) -> list[str]:
        """The line as text."""
        shares = [*(self.at(turn) for turn in SHOWN), self.least, self.whole]
        return [self.name, *(f"{share:.0%}".rjust(7) for share in shares), f"{self.to_read / 1024:,.0f} KB".rjust(7)]


HEADING = ["", *(name.rjust(7) for name in (*(f"turn {turn}" for turn in SHOWN), "least", "all", "to read"))]


def shared(layout: Layout, bodies: Sequence[bytes]) -> Shared:
    """What each of these prompts shares with the one before."""
    pairs = [(common(before, now), len(now)) for before, now in itertools.pairwise(bodies)]
    return Shared(layout.name, layout.ours, pairs)


def held(found: Sequence[Shared]) -> bool:
    """Whether most of every prompt of ours is as before, over a whole conversation."""
    return all(each.whole >= STAYS for each in found if each.ours)


def measure() -> list[Shared]:
    """Every layout."""
    return [asyncio.run(_converse(layout)) for layout in layouts()]


async def _converse(layout: Layout) -> Shared:
    replies = itertools.cycle([call("query_order", order_id="20250101"), ANSWER])
    model = ScriptedModel(lambda _: next(replies))
    async with Agent(
        model="m",
        endpoint=model if layout.rearrange is None else Rearranged(model, layout.rearrange),
        instructions=INSTRUCTIONS,
        tools=_tools(),
        context=layout.context,
        memory=_memory() if layout.remembers else None,
        sessions=":memory:",
    ) as agent:
        session = agent.session("benchmark", user=USER)
        for number in range(TURNS):
            await session.run(PROMPT.format(20250101 + number, number + 2, WISHES[number % len(WISHES)]))
    return shared(layout, model.bodies)


def _memory() -> Memory:
    """Facts of which each request gets the one that fits."""
    memory = Memory(":memory:", limit=1)
    for fact in FACTS:
        memory.remember(fact, user=USER)
    return memory


def _tools() -> list[Any]:
    @tool(read_only=True)
    async def query_order(order_id: str) -> str:
        """Where an order is."""
        return f"Order {order_id}. {RESULT}"

    @tool(read_only=True)
    async def query_customer(customer_id: str) -> str:
        """Who a customer is."""
        return customer_id

    @tool
    async def cancel_order(order_id: str) -> str:
        """Cancel an order that has not been sent."""
        return order_id

    return [query_order, query_customer, cancel_order]
