"""`hotloop sim`: a simulated model service."""

from __future__ import annotations

import asyncio
import gc
import signal
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Annotated

from cyclopts import Parameter, validators
from cyclopts.types import NonNegativeInt

from hotloop.commands.console import messages
from hotloop.commands.launch import TO_REPORT, run_async
from hotloop.commands.options import Count, Duration, Flag, Json
from hotloop.commands.simlist import show_list
from hotloop.errors import ConfigError
from hotloop.lab.auto import auto
from hotloop.lab.profiles import Profile
from hotloop.lab.script import load_script
from hotloop.lab.service.emit import Stats
from hotloop.lab.sim import SimulatedService
from hotloop.units import show_ms

_TTFT, _TPOT = 0.05, 0.02  # seconds, of a service without a profile


def sim(
    profile: Annotated[str | None, Parameter(show_default=False)] = None,
    /,
    *,
    ttft: Annotated[Duration | None, Parameter(show_default=False)] = None,
    tpot: Annotated[Duration | None, Parameter(show_default=False)] = None,
    port: Annotated[int, Parameter(validator=validators.Number(gte=0, lte=65535))] = 0,
    host: str = "127.0.0.1",
    script: Path | None = None,
    seed: NonNegativeInt = 0,
    faults: str | None = None,
    rpm: Count | None = None,
    tpm: Count | None = None,
    context_limit: Count | None = None,
    list_: Annotated[Flag, Parameter(name="--list")] = False,
    json: Json = False,
) -> int:
    """Serve a simulated, OpenAI-compatible model until Ctrl-C.

    It calls the tools that it is offered and restates their answers, or it says what a script tells it.

    Example: hotloop sim gpu-h100-llama8b --port 8000 --faults "429:2%,cut:1%,slow*20:3%"

    Parameters
    ----------
    profile
        What the service is like in time: a name of --list, or a YAML file. Without one, --ttft and --tpot tell.
    ttft
        Time to the first token, like 60ms or 0.2s; 50ms if nothing else is said.
    tpot
        Time between tokens; 20ms if nothing else is said.
    port
        0 takes a free one.
    host
        Address to listen on.
    script
        YAML or JSON file of replies: a list of texts, or of mappings with text, calls and usage.
    seed
        Decides all that is left to chance.
    faults
        What goes wrong, and in which share of the requests; --list has all of them.
    rpm
        Requests that are taken within a minute; those beyond get status 429.
    tpm
        Tokens within a minute.
    context_limit
        Tokens of the context: a longer prompt gets status 400. Without it the profile's, if it has one.
    list_
        Show the profiles and faults that there are, and serve nothing.
    json
        With --list: print them as one JSON object.
    """
    if list_:
        show_list(json)
        return 0
    if faults is not None and not faults.strip():
        raise ConfigError("--faults names none; fill it in, like cut:1%, or leave it out.")
    replies = auto if script is None else load_script(script)
    if profile is None:
        ttft, tpot = _TTFT if ttft is None else ttft, _TPOT if tpot is None else tpot
    service = SimulatedService(
        replies,
        profile=profile,
        ttft=ttft or 0.0,
        tpot=tpot or 0.0,
        seed=seed,
        faults=faults or "",
        rpm=rpm,
        tpm=tpm,
        context_limit=context_limit,
        host=host,
        port=port,
    )
    signal.signal(signal.SIGINT, _ending_once())
    with suppress(KeyboardInterrupt):
        run_async(_serve(service), TO_REPORT)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # running it has put the handler back
    messages().print(_served(service.stats))
    return 0


async def _serve(service: SimulatedService) -> None:
    async with service:
        gc.collect()
        gc.freeze()  # a collection that walks everything imported would hold the tokens up by 20 ms
        _announce(service.url, service.profile)
        await _stopped()


async def _stopped() -> None:
    """Wait for Ctrl-C, or for the signal that `kill` sends: this is how a service ends."""
    task = asyncio.current_task()
    assert task is not None
    with suppress(NotImplementedError):  # Windows has no such signal
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    with suppress(asyncio.CancelledError):
        await asyncio.Event().wait()


def _ending_once() -> Callable[[int, FrameType | None], None]:
    """What the first Ctrl-C does, to which those that follow add nothing."""
    before = count()

    def interrupted(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if not next(before):
            raise KeyboardInterrupt

    return interrupted


def _announce(url: str, profile: Profile) -> None:
    print(url, flush=True)
    if profile.source:
        about = f"\n{profile.name}: {profile.source}. Confidence: {profile.confidence or 'not said'}."
        messages().print(about, markup=False, soft_wrap=True)
    messages().print(_EXAMPLES.format(url=url), markup=False, soft_wrap=True)


_EXAMPLES = """
A simulated model listens there; Ctrl-C stops it. Try, in another terminal:

  hotloop probe {url} --model simulated

  curl -N {url}/chat/completions -H 'content-type: application/json' \\
    -d '{{"model": "simulated", "stream": true, "messages": [{{"role": "user", "content": "Hello"}}]}}'
"""


def _served(stats: Stats) -> str:
    lost = f" · {stats.abandoned:,} left by the client" if stats.abandoned else ""
    served = f"requests served: {stats.requests:,} · tokens: {stats.tokens:,}{lost}"
    if not stats.tokens:
        return served
    late = f" · {stats.late_tokens:,} tokens late" if stats.late_tokens else ""
    p99, worst = show_ms(stats.late_p99_ms), show_ms(stats.late_ms)
    return f"writes behind time: p99 {p99}, at most {worst}\n{served}{late}"
