"""The model service that every contestant talks to: OpenAI-compatible, streamed, replies encoded beforehand.

`POST /<ttft>/<tpot>/v1/chat/completions` sends the reply that the request's model and messages call for
(`workload.py`), its first token after <ttft> ms and the others <tpot> ms apart, each in a write of its own; at 0/0
the reply is one write. `GET /late` tells which share of the tokens since it was last asked had to go out together with
the one before, because the service was late. Prints its port when it is ready, and serves on one core until it is
terminated.
"""

from __future__ import annotations

import asyncio
import gc
import heapq
import time
from functools import cache
from itertools import count, pairwise
from typing import Any, cast

import httptools
import msgspec
from platforms import SERVICE_CPU, Timer, loop_factory, pin
from workload import CHAIN, Task, answer_tokens

CALLS = [
    ("call_a1", "query_order_status", '{"order_id":"1024"}'),
    ("call_a2", "query_logistics", '{"order_id":"1024"}'),
    ("call_a3", "get_user_info", '{"user_id":"u-7788"}'),
]
ARGUMENT_PIECES = 3
HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ncache-control: no-cache\r\n"
    b"x-request-id: req_mock\r\nopenai-version: 2020-10-01\r\ntransfer-encoding: chunked\r\n\r\n"
)
ENVELOPE = {
    "id": "chatcmpl-benchmark",
    "object": "chat.completion.chunk",
    "created": 1_700_000_000,
    "model": "gpt-4o-mini-2024-07-18",
    "service_tier": "default",
    "system_fingerprint": "fp_0123456789",
}
EARLY = 30e-6  # a token due within this many seconds goes now: setting the timer again takes as long

Delta = dict[str, Any]


@cache
def reply(workload: str, tool_results: int, usage: bool, prompts: int = 1) -> list[bytes]:
    """The reply as the chunks to write, one a token; the first has the headers, the last the end of the stream.

    `tool_results` are those since the user's last message, `prompts` all of the user's messages.
    """
    if workload[0] == "T" or tool_results >= (CHAIN if workload == "B" else 1):
        return _encode(_text(Task(workload, "").answer_tokens), "stop", usage)
    record = (f"call_b{tool_results}", "fetch_record", f'{{"record_id":"rec-{tool_results:04d}"}}')
    page = (f"call_c{prompts}", "fetch_page", f'{{"page_id":"page-{prompts:04d}"}}')
    return _encode(_calls({"B": [record], "C": [page]}.get(workload, CALLS)), "tool_calls", usage)


@cache
def whole(workload: str, tool_results: int, usage: bool, prompts: int = 1) -> bytes:
    """The same reply in one piece."""
    return b"".join(reply(workload, tool_results, usage, prompts))


def _text(tokens: int) -> list[Delta]:
    return [{"content": token} for token in answer_tokens(tokens)]


def _calls(calls: list[tuple[str, str, str]]) -> list[Delta]:
    deltas = []
    for index, (call_id, name, arguments) in enumerate(calls):
        head = {"name": name, "arguments": ""}
        deltas.append({"index": index, "id": call_id, "type": "function", "function": head})
        deltas += [{"index": index, "function": {"arguments": piece}} for piece in _pieces(arguments)]
    return [{"tool_calls": [delta]} for delta in deltas]


def _pieces(text: str) -> list[str]:
    cuts = [i * len(text) // ARGUMENT_PIECES for i in range(ARGUMENT_PIECES + 1)]
    return [text[start:end] for start, end in pairwise(cuts)]


def _encode(deltas: list[Delta], finish: str, usage: bool) -> list[bytes]:
    unknown = {"usage": None} if usage else {}
    chunks = [_chunk(_choice(delta), unknown) for delta in deltas]
    role = {"role": "assistant", "content": None if "tool_calls" in deltas[0] else "", "refusal": None}
    chunks[0] = HEAD + _chunk(_choice(role), unknown) + chunks[0]
    chunks[-1] += _chunk(_choice({}, finish), unknown)
    if usage:
        chunks[-1] += _chunk({"choices": []}, {"usage": _usage(len(deltas))})
    chunks[-1] += _http_chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n"
    return chunks


def _choice(delta: Delta, finish: str | None = None) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]}


def _usage(tokens: int) -> dict[str, Any]:
    return {
        "prompt_tokens": 200,
        "completion_tokens": tokens,
        "total_tokens": 200 + tokens,
        "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
    }


