"""What parts of a run cost by themselves, each against the plain way to do it; no service, no network.

python benchmarks/micro.py
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import service
from contestants import floor
from experiments import ledger_stage
from figures import Row, compare, table
from platforms import CLIENT_CPU, loop_factory, pin

from hotloop.limit import Limit
from hotloop.models.wire.chatstream import ChatStream

ROUNDS, TIMES, TOKENS = 50, 200, 1000


async def time_limit() -> Row:
    """A time limit around nothing."""
    loop = asyncio.get_running_loop()

    async def ours() -> None:
        for _ in range(TIMES):
            with Limit(30.0, loop):
                pass

    async def plain() -> None:
        for _ in range(TIMES):
            async with asyncio.timeout(30.0):  # noqa: ASYNC100  the limit itself is what is measured
                pass

    return await _row("time limit", ours, "asyncio.timeout", plain, TIMES)


async def token() -> Row:
    """One token of text, its bytes in a read of their own."""
    chunks = service.reply(f"T{TOKENS}", 0, False)
    reads = [chunk[chunk.rindex(b"data: {") : chunk.rindex(b"}") + 1] + b"\n\n" for chunk in chunks]

    async def ours() -> None:
        stream = ChatStream()
        for read in reads:
            stream.feed(read)

    async def plain() -> None:
        connection = floor.Connection()
        connection.rest, connection.text, connection.on_text = b"", [], lambda _: None
        for read in reads:
            connection.on_body(read)

    return await _row("one token", ours, "floor", plain, TOKENS)


async def _row(
    name: str, ours: Callable[[], Awaitable[None]], against: str, plain: Callable[[], Awaitable[None]], things: int
) -> Row:
    """One row from rounds in which each does so many things."""
    rounds = [(await _us(ours, things), await _us(plain, things)) for _ in range(ROUNDS)]
    figures, others = zip(*rounds, strict=True)
    return compare(name, "µs", figures, against, others)


async def _us(function: Callable[[], Awaitable[None]], things: int) -> float:
    started = time.perf_counter()
    await function()
    return (time.perf_counter() - started) / things * 1e6


async def main() -> None:
    """Measure and print."""
    pin(CLIENT_CPU)
    rows = [await time_limit(), await token(), ledger_stage()]
    print(table(["", "hotloop", "other", "", "ratio", "95 % interval", "bound", "", ""], rows))


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(main())
