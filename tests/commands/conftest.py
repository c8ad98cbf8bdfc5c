"""Running commands in the test's process, against simulated services in a thread of their own."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from hotloop.cli import main
from hotloop.testing import SimulatedService

TOOLS = '''
from hotloop import report

def order_status(order_id: str) -> dict:
    """Status of an order."""
    print("noise on stdout")
    report("asking the warehouse")
    return {"status": "已发货"}
'''


class Ended(NamedTuple):
    """How a command ended: exit code and what it wrote."""

    code: int
    out: str
    err: str


Command = Callable[..., Ended]
Serve = Callable[..., str]


@pytest.fixture
def hotloop(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """Run `hotloop` with these arguments, as in a pipe that is 80 columns wide."""
    monkeypatch.setenv("COLUMNS", "80")
    for variable in ("FORCE_COLOR", "HOTLOOP_API_KEY"):
        monkeypatch.delenv(variable, raising=False)

    def command(*arguments: object) -> Ended:
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        return Ended(code, *capsys.readouterr())

    return command


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Start a simulated service; its URL. Arguments are those of SimulatedService."""
    with ExitStack() as services:
        yield lambda *replies, **options: services.enter_context(_served(*replies, **options))


@pytest.fixture
def agent_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Write an agent's file for the service at `url`, with one order tool; `extra` is more YAML."""
    (tmp_path / "cli_order_tools.py").write_text(TOOLS, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "cli_order_tools", raising=False)  # another test's

    def write(url: str, extra: str = "", inference: str = "") -> Path:
        path = tmp_path / "agent.yaml"
        service = f'inference: {{endpoint: "{url}", model: simulated, retries: 0{inference}}}'
        path.write_text(f'name: orders\n{service}\ntools: {{use: ["cli_order_tools:order_status"]}}\n{extra}\n')
        return path

    return write


@contextmanager
def _served(*replies: Any, **options: Any) -> Iterator[str]:
    ready = threading.Event()
    stop: list[Callable[[], object]] = []
    url: list[str] = []

    async def serving() -> None:
        async with SimulatedService(*replies, **options) as service:
            over = asyncio.Event()
            loop = asyncio.get_running_loop()
            stop.append(lambda: loop.call_soon_threadsafe(over.set))
            url.append(service.url)
            ready.set()
            await over.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serving()))
    thread.start()
    assert ready.wait(10)
    try:
        yield url[0]
    finally:
        stop[0]()
        thread.join()
