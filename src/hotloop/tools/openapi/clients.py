"""HTTP clients for the tools of one document: one per event loop, closed with it, or when it has had nothing to do."""

from __future__ import annotations

import asyncio
import functools
import ssl
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    import httpx2

_CONNECT_SECONDS = 5.0
_IDLE_SECONDS = 4.0  # common servers close idle connections after 5


class _Kept(msgspec.Struct, eq=False):
    """A client and what closes it: when nobody holds `keeper` any longer, its event loop ends it."""

    client: httpx2.AsyncClient
    keeper: AsyncGenerator[httpx2.AsyncClient]
    closing: asyncio.TimerHandle | None = None


class Clients:
    """Lends clients, `direct` ones without the environment's proxies; loops in several threads may share it."""

    def __init__(self) -> None:
        self._tls = _tls_context()
        self._kept: dict[tuple[asyncio.AbstractEventLoop, bool], _Kept] = {}

    @asynccontextmanager
    async def lend(self, direct: bool) -> AsyncIterator[httpx2.AsyncClient]:
        """A client of the running event loop; it stays open at least as long as this context."""
        loop = asyncio.get_running_loop()
        kept = self._kept.get((loop, direct))
        if kept is None or kept.client.is_closed:
            kept = await self._open(loop, direct)
        try:
            yield kept.client
        finally:
            if kept.closing is not None:
                kept.closing.cancel()
            kept.closing = loop.call_later(_IDLE_SECONDS, self._kept.pop, (loop, direct), None)

    async def _open(self, loop: asyncio.AbstractEventLoop, direct: bool) -> _Kept:
        for key in list(self._kept):
            if key[0].is_closed():
                self._kept.pop(key, None)
        keeper = _keep(direct, self._tls)
        kept = self._kept[loop, direct] = _Kept(await anext(keeper), keeper)
        return kept


async def _keep(direct: bool, tls: ssl.SSLContext) -> AsyncGenerator[httpx2.AsyncClient]:
    """An open client. Event loops close generators that nobody holds, and all of them when they shut down."""
    from http.cookiejar import CookieJar, DefaultCookiePolicy

    import httpx2

    client = httpx2.AsyncClient(
        verify=tls,
        trust_env=not direct,
        timeout=httpx2.Timeout(None, connect=_CONNECT_SECONDS),  # for the whole call there is another limit
        limits=httpx2.Limits(max_connections=100, max_keepalive_connections=20, keepalive_expiry=_IDLE_SECONDS),
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),  # what one user was given is not for the next
        headers={"accept": "application/json, */*;q=0.5", "user-agent": "hotloop"},
    )
    try:
        yield client
    finally:
        await client.aclose()


@functools.cache
def _tls_context() -> ssl.SSLContext:
    """One verifying context for the process: reading the certificate store takes tens of milliseconds."""
    import httpx2

    return httpx2.create_ssl_context()
