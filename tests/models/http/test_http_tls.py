"""TLS with normal verification, and the way through proxies."""

from __future__ import annotations

import asyncio
import base64
import ssl

import pytest
import trustme
from loopback import Got, answer, chunked, eventually, reply, service

from hotloop.errors import ConfigError, ConnectError, TransportError
from hotloop.models.http.proxy import Proxy, proxy_for
from hotloop.models.http.target import parse_target
from hotloop.models.http.transport import HttpTransport

EVERY_LOOP = True
CA = trustme.CA()
OTHER_CA = trustme.CA()


pytestmark = pytest.mark.usefixtures("direct", "nothing_left")


def server_side(*names, ca=CA):
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    ca.issue_cert(*(names or ("localhost",))).configure_cert(context)
    return context


def client_side(ca=CA):
    context = ssl.create_default_context()
    ca.configure_trust(context)
    return context


async def send(transport, body=b"hi", **more):
    got = Got(**more)
    await transport.send(body, got)
    return got


# TLS


async def test_a_trusted_service():
    async with service(answer, tls=server_side()) as served:
        transport = HttpTransport(served.url, tls=client_side())
        exchanges = [await send(transport, body) for body in (b"one", b"two", b"x" * 1_000_000)]
        await transport.aclose()
    assert [len(got.body) for got in exchanges] == [3, 3, 1_000_000]
    assert [got.connected for got in exchanges] == [[True], [False], [False]]
    assert served.requests[0].headers["host"] == f"localhost:{served.port}"


@pytest.mark.parametrize(
    "certificate",
    [
        pytest.param({"ca": OTHER_CA}, id="another authority"),
        pytest.param({"names": ("elsewhere.example",)}, id="another name"),
        pytest.param({"names": ("127.0.0.1",)}, id="only the address"),
    ],
)
async def test_a_service_that_is_not_trusted(certificate):
    tls = server_side(*certificate.get("names", ()), ca=certificate.get("ca", CA))
    async with service(answer, tls=tls) as served:
        transport = HttpTransport(served.url, tls=client_side())
        with pytest.raises(ConnectError, match=f"certificate of localhost:{served.port} is not trusted") as caught:
            await send(transport)
        assert "SSL_CERT_FILE" in str(caught.value)
        await transport.aclose()
    assert served.requests == []


async def test_the_usual_authorities_are_asked_by_default(tmp_path, monkeypatch):
    monkeypatch.setattr("hotloop.models.http.transport._tls_context", None)
    async with service(answer, tls=server_side()) as served:
        transport = HttpTransport(served.url)
        with pytest.raises(ConnectError, match="not trusted"):
            await send(transport)
        await transport.aclose()
        CA.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
        monkeypatch.setattr("hotloop.models.http.transport._tls_context", None)
        transport = HttpTransport(served.url)
        assert (await send(transport)).body == b"hi"
        await transport.aclose()


async def test_a_service_without_tls():
    async def handle(peer):
        await peer.reader.read(100)
        await peer.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await peer.is_closed()

    async with service(handle) as served:
        transport = HttpTransport(served.url.replace("http:", "https:"), tls=client_side())
        with pytest.raises(ConnectError, match="No TLS connection"):
            await send(transport)
        await transport.aclose()


async def test_a_service_that_hangs_up_during_the_handshake():
    async def handle(peer):
        await peer.reader.read(100)

    async with service(handle) as served:
        transport = HttpTransport(served.url.replace("http:", "https:"), tls=client_side())
        with pytest.raises(ConnectError):
            await send(transport)
        await transport.aclose()


