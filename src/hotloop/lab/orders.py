"""A shop's order desk: two read-only tools over made-up orders, each as slow as a real back end."""

from __future__ import annotations

import asyncio
from datetime import date, timedelta
from typing import Annotated, Any

from msgspec import Meta

from hotloop.tools.defining.define import tool

OrderId = Annotated[str, Meta(pattern="^[0-9]{8}$")]

_STATUSES = ("packed", "shipped", "in transit", "out for delivery", "held at customs")
_CARRIERS = ("SF Express", "YTO Express", "JD Logistics", "EMS", "DHL", "ZTO Express", "STO Express")
_PLACES = (
    "Hangzhou transfer centre",
    "Shanghai depot",
    "Guangzhou warehouse",
    "Chengdu sorting centre",
    "Wuhan hub",
    "Shenzhen airport",
)
_TODAY = date(2025, 1, 7)


@tool(read_only=True, ttl=60, timeout=3.0, status="Looking up order {order_id}")
async def query_order_status(order_id: OrderId) -> dict[str, Any]:
    """Current status of an order, by its order number. 查询订单状态"""
    await asyncio.sleep(0.15)
    number = int(order_id)
    return {"status": _pick(_STATUSES, number), "items": 1 + number % 3, "total": f"{20 + number % 880}.00 CNY"}


@tool(read_only=True, ttl=60, timeout=3.0, status="Asking where order {order_id} is")
async def query_logistics(order_id: OrderId) -> dict[str, Any]:
    """Where the parcel of an order is now: logistics, shipping, delivery. 查询订单的物流、快递、配送信息"""
    await asyncio.sleep(0.18)
    number = int(order_id)
    arrival = _TODAY + timedelta(days=1 + number % 9)
    return {"carrier": _pick(_CARRIERS, number), "location": _pick(_PLACES, number), "eta": arrival.isoformat()}


def _pick(options: tuple[str, ...], number: int) -> str:
    return options[number % len(options)]
