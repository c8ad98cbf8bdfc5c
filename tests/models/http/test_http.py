"""HTTP over real sockets on loopback: what goes over the wire, over which connection, and what is left afterwards."""

from __future__ import annotations

import asyncio
import hashlib

import pytest
from loopback import Got, answer, chunked, eventually, reply, service, sockets

from hotloop.errors import ConfigError, ConnectError, TransportError
from hotloop.models.http import connection as connection_module
from hotloop.models.http.transport import HttpTransport

EVERY_LOOP = True


pytestmark = pytest.mark.usefixtures("direct", "nothing_left")


async def send(transport, body=b"{}", **more):
    """One exchange, from request to end of reply."""
    got = Got(**more)
    await transport.send(body, got)
    return got


# What goes over the wire


async def test_a_request():
    async with service(answer) as served:
        transport = HttpTransport(served.url, {"authorization": "Bearer key", "x-extra": "ü"})
        got = await send(transport, b'{"a": 1}')
        await transport.aclose()
    [request] = served.requests
    assert request.line == "POST /v1/chat/completions HTTP/1.1"
    assert request.headers == {
        "host": f"localhost:{served.port}",
        "content-type": "application/json",
        "authorization": "Bearer key",
        "x-extra": "ü",
        "accept-encoding": "identity",
        "content-length": "8",
    }
    assert (got.status, got.body, got.connected) == (200, b'{"a": 1}', [True])
    assert (b"content-length", b"8") in got.headers


@pytest.mark.parametrize("size", [1, 7, 100_000])
@pytest.mark.parametrize(
    "message",
    [
        pytest.param(reply(b"hello world"), id="content-length"),
        pytest.param(chunked(b"hello", b" ", b"world"), id="chunked"),
        pytest.param(chunked(b"hello world", end=False) + b"0\r\nx-trailer: 1\r\n\r\n", id="chunked with a trailer"),
        pytest.param(chunked(b"hello world").replace(b"b\r\n", b"B;name=value\r\n"), id="chunk extensions"),
        pytest.param(b"HTTP/1.1 200 OK\r\n\r\nhello world", id="until the connection closes"),
        pytest.param(b"HTTP/1.0 200 OK\r\ncontent-length: 11\r\n\r\nhello world", id="HTTP/1.0"),
        pytest.param(b"HTTP/1.1 100 Continue\r\n\r\n" + reply(b"hello world"), id="after an interim reply"),
        pytest.param(
            b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" * 2 + reply(b"hello world"), id="after early hints"
        ),
        pytest.param(b"HTTP/1.1 200\r\ncontent-length: 11\r\n\r\nhello world", id="no reason"),
    ],
)
async def test_bodies(message, size):
    async def handle(peer):
        await peer.request()
        await peer.send(*(message[at : at + size] for at in range(0, len(message), size)))

    async with service(handle) as served:
        transport = HttpTransport(served.url)
        got = await send(transport)
        await transport.aclose()
    assert (got.status, got.body, got.heads) == (200, b"hello world", 1)
    assert (b"link", b"x") not in got.headers


@pytest.mark.parametrize("message", [reply(b""), chunked(), reply(b"", 204), b"HTTP/1.1 204 No\r\n\r\n"])
async def test_no_body(message):
    async def handle(peer):
        while True:
            await peer.request()
            await peer.send(message)

    async with service(handle) as served:
        transport = HttpTransport(served.url)
        assert [(await send(transport)).body for _ in range(3)] == [b"", b"", b""]
        await transport.aclose()
    assert len(served.peers) == 1


@pytest.mark.parametrize("status", [400, 404, 429, 500, 503])
async def test_statuses(status):
    async def handle(peer):
        while True:
            await peer.request()
            await peer.send(reply(b"no", status, "retry-after: 3"))

    async with service(handle) as served:
        transport = HttpTransport(served.url)
        got = await send(transport)
        await transport.aclose()
    assert (got.status, got.body) == (status, b"no")
    assert (b"retry-after", b"3") in got.headers


