"""Faults are done as they are written down: to a transport at exact times, and by a proxy on real sockets."""

import asyncio
import itertools

import pytest

from hotloop.errors import ConnectError, TransportError
from hotloop.lab.faultproxy import FaultProxy
from hotloop.lab.faults import (
    ALL_KINDS,
    Answer,
    Corrupt,
    Cut,
    Fault,
    FaultyTransport,
    Late,
    Refuse,
    Stall,
    mixed_faults,
)
from hotloop.models.http.transport import HttpTransport
from hotloop.testing import ScriptedModel, raw, run_virtual, say

BODY = b'{"messages":[{"role":"user","content":"go"}],"stream":true}'
PIECES = (b"0123456789", b"abcdefghij", b"end")


class Took:
    """A receiver that notes what came and when, in seconds."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._start = self._loop.time()
        self.events: list[tuple] = []

    def note(self, *what) -> None:
        self.events.append((round(self._loop.time() - self._start, 6), *what))

    def sent(self, connected, throttle) -> None:
        self.note("sent")

    def head(self, status, headers) -> None:
        self.note(status)

    def data(self, chunk: bytes) -> bool:
        self.note(bytes(chunk))
        return chunk.endswith(b"end")

    @property
    def body(self) -> bytes:
        return b"".join(each[1] for each in self.events if isinstance(each[1], bytes))


def met(fault: Fault | None, seconds: float = 60.0) -> tuple[list, str]:
    """What a request to a service that answers in three pieces a second apart meets, and how it ended."""

    async def main():
        took = Took()
        transport = FaultyTransport(ScriptedModel([raw(*PIECES)], ttft=1.0, tpot=1.0), [fault])
        try:
            async with asyncio.timeout(seconds):
                await transport.send(BODY, took)
            ended = "ended"
        except (ConnectError, TransportError, TimeoutError) as error:
            ended = type(error).__name__
        took.note(ended)
        await asyncio.sleep(60)  # nothing comes once it has ended
        return took.events

    return run_virtual(main())


WHOLE = [(0, "sent"), (1, 200), (1, b"0123456789"), (2, b"abcdefghij"), (3, b"end"), (3, "ended")]


@pytest.mark.parametrize(
    ("fault", "events"),
    [
        (None, WHOLE),
        (Refuse(), [(0, "ConnectError")]),
        (Late(5.0), [(0, "sent"), *((at + 5, what) for at, what in WHOLE[1:])]),
        (Cut(None), [(0, "sent"), (0, "TransportError")]),
        (Cut(0), [(0, "sent"), (1, 200), (1, "TransportError")]),
        (Cut(15), [*WHOLE[:3], (2, b"abcde"), (2, "TransportError")]),
        (Cut(23), WHOLE),  # after its end
        (Stall(10, 0.25), [*WHOLE[:3], (2.25, b"abcdefghij"), *WHOLE[4:]]),
        (Stall(15, 5.0), [*WHOLE[:3], (2, b"abcde"), (7, b"fghijend"), (7, "ended")]),
        (Stall(12), [*WHOLE[:3], (2, b"ab"), (60, "TimeoutError")]),
        (Corrupt(9, 2), [*WHOLE[:2], (1, b"012345678\xb9"), (2, b"\xe1bcdefghij"), *WHOLE[4:]]),
    ],
)
def test_each_fault_at_its_time(fault: Fault | None, events: list) -> None:
    assert met(fault) == events


def test_an_error_instead_of_a_reply() -> None:
    events = met(Answer(429, retry_after=0.5))
    assert [each[:2] for each in events[:2]] == [(0, "sent"), (0, 429)]
    assert b'"message":"This is a fault' in events[2][1]
    assert Answer(429, 0.5).headers[-1] == (b"retry-after", b"0.5")
    assert len(Answer(429).headers) == 1


def test_a_reply_that_is_given_up_in_a_silence_stays_silent() -> None:
    assert met(Stall(12, 30.0), seconds=5.0)[-1] == (5, "TimeoutError")


def test_requests_meet_faults_in_their_order_and_then_none() -> None:
    async def main():
        transport = FaultyTransport(ScriptedModel(lambda _: say("hi")), [None, Cut(None)])
        for _ in range(3):
            try:
                await transport.send(BODY, Took())
            except TransportError:
                assert len(transport.met) == 2
        return transport.met

    assert run_virtual(main()) == [None, Cut(None), None]


def test_mixed_faults_are_a_share_of_all_kinds_and_the_same_for_a_seed() -> None:
    faults = list(itertools.islice(mixed_faults(0.2, seed=3), 5_000))
    assert sum(each is not None for each in faults) == pytest.approx(1_000, abs=100)
    assert set(faults) == {None, *ALL_KINDS}
    assert faults == list(itertools.islice(mixed_faults(0.2, seed=3), 5_000))
    assert faults != list(itertools.islice(mixed_faults(0.2, seed=4), 5_000))


WIRE = b"a\r\n0123456789\r\na\r\nabcdefghij\r\n3\r\nend\r\n0\r\n\r\n"  # the body of every reply, in chunks
HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


class Origin(asyncio.Protocol):
    """A service that answers every request with the same reply; `gone` when its connections are closed."""

    def __init__(self, gone: list[asyncio.Future[None]]) -> None:
        self._gone = asyncio.get_running_loop().create_future()
        gone.append(self._gone)

    def connection_made(self, transport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if data.endswith(BODY):
            self._transport.write(HEAD + WIRE)

    def connection_lost(self, error: Exception | None) -> None:
        self._gone.set_result(None)


async def through_proxy(*faults: Fault | None, requests: int = 1, seconds: float = 5.0) -> tuple[list[Took], list]:
    """What came of requests to a real service behind the proxy, one after the other, and what the proxy did."""
    gone: list[asyncio.Future[None]] = []
    server = await asyncio.get_running_loop().create_server(lambda: Origin(gone), "127.0.0.1", 0)
    async with server, FaultProxy(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", faults) as proxy:
        transport = HttpTransport(proxy.url)
        all_took = []
        for _ in range(requests):
            all_took.append(took := Took())
            try:
                async with asyncio.timeout(seconds):
                    await transport.send(BODY, took)
                took.note("ended")
            except (TransportError, TimeoutError) as error:
                took.note(type(error).__name__)
        await transport.aclose()
    await asyncio.gather(*gone)  # the proxy has left nothing open
    return all_took, proxy.met


@pytest.mark.parametrize(
    ("fault", "body", "end"),
    [
        (None, b"".join(PIECES), "ended"),
        (Refuse(), b"", "TransportError"),
        (Cut(None), b"", "TransportError"),
        (Cut(0), b"", "TransportError"),
        (Cut(WIRE.index(b"c")), b"0123456789ab", "TransportError"),
        (Stall(WIRE.index(b"c"), 0.05), b"".join(PIECES), "ended"),
        (Corrupt(WIRE.index(b"c")), b"0123456789ab\xe3defghijend", "ended"),
        (Corrupt(0), b"", "TransportError"),  # the size of a chunk
    ],
)
async def test_the_proxy_does_it_to_real_sockets(fault: Fault | None, body: bytes, end: str) -> None:
    (took,), done = await through_proxy(fault)
    assert (took.body, took.events[-1][1], done) == (body, end, [fault])


async def test_the_proxy_keeps_connections_and_answers_for_the_service() -> None:
    took, done = await through_proxy(None, Answer(503, retry_after=2.0), None, requests=3)
    assert [each.events[1][1] for each in took] == [200, 503, 200]
    assert len(done) == 3


async def test_the_proxy_is_silent_for_as_long_as_it_is_told() -> None:
    (took,), _ = await through_proxy(Stall(10, 0.2))
    assert 0.2 <= took.events[-1][0] < 2.0
    (took,), _ = await through_proxy(Stall(10), seconds=0.2)
    assert took.events[-1][1] == "TimeoutError"
    (took,), _ = await through_proxy(Late(0.2))
    assert took.events[1][0] >= 0.2
