"""One call of an operation: the request sent with its credentials, the reply read, faults said in a sentence."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from hotloop.errors import ToolError, ToolUnavailable
from hotloop.models.http.proxy import is_loopback
from hotloop.tools.openapi.auth import Credentials, credentials
from hotloop.tools.openapi.clients import Clients
from hotloop.tools.openapi.operations import READING
from hotloop.tools.openapi.reply import read_reply
from hotloop.tools.openapi.request import Request, RequestPlan, build
from hotloop.tools.running.tracecontext import trace_headers

if TYPE_CHECKING:
    import httpx2

_MOST_REDIRECTS = 5
_SAME_METHOD = (307, 308)
_SAME_READING = (301, 302, *_SAME_METHOD)


async def call(plan: RequestPlan, clients: Clients, arguments: dict[str, Any]) -> Any:
    """The result of the operation for these arguments.

    Raises ArgumentsError for what cannot be sent, ToolUnavailable if the service cannot be reached or used just now,
    ToolError for what the service refuses.
    """
    import httpx2

    request, allowed = build(plan, arguments), credentials(plan.security)
    where = urlsplit(plan.server)
    try:
        async with clients.lend(is_loopback(where.hostname or "")) as client:
            return await _exchange(client, request, allowed)
    except httpx2.InvalidURL as error:
        raise ToolError(f"The request cannot be sent: {error}.") from None
    except httpx2.HTTPError as error:
        reason = str(error).rstrip(".") or type(error).__name__
        raise ToolUnavailable(f"No answer from {where.netloc}: {reason}.") from error


async def _exchange(client: httpx2.AsyncClient, request: Request, allowed: Credentials) -> Any:
    outgoing = _outgoing(client, request, allowed)
    for _ in range(_MOST_REDIRECTS):
        async with aclosing(await client.send(outgoing, stream=True)) as response:
            onward = _onward(response, allowed)
            if onward is None:
                return await read_reply(response, allowed)
        outgoing = _outgoing(client, request._replace(url=onward), allowed)
    raise ToolError(f"{outgoing.url.host} sends on more than {_MOST_REDIRECTS} times.")


def _outgoing(client: httpx2.AsyncClient, request: Request, allowed: Credentials) -> httpx2.Request:
    headers = [*request.headers, *allowed.headers]
    if allowed.cookies:
        headers.append(("cookie", "; ".join(allowed.cookies)))
    headers += trace_headers().items()
    outgoing = client.build_request(request.method, request.url, headers=headers, content=request.content)
    if allowed.query:  # not in the URL, which is logged and shown
        mark = b"&" if outgoing.url.query else b"?"
        outgoing.extensions["target"] = outgoing.url.raw_path + mark + "&".join(allowed.query).encode()
    return outgoing


def _onward(response: httpx2.Response, allowed: Credentials) -> str | None:
    """Where the request goes next: only to the same server with the same method, for it carries credentials."""
    following = _SAME_READING if response.request.method in READING else _SAME_METHOD
    if response.status_code not in following or response.next_request is None or allowed.query:
        return None
    url = response.next_request.url
    return str(url) if url.origin == response.request.url.origin else None
