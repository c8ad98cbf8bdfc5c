"""What a call of a tool from an OpenAPI document sends, what the model reads of the reply, and that nothing leaks."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import os
import re
import subprocess
import sys
import threading
from urllib.parse import unquote

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from openapi_service import Cut, document, reply, serve, tools

from hotloop import Agent
from hotloop.errors import ArgumentsError, ToolError, ToolUnavailable
from hotloop.limit import Limit, stop
from hotloop.testing import ScriptedModel
from hotloop.testing import call as said
from hotloop.tools.running.caller import Caller
from hotloop.tools.running.progress import Reporter, reporter
from hotloop.tools.running.tracecontext import traceparent_of

SECRET = "s3cret-s3cret"


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    """Proxies that lead nowhere: this machine itself is called without them."""
    for name in os.environ:
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HTTP_PROXY", "http://localhost:1")


@pytest.fixture
async def service():
    async with serve() as service:
        yield service


@pytest.fixture
def call(tmp_path, service):
    """Calls the one operation of a document with arguments as a model writes them."""

    async def call(operation, arguments=None, path="/it", method="get", auth=None, **more):
        [tool] = tools(tmp_path, document(operation, path, method, **more), base_url=f"{service.url}/base", auth=auth)
        return await tool(**tool.bind(json.dumps(arguments or {})))

    return call


def parameter(place, **said):
    return {"parameters": [{"name": "v", "in": place, "required": True, **said}]}


# Values in their places.

COLORS, RGB = ["blue", "b/c", "&=,"], {"R": 100, "G": "a,b"}


@pytest.mark.parametrize(
    ("said", "value", "target"),
    [
        ({}, "a b/ü", "/base/it/a%20b%2F%C3%BC/x"),
        ({}, 5.0, "/base/it/5/x"),
        ({}, True, "/base/it/true/x"),
        ({}, COLORS, "/base/it/blue,b%2Fc,%26%3D%2C/x"),
        ({}, RGB, "/base/it/R,100,G,a%2Cb/x"),
        ({"explode": True}, RGB, "/base/it/R=100,G=a%2Cb/x"),
        ({"content": {"application/json": {}}}, {"a": "/"}, "/base/it/%7B%22a%22%3A%22%2F%22%7D/x"),
    ],
)
async def test_path(call, service, said, value, target):
    await call(parameter("path", **said), {"v": value}, "/it/{v}/x")
    assert service.requests[0].target == target


@pytest.mark.parametrize(
    ("said", "value", "query"),
    [
        ({}, "a&b=c#+ ", "?v=a%26b%3Dc%23%2B%20"),
        ({}, 1e300, "?v=1e300"),
        ({}, False, "?v=false"),
        ({}, None, ""),
        ({}, [], ""),
        ({}, COLORS, "?v=blue&v=b%2Fc&v=%26%3D%2C"),
        ({"explode": False}, COLORS, "?v=blue,b%2Fc,%26%3D%2C"),
        ({}, RGB, "?R=100&G=a%2Cb"),
        ({"explode": False}, RGB, "?v=R,100,G,a%2Cb"),
        ({"style": "deepObject"}, {"a": {"&": 1}, "b": [2, 3]}, "?v%5Ba%5D%5B%26%5D=1&v%5Bb%5D=2&v%5Bb%5D=3"),
        ({"content": {"application/json": {}}}, "a", "?v=%22a%22"),
        ({"name": "f[a b]"}, "x", "?f%5Ba%20b%5D=x"),
    ],
)
async def test_query(call, service, said, value, query):
    name = "f_a_b" if "name" in said else "v"
    await call(parameter("query", **{**said, "required": False}), {name: value})
    assert service.requests[0].target == f"/base/it{query}"


@pytest.mark.parametrize(("value", "sent"), [("plain; text", "plain; text"), ([1, "a"], "1,a")])
async def test_header(call, service, value, sent):
    await call(parameter("header"), {"v": value})
    assert service.requests[0].header("v") == sent


async def test_a_cookie_is_no_argument(call, service):
    with pytest.raises(ArgumentsError, match="v"):
        await call(parameter("cookie", required=False), {"v": 1})
    assert not service.requests


@pytest.mark.parametrize(
    ("place", "value"),
    [
        *(("path", value) for value in ("", ".", "..", "../x", "a/../b", "..\\x", "a/.")),
        *(("header", value) for value in ("a\r\nx: y", "ü", " a", "a\n")),
    ],
)
async def test_a_value_that_would_be_more_than_a_value_is_refused(call, service, place, value):
    with pytest.raises(ArgumentsError):
        await call(parameter(place), {"v": value}, "/it/{v}" if place == "path" else "/it")
    assert not service.requests


async def test_values_together_make_no_step_up(call, service):
    both = {"parameters": [{"name": name, "in": "path"} for name in "ab"]}
    with pytest.raises(ArgumentsError):
        await call(both, {"a": ".", "b": "."}, "/it/{a}{b}/x")


async def test_an_object_takes_no_name_of_another_value(call, service):
    operation = {"parameters": [{"name": "v", "in": "query"}, {"name": "page", "in": "query"}], "security": [{"k": []}]}
    schemes = {"securitySchemes": {"k": {"type": "apiKey", "in": "query", "name": "key"}}}
    for name in ("page", "KEY"):
        with pytest.raises(ArgumentsError, match=f"v may not have the key '{name}'"):
            await call(operation, {"v": {name: 1}}, components=schemes)


TEXT = st.text(st.characters(codec="utf-8"), max_size=20)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(path=TEXT, query=TEXT, items=st.lists(TEXT, max_size=3), key=TEXT)
def test_any_text_arrives_as_it_was_and_nowhere_else(path, query, items, key, wired):
    runner, service, tool = wired
    service.requests.clear()
    arguments = {"path": path, "query": query, "items": items, "deep": {key: query}}
    try:
        runner.run(tool(**tool.bind(json.dumps(arguments))))
    except ArgumentsError:
        assert not path or {".", ".."} & set(path.replace("\\", "/").split("/"))
        return
    [got] = service.requests
    before, between, after = got.target.partition("?")[0].split("/")[1:4]
    assert (before, unquote(between), after) == ("it", path, "x")
    pairs = [tuple(map(unquote, pair.split("="))) for pair in got.target.partition("?")[2].split("&")]
    assert pairs == [("query", query), *(("items", item) for item in items), (f"deep[{key}]", query)]


@pytest.fixture(scope="module")
def wired(tmp_path_factory):
    """A tool, a service, and the event loop of both."""
    with asyncio.Runner() as runner:
        manager = serve()
        service = runner.run(manager.__aenter__())
        parameters = [{"name": "path", "in": "path"}, *({"name": name, "in": "query"} for name in ("query", "items"))]
        deep = {"name": "deep", "in": "query", "style": "deepObject"}
        content = document({"parameters": [*parameters, deep]}, "/it/{path}/x")
        [tool] = tools(tmp_path_factory.mktemp("wired"), content, base_url=service.url)
        yield runner, service, tool
        runner.run(manager.__aexit__(None, None, None))


# Bodies.

FIELDS = {"type": "object", "required": ["kind"], "properties": {"kind": {"const": "x"}, "a": {}, "b c": {}}}
X = {"kind": "x"}
FORM, DEEP = "application/x-www-form-urlencoded", {"b c": {"style": "deepObject"}}


@pytest.mark.parametrize(
    ("media_type", "content", "arguments", "body"),
    [
        ("application/json", {"schema": FIELDS}, X | {"a": None, "b_c": ["é"]}, '{"kind":"x","a":null,"b c":["é"]}'),
        ("application/vnd.x+json", {}, {"body": [1]}, "[1]"),
        ("application/json", {"schema": {"type": "object", "properties": {"a": {}}}}, {}, "{}"),
        (FORM, {"schema": FIELDS}, X | {"a": [1, "&"]}, "kind=x&a=1&a=%26"),
        (FORM, {"schema": FIELDS, "encoding": DEEP}, X | {"b_c": {"k": 1}}, "kind=x&b%20c%5Bk%5D=1"),
        (FORM, {}, {"body": {"k": [1, 2]}}, "k=1&k=2"),
        ("text/plain", {}, {"body": "é"}, "é"),
    ],
)
async def test_body(call, service, media_type, content, arguments, body):
    operation = {"requestBody": {"required": True, "content": {"image/png": {}, media_type: content}}}
    await call(operation, arguments, method="post")
    assert service.requests[0].body.decode() == body
    assert service.requests[0].header("content-type") == media_type + "; charset=utf-8" * (media_type == "text/plain")


async def test_an_optional_body_without_arguments_is_none(call, service):
    await call({"requestBody": {"content": {"application/json": {}}}}, method="post")
    assert (service.requests[0].header("content-type"), service.requests[0].body) == (None, b"")


# Credentials.

SCHEMES = {
    "bearer": {"type": "http", "scheme": "Bearer"},
    "basic": {"type": "http", "scheme": "basic"},
    "oauth": {"type": "oauth2", "flows": {}},
    "header": {"type": "apiKey", "in": "header", "name": "X-Key"},
    "query": {"type": "apiKey", "in": "query", "name": "the key"},
    "cookie": {"type": "apiKey", "in": "cookie", "name": "sid"},
    "digest": {"type": "http", "scheme": "digest"},
}
COMPONENTS = {"securitySchemes": SCHEMES}
CODED = base64.b64encode(f"me:{SECRET}".encode()).decode()


@pytest.mark.parametrize(
    ("scheme", "secret", "header", "sent"),
    [
        ("bearer", SECRET, "authorization", f"Bearer {SECRET}"),
        ("oauth", f" {SECRET}\n", "authorization", f"Bearer {SECRET}"),
        ("basic", f"me:{SECRET}", "authorization", f"Basic {CODED}"),
        ("header", SECRET, "x-key", SECRET),
        ("cookie", SECRET, "cookie", f"sid={SECRET}"),
    ],
)
async def test_credentials_come_from_the_environment_at_the_call(
    call, service, monkeypatch, scheme, secret, header, sent
):
    monkeypatch.setenv(f"OPENAPI_TEST_{scheme.upper()}", secret)
    await call({"security": [{scheme: []}]}, components=COMPONENTS)
    assert service.requests[0].header(header) == sent


@pytest.mark.parametrize("operation", [{}, parameter("query")])
async def test_a_key_in_the_query_is_in_no_log(call, service, monkeypatch, caplog, operation):
    monkeypatch.setenv("KEY", f"{SECRET}&")
    caplog.set_level(logging.DEBUG)
    arguments = {"v": 1} if operation else {}
    await call(operation | {"security": [{"query": []}]}, arguments, components=COMPONENTS, auth={"query": "KEY"})
    assert service.requests[0].target == f"/base/it?{'v=1&' if operation else ''}the%20key={SECRET}%26"
    assert "/base/it" in caplog.text
    assert SECRET not in caplog.text


@pytest.mark.parametrize(
    ("security", "set_", "sent"),
    [
        ([{"bearer": []}, {"header": []}], ["HEADER"], (None, SECRET)),
        ([{"bearer": [], "header": []}], ["HEADER", "BEARER"], (f"Bearer {SECRET}", SECRET)),
        ([{}, {"header": []}], ["HEADER"], (None, SECRET)),
        ([{}, {"header": []}], [], (None, None)),
        ([{"digest": []}, {"header": []}], ["HEADER"], (None, SECRET)),
        ([], ["HEADER"], (None, None)),
    ],
)
async def test_ways_to_be_allowed(call, service, monkeypatch, security, set_, sent):
    for name in set_:
        monkeypatch.setenv(f"OPENAPI_TEST_{name}", SECRET)
    await call({"security": security}, components=COMPONENTS)
    assert (service.requests[0].header("authorization"), service.requests[0].header("x-key")) == sent


async def test_the_document_says_it_for_all_operations(call, service, monkeypatch):
    monkeypatch.setenv("OPENAPI_TEST_HEADER", SECRET)
    await call({}, components=COMPONENTS, security=[{"header": []}])
    await call({"security": []}, components=COMPONENTS, security=[{"header": []}])
    assert [got.header("x-key") for got in service.requests] == [SECRET, None]


@pytest.mark.parametrize("value", ["", "two\nlines", "ключ"])
async def test_without_credentials_nothing_is_sent(call, service, monkeypatch, caplog, value):
    monkeypatch.setenv("OPENAPI_TEST_HEADER", value)
    with pytest.raises(ToolUnavailable, match="environment variable OPENAPI_TEST_HEADER") as raised:
        await call({"security": [{"header": []}]}, components=COMPONENTS)
    assert not raised.value.retryable
    assert not service.requests
    assert value not in str(raised.value) or not value
    assert ("OPENAPI_TEST_HEADER" in caplog.text) == (not value)


async def test_the_model_is_not_asked_for_credentials(call, service, monkeypatch):
    monkeypatch.setenv("OPENAPI_TEST_HEADER", SECRET)
    operation = {"parameters": [{"name": "x-key", "in": "header", "required": True}], "security": [{"header": []}]}
    await call(operation, components=COMPONENTS)
    assert service.requests[0].header("x-key") == SECRET


@pytest.mark.parametrize("status", [200, 403])
async def test_a_service_that_repeats_the_credentials_is_not_repeated(call, service, monkeypatch, status):
    monkeypatch.setenv("OPENAPI_TEST_BASIC", f"me:{SECRET}")
    service.answer = lambda got: reply(json.dumps([SECRET, CODED]).encode(), status)
    try:
        said = str(await call({"security": [{"basic": []}]}, components=COMPONENTS))
    except ToolError as error:
        said = str(error)
    assert said.count("***") == 2
    assert SECRET not in said and CODED not in said


# Replies.


@pytest.mark.parametrize(
    ("answer", "result"),
    [
        (reply(b'{"a": [1, 2.5, null]}'), {"a": [1, 2.5, None]}),
        (reply(b"[1]", kind="application/hal+json; charset=utf-8"), [1]),
        (reply(b"{broken", kind="application/json"), "{broken"),
        (reply("gr\u00fc\u00df".encode("latin-1"), kind="text/plain; charset=latin-1"), "grüß"),
        (reply(b"<a/>", kind="application/xml"), "<a/>"),
        (reply(b"a", kind="text/plain; charset=nonsense"), "a"),
        (reply(b"[1]", kind=""), [1]),
        (reply(b"words", kind=""), "words"),
        (reply(b"\x89PNG", kind="image/png"), {"status": 200, "type": "image/png", "bytes": 4}),
        (reply(b"", 204, kind=""), {"status": 204}),
        (reply(b"", 201, "location: /orders/7"), {"status": 201, "location": "/orders/7"}),
    ],
)
async def test_what_the_model_reads(call, service, answer, result):
    service.answer = lambda got: answer
    assert await call({}) == result


FROM = "The credentials come from the environment variable OPENAPI_TEST_HEADER."
BUSY = "The service answered 429 Too Many Requests"
PROBLEM = b'{"type": "about:blank", "title": "Sold out", "detail": "There are 3 left.", "more": 1}'


@pytest.mark.parametrize(
    ("answer", "kind", "message"),
    [
        (reply(b"", 404, "location: /there"), ToolError, "The service answered 404 Not Found."),
        (reply(PROBLEM, 409), ToolError, "The service answered 409 Conflict. Sold out: There are 3 left."),
        (reply(b'{"detail": [1]}', 424), ToolError, 'The service answered 424 Failed Dependency. {"detail": [1]}.'),
        (reply(b"x " * 9000, 400), ToolError, f"The service answered 400 Bad Request. {'x ' * 250}…."),
        (reply(b"no", 401), ToolError, f"The service answered 401 Unauthorized. no. {FROM}"),
        (reply(b"", 403), ToolError, f"The service answered 403 Forbidden. {FROM}"),
        (reply(b"", 429, "retry-after: 0"), ToolUnavailable, f"{BUSY}. It asks to wait 0 s."),
        (reply(b"", 503), ToolUnavailable, "The service answered 503 Service Unavailable."),
        (reply(b"", 599), ToolUnavailable, "The service answered 599 Unknown."),
        (reply(bytes(5 << 20)), ToolError, "The answer is larger than 4 MiB; ask for less of it."),
        (Cut(b"nonsense\r\n\r\n"), ToolUnavailable, "No answer from "),
        (Cut(reply()[:-3]), ToolUnavailable, "No answer from "),
    ],
)
async def test_errors(call, service, monkeypatch, answer, kind, message):
    monkeypatch.setenv("OPENAPI_TEST_HEADER", SECRET)
    service.answer = lambda got: answer
    with pytest.raises(ToolError) as raised:
        await call({"security": [{"header": []}]}, components=COMPONENTS)
    assert type(raised.value) is kind
    assert str(raised.value).startswith(message)
    assert "sends on" not in str(raised.value)
    assert raised.value.retryable == (kind is ToolUnavailable)


@pytest.mark.parametrize(
    ("wait", "words"),
    [("1", "It asks to wait 1 s."), ("Wed, 21 Oct 2037 07:28:00 GMT", "It asks to wait until Wed, 21 Oct 2037")],
)
async def test_what_asks_to_wait_is_not_tried_again_at_once(call, service, wait, words):
    service.answer = lambda got: reply(b"", 429, f"retry-after: {wait}")
    with pytest.raises(ToolUnavailable, match=words) as raised:
        await call({})
    assert not raised.value.retryable


async def test_a_body_without_end_is_not_read_to_its_end(call, service):
    service.answer = lambda got: b"HTTP/1.1 200 OK\r\ncontent-length: 999999999999\r\n\r\n" + bytes(5 << 20)
    with pytest.raises(ToolError, match="larger than 4 MiB"):
        await call({})


async def test_nobody_there(tmp_path):
    [tool] = tools(tmp_path, document({}), base_url="http://localhost:1")
    with pytest.raises(ToolUnavailable, match="No answer from localhost:1: "):
        await tool()


async def test_no_answer_in_time_is_a_timeout_as_of_any_tool(tmp_path, service):
    service.answer = lambda got: None
    [tool] = tools(tmp_path, document({}), base_url=service.url, timeout=0.05)
    tool = msgspec.structs.replace(tool, on_timeout="what was known before")
    model = ScriptedModel([said("it"), "Done."])
    async with Agent(model="scripted", endpoint=model, tools=[tool]) as agent:
        await agent.run("What is it?")
    assert model.requests[1]["messages"][-1]["content"] == "what was known before"


# Where a request goes, and what stays.


@pytest.mark.parametrize(("method", "status"), [("get", 301), ("get", 302), ("post", 307), ("get", 308)])
async def test_a_redirect_on_the_same_server_is_followed_with_everything(call, service, monkeypatch, method, status):
    monkeypatch.setenv("OPENAPI_TEST_COOKIE", SECRET)
    service.answer = lambda got: reply(b"", status, "location: /new?x=1") if "base" in got.target else reply(b"1")
    operation = {"requestBody": {"content": {"text/plain": {}}}, "security": [{"cookie": []}]}
    assert await call(operation, {"body": "b"} if method == "post" else {}, method=method, components=COMPONENTS) == 1
    old, new = service.requests
    assert (new.target, new.method, new.body) == ("/new?x=1", old.method, old.body)
    assert new.header("cookie") == f"sid={SECRET}"


async def test_a_redirect_to_another_server_is_not_followed(call, service, monkeypatch):
    monkeypatch.setenv("OPENAPI_TEST_HEADER", SECRET)
    async with serve() as other:
        service.answer = lambda got: reply(b"", 302, f"location: {other.url}/new?x=1")
        with pytest.raises(
            ToolError, match=re.escape(f"302 Found. It sends on to {other.url}/new, which is not followed")
        ):
            await call({"security": [{"header": []}]}, components=COMPONENTS)
    assert not other.requests


@pytest.mark.parametrize(("method", "security"), [("post", []), ("get", [{"query": []}])])
async def test_a_redirect_is_not_followed_with_another_method_or_a_key_in_the_query(
    call, service, monkeypatch, method, security
):
    monkeypatch.setenv("OPENAPI_TEST_QUERY", SECRET)
    service.answer = lambda got: reply(b"", 302, f"location: {service.url}{got.target}")
    with pytest.raises(ToolError, match=r"302 Found\. It sends on to .*/base/it, which") as raised:
        await call({"security": security}, method=method, components=COMPONENTS)
    assert len(service.requests) == 1
    assert SECRET not in str(raised.value)


async def test_redirects_in_a_circle(call, service):
    service.answer = lambda got: reply(b"", 302, "location: /base/it")
    with pytest.raises(ToolError, match="sends on more than 5 times"):
        await call({})


async def test_cookies_are_not_kept(tmp_path, service):
    service.answer = lambda got: reply(b"1", 200, "set-cookie: sid=of-another-user; Path=/")
    [tool] = tools(tmp_path, document({}), base_url=service.url)
    await tool()
    await tool()
    assert [got.header("cookie") for got in service.requests] == [None, None]
    assert service.connections == 1


async def test_other_machines_are_called_through_the_proxy(tmp_path, service, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", service.url)
    monkeypatch.setenv("OPENAPI_TEST_QUERY", SECRET)
    content = document({"security": [{"query": []}]}, components=COMPONENTS)
    [tool] = tools(tmp_path, content, base_url="http://shop.test")
    await tool()
    assert service.requests[0].target == f"http://shop.test/it?the%20key={SECRET}"


async def test_the_trace_goes_on(call, service):
    loop = asyncio.get_running_loop()
    token = reporter.set(Reporter(lambda events: None, loop, Limit(None, loop), Caller("req-1"), "call-1", "it"))
    try:
        await call({})
    finally:
        reporter.reset(token)
    await call({})
    assert [got.header("traceparent") for got in service.requests] == [
        traceparent_of("req-1", "call-1"),
        None,
    ]


async def test_an_idle_connection_is_closed(tmp_path, service, monkeypatch):
    monkeypatch.setattr("hotloop.tools.openapi.clients._IDLE_SECONDS", 0.02)
    [tool] = tools(tmp_path, document({}), base_url=service.url)
    await asyncio.gather(tool(), tool())
    assert len(service.open) == 2
    await asyncio.wait_for(asyncio.gather(*service.open), 5)
    await tool()
    assert service.connections == 3


async def test_a_connection_in_use_is_not_idle(tmp_path, service, monkeypatch):
    monkeypatch.setattr("hotloop.tools.openapi.clients._IDLE_SECONDS", 0.005)
    service.answer = lambda got: None
    [tool] = tools(tmp_path, document({}), base_url=service.url)
    waiting = asyncio.create_task(tool())
    await asyncio.wait({waiting}, timeout=0.05)
    assert not waiting.done()
    assert len(service.open) == 1
    await stop({waiting})


PROGRAM = """
import asyncio, gc, logging, pathlib, sys
logging.getLogger("asyncio").setLevel(logging.ERROR)  # a slow machine is no fault
from contextlib import suppress
import uvloop
from openapi_service import Cut, document, reply, serve, tools
from hotloop.errors import ToolError
from hotloop.tools.openapi import clients