async def test_a_handshake_can_be_cancelled():
    closed = asyncio.Event()

    async def handle(peer):
        await peer.is_closed()
        closed.set()

    async with service(handle) as served:
        transport = HttpTransport(served.url.replace("http:", "https:"), tls=client_side())
        task = asyncio.create_task(send(transport))
        await eventually(lambda: len(served.peers) == 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(closed.wait(), 0.1)
        await transport.aclose()


async def test_a_reply_over_tls_can_be_cancelled():
    closed = asyncio.Event()

    async def handle(peer):
        await peer.request()
        await peer.send(chunked(b"some", end=False))
        await peer.is_closed()
        closed.set()

    async with service(handle, tls=server_side()) as served:
        transport, got = HttpTransport(served.url, tls=client_side()), Got()
        task = asyncio.create_task(transport.send(b"hi", got))
        await asyncio.wait_for(got.arrived.wait(), 2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(closed.wait(), 0.1)
        await transport.aclose()


async def test_a_reply_over_tls_until_the_connection_closes():
    async def handle(peer):
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\n\r\nhello")

    async with service(handle, tls=server_side()) as served:
        transport = HttpTransport(served.url, tls=client_side())
        assert (await send(transport)).body == b"hello"
        assert (await send(transport)).body == b"hello"
        await transport.aclose()


async def test_a_reply_over_tls_that_is_cut():
    async def handle(peer):
        await peer.request()
        await peer.send(reply(b"hello")[:-1])
        peer.abort()

    async with service(handle, tls=server_side()) as served:
        transport = HttpTransport(served.url, tls=client_side())
        with pytest.raises(TransportError):
            await send(transport)
        await transport.aclose()


async def test_a_stale_connection_over_tls():
    async def handle(peer):
        await peer.send(reply((await peer.request()).body))
        if peer is not served.peers[0]:
            await answer(peer)

    async with service(handle, tls=server_side()) as served:
        transport = HttpTransport(served.url, tls=client_side())
        assert [(await send(transport, body)).body for body in (b"one", b"two", b"three")] == [b"one", b"two", b"three"]
        await transport.aclose()
    assert len(served.peers) == 2


async def test_back_pressure_over_tls():
    async def handle(peer):
        await peer.send(reply((await peer.request()).body))

    async with service(handle, tls=server_side()) as served:
        transport, got = HttpTransport(served.url, tls=client_side()), Got()
        task = asyncio.create_task(transport.send(b"x" * 10_000_000, got))
        await asyncio.wait_for(got.arrived.wait(), 5)
        got.throttle.pause()
        await asyncio.sleep(0.05)
        held = len(got.body)
        await asyncio.sleep(0.05)
        assert held <= len(got.body) < 10_000_000
        assert not task.done()
        got.throttle.resume()
        await task
        assert len(got.body) == 10_000_000
        await transport.aclose()


# Through a proxy


class Tunnelling:
    """A proxy: connects through to where CONNECT asks, or answers with `refusal`."""

    def __init__(self, refusal=b"", head=b"HTTP/1.1 200 Connection established\r\n\r\n"):
        self.asked = []
        self._refusal, self._head = refusal, head

    async def __call__(self, peer):
        line, headers = await peer.head()
        self.asked.append((line, headers))
        if self._refusal:
            await peer.send(self._refusal)
            return
        port = line.split(" ")[1].rpartition(":")[2]
        reader, writer = await asyncio.open_connection("127.0.0.1", int(port))  # wherever it was to be
        await peer.send(*(self._head[at : at + 7] for at in range(0, len(self._head), 7)))
        up = asyncio.ensure_future(self._pump(peer.reader, writer))
        try:
            await self._pump(reader, peer.writer)
        finally:
            up.cancel()
            writer.transport.abort()

    async def _pump(self, reader, writer):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()


def proxied(monkeypatch, served, secret="", **more):
    for name in ("https_proxy", "http_proxy"):
        monkeypatch.setenv(name, f"http://{secret}127.0.0.1:{served.port}")
    for name, value in more.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 Connection established\r\n\r\n",
        b"HTTP/1.0 200 OK\r\nproxy-agent: x\r\nvia: y\r\n\r\n",
        b"HTTP/1.1 200\r\n\r\n",
        b"HTTP/1.1 204 No Content\r\n\r\n",
    ],
)
async def test_a_tunnel(monkeypatch, head):
    proxy = Tunnelling(head=head)
    async with service(answer, tls=server_side("service.example")) as served, service(proxy) as through:
        proxied(monkeypatch, through)
        transport = HttpTransport(f"https://service.example:{served.port}/v1/chat/completions", tls=client_side())
        assert [(await send(transport, body)).connected for body in (b"one", b"two")] == [[True], [False]]
        await transport.aclose()
    where = f"service.example:{served.port}"
    assert proxy.asked == [(f"CONNECT {where} HTTP/1.1", {"host": where})]
    assert served.requests[0].line == "POST /v1/chat/completions HTTP/1.1"


