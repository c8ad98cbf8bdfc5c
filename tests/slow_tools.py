"""Tools that take their time, and what they were run with."""

from __future__ import annotations

import asyncio

from hotloop import tool

runs: list[str] = []


@tool(read_only=True)
async def look_up(key: str, ms: int = 300) -> str:
    """Read something that takes its time."""
    runs.append(key)
    await asyncio.sleep(ms / 1000)
    return f"{key} found"


@tool
async def send(key: str, ms: int = 300) -> str:
    """Do something that takes its time."""
    runs.append(key)
    await asyncio.sleep(ms / 1000)
    return f"{key} sent"
