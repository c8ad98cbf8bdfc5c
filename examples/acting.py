"""Three calls of one reply: two start while the model is still writing, the third waits for what it must not overtake.

Runs anywhere, in virtual time: python examples/acting.py
"""

import asyncio

from hotloop import Agent, tool
from hotloop.testing import ScriptedModel, call, run_virtual


@tool(read_only=True, reads=("order:{order_id}",))
async def order_status(order_id: str) -> dict[str, str]:
    """Where an order stands."""
    await asyncio.sleep(0.2)
    return {"status": "packed"}


@tool(read_only=True)
async def shipping_rates(country: str) -> dict[str, float]:
    """What shipping to a country costs."""
    await asyncio.sleep(0.3)
    return {"DHL": 9.0}


@tool(writes=("order:{order_id}",))
async def cancel_order(order_id: str) -> dict[str, str]:
    """Cancel an order."""
    await asyncio.sleep(0.1)
    return {"cancelled": order_id}


CALLS = [call("order_status", order_id="7"), call("shipping_rates", country="DE"), call("cancel_order", order_id="7")]

if __name__ == "__main__":
    agent = Agent(
        model="scripted",
        endpoint=ScriptedModel([CALLS, "Cancelled."], ttft=0.08, tpot=0.02),
        tools=[order_status, shipping_rates, cancel_order],
    )
    print(run_virtual(agent.run("Cancel order 7. What would shipping to Germany cost?")).trace)
