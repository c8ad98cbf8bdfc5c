"""The way through an HTTP proxy: which one the environment names, and the CONNECT that opens a tunnel."""

from __future__ import annotations

import asyncio
import base64
import ipaddress
import os
import re
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from hotloop.errors import ConfigError, ConnectError
from hotloop.models.http.target import Target


class Proxy(NamedTuple):
    host: str
    port: int
    authorization: str


def proxy_for(target: Target) -> Proxy | None:
    """The proxy that the environment names for this target, NO_PROXY honoured; none for this machine itself."""
    if target.unix or is_loopback(target.host) or not any(name.lower().endswith("_proxy") for name in os.environ):
        return None
    from urllib.request import getproxies_environment, proxy_bypass

    proxies = getproxies_environment()
    url = proxies.get("https" if target.tls else "http") or proxies.get("all")
    if not url or proxy_bypass(target.host, proxies):
        return None
    try:
        parts = urlsplit(url if "://" in url else "http://" + url)
        port = parts.port or 80
    except ValueError as fault:
        raise ConfigError(f"The proxy that the environment names is no URL: {fault}.") from None
    if parts.scheme != "http" or not parts.hostname:
        raise ConfigError(f"The proxy {parts.scheme}://{parts.hostname} is not supported; use an http:// proxy.")
    secret = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
    token = base64.b64encode(secret.encode()).decode()
    authorization = f"proxy-authorization: Basic {token}\r\n" if parts.username else ""
    return Proxy(parts.hostname, port, authorization)


def is_loopback(host: str) -> bool:
    """True for a name or address of this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


class Tunnel(asyncio.Protocol):
    """Asks a proxy to connect us through; `opened` ends when it has."""

    def __init__(self, target: Target, proxy: Proxy) -> None:
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._where = f"[{target.host}]:{target.port}" if ":" in target.host else f"{target.host}:{target.port}"
        self._request = f"CONNECT {self._where} HTTP/1.1\r\nhost: {self._where}\r\n{proxy.authorization}\r\n".encode()
        self._head = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.write(self._request)  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        self._head += data
        if b"\r\n\r\n" not in self._head or self.opened.done():
            return
        status = self._head.split(b"\r\n", 1)[0].decode("latin-1")
        if re.match("HTTP/1[.][01] 2[0-9][0-9]( |$)", status):
            self.opened.set_result(None)
        else:
            self.opened.set_exception(ConnectError(f"The proxy refused to connect to {self._where}: {status}."))

    def connection_lost(self, error: Exception | None) -> None:
        if not self.opened.done():
            self.opened.set_exception(ConnectError(f"The proxy closed the connection to {self._where}."))