async def idle(tool, service):
    await tool()

async def several(tool, service):
    await asyncio.gather(*(tool() for _ in range(5)))

async def in_use(tool, service):
    service.answer = lambda got: None
    task = asyncio.create_task(failing(tool, service))
    while not service.requests:
        await asyncio.sleep(0.001)
    return task

async def cancelled(tool, service):
    (await in_use(tool, service)).cancel()

async def failing(tool, service):
    with suppress(ToolError):
        await tool()

async def failed(tool, service):
    service.answer = lambda got: Cut(b"x")
    await failing(tool, service)

async def too_large(tool, service):
    service.answer = lambda got: reply(bytes(9 << 20))
    await failing(tool, service)

async def long_idle(tool, service):
    clients._IDLE_SECONDS = 0.001
    await tool()
    await asyncio.wait(service.open)

async def main(ending):
    async with serve() as service:
        [tool] = tools(pathlib.Path(sys.argv[1]), document({}), base_url=service.url)
        kept.append(tool if ending is several else None)
        task = await ending(tool, service)

kept = []
for ending in (idle, several, in_use, cancelled, failed, too_large, long_idle):
    LOOP.run(main(ending))
    gc.collect()
"""


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_loop_that_ends_leaves_no_connection_and_no_warning(tmp_path, loop):
    program = [sys.executable, "-X", "dev", "-W", "error", "-c", PROGRAM.replace("LOOP", loop), str(tmp_path)]
    environment = {"PYTHONPATH": ":".join(sys.path), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(program, capture_output=True, text=True, timeout=60, env=environment)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.fixture
def elsewhere():
    """A service in a loop and thread of its own."""
    with asyncio.Runner() as runner:
        loop, manager = runner.get_loop(), serve()
        service = runner.run(manager.__aenter__())
        thread = threading.Thread(target=loop.run_forever)
        thread.start()
        yield service
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        runner.run(manager.__aexit__(None, None, None))


def test_one_tool_in_several_loops(tmp_path, elsewhere):
    """As when run_sync keeps a loop of its own and asyncio.run makes others."""
    [tool] = tools(tmp_path, document({}), base_url=elsewhere.url)
    with asyncio.Runner() as lasting:
        lasting.run(tool())
        for _ in range(2):
            asyncio.run(tool())
            lasting.run(tool())
    assert elsewhere.connections == 3
