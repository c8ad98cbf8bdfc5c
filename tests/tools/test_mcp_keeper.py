"""A server's process ends with hotloop, however hotloop ends, and not before; with real processes and signals."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hotloop.errors import ToolUnavailable
from hotloop.tools.mcp import MCPServer
from mcp_servers.raw import command as raw

pytestmark = pytest.mark.skipif(os.name != "posix", reason="on Windows the SDK's job object does it")

HOTLOOP = [sys.executable, "-c", "import sys; from hotloop.cli import main; sys.exit(main())"]
STUBBORN = """
import os, pathlib, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.fork()
pathlib.Path(sys.argv[1], str(os.getpid())).touch()
time.sleep(1000)
"""
THREADED = """
import os, pathlib, runpy, sys, threading, time
pathlib.Path(sys.argv.pop(1), str(os.getpid())).touch()
threading.Thread(target=time.sleep, args=(1000,)).start()
runpy.run_path(sys.argv.pop(1), run_name="__main__")
"""
PROGRAM = """
import asyncio, os, pathlib, sys, time
from hotloop.commands.launch import run_async
from hotloop.tools.mcp import MCPServer

async def main():
    server = MCPServer(sys.argv[1:], name="raw")
    pid = await (await server.tools())[0]()
    if forks and os.fork() == 0:
        pathlib.Path(sys.argv[3], str(os.getpid())).touch()
        time.sleep(1000)
    print(pid, flush=True)
    await asyncio.sleep(1000)

forks = False
run_async(main())
"""


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOTLOOP_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def begun(tmp_path: Path) -> Iterator[Path]:
    """A folder in which servers leave their numbers; none of them outlives the test."""
    folder = tmp_path / "begun"
    folder.mkdir()
    yield folder
    for file in folder.iterdir():
        if runs(int(file.name)):
            os.kill(int(file.name), signal.SIGKILL)


def runs(pid: int) -> bool:
    """Whether it does more than wait to be buried."""
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True).stdout
    return bool(state.strip()) and not state.startswith("Z")


def numbers(folder: Path, count: int) -> list[int]:
    """The numbers that so many servers left."""
    until = time.monotonic() + 20
    while len(found := [int(file.name) for file in folder.iterdir()]) < count:
        assert time.monotonic() < until
        time.sleep(0.01)
    return found


def ends_with(hotloop: subprocess.Popen[str], by: signal.Signals, pids: list[int]) -> bool:
    """Whether they have ended soon after hotloop got this signal."""
    assert all(map(runs, pids))
    until = time.monotonic() + 5
    hotloop.send_signal(by)
    while any(map(runs, pids)) and time.monotonic() < until:
        time.sleep(0.02)
    return not any(map(runs, pids))


SIGNALS = pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])


@SIGNALS
def test_a_server_that_never_answers_ends_with_a_run(by, begun, tmp_path):
    (tmp_path / "server.py").write_text(STUBBORN)
    config = tmp_path / "agent.yaml"
    config.write_text(
        "inference: {endpoint: 'http://127.0.0.1:9/v1', model: any}\n"
        f"tools: {{mcp: [{{name: c, command: [{sys.executable}, {tmp_path / 'server.py'}, {begun}]}}]}}\n"
    )
    with subprocess.Popen([*HOTLOOP, "run", config, "Hi"], stderr=subprocess.DEVNULL, text=True) as hotloop:
        assert ends_with(hotloop, by, numbers(begun, 2))


@contextmanager
def connected(program: str, begun: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A process of hotloop's and the number of a server, with a thread of its own, that it is connected with."""
    script = begun.with_name("server.py")
    script.write_text(THREADED)
    command = [sys.executable, str(script), str(begun), *raw("pid")[2:]]
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    with subprocess.Popen([sys.executable, "-c", program, *command], **options) as hotloop:
        yield hotloop, int(hotloop.stdout.readline())


@SIGNALS
def test_a_connected_server_with_a_thread_ends_with_hotloop(by, begun):
    with connected(PROGRAM, begun) as (hotloop, server):
        assert ends_with(hotloop, by, [server])


def test_a_process_that_was_forked_from_hotloop_does_not_keep_a_server(begun):
    with connected(PROGRAM.replace("forks = False", "forks = True"), begun) as (hotloop, server):
        (fork,) = {*numbers(begun, 2)} - {server}
        assert ends_with(hotloop, signal.SIGKILL, [server])
        assert runs(fork)
        os.kill(fork, signal.SIGKILL)


def test_a_server_outlives_the_thread_that_started_it():
    server = MCPServer(raw("pid"), name="raw")
    with asyncio.Runner() as runner:
        loop, seen = runner.get_loop(), list[str]()

        async def pid() -> str:
            return await (await server.tools())[0]()

        thread = threading.Thread(target=lambda: seen.append(loop.run_until_complete(pid())))
        thread.start()
        thread.join()
        time.sleep(0.1)
        assert [runner.run(pid())] == seen
        runner.run(server.aclose())


@pytest.mark.parametrize(
    ("hangs", "words"), [("initialize", "did not answer within 1 s"), ("tools/list", "did not list its tools: not in")]
)
async def test_a_server_that_does_not_answer_in_time_is_ended_soon(hangs, words):
    server = MCPServer(raw("pid", hangs=hangs), name="c", timeout=1)
    begin = time.perf_counter()
    with pytest.raises(ToolUnavailable, match=words):
        await server.tools()
    await server.aclose()
    assert time.perf_counter() - begin < 4.5  # seconds; a polite end may take five


async def test_a_script_without_its_interpreter_says_so(tmp_path):
    script = tmp_path / "script"
    script.write_text(f"#!{tmp_path}/nothing\n")
    script.chmod(0o755)
    server = MCPServer([str(script)], name="c")
    with pytest.raises(ToolUnavailable, match=f"It wrote: {script}: No such file or directory"):
        await server.tools()
    await server.aclose()
