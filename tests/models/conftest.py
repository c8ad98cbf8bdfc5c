"""Tests in modules that set EVERY_LOOP run on asyncio's event loop and on uvloop's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import uvloop
from loopback import eventually, sockets


@pytest.hookimpl(optionalhook=True)
def pytest_asyncio_loop_factories(item: Any) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    factories = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
    return factories if getattr(item.module, "EVERY_LOOP", False) else {"asyncio": asyncio.new_event_loop}


@pytest.fixture
def direct(monkeypatch: pytest.MonkeyPatch) -> None:
    """No proxy between the test and its services."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy", "request_method"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture
async def nothing_left() -> AsyncIterator[None]:
    """The test closes its transports; then no task, socket or timer of theirs may be left."""
    before, tasks = sockets(), asyncio.all_tasks()
    yield
    await eventually(lambda: asyncio.all_tasks() - tasks <= {asyncio.current_task()})
    await eventually(lambda: len(sockets()) <= len(before))