async def test_a_tunnel_with_a_password(monkeypatch):
    proxy = Tunnelling()
    async with service(answer, tls=server_side("service.example")) as served, service(proxy) as through:
        proxied(monkeypatch, through, "us%40er:p%3Ass@")
        transport = HttpTransport(
            f"https://service.example:{served.port}/v1/chat/completions",
            {"authorization": "Bearer key"},
            tls=client_side(),
        )
        await send(transport)
        await transport.aclose()
    secret = base64.b64encode(b"us@er:p:ss").decode()
    assert proxy.asked[0][1]["proxy-authorization"] == f"Basic {secret}"
    assert "authorization" not in proxy.asked[0][1]
    assert "proxy-authorization" not in served.requests[0].headers
    assert served.requests[0].headers["authorization"] == "Bearer key"


@pytest.mark.parametrize(
    ("refusal", "words"),
    [
        (b"HTTP/1.1 407 Proxy Authentication Required\r\nproxy-authenticate: Basic\r\n\r\n", "407"),
        (b"HTTP/1.1 403 Forbidden\r\ncontent-length: 2\r\n\r\nno", "403"),
        (b"HTTP/1.1 502 Bad Gateway\r\n\r\n", "502"),
        (b"HTTP/1.1 200", "closed the connection"),
        (b"SSH-2.0-OpenSSH_9.6\r\n\r\n", "SSH-2"),
        (b"HTTP/1.1 2000 OK\r\n\r\n", "2000"),
    ],
)
async def test_a_proxy_that_refuses(monkeypatch, refusal, words):
    async with service(Tunnelling(refusal)) as through:
        proxied(monkeypatch, through)
        transport = HttpTransport("https://service.example/v1", tls=client_side())
        with pytest.raises(ConnectError, match=words) as caught:
            await send(transport)
        assert "proxy" in str(caught.value)
        assert "service.example:443" in str(caught.value)
        await transport.aclose()


async def test_a_proxy_that_closes_or_says_nothing(monkeypatch):
    async def closing(peer):
        await peer.head()

    async def silent(peer):
        await peer.is_closed()

    for handle, words in (closing, "closed the connection"), (silent, r"within 0\.05 s"):
        async with service(handle) as through:
            proxied(monkeypatch, through)
            transport = HttpTransport("https://service.example/v1", connect_timeout=0.05, tls=client_side())
            with pytest.raises(ConnectError, match=words):
                await send(transport)
            await transport.aclose()


async def test_a_proxy_that_is_not_there(monkeypatch):
    async with service(answer) as through:
        pass
    proxied(monkeypatch, through)
    transport = HttpTransport("https://service.example/v1", tls=client_side())
    with pytest.raises(ConnectError, match=f"listens at the proxy 127.0.0.1:{through.port}"):
        await send(transport)
    await transport.aclose()


async def test_the_service_behind_a_tunnel_must_be_trusted_too(monkeypatch):
    async with service(answer, tls=server_side(ca=OTHER_CA)) as served, service(Tunnelling()) as through:
        proxied(monkeypatch, through)
        transport = HttpTransport(f"https://service.example:{served.port}/v1", tls=client_side())
        with pytest.raises(ConnectError, match="not trusted"):
            await send(transport)
        await transport.aclose()


@pytest.mark.parametrize("stage", ["tunnel", "handshake"])
async def test_the_opening_of_a_tunnel_can_be_cancelled(monkeypatch, stage):
    closed = asyncio.Event()

    async def handle(peer):
        await peer.head()
        if stage == "handshake":
            await peer.send(b"HTTP/1.1 200 OK\r\n\r\n")
        ready.set()
        await peer.is_closed()
        closed.set()

    ready = asyncio.Event()
    async with service(handle) as through:
        proxied(monkeypatch, through)
        transport = HttpTransport("https://service.example/v1", tls=client_side())
        task = asyncio.create_task(send(transport))
        await asyncio.wait_for(ready.wait(), 2)
        await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(closed.wait(), 0.2)
        await transport.aclose()