@pytest.mark.parametrize("form", ["unix:{}", "http+unix://{}/v1/chat/completions"])
async def test_unix_sockets(tmp_path, form):
    path = str(tmp_path / "model.sock")
    url = form.format(path if form.startswith("unix") else path.replace("/", "%2F"))
    async with service(answer, unix=path) as served:
        transport = HttpTransport(url)
        assert (await send(transport, b"hi")).body == b"hi"
        await transport.aclose()
    assert served.requests[0].line == "POST /v1/chat/completions HTTP/1.1"
    assert served.requests[0].headers["host"] == "localhost"
    with pytest.raises(ConnectError, match=r"model\.sock"):
        await HttpTransport(f"unix:{tmp_path}/no-model.sock").send(b"", Got())


# Which connection it goes over


async def test_a_connection_is_used_again():
    async with service(answer) as served:
        transport = HttpTransport(served.url)
        exchanges = [await send(transport, str(number).encode()) for number in range(5)]
        await transport.aclose()
    assert [got.body for got in exchanges] == [b"0", b"1", b"2", b"3", b"4"]
    assert [got.connected for got in exchanges] == [[True], [False], [False], [False], [False]]
    assert len(served.peers) == 1


@pytest.mark.parametrize(
    "last",
    [
        b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\n\r\nok",
    ],
)
async def test_a_connection_that_the_service_gives_up_is_not(last):
    async def handle(peer):
        await peer.request()
        await peer.send(last)
        if b"content-length" in last:
            await peer.is_closed()

    async with service(handle) as served:
        transport = HttpTransport(served.url)
        assert [(await send(transport)).connected for _ in range(3)] == [[True]] * 3
        await transport.aclose()
    assert len(served.peers) == 3


@pytest.mark.parametrize("noticed", [True, False])
@pytest.mark.parametrize("reset", [True, False])
async def test_a_connection_closed_while_idle_is_replaced(noticed, reset):
    async def handle(peer):
        await peer.send(reply((await peer.request()).body))
        if reset:
            peer.abort()

    async with service(handle) as served:
        transport = HttpTransport(served.url)
        for number in range(3):
            got = await send(transport, str(number).encode())
            assert got.body == str(number).encode()
            if noticed:
                await eventually(lambda: not transport._here()._live)
        await transport.aclose()
    assert len(served.peers) == 3


@pytest.mark.parametrize("reset", [True, False])
async def test_a_connection_closed_on_the_second_request_is_replaced_once(reset):
    """Servers close an idle connection just as the next request is on its way."""

    async def handle(peer):
        await peer.send(reply((await peer.request()).body))
        if peer is served.peers[0]:
            await peer.request()
            if reset:
                peer.abort()
        else:
            await answer(peer)

    async with service(handle) as served:
        transport = HttpTransport(served.url)
        await send(transport, b"one")
        got = await send(transport, b"two")
        await transport.aclose()
    assert (got.body, got.connected) == (b"two", [False, True])
    assert [request.body for request in served.requests] == [b"one", b"two", b"two"]


async def test_and_only_once():
    async def handle(peer):
        await peer.send(reply((await peer.request()).body))
        await peer.request()

    async def closing(peer):
        if len(served.peers) <= 2:
            await handle(peer)
        else:
            await peer.request()

    async with service(closing) as served:
        transport = HttpTransport(served.url)
        await asyncio.gather(send(transport, b"one"), send(transport, b"two"))
        assert len(served.peers) == 2
        with pytest.raises(TransportError):
            await send(transport, b"three")
        await transport.aclose()
    assert len(served.peers) == 3


@pytest.mark.parametrize(
    "some",
    [
        b"H",
        b"HTTP/1.1 200 OK\r\n",
        reply(b"hello")[:-1],
        chunked(b"hello", end=False),
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP",
    ],
)
@pytest.mark.parametrize("reset", [True, False])
@pytest.mark.parametrize("fresh", [True, False])
async def test_a_reply_that_is_cut_is_an_error_and_not_asked_for_again(some, reset, fresh):
    async def handle(peer):
        if not fresh:
            await peer.send(reply((await peer.request()).body))
        await peer.request()
        await peer.send(some)
        if reset:
            await eventually(lambda: bool(got.chunks) or b"hello" not in some)
            peer.abort()

    async with service(handle) as served:
        transport = HttpTransport(served.url)
        if not fresh:
            await send(transport)
        got = Got()
        with pytest.raises(TransportError, match="closed the connection"):
            await transport.send(b"{}", got)
        await transport.aclose()
    assert len(served.requests) == (1 if fresh else 2)


