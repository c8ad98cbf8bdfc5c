"""Replays wire cases on loopback: the replies of a case in turn, then "done" to every later request."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

Case = dict[str, Any]

DATA = Path(__file__).parent / "data"
_CHUNK = {"id": "z", "object": "chat.completion.chunk", "created": 1, "model": "m"}
DONE = {
    "frames": [
        _CHUNK | {"choices": [{"index": 0, "delta": {"role": "assistant", "content": "done"}, "finish_reason": None}]},
        _CHUNK | {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
        _CHUNK | {"choices": [], "usage": {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}},
    ]
}


def load_cases() -> list[Case]:
    """All cases of tests/data."""
    lines = [
        line for name in ("wire.jsonl", "wire_more.jsonl") for line in (DATA / name).read_text("utf-8").splitlines()
    ]
    return [json.loads(line) for line in lines]


def pieces(reply: dict[str, Any]) -> list[bytes]:
    """The body of a streamed reply, as it is cut into writes."""
    if "raw" in reply:
        events = [reply["raw"].encode()]
    else:
        events = [b"data: " + json.dumps(frame, ensure_ascii=False).encode() + b"\n\n" for frame in reply["frames"]]
        if reply.get("end", "done") == "done":
            events.append(b"data: [DONE]\n\n")
    if "split" not in reply:
        return events
    body, step = b"".join(events), reply["split"]
    return [body[at : at + step] for at in range(0, len(body), step)]


def plain(reply: dict[str, Any]) -> tuple[bytes, dict[str, str]]:
    """The body and the headers of a reply that is not streamed."""
    body = reply["text"].encode() if "text" in reply else json.dumps(reply.get("body")).encode()
    return body, {"Content-Type": "application/json"} | reply.get("headers", {})


class CaseServer:
    """Serves one case; `log` has the time and body of each request."""

    def __init__(self, case: Case) -> None:
        self.log: list[tuple[float, dict[str, Any]]] = []
        self._replies = case["replies"]
        self.url = ""

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, kept alive."""
        try:
            while await self._answer(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
        self.log.append((time.monotonic(), json.loads(await reader.readexactly(length))))
        reply = self._replies[len(self.log) - 1] if len(self.log) <= len(self._replies) else DONE
        if "status" in reply:
            body, headers = plain(reply)
            lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
            writer.write(f"HTTP/1.1 {reply['status']} X\r\n{lines}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            return True
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        for piece in pieces(reply):
            writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            await writer.drain()
            await asyncio.sleep(0)
        if reply.get("end") == "reset":
            writer.transport.abort()
            return False
        writer.write(b"0\r\n\r\n")
        return True


@asynccontextmanager
async def serve(case: Case) -> AsyncGenerator[CaseServer]:
    """A server for this case on a free port."""
    served = CaseServer(case)
    async with await asyncio.start_server(served.handle, "127.0.0.1", 0) as server:
        served.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        yield served
