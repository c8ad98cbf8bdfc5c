"""The first prompt of a declared agent, as it is made here, and as fresh processes make it on another day."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from hotloop.agent import Agent
from hotloop.config.arguments import agent_arguments
from hotloop.config.spec import AgentSpec, load_spec
from hotloop.errors import ConfigError, ModelError, RunError
from hotloop.lab.othertime import set_ahead
from hotloop.lab.scripted import ScriptedModel
from hotloop.models.model import Model
from hotloop.models.routing.router import Router
from hotloop.tools.defining.tool import Tool

_PROMPT = "Hello"
_PROCESSES = 4  # a set of two shows its order in all but one of 16 times
_EAST, _WEST = "XXX-14", "XXX+12"  # 26 hours apart, so that also a date is another
_AHEAD = 40 * 86400 + 3723  # seconds
_PATIENCE = 120  # seconds
_UNSEEN = {"traces": False, "exporters": (), "prefetch": None, "answers": None, "audit": None}


class FirstPrompt(msgspec.Struct):
    """The body that an agent's first request has, and its tools, those of servers included."""

    body: bytes
    tools: list[Tool]


async def first_prompt(arguments: dict[str, Any]) -> FirstPrompt:
    """The prompt of an agent with these arguments; its servers of tools are asked, its model is not.

    What is said last in each request, and differs, is left out. The run is recorded nowhere and told to nobody, and
    nothing is learned from it. Raises HotloopError.
    """
    model, scripted = usual_model(arguments["model"]), ScriptedModel(lambda _: "Hello.")
    asked = msgspec.structs.replace(model, endpoint=scripted, dialect=model.spoken.name)
    context = msgspec.structs.replace(arguments["context"], volatile=None)
    async with Agent(**arguments | _UNSEEN | {"model": asked, "fallback": [], "context": context}) as agent:
        try:
            await agent.run(_PROMPT)
        except (ModelError, RunError):
            if not scripted.bodies:
                raise
        return FirstPrompt(scripted.bodies[0], agent.tools)


def usual_model(model: Model | Router) -> Model:
    """The model itself, or a router's usual one."""
    return model.models[model.default] if isinstance(model, Router) else model


def fresh_prompts(path: Path) -> list[bytes]:
    """The same prompt from several fresh processes, each with another hash seed, time zone and time.

    Raises ConfigError if one of them cannot make it.
    """
    with tempfile.TemporaryDirectory(prefix="hotloop-") as folder:
        outs = [Path(folder) / f"{number}.json" for number in range(_PROCESSES)]
        started = [_start(path, out, number) for number, out in enumerate(outs)]
        try:
            for process in started:
                _finish(process)
        finally:
            for process in started:
                process.kill()
                process.communicate()  # closes its pipe, too
        return [out.read_bytes() for out in outs]


def _start(path: Path, out: Path, number: int) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONHASHSEED": str(number), "TZ": _EAST if number % 2 else _WEST}
    command = [sys.executable, "-m", __name__, str(path), str(out), str(number * _AHEAD)]
    return subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    )


def _finish(process: subprocess.Popen[str]) -> None:
    try:
        _, told = process.communicate(timeout=_PATIENCE)
    except subprocess.TimeoutExpired:
        raise ConfigError(f"A fresh process has not made the agent's first prompt within {_PATIENCE} s.") from None
    if process.returncode:
        last = next(reversed(told.strip().splitlines()), "it said nothing")
        raise ConfigError(f"A fresh process could not make the agent's first prompt: {last}")


def _main(config: str, out: str, ahead: str) -> None:
    set_ahead(float(ahead))
    spec: AgentSpec = load_spec(config)
    Path(out).write_bytes(asyncio.run(first_prompt(agent_arguments(spec))).body)


if __name__ == "__main__":
    _main(*sys.argv[1:])