async def test_a_fresh_connection_that_is_closed_is_an_error():
    async def handle(peer):
        await peer.request()

    async with service(handle) as served:
        transport = HttpTransport(served.url)
        with pytest.raises(TransportError, match="localhost") as caught:
            await send(transport)
        await transport.aclose()
    assert caught.value.retryable
    assert len(served.requests) == 1


async def test_many_at_once():
    async def handle(peer):
        while True:
            body = (await peer.request()).body
            await peer.send(chunked(body, b"!", end=False), b"0\r\n\r\n")

    async with service(handle) as served:
        transport = HttpTransport(served.url)
        for _ in range(2):
            exchanges = await asyncio.gather(*(send(transport, str(number).encode()) for number in range(40)))
            assert [got.body for got in exchanges] == [f"{number}!".encode() for number in range(40)]
        await transport.aclose()
    assert len(served.peers) == 40


# The end of a reply and the end of its body


async def test_a_reply_may_be_complete_before_its_body_ends():
    async def handle(peer):
        await peer.request()
        await peer.send(chunked(b"done", end=False))
        await may_end.wait()
        await peer.send(b"4\r\nmore\r\n0\r\n\r\n")
        await answer(peer)

    may_end = asyncio.Event()
    async with service(handle) as served:
        transport = HttpTransport(served.url)
        got = await send(transport, until=b"done")
        assert got.body == b"done"
        may_end.set()
        await eventually(lambda: len(transport._here()._idle) == 1)
        assert (await send(transport, b"next")).connected == [False]
        assert got.body == b"done"
        await transport.aclose()
    assert len(served.peers) == 1


async def test_until_then_its_connection_is_taken():
    async def handle(peer):
        if peer is served.peers[0]:
            await peer.request()
            await peer.send(chunked(b"done", end=False))
            await peer.is_closed()
        else:
            await answer(peer)

    async with service(handle) as served:
        transport = HttpTransport(served.url)
        await send(transport, until=b"done")
        assert (await send(transport, b"next")).connected == [True]
        await transport.aclose()
    assert len(served.peers) == 2


async def test_a_body_that_does_not_end_is_given_up(monkeypatch):
    monkeypatch.setattr(connection_module, "_LINGER", 0.02)
    closed = asyncio.Event()

    async def handle(peer):
        await peer.request()
        await peer.send(chunked(b"done", end=False))
        await peer.is_closed()
        closed.set()

    async with service(handle) as served:
        transport = HttpTransport(served.url)
        await send(transport, until=b"done")
        await asyncio.wait_for(closed.wait(), 2)
        await transport.aclose()


async def test_done_with_the_last_bytes_keeps_the_connection():
    async def handle(peer):
        while True:
            await peer.request()
            await peer.send(chunked(b"done"))

    async with service(handle) as served:
        transport = HttpTransport(served.url)
        for _ in range(3):
            assert (await send(transport, until=b"done")).body == b"done"
        await transport.aclose()
    assert len(served.peers) == 1


# Open connections ahead


async def test_warm_connections_are_there_and_stay_there():
    async with service(answer) as served:
        transport = HttpTransport(served.url)
        await transport.warm(3)
        await eventually(lambda: len(served.peers) == 3)
        exchanges = await asyncio.gather(*(send(transport) for _ in range(3)))
        assert [got.connected for got in exchanges] == [[False]] * 3
        await transport.warm(2)
        assert len(served.peers) == 3
        await transport.aclose()


async def test_a_lost_one_is_replaced(monkeypatch):
    monkeypatch.setattr("hotloop.models.http.transport._SHORT", 0.0, raising=False)
    async with service(answer) as served:
        transport = HttpTransport(served.url)
        await transport.warm(2)
        await eventually(lambda: len(served.peers) == 2)
        served.peers[0].abort()
        await eventually(lambda: len(served.peers) == 3 and len(transport._here()._idle) == 2)
        assert (await send(transport)).connected == [False]
        await transport.aclose()


async def test_a_service_that_closes_at_once_is_not_stormed():
    async def handle(peer):
        pass

    async with service(handle) as served:
        transport = HttpTransport(served.url)
        await transport.warm(2)
        await asyncio.sleep(0.1)
        assert len(served.peers) <= 4
        await transport.aclose()


