from __future__ import annotations

import asyncio
import signal
import sys

import pytest

from hotloop.commands.launch import run_async


async def _loop_name() -> str:
    return type(asyncio.get_running_loop()).__module__


def test_result_and_errors_come_back():
    async def fail() -> None:
        raise ValueError("told")

    assert run_async(asyncio.sleep(0, "done")) == "done"
    with pytest.raises(ValueError, match="told"):
        run_async(fail())


def test_uvloop_where_it_is_installed(monkeypatch):
    pytest.importorskip("uvloop")
    assert run_async(_loop_name()) == "uvloop"
    monkeypatch.setitem(sys.modules, "uvloop", None)
    assert run_async(_loop_name()).startswith("asyncio")


def test_signal_handler_is_put_back():
    before = signal.getsignal(signal.SIGINT)
    run_async(asyncio.sleep(0))
    assert signal.getsignal(signal.SIGINT) is before
