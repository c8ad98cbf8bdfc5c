"""Tools from functions: what the model is told of them, what reaches the function, and what comes back.

    python examples/tools_tour.py

Needs no model. `examples/agent.yaml` gives the two order tools of this file to an agent.
"""

from __future__ import annotations

import asyncio
import datetime
import enum
from typing import Annotated, Any

from hotloop import Agent, Meta, tool
from hotloop.errors import ArgumentsError, ToolDefinitionError, ToolError
from hotloop.testing import ScriptedModel, call, run_virtual
from hotloop.tools.defining.tool import encode_result

OrderId = Annotated[str, Meta(pattern="^[0-9]{8}$")]


class Carrier(enum.Enum):
    POST = "post"
    COURIER = "courier"


@tool(read_only=True, ttl=60, timeout=3.0, status="Looking up order {order_id}")
async def query_order_status(order_id: OrderId) -> dict[str, str]:
    """Current status of an order, by its order number. 查询订单状态。"""
    return {"order_id": order_id, "status": "shipped"}


@tool(read_only=True, status="Asking where order {order_id} is")
async def query_logistics(order_id: OrderId) -> dict[str, str]:
    """Where the parcel of an order is now, by its order number. 查询物流信息。"""
    return {"order_id": order_id, "location": "Shanghai"}


@tool(idempotent=True, retry=2)
def change_carrier(order_id: OrderId, carrier: Carrier, until: datetime.date | None = None) -> str:
    """Send an order with another carrier.

    Args:
        carrier: Who brings it.
        until: The last day on which it may arrive.
    """
    if carrier is Carrier.COURIER and until is None:
        raise ToolError("A courier needs to know until when; ask the customer.")
    return f"{order_id} goes by {carrier.value}"


@tool(read_only=True, keep=("status", "items[].sku"))
async def query_order(order_id: OrderId) -> dict[str, Any]:
    """All about an order, of which the model reads two parts."""
    tea = {"sku": "A1", "name": "Tea pot", "weight": 1.2, "origin": "Jingdezhen"}
    return {"status": "shipped", "items": [tea, tea | {"sku": "B2"}], "log": ["paid", "packed", "shipped"]}


def what_the_model_reads() -> str:
    """The result of `query_order`, as it is in the model's next request."""
    model = ScriptedModel([call("query_order", order_id="20250101"), "It was shipped."])
    run_virtual(Agent(model="scripted", endpoint=model, tools=[query_order]).run("Where is order 20250101?"))
    content: str = model.requests[1]["messages"][-1]["content"]
    return content


def main() -> None:
    for each in (query_order_status, query_logistics, change_carrier):
        print(each.definition.decode(), end="\n\n")

    arguments = change_carrier.bind('{"order_id": "20250101", "carrier": "post", "until": "2025-01-07"}')
    print(arguments)
    print(change_carrier(**arguments), end="\n\n")

    arguments = query_order_status.bind('{"order_id": "20250101"}')
    print(query_order_status.status_text(arguments))
    print(encode_result(asyncio.run(query_order_status(**arguments))), end="\n\n")

    print(encode_result(asyncio.run(query_order(order_id="20250101"))))
    print(what_the_model_reads(), end="\n\n")

    for wrong in ('{"order_id": "2025"}', '{"order_id": "20250101", "fast": true}', '{"order_id": "20250101'):
        try:
            query_order_status.bind(wrong)
        except ArgumentsError as error:
            print(error)
    print()

    def forward(message: object, *recipients: str) -> None:
        """Send a message on."""

    try:
        tool(forward)
    except ToolDefinitionError as error:
        print(error)


if __name__ == "__main__":
    main()