async def test_nothing_is_opened_again_after_the_service_has_gone():
    async with service(answer) as served:
        transport = HttpTransport(served.url)
        await transport.warm(2)
        await eventually(lambda: len(served.peers) == 2)
    await eventually(lambda: not transport._here()._live)
    with pytest.raises(ConnectError):
        await send(transport)
    await transport.aclose()


async def test_warm_fails_as_a_request_would():
    async with service(answer) as served:
        pass
    transport = HttpTransport(served.url)
    with pytest.raises(ConnectError, match="Nothing listens"):
        await transport.warm(3)
    await transport.aclose()


# Cancelling


async def cancel_when(condition, transport, body=b"{}", got=None):
    """Cancel a request as soon as this holds; it must be over at once."""
    task = asyncio.create_task(transport.send(body, got or Got()))
    await eventually(condition)
    task.cancel()
    started = asyncio.get_running_loop().time()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert asyncio.get_running_loop().time() - started < 0.1


@pytest.mark.parametrize("sent", [b"", b"HTTP/1.1 200 OK\r\n", chunked(b"some", end=False)])
async def test_a_cancelled_request_closes_its_connection_at_once(sent):
    closed = asyncio.Event()

    async def handle(peer):
        await peer.request()
        await peer.send(sent)
        ready.set()
        await peer.is_closed()
        closed.set()

    ready = asyncio.Event()
    async with service(handle) as served:
        transport, got = HttpTransport(served.url), Got()
        await cancel_when(lambda: ready.is_set() and (b"some" not in sent or bool(got.chunks)), transport, got=got)
        await asyncio.wait_for(closed.wait(), 0.1)
        assert not transport._here()._live
        await transport.aclose()


async def test_a_request_cancelled_in_the_middle_of_its_body():
    closed = asyncio.Event()

    async def handle(peer):
        await peer.head()
        ready.set()
        await may_read.wait()
        await peer.is_closed()
        closed.set()

    ready, may_read = asyncio.Event(), asyncio.Event()
    async with service(handle) as served:
        transport, got = HttpTransport(served.url), Got()
        await cancel_when(ready.is_set, transport, b"x" * 20_000_000, got)
        assert not got.was_sent.is_set()
        may_read.set()
        await asyncio.wait_for(closed.wait(), 1)
        await transport.aclose()


async def test_a_request_cancelled_before_it_began():
    async with service(answer) as served:
        transport = HttpTransport(served.url)
        task = asyncio.create_task(transport.send(b"{}", Got()))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        task = asyncio.create_task(transport.send(b"{}", Got()))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await transport.aclose()


async def test_others_go_on_when_one_is_cancelled():
    async def handle(peer):
        await peer.request()
        await may_answer.wait()
        await peer.send(reply())

    may_answer = asyncio.Event()
    async with service(handle) as served:
        transport = HttpTransport(served.url)
        tasks = [asyncio.create_task(send(transport)) for _ in range(5)]
        await eventually(lambda: len(served.requests) == 5)
        tasks[2].cancel()
        may_answer.set()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        assert [isinstance(each, Got) for each in outcomes] == [True, True, False, True, True]
        await transport.aclose()


async def test_closing_ends_requests_and_the_transport_can_be_used_again():
    async def handle(peer):
        await peer.request()
        await peer.send(chunked(b"some", end=False))
        await peer.is_closed()

    async with service(handle) as served:
        transport, got = HttpTransport(served.url), Got()
        task = asyncio.create_task(transport.send(b"{}", got))
        await got.arrived.wait()
        before = sockets()
        await transport.aclose()
        await transport.aclose()
        with pytest.raises(TransportError):
            await task
        assert len(sockets()) < len(before)
        assert (await send(transport, until=b"some")).body == b"some"
        await transport.aclose()


async def test_closing_stops_the_replacing_of_lost_connections(monkeypatch):
    monkeypatch.setattr("hotloop.models.http.transport._SHORT", 0.0, raising=False)
    async with service(answer) as served:
        transport = HttpTransport(served.url)
        await transport.warm(1)
        await eventually(lambda: len(served.peers) == 1)
        served.peers[0].abort()
        await eventually(lambda: bool(transport._here()._opening) or len(served.peers) == 2)
        await transport.aclose()
        assert not transport._here()._opening
        assert not transport._here()._live


