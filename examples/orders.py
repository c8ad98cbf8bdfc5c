"""An order assistant: two lookups in parallel, then the answer, on a language model inside this process.

    python examples/orders.py
    python examples/orders.py "查询订单 20250101 的状态，同时查一下物流信息"

The model is SmolLM2-135M, fetched once (93 MB). To put the same agent on a service, give `endpoint` its base URL and
`model` the name it goes by there.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Annotated, Any

from hotloop import Agent, Budget, Meta, tool

OrderId = Annotated[str, Meta(pattern="^[0-9]{8}$")]


@tool(read_only=True, ttl=60, timeout=3.0, status="Looking up order {order_id}")
async def query_order_status(order_id: OrderId) -> dict[str, Any]:
    """Current status of an order, by its order number. 查询订单状态"""
    await asyncio.sleep(0.15)  # a database
    return {"status": "shipped", "items": 2, "total": "315.00 CNY"}


@tool(read_only=True, ttl=60, timeout=3.0, status="Asking where order {order_id} is")
async def query_logistics(order_id: OrderId) -> dict[str, Any]:
    """Where the parcel of an order is now: logistics, shipping, delivery. 查询订单的物流、快递、配送信息"""
    await asyncio.sleep(0.18)  # the carrier's service
    return {"carrier": "SF Express", "location": "Hangzhou transfer centre", "eta": "2025-01-09"}


async def main(prompt: str) -> None:
    agent = Agent(
        model="smollm2",
        endpoint="local",
        instructions="You are an order assistant.",
        tools=[query_order_status, query_logistics],
        budget=Budget(total=15.0, model=14.0, tools=0.4),  # what a busy CPU may take
    )
    async with agent:
        await agent.warm()
        result = await agent.run(prompt)
    print(result.output, result.trace, sep="\n\n")


if __name__ == "__main__":
    asked = (
        sys.argv[1] if len(sys.argv) > 1 else "What is the status of order 20250101, and where is it now (logistics)?"
    )
    asyncio.run(main(asked))
