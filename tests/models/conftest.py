"""Tests in modules that set EVERY_LOOP run on asyncio's event loop and on uvloop's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
import uvloop


@pytest.hookimpl(optionalhook=True)
def pytest_asyncio_loop_factories(item: Any) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    factories = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
    return factories if getattr(item.module, "EVERY_LOOP", False) else {"asyncio": asyncio.new_event_loop}