# Connections that do not come about


async def test_nobody_listens():
    async with service(answer) as served:
        pass
    transport = HttpTransport(served.url)
    with pytest.raises(ConnectError, match=f"Nothing listens at localhost:{served.port}") as caught:
        await send(transport)
    assert caught.value.retryable
    await transport.aclose()


async def test_a_name_that_does_not_exist():
    transport = HttpTransport("http://model.invalid:8000/v1")
    with pytest.raises(ConnectError, match=r"model\.invalid"):
        await send(transport)
    await transport.aclose()


@pytest.mark.parametrize("host", ["a" * 70 + ".example", ".leading.example", "a..b"])
async def test_a_name_that_cannot_exist(host):
    transport = HttpTransport(f"http://{host}:8000/v1")
    with pytest.raises(ConnectError):
        await send(transport)
    await transport.aclose()


async def test_a_connection_that_takes_too_long():
    async def never(peer):
        await peer.is_closed()

    async with service(never) as served:
        transport = HttpTransport(served.url.replace("http:", "https:"), connect_timeout=0.05)
        with pytest.raises(ConnectError, match=r"within 0\.05 s"):
            await send(transport)
        await transport.aclose()


# Servers that do not speak HTTP


@pytest.mark.parametrize(
    "garbage",
    [
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 50,
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"HTTP/9.9 200 OK\r\n\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: -5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello!",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nno colon here\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\nframes",
        b"\0" * 1000,
    ],
)
async def test_what_is_no_http_is_an_error(garbage):
    async def handle(peer):
        await peer.request()
        await peer.send(garbage)
        await peer.is_closed()

    async with service(handle) as served:
        transport = HttpTransport(served.url)
        with pytest.raises(TransportError, match="does not speak HTTP"):
            await send(transport)
        await transport.aclose()
        assert not transport._here()._live


@pytest.mark.parametrize("more", [b"garbage", reply(b"second"), reply(b"second", 500), b"\0", b"HTTP/1.1 200 OK\r\n"])
@pytest.mark.parametrize("apart", [True, False])
async def test_what_comes_after_a_reply_is_not_part_of_it_nor_of_the_next(more, apart):
    async def handle(peer):
        if peer is served.peers[0]:
            await peer.request()
            await peer.send(*([reply(b"first"), more] if apart else [reply(b"first") + more]))
        await answer(peer)

    async with service(handle) as served:
        transport = HttpTransport(served.url)
        got = await send(transport)
        assert (got.status, got.body, got.heads) == (200, b"first", 1)
        if apart:
            await eventually(lambda: not transport._here()._live)
        assert (await send(transport, b"next")).body == b"next"
        await transport.aclose()


@pytest.mark.parametrize("unasked", [b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\n\r\n", b"x"])
async def test_an_idle_connection_that_speaks_is_dropped(unasked):
    async def handle(peer):
        await peer.send(reply((await peer.request()).body))
        if peer is served.peers[0]:
            await may_speak.wait()
            await peer.send(unasked)
            await peer.is_closed()
        await answer(peer)

    may_speak = asyncio.Event()
    async with service(handle) as served:
        transport = HttpTransport(served.url)
        await send(transport, b"one")
        may_speak.set()
        await eventually(lambda: not transport._here()._live)
        assert (await send(transport, b"two")).body == b"two"
        await transport.aclose()


# Headers and URLs


@pytest.mark.parametrize(
    "name, value",
    [("x", "a\r\ny: b"), ("x", "a\nb"), ("x\r\ny", "a"), ("x", "a\0b"), ("x", "\r"), ("authorization", "Bearer key\n")],
)
def test_no_header_can_smuggle_another(name, value):
    with pytest.raises(ConfigError) as caught:
        HttpTransport("http://localhost/v1", {name: value})
    assert "key" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "http://localhost/v1 HTTP/1.1",
        "http://localhost/a b",
        "http://local host/v1",
        "http://localhost/v1?a=b c",
        "http://localhost/\x01",
    ],
)
def test_no_url_can_break_the_request_line(url):
    with pytest.raises(ConfigError):
        HttpTransport(url)


