"""Event loops come and go: connections belong to one, close with it, and leave no warning."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap
import threading

import pytest
import uvloop
from loopback import Got, answer, service, sockets

from hotloop.models.http.transport import HttpTransport


class Elsewhere:
    """A service in a thread and loop of its own, so that it outlives the loops of a test."""

    def __init__(self, handle=answer):
        self._handle = handle

    def __enter__(self):
        self._ready, self._loop = threading.Event(), asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        assert self._ready.wait(5)
        return self.served

    def __exit__(self, *_):
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(5)
        assert not self._thread.is_alive()

    def _run(self):
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self):
        self._stop = asyncio.Event()
        async with service(self._handle) as self.served:
            self._ready.set()
            await self._stop.wait()


@pytest.fixture(autouse=True)
def direct(monkeypatch):
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


async def send(transport, body=b"hi"):
    got = Got()
    await transport.send(body, got)
    assert got.body == body
    return got.connected


@pytest.mark.parametrize("factory", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_one_loop_after_the_other(factory):
    with Elsewhere() as served:
        before = sockets()
        transport = HttpTransport(served.url)
        for _ in range(3):
            with asyncio.Runner(loop_factory=factory) as runner:
                assert runner.run(send(transport)) == [True]
                assert runner.run(send(transport)) == [False]
        assert len(sockets()) <= len(before) + 3  # the service may not have noticed yet
        assert len(served.peers) == 3
        assert len(transport._pools) == 1


def test_two_loops_in_turn():
    """As when run_sync keeps a loop of its own and asyncio.run makes another."""
    with Elsewhere() as served:
        transport = HttpTransport(served.url)
        with asyncio.Runner() as lasting:
            assert lasting.run(send(transport)) == [True]
            for _ in range(3):
                with asyncio.Runner() as passing:
                    assert passing.run(send(transport)) == [True]
                assert lasting.run(send(transport)) == [False]
    assert len(served.peers) == 4


def test_loops_in_many_threads_at_once():
    failures = []

    def work():
        async def several():
            for _ in range(20):
                await asyncio.gather(*(send(transport, b"%d" % number) for number in range(3)))

        try:
            asyncio.run(several())
        except BaseException as fault:
            failures.append(fault)

    with Elsewhere() as served:
        transport = HttpTransport(served.url)
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    assert not failures
    assert len(served.peers) <= 4 * 3


ENDINGS = {
    "idle": "await exchange()",
    "two idle": "await asyncio.gather(exchange(), exchange())",
    "warm": "await transport.warm(2)",
    "closed": "await exchange(); await transport.aclose()",
    "in use": "asyncio.create_task(exchange(b'slow')); await asyncio.sleep(0.1)",
    "lingering": "await exchange(b'lingering')",
    "cancelled": "task = asyncio.create_task(exchange(b'slow')); await asyncio.sleep(0.1); task.cancel()",
    "failed": "await exchange(b'cut')",
    "forgotten": "await exchange(); globals().pop('transport')",
}

PROGRAM = """
import asyncio, gc, logging
logging.getLogger("asyncio").setLevel(logging.ERROR)  # a slow machine is no fault
from loopback import Got, chunked, reply
from test_http_loops import Elsewhere
from hotloop.errors import TransportError
from hotloop.models.http.transport import HttpTransport
{policy}

async def handle(peer):
    while True:
        body = (await peer.request()).body
        if body == b"slow":
            await peer.is_closed()
        if body == b"cut":
            return
        await peer.send(chunked(b"done", end=False) if body == b"lingering" else reply(body))

async def exchange(body=b"done"):
    try:
        await transport.send(body, Got(until=b"done"))
    except TransportError:
        assert body in (b"cut", b"slow")

async def main(url):
    global transport
    transport = HttpTransport(url)
    {ending}

with Elsewhere(handle) as served:
    for _ in range(2):
        {run}(main(served.url))
    gc.collect()
"""


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.parametrize("ending", ENDINGS.values(), ids=ENDINGS.keys())
def test_a_loop_that_ends_without_closing_leaves_no_warning(ending, loop):
    program = textwrap.dedent(PROGRAM).format(
        ending=ending, run=f"{loop}.run", policy="import uvloop" if loop == "uvloop" else ""
    )
    command = [sys.executable, "-X", "dev", "-W", "error", "-c", program]
    environment = {"PYTHONPATH": ":".join(sys.path), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, env=environment)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
