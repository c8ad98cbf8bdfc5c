"""An MCP server written with the Python SDK: on stdio when it is run, over HTTP by `app()`."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any, TypedDict

import anyio
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations
from pydantic import Field

READS = ToolAnnotations(read_only_hint=True)
DESTROYS = ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=True)


class Status(TypedDict):
    order_id: str
    status: str


def make() -> MCPServer:
    """A new shop, with what it remembers of its own."""
    shop = MCPServer("shop")
    stopped: list[str] = []

    @shop.tool(annotations=READS)
    def order_status(order_id: Annotated[str, Field(pattern="^[0-9]{8}$")]) -> Status:
        """Current status of an order."""
        return {"order_id": order_id, "status": "shipped"}

    @shop.tool(annotations=DESTROYS)
    def cancel_order(order_id: str) -> str:
        """Cancel an order."""
        raise ToolError(f"Order {order_id} is on its way; it cannot be cancelled.")

    @shop.tool()
    def told(context: Context) -> dict[str, Any]:
        """What came with the call, apart from its arguments."""
        meta: Any = context.request_context.meta or {}
        headers = context.headers or {}
        return {"traceparent": meta.get("traceparent"), "token": headers.get("authorization")}

    @shop.tool()
    def process() -> int:
        """The id of the process."""
        return os.getpid()

    @shop.tool()
    async def pack(items: int, context: Context) -> str:
        """Pack items, telling of each."""
        for item in range(items):
            await context.report_progress(item + 1, items, "packing")
        return "packed"

    @shop.tool()
    async def wait(reason: str, context: Context) -> str:
        """Wait until somebody cancels it."""
        await context.report_progress(0, None, "waiting")
        try:
            await anyio.sleep_forever()
        finally:
            stopped.append(reason)

    @shop.tool(name="stopped")
    def why_stopped() -> list[str]:
        """Why calls of wait were cancelled."""
        return stopped

    @shop.tool()
    async def extend(context: Context) -> str:
        """Offer one tool more."""
        shop.add_tool(process, name="later")
        await context.notify_tools_changed()
        return "extended"

    @shop.tool()
    def leave() -> str:
        """End the process at once."""
        print("ValueError: out of paper", file=sys.stderr, flush=True)
        os._exit(3)

    return shop


if __name__ == "__main__":
    make().run()
