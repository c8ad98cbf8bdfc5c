"""A refund desk: what is small is refunded at once, the rest when a person has agreed.

hotloop sim --port 8000        (in another terminal: it stands in for the model)
hotloop run examples/refunds.yaml "Order 20250101 arrived broken, please refund 120 EUR."
"""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from hotloop import Meta, tool

SMALL = 50  # EUR
OrderId = Annotated[str, Meta(pattern="^[0-9]{8}$")]


@tool(read_only=True, status="Looking up order {order_id}")
async def query_order(order_id: OrderId) -> dict[str, Any]:
    """What was ordered, and what it cost."""
    await asyncio.sleep(0.15)  # a database
    return {"order_id": order_id, "item": "teapot", "paid": "120.00 EUR"}


@tool(approval=lambda arguments: arguments["amount"] > SMALL, status="Refunding order {order_id}")
async def refund_order(order_id: OrderId, amount: Annotated[float, Meta(gt=0, le=1000)], reason: str = "") -> str:
    """Pay money back to the customer of an order."""
    await asyncio.sleep(0.3)  # the bank
    return f"{amount:.2f} EUR are on their way"