def _chunk(*parts: dict[str, Any]) -> bytes:
    body = dict(ENVELOPE)
    for part in parts:
        body.update(part)
    return _http_chunk(b"data: %b\n\n" % msgspec.json.encode(body))


def _http_chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


class Message(msgspec.Struct):
    """A message of the conversation; its content does not matter here."""

    role: str


class StreamOptions(msgspec.Struct):
    """What the reply should contain besides tokens."""

    include_usage: bool = False


class Request(msgspec.Struct):
    """A chat-completion request."""

    model: str
    messages: list[Message]
    stream_options: StreamOptions | None = None

    @property
    def wants(self) -> tuple[str, int, bool, int]:
        """Which reply this asks for, as the arguments of `reply` and `whole`."""
        roles = [message.role for message in self.messages]
        prompts = roles.count("user")
        newest = roles[len(roles) - roles[::-1].index("user") :] if prompts else roles
        usage = bool(self.stream_options and self.stream_options.include_usage)
        return self.model.removeprefix("mock-"), newest.count("tool"), usage, prompts


decode_request = msgspec.json.Decoder(Request).decode


class Stream:
    """One reply on its way, token by token."""

    def __init__(self, transport: asyncio.Transport, chunks: list[bytes], start: float, gap: float) -> None:
        self.transport, self.chunks, self.start, self.gap = transport, chunks, start, gap
        self.sent = 0

    def write(self, now: float) -> int:
        """Write the next token and any other whose time has come; how many those others were."""
        due = self.sent + 1
        while due < len(self.chunks) and self.start + due * self.gap <= now:
            due += 1
        late = due - self.sent - 1
        self.transport.write(b"".join(self.chunks[self.sent : due]))
        self.sent = due
        return late

    @property
    def done(self) -> bool:
        """Whether there is nothing more to write, or nobody to read it."""
        return self.sent == len(self.chunks) or self.transport.is_closing()


class Pacer:
    """Writes the tokens of all streams at their times."""

    def __init__(self) -> None:
        self._late = self._sent = 0
        self._timer, self._order = Timer(self._fire), count()
        self._streams: list[tuple[float, int, Stream]] = []

    def add(self, stream: Stream) -> None:
        """Begin to write a stream at its start."""
        self._push(stream)
        self._timer.set(self._streams[0][0])

    def late_share(self) -> float:
        """The share of late tokens since this was last asked."""
        share = self._late / max(1, self._sent)
        self._late = self._sent = 0
        return share

    def _push(self, stream: Stream) -> None:
        due = stream.start + stream.sent * stream.gap
        heapq.heappush(self._streams, (due, next(self._order), stream))

    def _fire(self) -> None:
        now = time.monotonic() + EARLY
        while self._streams and self._streams[0][0] <= now:
            stream = heapq.heappop(self._streams)[2]
            late = stream.write(now)
            self._late, self._sent = self._late + late, self._sent + late + 1
            if not stream.done:
                self._push(stream)
        if self._streams:
            self._timer.set(self._streams[0][0])


class Connection(asyncio.Protocol):
    """One client's connection."""

    def __init__(self, pacer: Pacer) -> None:
        self._pacer, self._parser = pacer, httptools.HttpRequestParser(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """asyncio: the client is here."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """asyncio: the client has written."""
        self._parser.feed_data(data)

    def on_message_begin(self) -> None:
        """httptools: a request begins."""
        self._url, self._body = b"", b""

    def on_url(self, url: bytes) -> None:
        """httptools: a piece of the path."""
        self._url += url

    def on_body(self, body: bytes) -> None:
        """httptools: a piece of the body."""
        self._body += body

    def on_message_complete(self) -> None:
        """httptools: answer the request."""
        if self._url == b"/late":
            self._answer_late()
        else:
            self._answer_chat()

    def _answer_late(self) -> None:
        body = b"%f" % self._pacer.late_share()
        self._transport.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))

    def _answer_chat(self) -> None:
        _, ttft, tpot, _ = self._url.split(b"/", 3)
        wants = decode_request(self._body).wants
        if tpot == b"0":
            self._transport.write(whole(*wants))
        else:
            start = time.monotonic() + float(ttft) / 1e3
            self._pacer.add(Stream(self._transport, reply(*wants), start, float(tpot) / 1e3))


async def serve() -> None:
    """Serve on a free port of the loopback until cancelled."""
    pacer = Pacer()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(pacer), "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    pin(SERVICE_CPU)
    gc.disable()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(serve())
