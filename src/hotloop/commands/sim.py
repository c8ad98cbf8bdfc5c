"""`hotloop sim`: a simulated model service."""

from __future__ import annotations

import asyncio
import gc
import signal
from contextlib import suppress
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter, validators

from hotloop.commands.console import messages
from hotloop.commands.launch import TO_REPORT, run_async
from hotloop.commands.options import Duration
from hotloop.lab.auto import auto
from hotloop.lab.emit import Stats
from hotloop.lab.script import load_script
from hotloop.lab.sim import SimulatedService
from hotloop.units import show_ms


def sim(
    *,
    ttft: Duration = 0.05,
    tpot: Duration = 0.02,
    port: Annotated[int, Parameter(validator=validators.Number(gte=0, lte=65535))] = 0,
    host: str = "127.0.0.1",
    script: Path | None = None,
) -> int:
    """Serve a simulated, OpenAI-compatible model until Ctrl-C.

    It calls the tools that it is offered and restates their answers, or it says what a script tells it.

    Example: hotloop sim --ttft 60ms --tpot 20ms --port 8000

    Parameters
    ----------
    ttft
        Time to the first token, like 60ms or 0.2s.
    tpot
        Time between tokens.
    port
        0 takes a free one.
    host
        Address to listen on.
    script
        YAML or JSON file of replies: a list of texts, or of mappings with text, calls and usage.
    """
    replies = auto if script is None else load_script(script)
    service = SimulatedService(replies, ttft=ttft, tpot=tpot, host=host, port=port)
    stats = run_async(_serve(service), TO_REPORT)
    messages().print(_served(stats))
    return 0


async def _serve(service: SimulatedService) -> Stats:
    async with service:
        gc.collect()
        gc.freeze()  # a collection that walks everything imported would hold the tokens up by 20 ms
        _announce(service.url)
        await _stopped()
    return service.stats


async def _stopped() -> None:
    """Wait for Ctrl-C, or for the signal that `kill` sends: this is how a service ends."""
    task = asyncio.current_task()
    assert task is not None
    with suppress(NotImplementedError):  # Windows has no such signal
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    with suppress(asyncio.CancelledError):
        await asyncio.Event().wait()


def _announce(url: str) -> None:
    print(url, flush=True)
    messages().print(_EXAMPLES.format(url=url), markup=False, soft_wrap=True)


_EXAMPLES = """
A simulated model listens there; Ctrl-C stops it. Try, in another terminal:

  hotloop probe {url} --model simulated

  curl -N {url}/chat/completions -H 'content-type: application/json' \\
    -d '{{"model": "simulated", "stream": true, "messages": [{{"role": "user", "content": "Hello"}}]}}'
"""


def _served(stats: Stats) -> str:
    lost = f" · {stats.abandoned:,} left by the client" if stats.abandoned else ""
    late = f" · {stats.late_tokens:,} tokens late, by at most {show_ms(stats.late_ms)}" if stats.late_tokens else ""
    return f"requests served: {stats.requests:,} · tokens: {stats.tokens:,}{lost}{late}"