async def test_a_tunnel_that_breaks(monkeypatch):
    async def handle(peer):
        await peer.request()
        await peer.send(chunked(b"some", end=False))
        peer.abort()

    async with service(handle, tls=server_side()) as served, service(Tunnelling()) as through:
        proxied(monkeypatch, through)
        transport = HttpTransport(served.url, tls=client_side())
        with pytest.raises(TransportError):
            await send(transport)
        await transport.aclose()


async def test_without_tls_the_proxy_is_given_the_whole_url(monkeypatch):
    async with service(answer) as through:
        proxied(monkeypatch, through, "user:pass@")
        transport = HttpTransport(
            "http://service.example:8000/v1/chat/completions?a=b", {"authorization": "Bearer key"}
        )
        assert (await send(transport)).body == b"hi"
        assert (await send(transport)).connected == [False]
        await transport.aclose()
    request = through.requests[0]
    assert request.line == "POST http://service.example:8000/v1/chat/completions?a=b HTTP/1.1"
    assert request.headers["host"] == "service.example:8000"
    assert request.headers["proxy-authorization"] == "Basic dXNlcjpwYXNz"
    assert request.headers["authorization"] == "Bearer key"


async def test_some_hosts_are_asked_directly(monkeypatch):
    async with service(answer) as served, service(answer) as through:
        proxied(monkeypatch, through, no_proxy="other.example,localhost")
        transport = HttpTransport(served.url)
        await send(transport)
        await transport.aclose()
    assert (len(served.requests), len(through.requests)) == (1, 0)


@pytest.mark.parametrize(
    ("environment", "url", "expected"),
    [
        ({}, "https://a.example/v1", None),
        ({"HTTPS_PROXY": "http://p:3128"}, "https://a.example/v1", Proxy("p", 3128, "")),
        ({"HTTPS_PROXY": "http://p:3128"}, "http://a.example/v1", None),
        ({"HTTP_PROXY": "http://p"}, "http://a.example/v1", Proxy("p", 80, "")),
        ({"ALL_PROXY": "p:8080"}, "https://a.example/v1", Proxy("p", 8080, "")),
        ({"https_proxy": "http://low:1", "HTTPS_PROXY": "http://up:2"}, "https://a.example/v1", Proxy("low", 1, "")),
        ({"HTTPS_PROXY": "http://p:1", "NO_PROXY": "a.example"}, "https://a.example/v1", None),
        ({"HTTPS_PROXY": "http://p:1", "NO_PROXY": ".example"}, "https://a.example/v1", None),
        ({"HTTPS_PROXY": "http://p:1", "NO_PROXY": "*"}, "https://a.example/v1", None),
        ({"HTTPS_PROXY": "http://p:1", "NO_PROXY": "b.example"}, "https://a.example/v1", Proxy("p", 1, "")),
        ({"HTTPS_PROXY": ""}, "https://a.example/v1", None),
        ({"ALL_PROXY": "http://p:1"}, "unix:/run/m.sock", None),
        ({"ALL_PROXY": "http://p:1"}, "http://localhost:8000/v1", None),
        ({"ALL_PROXY": "http://p:1"}, "http://127.0.0.2:8000/v1", None),
        ({"ALL_PROXY": "http://p:1"}, "https://[::1]/v1", None),
        ({"HTTPS_PROXY": "http://[::1]:3128"}, "https://a.example/v1", Proxy("::1", 3128, "")),
    ],
)
def test_which_proxy(monkeypatch, environment, url, expected):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert proxy_for(parse_target(url)) == expected


@pytest.mark.parametrize("url", ["socks5://p:1080", "https://p:3128", "http://p:port", "http://", "http://[::1"])
def test_a_proxy_that_cannot_be_used(monkeypatch, url):
    monkeypatch.setenv("HTTPS_PROXY", url)
    with pytest.raises(ConfigError, match="proxy"):
        HttpTransport("https://a.example/v1")


def test_a_proxy_password_is_in_no_message(monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", "socks5://user:secret@p:1")
    with pytest.raises(ConfigError) as caught:
        HttpTransport("https://a.example/v1")
    assert "secret" not in str(caught.value)
