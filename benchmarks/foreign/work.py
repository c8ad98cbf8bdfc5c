"""The work of the foreign agents: tools that take time, and what is asked. Imports nothing that they would not have."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

API_KEY = "sk-simulated"
MODEL = "gpt-oss-20b"
INSTRUCTIONS = "You are the order desk of an online shop. Use the tools, then answer in a sentence or two."
DESK = "You are the carrier desk. Find out where a parcel is."


async def order_status(order_id: str) -> str:
    """The status of an order.

    Args:
        order_id: The order's number.
    """
    await asyncio.sleep(0.12)
    return f'{{"order_id": "{order_id}", "status": "shipped", "parcel": "p-77"}}'


async def parcel_location(parcel: str) -> str:
    """Where a parcel is.

    Args:
        parcel: The parcel's number.
    """
    await asyncio.sleep(0.18)
    return f'{{"parcel": "{parcel}", "carrier": "DHL", "location": "Shenzhen airport"}}'


async def customer_orders(customer: str) -> str:
    """The orders of a customer.

    Args:
        customer: The customer's number.
    """
    await asyncio.sleep(0.08)
    return f'{{"customer": "{customer}", "orders": ["20250101"]}}'


async def refund(order_id: str) -> str:
    """Give the money for an order back.

    Args:
        order_id: The order's number.
    """
    await asyncio.sleep(0.05)
    raise ValueError(f"the order {order_id} is not paid yet")


@dataclass
class Task:
    """One run of an agent: what it is asked, with which tools, of which service."""

    scenario: str
    url: str
    question: str = "Where is my order 20250101?"
    tools: list[Callable[..., Any]] = field(default_factory=list)

    @property
    def streamed(self) -> bool:
        """Whether the answer is streamed."""
        return self.scenario == "stream"


@dataclass
class Told:
    """What a framework says of its run; None is nothing. `seconds` is how long we waited for it."""

    requests: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    answer: str = ""
    error: str = ""
    seconds: float = 0.0


class Clock:
    """How long something took."""

    seconds = 0.0


@contextmanager
def timed() -> Iterator[Clock]:
    """Time what is done inside, whether or not it fails."""
    clock, began = Clock(), time.perf_counter()
    try:
        yield clock
    finally:
        clock.seconds = round(time.perf_counter() - began, 6)


TOOLS = {
    "single": [order_status],
    "parallel": [order_status, parcel_location],
    "turns": [customer_orders, order_status, parcel_location],
    "failing": [refund],
    "stream": [order_status, parcel_location],
    "subagent": [parcel_location],
    "retried": [order_status],
    "handoff": [parcel_location],
    "guarded": [order_status],
    "recalled": [order_status],
}


def task(scenario: str, url: str) -> Task:
    """The task of a scenario."""
    return Task(scenario, url, tools=TOOLS[scenario])
