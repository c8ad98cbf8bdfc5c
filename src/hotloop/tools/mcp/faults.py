"""Why an MCP server cannot be used just now, in sentences that say what to do."""

from __future__ import annotations

import httpx2
from mcp import MCPError
from mcp.types import CONNECTION_CLOSED
from pydantic import ValidationError

from hotloop.tools.mcp.endpoint import Endpoint
from hotloop.words import short

_LONGEST = 300  # characters of what somebody else said
_LINES = 3  # of the last that a process wrote


def unreachable(endpoint: Endpoint, error: Exception, status: int, said: str) -> str:
    """Why no connection came about, or why it went: `status` is of the last HTTP answer, `said` the end of stderr."""
    cause = _cause(error)
    if isinstance(cause, httpx2.HTTPError):
        words = _short(endpoint, reason(cause)) or type(cause).__name__
        return f"{_at(endpoint)} cannot be reached: {words}. Is it running, and is url= right?"
    if status:
        return refused(endpoint, status)
    if isinstance(cause, FileNotFoundError) and endpoint.command:
        return f"{_at(endpoint)} cannot be started: there is no such command. Install it, or correct command=."
    if isinstance(cause, OSError):
        return f"{_at(endpoint)} cannot be started: {cause.strerror or cause}. Correct command=."
    if isinstance(cause, ValidationError):
        return f"{_at(endpoint)} answers in a way that is no MCP: {_short(endpoint, reason(cause))}."
    if isinstance(cause, MCPError) and cause.code == CONNECTION_CLOSED:
        return f"{_at(endpoint)} ended before it had answered.{_last_words(endpoint, said)}"
    words = _short(endpoint, reason(cause)) or type(cause).__name__
    return f"{_at(endpoint)} could not be connected: {words}.{_last_words(endpoint, said)}"


def refused(endpoint: Endpoint, status: int) -> str:
    """What an HTTP status that is an error means."""
    if status in (401, 403):
        return f"{_at(endpoint)} wants other credentials (HTTP {status}). Give them in headers=."
    if status == 404:
        return f"There is no MCP server at {endpoint.place} (HTTP 404). Correct url=; its path is often /mcp."
    return f"{_at(endpoint)} failed (HTTP {status}). Try again later, or look into its own log."


def silent(endpoint: Endpoint, said: str) -> str:
    """No connection came about in time."""
    return (
        f"{_at(endpoint)} did not answer within {endpoint.timeout:g} s. Is it an MCP server? If it only needs longer, "
        f"give it a longer timeout=.{_last_words(endpoint, said)}"
    )


def unlisted(endpoint: Endpoint, error: Exception, status: int) -> str:
    """The server is there, but its tools are not known."""
    if status:
        return refused(endpoint, status)
    why = "not in time" if isinstance(error, TimeoutError) else _short(endpoint, reason(error))
    return f"The MCP server {endpoint.name} did not list its tools: {why}."


def unusable(endpoint: Endpoint, tool: str, error: Exception) -> str:
    """A call was carried out, and its result is not as MCP, or the tool's own schema, wants it."""
    return f"{tool} of the MCP server {endpoint.name} gave an unusable result: {_short(endpoint, reason(error))}."


def reason(error: Exception) -> str:
    """The error in a line."""
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False)[0]
        return f"{first['msg']} at {'.'.join(map(str, first['loc']))}"
    return next(iter(str(error).splitlines()), "")


def ended(endpoint: Endpoint, said: str) -> str:
    """The server's process, or its side of the connection, is gone."""
    return f"{_at(endpoint)} ended. The next call starts it again.{_last_words(endpoint, said)}"


def lost(endpoint: Endpoint, why: str) -> str:
    """A call was on its way when the connection went."""
    return f"The connection was lost during the call, and whether it took effect is not known. {endpoint.masked(why)}"


def rejected(endpoint: Endpoint, why: str) -> str:
    """The server is there, and says no to the call as such."""
    return f"The MCP server {endpoint.name} refused the call: {why}"


def closed(endpoint: Endpoint) -> str:
    """Somebody closed the connection."""
    return f"The connection to the MCP server {endpoint.name} was closed."


def _at(endpoint: Endpoint) -> str:
    return f"The MCP server {endpoint.name} ({endpoint.place})"


def _cause(error: Exception) -> Exception:
    """The first thing that went wrong, out of the groups in which task groups raise it."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error


def _last_words(endpoint: Endpoint, said: str) -> str:
    """The last lines that it wrote, and before them the last one about an error, if that came earlier."""
    lines = [_short(endpoint, line.strip()) for line in said.splitlines() if line.strip()]
    if not lines:
        return ""
    telling = [line for line in lines[:-_LINES] if "error" in line.lower()]
    return f" It wrote: {' | '.join(telling[-1:] + lines[-_LINES:])}"


def _short(endpoint: Endpoint, text: str) -> str:
    return short(endpoint.masked(text).rstrip("."), _LONGEST)
