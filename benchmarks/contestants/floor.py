"""The floor: what the workload costs in Python when nothing but the workload is done.

asyncio protocol, httptools, typed msgspec chunks, messages encoded once. No validation, ledger, budget, event, retry or
limit; tools are awaited one after another, because none of them waits.
"""

from __future__ import annotations

import asyncio
from typing import cast
from urllib.parse import urlsplit

import httptools
import msgspec
from workload import API_KEY, INSTRUCTIONS, Ask, Converse, OnText, Task, schema

encode = msgspec.json.encode


class Function(msgspec.Struct):
    """The function of a tool call, or a piece of it."""

    name: str = ""
    arguments: str = ""


class ToolCall(msgspec.Struct):
    """A tool call, or a piece of one."""

    index: int
    function: Function
    id: str = ""


class Delta(msgspec.Struct):
    """What one chunk adds."""

    content: str | None = None
    tool_calls: list[ToolCall] | None = None


class Choice(msgspec.Struct):
    """The only choice of a chunk."""

    delta: Delta


class Chunk(msgspec.Struct):
    """One event of the stream."""

    choices: list[Choice]


decode = msgspec.json.Decoder(Chunk).decode

Call = list[str]  # id, name, arguments
Reply = tuple[list[str], list[Call]]


class Connection(asyncio.Protocol):
    """One keep-alive connection."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """asyncio: connected."""
        self.transport = cast(asyncio.Transport, transport)

    def send(self, request: tuple[bytes, ...], on_text: OnText) -> asyncio.Future[Reply]:
        """Send the pieces of a request; the future has the text and the calls at the end of the reply."""
        self.parser, self.rest, self.on_text = httptools.HttpResponseParser(self), b"", on_text
        self.text: list[str] = []
        self.calls: list[Call] = []
        self.reply: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self.transport.writelines(request)
        return self.reply

    def data_received(self, data: bytes) -> None:
        """asyncio: the service has written."""
        self.parser.feed_data(data)

    def on_body(self, data: bytes) -> None:
        """httptools: a piece of the body."""
        if self.rest or not data.endswith(b"\n\n"):
            data, end, self.rest = (self.rest + data).rpartition(b"\n\n")
            if not end:
                return
        for event in data.split(b"\n\n"):
            if event[6:7] == b"{":
                self.take(decode(event[6:]))

    def take(self, chunk: Chunk) -> None:
        """Add what a chunk brings."""
        if not chunk.choices:
            return
        delta = chunk.choices[0].delta
        if delta.content:
            self.text.append(delta.content)
            self.on_text(delta.content)
        elif delta.tool_calls:
            for call in delta.tool_calls:
                if call.index == len(self.calls):
                    self.calls.append([call.id, call.function.name, ""])
                self.calls[call.index][2] += call.function.arguments

    def on_message_complete(self) -> None:
        """httptools: the reply has ended."""
        self.reply.set_result((self.text, self.calls))


class Agent:
    """The loop."""

    def __init__(self, task: Task) -> None:
        url = urlsplit(task.base_url)
        self.address = url.hostname or "", url.port or 80
        self.idle: list[Connection] = []
        self.tools = {tool.__name__: tool for tool in task.tools}
        self.head = (
            f"POST {url.path}/chat/completions HTTP/1.1\r\nhost: {url.netloc}\r\nauthorization: Bearer {API_KEY}\r\n"
            "content-type: application/json\r\ncontent-length: "
        ).encode()
        start = {
            "model": task.model,
            "stream": True,
            "stream_options": {"include_usage": True},
            "tools": [schema(tool) for tool in task.tools],
            "messages": [{"role": "system", "content": INSTRUCTIONS}],
        }
        self.start = encode(start)[:-2]

    async def run(self, question: str, body: bytearray, on_text: OnText) -> str:
        """Add a question, and all that comes of it, to what was said before."""
        body += b',{"role":"user","content":%b}' % encode(question)
        while True:
            text, calls = await self.post(body, on_text)
            if not calls:
                answer = "".join(text)
                body += b',{"role":"assistant","content":%b}' % encode(answer)
                return answer
            body += b',{"role":"assistant","content":null,"tool_calls":[%b]}' % b",".join(map(written, calls))
            for call_id, name, arguments in calls:
                result = await self.tools[name](**msgspec.json.decode(arguments))
                content = encode(encode(result).decode())
                body += b',{"role":"tool","tool_call_id":"%b","content":%b}' % (call_id.encode(), content)

    async def post(self, body: bytearray, on_text: OnText) -> Reply:
        """Send a request on an idle connection, or on a new one."""
        connection = self.idle.pop() if self.idle else await self.connect()
        head = b"%b%d\r\n\r\n" % (self.head, len(body) + 2)
        reply = await connection.send((head, bytes(body), b"]}"), on_text)
        self.idle.append(connection)
        return reply

    async def connect(self) -> Connection:
        """A new connection."""
        return (await asyncio.get_running_loop().create_connection(Connection, *self.address))[1]


def written(call: Call) -> bytes:
    """A call as it stands in the conversation."""
    call_id, name, arguments = call
    return b'{"id":"%b","type":"function","function":{"name":"%b","arguments":%b}}' % (
        call_id.encode(),
        name.encode(),
        encode(arguments),
    )


def build(task: Task) -> Ask:
    """The bare loop."""
    agent = Agent(task)

    async def run(on_text: OnText) -> str:
        return await agent.run(task.question, bytearray(agent.start), on_text)

    return run


def converse(task: Task) -> Converse:
    """The bare loop, on the bytes of all before."""
    agent = Agent(task)
    body = bytearray(agent.start)

    async def turn(prompt: str, on_text: OnText) -> str:
        return await agent.run(prompt, body, on_text)

    return turn
