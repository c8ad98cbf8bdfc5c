"""An MCP server that says what its command line tells it to: `{"tools": [...], "pages": 1, "results": {tool: result}}`.

It needs nothing but Python, so it is there at once, and it lets a test say what no SDK would. The tools `pid` and
`environment` tell of the process, `silent` never answers, and after `deaf` nothing is read for a while. With
`"needs": path` nothing is listed while there is no such file, and with `"hangs": method` nothing follows that.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any


def command(*tools: dict[str, Any] | str, **script: Any) -> list[str]:
    """What starts such a server with these tools, which need no more than a name."""
    script["tools"] = [{"name": tool} if isinstance(tool, str) else tool for tool in tools]
    return [sys.executable, "-S", __file__, json.dumps(script)]


def answer(script: dict[str, Any], method: str, params: dict[str, Any]) -> dict[str, Any]:
    """What a request gets as its result; KeyError for what is not known."""
    if method == "initialize":
        version = params["protocolVersion"]
        return {
            "protocolVersion": version,
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "raw", "version": "1"},
        }
    if method == "tools/list" and Path(script.get("needs", "/")).exists():
        return page(script, int(params.get("cursor", 0)))
    if method == "tools/call":
        facts = {"pid": os.getpid(), "environment": dict(os.environ)}
        fact = facts.get(params["name"])
        return text(json.dumps(fact)) if fact else script["results"][params["name"]]
    raise KeyError(method)


def text(content: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": content}]}


def page(script: dict[str, Any], number: int) -> dict[str, Any]:
    tools, pages = script["tools"], script.get("pages", 1)
    more = {"nextCursor": str(number + 1)} if number + 1 < pages else {}
    return {"tools": [{"inputSchema": {"type": "object"}} | tool for tool in tools[number::pages]]} | more


def main(script: dict[str, Any]) -> None:
    for line in sys.stdin:
        request = json.loads(line)
        called = request.get("params", {}).get("name")
        if request["method"] == script.get("hangs"):
            time.sleep(1_000)
        if called == "deaf":
            time.sleep(0.4)
        if "id" not in request or called == "silent":
            continue
        try:
            reply = {"result": answer(script, request["method"], request.get("params", {}))}
        except KeyError as error:
            reply = {"error": {"code": -32601, "message": f"no {error}"}}
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"]} | reply), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
