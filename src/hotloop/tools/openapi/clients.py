"""HTTP clients for the tools of one document: one for each event loop, closed with it, or when it has nothing to do."""

from __future__ import annotations

import asyncio
import functools
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    import httpx2

_CONNECT_SECONDS = 5.0
_IDLE_SECONDS = 4.0  # common servers close idle connections after 5


class _Shared(msgspec.Struct, eq=False):
    """A client, the calls that it serves, whether it served any lately, and the task that will close it."""

    client: httpx2.AsyncClient
    calls: int = 0
    lately: bool = False
    closing: asyncio.Task[None] | None = None


class Clients:
    """Lends clients, `direct` ones without the environment's proxies; loops in several threads may share it."""

    def __init__(self) -> None:
        self._tls = _tls_context()
        self._shared: dict[tuple[asyncio.AbstractEventLoop, bool], _Shared] = {}

    @asynccontextmanager
    async def lend(self, direct: bool) -> AsyncIterator[httpx2.AsyncClient]:
        """A client of the running event loop; it stays open at least as long as this context."""
        here = asyncio.get_running_loop(), direct
        shared = self._shared.get(here)
        if shared is None:
            shared = self._shared[here] = _Shared(_client(direct, self._tls))
            shared.closing = asyncio.create_task(self._close_when_idle(here, shared))
        shared.calls += 1
        try:
            yield shared.client
        finally:
            shared.calls -= 1
            shared.lately = True

    async def _close_when_idle(self, here: tuple[asyncio.AbstractEventLoop, bool], shared: _Shared) -> None:
        """A task, so that a loop that ends cancels it and waits for it."""
        try:
            while shared.calls or shared.lately:
                shared.lately = False
                await asyncio.sleep(_IDLE_SECONDS)
        finally:
            del self._shared[here]
            await shared.client.aclose()


def _client(direct: bool, tls: ssl.SSLContext) -> httpx2.AsyncClient:
    from http.cookiejar import CookieJar, DefaultCookiePolicy

    import httpx2

    return httpx2.AsyncClient(
        verify=tls,
        trust_env=not direct,
        timeout=httpx2.Timeout(None, connect=_CONNECT_SECONDS),  # the whole call has the tool's timeout
        limits=httpx2.Limits(max_connections=100, max_keepalive_connections=20, keepalive_expiry=_IDLE_SECONDS),
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),  # what one user was given is not for the next
        headers={"accept": "application/json, */*;q=0.5", "user-agent": "hotloop"},
    )


@functools.cache
def _tls_context() -> ssl.SSLContext:
    """One verifying context for the process: reading the certificate store takes tens of milliseconds."""
    import httpx2

    return httpx2.create_ssl_context()
