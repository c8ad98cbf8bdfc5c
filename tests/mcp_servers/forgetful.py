"""An MCP server over HTTP that keeps sessions, as older ones do, and can be made to forget them; an ASGI app."""

from __future__ import annotations

import json
import uuid
from typing import Any

TOOLS = [{"name": "count", "inputSchema": {"type": "object"}}]


class Forgetful:
    """`begun` counts its sessions, and its one tool the calls that reached it; with `cut` its answers do not end."""

    def __init__(self) -> None:
        self.begun = self.calls = 0
        self.cut = False
        self._sessions: set[str] = set()

    def forget(self) -> None:
        """Know no session any more."""
        self._sessions.clear()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        request = await self._body(receive) if scope["method"] == "POST" else {}
        session = headers.get("mcp-session-id", "")
        if request.get("method") == "initialize":
            session = self._begin()
        if session not in self._sessions:
            await self._send(send, 404, {"jsonrpc": "2.0", "id": None, "error": {"code": -32001, "message": "?"}})
        elif "id" not in request:
            await self._send(send, 202 if scope["method"] == "POST" else 405)
        else:
            result = self._result(request["method"], request.get("params", {}))
            await self._send(send, 200, {"jsonrpc": "2.0", "id": request["id"], "result": result}, session)

    def _begin(self) -> str:
        session = uuid.uuid4().hex
        self._sessions.add(session)
        self.begun += 1
        return session

    def _result(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        if method == "initialize":
            version = params["protocolVersion"]
            me = {"name": "forgetful", "version": "1"}
            return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": me}
        if method == "tools/list":
            return {"tools": TOOLS}
        self.calls += 1
        return {"content": [{"type": "text", "text": str(self.calls)}]}

    async def _body(self, receive: Any) -> dict[str, Any]:
        body = b""
        while (message := await receive()).get("more_body"):
            body += message["body"]
        content: dict[str, Any] = json.loads(body + message["body"])
        return content

    async def _send(self, send: Any, status: int, content: Any = None, session: str = "") -> None:
        body = b"" if content is None else json.dumps(content).encode()
        headers = [(b"content-type", b"application/json"), (b"mcp-session-id", session.encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body, "more_body": self.cut})
