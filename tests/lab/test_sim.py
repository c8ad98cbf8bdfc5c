import asyncio
import time

import httptools
import msgspec
import pytest
import uvloop

from hotloop.errors import ConfigError, TruncatedReply
from hotloop.lab.profiles import Curve, Profile
from hotloop.lab.script import call, raw, say
from hotloop.lab.sim import SimulatedService
from hotloop.models.wire.chatstream import ChatStream

WORDS = " ".join(f"w{number}" for number in range(40))


class Client:
    """A plain HTTP client that notes when each piece of a body came."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def connect(cls, service: SimulatedService) -> "Client":
        port = int(service.url.rsplit(":", 1)[1].split("/")[0])
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def ask(self, path: str, body: bytes = b"", method: str = "POST", headers: str = "") -> "Response":
        self.send(path, body, method, headers)
        return await Response().read(self.reader)

    def send(self, path: str, body: bytes = b"", method: str = "POST", headers: str = "") -> None:
        head = f"{method} {path} HTTP/1.1\r\nhost: x\r\n{headers}content-length: {len(body)}\r\n\r\n"
        self.writer.write(head.encode() + body)

    async def close(self) -> None:
        self.writer.close()
        await self.writer.wait_closed()


class Response:
    def __init__(self) -> None:
        self.status, self.headers, self.pieces, self.times, self.complete = 0, {}, [], [], False

    async def read(self, reader: asyncio.StreamReader) -> "Response":
        self.parser, start = httptools.HttpResponseParser(self), time.perf_counter()
        while not self.complete and (data := await asyncio.wait_for(reader.read(65536), 10)):
            self.now = (time.perf_counter() - start) * 1e3
            self.parser.feed_data(data)
        return self

    def on_header(self, name, value) -> None:
        self.headers[name.decode().lower()] = value.decode()

    def on_headers_complete(self) -> None:
        self.status = self.parser.get_status_code()

    def on_body(self, data) -> None:
        self.pieces.append(data)
        self.times.append(self.now)

    def on_message_complete(self) -> None:
        self.complete = True

    @property
    def body(self) -> bytes:
        return b"".join(self.pieces)

    def json(self):
        return msgspec.json.decode(self.body)

    def reply(self):
        stream = ChatStream()
        stream.feed(self.body)
        stream.close()
        return stream.reply()


CHAT = "/v1/chat/completions"


def request(stream: bool = True, turns: int = 0, **fields) -> bytes:
    messages = [{"role": "user", "content": "hello"}, *[{"role": "assistant", "content": "x"}] * turns]
    return msgspec.json.encode({"model": "m", "stream": stream, "messages": messages, **fields})


@pytest.fixture
async def serve():
    """Starts services and plain clients of them; both are closed in the end."""
    clients, services = [], []

    async def start(*args, **options):
        service = await SimulatedService(*args, **options).__aenter__()
        services.append(service)
        clients.append(await Client.connect(service))
        return service, clients[-1]

    yield start
    for client in clients:
        await client.close()
    for service in services:
        await service.__aexit__()


async def test_a_stream_says_the_script(serve):
    service, client = await serve([say("Let me look.", call("find", order_id="1")), WORDS])
    first = await client.ask(CHAT, request(stream_options={"include_usage": True}))
    assert first.headers["content-type"].startswith("text/event-stream")
    assert first.reply().text == "Let me look."
    assert first.reply().calls[0].name == "find"
    assert first.reply().usage.output_tokens > 4
    second = await client.ask(CHAT, request(turns=1))  # on the same connection
    assert second.reply().text == WORDS
    assert service.stats.requests == 2


async def test_a_body_says_the_script(serve):
    _, client = await serve([WORDS])
    response = await client.ask(CHAT, request(stream=False))
    assert response.headers["content-type"] == "application/json"
    assert response.reply().text == WORDS


async def test_tokens_leave_on_time_and_one_by_one(serve):
    service, client = await serve([WORDS], ttft=0.030, tpot=0.003)
    response = await client.ask(CHAT, request())
    assert response.reply().text == WORDS
    assert response.times[0] >= 29.9
    assert response.times[-1] >= 30 + 39 * 3 - 0.1
    assert service.stats.tokens == 40
    assert len(set(response.times)) > 3  # fewer than 40 reads where the machine is busy, but never one


async def test_a_body_takes_as_long_as_its_stream(serve):
    _, client = await serve([WORDS], ttft=0.020, tpot=0.001)
    response = await client.ask(CHAT, request(stream=False))
    assert response.times[0] >= 20 + 39 - 0.1


async def test_late_tokens_are_sent_together_and_counted(serve):
    service, client = await serve([WORDS], ttft=0.001, tpot=0.001)
    client.send(CHAT, request())
    await asyncio.sleep(0.005)
    time.sleep(0.030)  # noqa: ASYNC251  # the whole process, service included, is held up
    response = await Response().read(client.reader)
    assert response.reply().text == WORDS
    assert service.stats.tokens == 40
    assert service.stats.late_tokens >= 20
    assert service.stats.late_ms >= 20


async def test_a_client_that_leaves_stops_its_reply(serve):
    service, client = await serve([WORDS], ttft=0.0, tpot=0.010)
    client.send(CHAT, request())
    await client.reader.readuntil(b"w3")
    assert service.stats.open == 1
    await client.close()
    async with asyncio.timeout(5):
        while service.stats.open:  # noqa: ASYNC110  # it is told at the next deadline
            await asyncio.sleep(0.001)
    assert service.stats.abandoned == 1
    assert service.stats.tokens < 40


def test_it_serves_on_uvloop():
    async def main():
        async with SimulatedService([WORDS], ttft=0.010, tpot=0.001) as service:
            client = await Client.connect(service)
            response = await client.ask(CHAT, request())
            await client.close()
            return response

    response = uvloop.run(main())
    assert response.reply().text == WORDS
    assert response.times[-1] >= 10 + 39 - 0.1


async def test_many_streams_at_once_are_whole(serve):
    service, _ = await serve([WORDS], ttft=0.005, tpot=0.002)
    clients = await asyncio.gather(*(Client.connect(service) for _ in range(50)))
    responses = await asyncio.gather(*(client.ask(CHAT, request()) for client in clients))
    assert [response.reply().text for response in responses] == [WORDS] * 50
    await asyncio.gather(*(client.close() for client in clients))


async def test_requests_sent_ahead_are_answered_in_order(serve):
    service, client = await serve(lambda request: str(request["n"]))
    client.writer.write(b"".join(_pipelined(number) for number in range(2000)))
    for number in range(2000):
        head = await client.reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        body = msgspec.json.decode(await client.reader.readexactly(length))
        assert body["choices"][0]["message"]["content"] == str(number)
    assert service.stats.requests == 2000


def _pipelined(number: int) -> bytes:
    body = request(stream=False, n=number)
    return b"POST %b HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%b" % (CHAT.encode(), len(body), body)


async def test_the_model_is_listed_and_the_work_counted(serve):
    _, client = await serve(["one"])
    models = await client.ask("/v1/models", method="GET")
    assert models.json()["data"][0]["id"] == "simulated"
    await client.ask(CHAT, request())
    stats = (await client.ask("/stats", method="GET")).json()
    assert (stats["requests"], stats["open"], stats["tokens"]) == (1, 0, 1)


@pytest.mark.parametrize(
    ("path", "method", "body", "status"),
    [
        (CHAT, "POST", b"{", 400),
        (CHAT, "POST", b'{"messages": []}', 400),
        (CHAT, "POST", b'{"messages": [{"role": "user", "content": "hi"}], "max_tokens": 0}', 400),
        (CHAT, "GET", b"", 405),
        ("/v1/models", "POST", b"{}", 405),
        ("/nowhere", "POST", b"{}", 404),
    ],
)
async def test_what_cannot_be_answered_is_refused_with_a_reason(serve, path, method, body, status):
    _, client = await serve(["one"])
    refused = await client.ask(path, body, method)
    assert refused.status == status
    assert refused.json()["error"]["message"]
    assert (await client.ask(CHAT, request())).status == 200  # the connection lives on


async def test_what_is_not_http_is_refused_and_closed(serve):
    _, client = await serve(["one"])
    client.writer.write(b"hello there\r\n\r\n")
    refused = await Response().read(client.reader)
    assert refused.status == 400
    assert await client.reader.read() == b""


async def test_a_request_that_is_too_large_is_refused(serve, monkeypatch):
    monkeypatch.setattr("hotloop.lab.httpd._MOST_BYTES", 1000)
    service, client = await serve(["one"])
    refused = await client.ask(CHAT, request(padding="x" * 1000))
    assert refused.status == 413
    assert await client.reader.read() == b""
    assert service.stats.requests == 0


async def test_a_client_may_ask_to_close(serve):
    _, client = await serve(["one"])
    response = await client.ask(CHAT, request(), headers="connection: close\r\n")
    assert response.complete
    assert await client.reader.read() == b""


async def test_a_client_that_waits_to_be_told_is_told(serve):
    _, client = await serve(["one"])
    client.send(CHAT, request(), headers="expect: 100-continue\r\n")
    assert (await client.reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100")
    assert (await Response().read(client.reader)).reply().text == "one"


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("key", ["max_tokens", "max_completion_tokens"])
async def test_a_reply_ends_at_the_cap(serve, stream, key):
    _, client = await serve([WORDS, call("find", order_id="20250101")], tpot=0.001)
    cut = (await client.ask(CHAT, request(stream, stream_options={"include_usage": True}, **{key: 3}))).reply()
    assert (cut.text, cut.finish_reason, cut.usage.output_tokens) == ("w0 w1 w2", "length", 3)
    inside = (await client.ask(CHAT, request(stream, turns=1, **{key: 3}))).body
    assert b'"length"' in inside
    assert b"20250101" not in inside
    with pytest.raises(TruncatedReply):
        (await client.ask(CHAT, request(stream, turns=1, **{key: 3}))).reply()
    whole = (await client.ask(CHAT, request(stream, **{key: 40}))).reply()
    assert (whole.text, whole.finish_reason) == (WORDS, "stop")


async def test_errors_come_as_scripted_and_the_retry_goes_on(serve):
    _, client = await serve([raw(b'{"error": {"message": "slow"}}', status=429, headers={"Retry-After": "2"}), "one"])
    refused = await client.ask(CHAT, request())
    assert (refused.status, refused.headers["retry-after"]) == (429, "2")
    assert refused.json() == {"error": {"message": "slow"}}
    assert (await client.ask(CHAT, request())).reply().text == "one"


async def test_a_cut_stream_ends_in_the_middle(serve):
    _, client = await serve([raw(b"data: {", b'"id"', cut=True)], tpot=0.001)
    response = await client.ask(CHAT, request())
    assert response.body == b'data: {"id"'
    assert not response.complete


async def test_a_raw_reply_may_lie_about_its_length(serve):
    _, client = await serve([raw(b"abc", headers={"Content-Length": "10"}, cut=True)])
    response = await client.ask(CHAT, request())
    assert (response.body, response.complete) == (b"abc", False)


async def test_a_script_that_fails_is_a_server_error_and_logged(serve):
    faults = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: faults.append(context["exception"]))
    _, client = await serve(lambda request: 1 // 0)
    response = await client.ask(CHAT, request())
    assert response.status == 500
    assert "ZeroDivisionError" in response.json()["error"]["message"]
    assert isinstance(faults[0], ZeroDivisionError)


async def test_closing_ends_open_streams():
    async with SimulatedService([WORDS], tpot=1.0) as service:
        client = await Client.connect(service)
        client.send(CHAT, request())
        await client.reader.readuntil(b"w0")
    assert b"[DONE]" not in await client.reader.read()
    await client.close()


async def test_a_taken_port_is_said():
    async with SimulatedService(["one"]) as service:
        port = int(service.url.rsplit(":", 1)[1].split("/")[0])
        with pytest.raises(ConfigError, match=str(port)):
            async with SimulatedService(["two"], port=port):
                pass


async def test_the_default_script_calls_what_is_offered(serve):
    _, client = await serve()
    tool = {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}}
    assert (await client.ask(CHAT, request(tools=[tool]))).reply().calls[0].name == "now"


async def test_a_profile_keeps_its_times_over_sockets(serve):
    gpu = Profile(name="x", kind="gpu", base_ms=20.0, per_prompt_token_ms=0.0, tpot_ms=Curve(2.0, 0.1))
    service, client = await serve([WORDS], profile=gpu)
    response = await client.ask(CHAT, request())
    assert response.times[0] >= 19.9
    assert response.times[-1] >= 20 + 39 * 2.1 - 0.1
    assert (service.profile, service.stats.tokens) == (gpu, 40)


async def test_a_slot_is_free_again_when_its_client_leaves(serve):
    one = Profile(name="x", kind="gpu", base_ms=1.0, per_prompt_token_ms=0.0, tpot_ms=Curve(60_000.0), slots=1)
    service, client = await serve([WORDS], profile=one)
    client.send(CHAT, request())
    await client.reader.readuntil(b"w0")
    await client.close()
    other = await Client.connect(service)
    other.send(CHAT, request())
    await asyncio.wait_for(other.reader.readuntil(b"w0"), 5)
    await other.close()
    assert service.stats.abandoned >= 1


async def test_lateness_is_counted(serve):
    _, client = await serve([WORDS], ttft=0.001, tpot=0.001)
    await client.ask(CHAT, request())
    stats = (await client.ask("/stats", method="GET")).json()
    assert 0 <= stats["late_p50_ms"] <= stats["late_p99_ms"] <= stats["late_ms"]


async def test_limits_are_told_over_http(serve):
    _, client = await serve(["one"], rpm=1)
    assert (await client.ask(CHAT, request())).headers["x-ratelimit-remaining-requests"] == "0"
    refused = await client.ask(CHAT, request())
    assert (refused.status, refused.headers["retry-after"]) == (429, "60")
    assert "Please try again in" in refused.json()["error"]["message"]


@pytest.mark.parametrize(
    ("fault", "complete"), [("cut", False), ("crlf", True), ("buffered", True), ("plain-json", True)]
)
async def test_faults_go_over_sockets(serve, fault, complete):
    _, client = await serve([WORDS], tpot=0.001, faults=f"{fault}:100%")
    response = await client.ask(CHAT, request())
    assert response.complete is complete
    if complete:
        assert response.reply().text == WORDS
    else:
        assert response.body.endswith(b"\n\n")
        assert b"[DONE]" not in response.body


async def test_a_stalled_stream_stays_open_until_its_client_leaves(serve):
    service, client = await serve([WORDS], tpot=0.001, faults="stall:100%")
    client.send(CHAT, request())
    await client.reader.readuntil(b"w19")
    assert service.stats.open == 1
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(client.reader.readuntil(b"w20"), 0.05)
    await client.close()
    async with asyncio.timeout(5):
        while service.stats.open:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