@pytest.mark.parametrize("headers", [{"x": "日本"}, {"日本": "x"}])
def test_characters_that_no_header_can_carry(headers):
    with pytest.raises(ConfigError, match="HTTP cannot carry"):
        HttpTransport("http://localhost/v1", headers)


# Back-pressure


async def test_a_large_request_waits_for_a_slow_reader():
    body = hashlib.sha256().digest() * 655_360  # 20 MB

    async def handle(peer):
        await peer.head()
        await may_read.wait()
        found = await peer.reader.readexactly(len(body))
        await peer.send(reply(hashlib.sha256(found).digest()))

    may_read = asyncio.Event()
    async with service(handle) as served:
        transport, got = HttpTransport(served.url), Got()
        task = asyncio.create_task(transport.send(body, got))
        await eventually(lambda: bool(transport._here()._live))
        await asyncio.sleep(0.05)
        assert not got.was_sent.is_set()
        may_read.set()
        await task
        assert got.body == hashlib.sha256(body).digest()
        assert got.connected == [True]
        await transport.aclose()


async def test_a_refusal_before_the_request_is_read():
    async def handle(peer):
        await peer.head()
        await peer.send(reply(b"too large", 413, "connection: close"))
        await peer.is_closed()

    async with service(handle) as served:
        transport = HttpTransport(served.url)
        for _ in range(2):
            got = await send(transport, b"x" * 20_000_000)
            assert (got.status, got.body) == (413, b"too large")
        await transport.aclose()
    assert len(served.peers) == 2


async def test_a_reply_waits_for_a_slow_reader():
    total, written = 30_000_000, 0

    async def handle(peer):
        nonlocal written
        await peer.request()
        await peer.send(reply(b"x" * total)[:-total])
        while written < total:
            await peer.send(b"x" * 100_000)
            written += 100_000
        await answer(peer)

    async with service(handle) as served:
        transport, got = HttpTransport(served.url), Got()
        task = asyncio.create_task(transport.send(b"{}", got))
        await got.arrived.wait()
        got.throttle.pause()
        await asyncio.sleep(0.1)
        held = len(got.body)
        await asyncio.sleep(0.1)
        assert len(got.body) == held < total
        assert written < total
        assert not task.done()
        got.throttle.resume()
        await task
        assert len(got.body) == total
        assert (await send(transport, b"next")).connected == [False]
        await transport.aclose()


async def test_who_paused_a_reply_and_went_away_holds_up_nobody():
    class Pausing(Got):
        def data(self, chunk):
            self.throttle.pause()
            return super().data(chunk)

    async with service(answer) as served:
        transport = HttpTransport(served.url)
        paused = Pausing()
        await transport.send(b"one", paused)
        assert (await asyncio.wait_for(send(transport, b"two"), 1)).body == b"two"
        paused.throttle.resume()
        assert (await asyncio.wait_for(send(transport, b"three"), 1)).body == b"three"
        await transport.aclose()
        paused.throttle.resume()
        paused.throttle.pause()


async def test_a_paused_reply_can_be_cancelled():
    async def handle(peer):
        await peer.request()
        with pytest.raises(ConnectionError):
            await peer.send(reply(b"x" * 30_000_000)[:1000], *[b"x" * 100_000] * 299)
        closed.set()

    closed = asyncio.Event()
    async with service(handle) as served:
        transport, got = HttpTransport(served.url), Got()
        task = asyncio.create_task(transport.send(b"{}", got))
        await got.arrived.wait()
        got.throttle.pause()
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        got.throttle.resume()
        await asyncio.wait_for(closed.wait(), 1)
        await transport.aclose()


async def test_a_transport_that_is_dropped_unclosed_leaves_no_connection():
    async with service(answer) as served:
        before = len(sockets())
        await send(HttpTransport(served.url))
        await eventually(lambda: len(sockets()) <= before)


async def test_opening_can_be_given_up_at_any_moment():
    async with service(answer) as served:
        for steps in range(40):
            transport = HttpTransport(served.url)
            opening = asyncio.create_task(send(transport))
            for _ in range(steps):
                await asyncio.sleep(0)
            opening.cancel()
            await asyncio.wait([opening])
            async with asyncio.timeout(5):
                await transport.aclose()
