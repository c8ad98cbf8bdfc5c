"""MCP servers as tools, over stdio and HTTP, with real servers: what they offer, and what becomes of calls."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from pathlib import Path
from typing import Any

import pytest

from hotloop.errors import ArgumentsError, ConfigError, ToolDefinitionError, ToolError, ToolUnavailable
from hotloop.limit import Limit, stop
from hotloop.tools.defining.tool import Tool
from hotloop.tools.mcp import MCPServer
from hotloop.tools.running.caller import Caller
from hotloop.tools.running.progress import Reporter, reporter
from hotloop.tools.running.tracecontext import traceparent_of
from mcp_servers.forgetful import Forgetful
from mcp_servers.npm import npm_servers
from mcp_servers.raw import command as raw
from mcp_servers.serving import serving
from mcp_servers.shop import make

SERVERS = Path(__file__).parents[1] / "mcp_servers"
SHOP = [sys.executable, str(SERVERS / "shop.py")]
READS, CHANGES, DESTROYS = {"readOnlyHint": True}, {"readOnlyHint": False}, {"destructiveHint": True}
REPEATABLE = {"idempotentHint": True}


def python(code: str) -> list[str]:
    return [sys.executable, "-S", "-c", code]


async def eventually(holds: Callable[[], Awaitable[bool] | bool]) -> None:
    async with asyncio.timeout(10):
        while not (await here if isawaitable(here := holds()) else here):  # noqa: ASYNC110
            await asyncio.sleep(0.005)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


def open_files() -> int:
    return len(list(Path("/dev/fd").iterdir()))


async def by_name(server: MCPServer) -> dict[str, Tool]:
    """The server's tools, by their own names."""
    return {tool.name.removeprefix(f"{server.name}_"): tool for tool in await server.tools()}


def runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.fixture(scope="session")
def npm() -> Path:
    return npm_servers()


@pytest.fixture(scope="session")
def everything(npm: Path) -> list[str]:
    return ["node", str(npm / "server-everything" / "dist" / "index.js")]


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A user with an empty cache and no proxy; the folder in which listings are kept."""
    monkeypatch.setenv("HOTLOOP_CACHE", str(tmp_path / "cache"))
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    return tmp_path / "cache" / "mcp"


@pytest.fixture(autouse=True)
async def nothing_left():
    """When a test has closed its servers, no task and no file of theirs is left."""
    files, tasks = open_files(), asyncio.all_tasks()
    yield
    await eventually(lambda: asyncio.all_tasks() - tasks <= {asyncio.current_task()} and open_files() <= files)


@pytest.fixture(params=["stdio", "http"])
async def shop(request: pytest.FixtureRequest):
    if request.param == "stdio":
        async with MCPServer(SHOP, name="shop") as server:
            yield server
    else:
        with serving(make().streamable_http_app()) as url:
            async with MCPServer(url=url, name="shop", headers={"Authorization": "Bearer abc"}) as server:
                yield server


async def test_tools_are_those_of_the_server(shop):
    tools = await by_name(shop)
    status = tools["order_status"]
    assert json.loads(await status(order_id="20250101")) == {"order_id": "20250101", "status": "shipped"}
    assert json.loads(status.definition)["function"] == {
        "name": "shop_order_status",
        "description": "Current status of an order.",
        "parameters": {
            "type": "object",
            "properties": {"order_id": {"type": "string", "pattern": "^[0-9]{8}$"}},
            "required": ["order_id"],
        },
    }
    with pytest.raises(ArgumentsError, match=r"does not match .* at `\$\.order_id`"):
        status.bind('{"order_id": "1"}')
    with pytest.raises(ToolError, match="is on its way") as error:
        await tools["cancel_order"](order_id="20250101")
    assert not error.value.retryable
    loop = asyncio.get_running_loop()
    token = reporter.set(Reporter(lambda events: None, loop, Limit(None, loop), Caller("req-1"), "call-1", "told"))
    assert json.loads(await tools["told"]())["traceparent"] == traceparent_of("req-1", "call-1")
    reporter.reset(token)
    assert json.loads(await tools["told"]())["traceparent"] is None


async def test_progress_is_told_to_the_run(shop):
    told: list[Any] = []
    loop = asyncio.get_running_loop()
    tools = await by_name(shop)
    token = reporter.set(Reporter(told.extend, loop, Limit(None, loop), Caller("req-1"), "call-1", "pack"))
    assert "packed" in await tools["pack"](items=2)
    reporter.reset(token)
    assert [event.status for event in told] == ["packing (1 of 2)", "packing (2 of 2)"]


async def test_a_cancelled_call_is_cancelled_at_the_server_too(shop):
    begun = asyncio.Event()
    loop = asyncio.get_running_loop()
    tools = await by_name(shop)
    reporter.set(Reporter(lambda events: begun.set(), loop, Limit(None, loop), Caller("req-1"), "call-1", "wait"))
    task = asyncio.create_task(tools["wait"](reason="slow"))
    await begun.wait()
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()

    async def told() -> bool:
        return json.loads(await tools["stopped"]()) == {"result": ["slow"]}

    await eventually(told)


async def test_tools_that_come_later_are_noticed(shop, caplog):
    await (await by_name(shop))["extend"]()
    await eventually(lambda: "shop_later" in [tool.name for tool in shop.known() or []])
    assert "The MCP server shop offers other tools than before: new later." in warnings(caplog)


async def test_a_server_that_offers_other_tools_is_worth_a_warning(cache, caplog):
    await offered("a", "b", {"name": "c", "description": "See"})
    (file,) = cache.iterdir()
    before = json.loads(file.read_text())
    before["tools"][1:] = [{"name": "c", "description": "Look", "inputSchema": {}}, {"name": "d", "inputSchema": {}}]
    file.write_text(json.dumps(before))
    await offered("a", "b", {"name": "c", "description": "See"})
    assert warnings(caplog) == [
        "The MCP server raw offers other tools than before: new b; gone d; changed c (description, schema)."
    ]


async def test_it_is_listed_once_and_known_from_then_on(cache, caplog):
    command = raw("b", "a", {"name": "c", "description": "See"})
    server = MCPServer(command, name="raw", env={"SHOP_KEY": "secret-value"})
    assert server.known() is None
    async with server:
        offered = await server.tools()
    assert server.known() == offered
    elsewhere = MCPServer(command, name="raw").known()
    assert [tool.definition for tool in elsewhere] == [tool.definition for tool in offered]
    assert MCPServer(command, name="other").known() is None
    (file,) = cache.iterdir()
    assert "secret-value" not in file.read_text() + file.name
    file.write_text('{"tools": [{"na')
    assert MCPServer(command, name="raw").known() is None
    assert "will be written anew" in caplog.text
    caplog.clear()
    async with MCPServer(command, name="raw") as again:
        assert again.known() is None
        await again.tools()
    assert caplog.text.count("will be written anew") == 1
    assert [tool.name for tool in MCPServer(command, name="raw").known()] == ["raw_a", "raw_b", "raw_c"]


async def test_a_call_before_the_connection_waits_for_it():
    async with MCPServer(raw("pid"), name="raw") as server:
        await server.tools()
    (pid,) = server.known()
    assert not server.connected
    connecting = asyncio.create_task(server.connect())
    await eventually(lambda: server.connected)
    first, second = await asyncio.gather(pid(), pid())
    await connecting
    assert first == second
    assert runs(int(first))
    await server.aclose()
    assert not server.connected
    assert not runs(int(first))
    assert await pid() != first
    await server.aclose()


async def test_a_connection_that_cannot_be_written_down_works(cache, caplog):
    cache.parent.write_text("no folder")
    async with MCPServer(raw("pid"), name="raw") as server:
        assert [tool.name for tool in await server.tools()] == ["raw_pid"]
    assert "could not be kept" in caplog.text


async def test_all_pages_are_read_in_an_order_of_its_own():
    async with MCPServer(raw(*"edcbafg", pages=3), name="raw") as server:
        assert [tool.name for tool in await server.tools()] == [f"raw_{name}" for name in "abcdefg"]


async def offered(*tools: dict[str, Any] | str, name: str = "raw", **options: Any) -> list[Tool]:
    async with MCPServer(raw(*tools), name=name, **options) as server:
        return await server.tools()


async def test_names_are_made_fit_for_services():
    long = "a" * 64
    tools = await offered(
        "admin.users/list", long, long + "b", "查询", {"name": "退款", "description": "Give money back."}, "查询_order"
    )
    assert [(tool.name, json.loads(tool.definition)["function"].get("description")) for tool in tools] == [
        ("raw_" + "a" * 51 + "_48f35d9b", None),
        ("raw_" + "a" * 51 + "_fb414fa0", None),
        ("raw_admin_users_list", None),
        ("raw_5c7d0de6", "查询"),
        ("raw_order_3bf6c607", "查询_order"),
        ("raw_a3ebcb89", "退款: Give money back."),
    ]


@pytest.mark.parametrize(
    ("hints", "options", "read_only", "idempotent"),
    [
        (READS | REPEATABLE, {}, False, False),
        (READS | REPEATABLE, {"trust_hints": True}, True, True),
        ({}, {"trust_hints": True}, False, False),
        (CHANGES | REPEATABLE, {"trust_hints": True}, False, True),
        (DESTROYS | REPEATABLE, {"trust_hints": True}, False, False),
        (READS | DESTROYS, {"trust_hints": True}, False, False),
        ({}, {"read_only": ["x"]}, True, False),
        ({}, {"rules": {"x": {"read_only": True, "ttl": 60}}}, True, False),
        (CHANGES, {"read_only": ["x"]}, False, False),
        (DESTROYS, {"rules": {"x": {"read_only": True}}}, False, False),
    ],
)
async def test_hints_take_permissions_away_and_users_give_them(hints, options, read_only, idempotent, caplog):
    (tool,) = await offered({"name": "x", "annotations": hints}, **options)
    assert (tool.read_only, tool.idempotent) == (read_only, idempotent)
    asked = "read_only" in str(options) or (options and hints.get("readOnlyHint"))
    assert ("x of the MCP server raw is not taken as read-only" in caplog.text) == bool(asked and not read_only)


async def test_some_tools_with_rules():
    tools = await offered("a", "b", "c", include=["a", "b"], rules={"b": {"approval": "always", "timeout": 5.0}})
    assert [(tool.name, tool.approval, tool.timeout) for tool in tools] == [
        ("raw_a", "never", None),
        ("raw_b", "always", 5.0),
    ]


async def test_a_rule_may_say_what_of_its_results_is_read():
    tools = await offered(
        "a", "b", rules={"b": {"keep": ["status", "items[].sku"], "max_result": 100, "summarize": True}}
    )
    content = '{"status":"ok","items":[{"sku":1,"x":2}],"x":3}'
    assert [tool.keep and tool.keep.of(content) for tool in tools] == [None, '{"status":"ok","items":[{"sku":1}]}']
    assert [(tool.max_result, tool.summarize) for tool in tools] == [(None, False), (100, True)]


async def test_a_rule_may_give_another_name_and_description():
    renamed = {"name": "pay_back", "description": "Give money back."}
    (tool,) = await offered("退款", rules={"退款": renamed}, include=["退款"])
    assert json.loads(tool.definition)["function"].items() >= renamed.items()
    first, second = await offered("a.b", "a/b", rules={"a/b": {"name": "raw_other"}})
    assert (first.name, second.name) == ("raw_a_b", "raw_other")


def odd(key: str, value: str) -> dict[str, Any]:
    """A tool with this in the schema of its parameter."""
    return {"name": "a", "inputSchema": {"type": "object", "properties": {"it": {key: value}}}}


@pytest.mark.parametrize(
    ("tools", "options", "words"),
    [
        (["a.b", "a/b"], {}, "a.b and a/b, which would both be called raw_a_b; take one of them with include=, or"),
        (["ab"], {"include": ["abc"]}, "include names abc, which it does not offer; it offers ab"),
        (["a"], {"rules": {"b": {}}}, "rules names b"),
        (["a"], {"rules": {"a": {"ttl": 5}}}, "tool raw_a: ttl keeps results"),
        (["a"], {"rules": {"a": {"name": "店"}}}, "'店' is no name that services accept; give name="),
        (["a"], {"rules": {"a": {"description": 5}}}, "The MCP server raw: tool raw_a: description=5; give text"),
        ([odd("pattern", "(")], {}, "tool raw_a: its schema is no JSON Schema"),
        ([odd("$ref", "http://127.0.0.1:9/x")], {}, "Retrieval is disabled"),
    ],
)
async def test_what_cannot_be_offered_is_told(tools, options, words):
    with pytest.raises(ToolDefinitionError) as error:
        await offered(*tools, **options)
    assert words in str(error.value)
    assert MCPServer(raw(*tools), name="raw", **options).known() is None


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "give command= to start it, or url= to reach it"),
        ({"command": ["x"], "url": "http://x"}, "one of the two"),
        ({"command": "npx server"}, "Expected `array`, got `str` - at `$.command`"),
        ({"command": ["x", ""]}, "length >= 1 - at `$.command[1]`"),
        ({"url": "localhost:80"}, "regex '^https?://' - at `$.url`"),
        ({"url": "http:///mcp"}, "there is no host in 'http:///mcp'"),
        ({"url": "http://[::1/mcp"}, "Invalid IPv6 URL"),
        ({"url": "http://x", "env": {"KEY": "a"}}, "env= goes with command=, and headers= with url="),
        ({"command": ["x"], "env": {"KEY": None}}, "Expected `str`, got `null` - at `$.env[...]`"),
        ({"url": "http://x", "headers": {"a": "b\nc"}}, "a has a line break"),
        ({"command": ["x"], "timeout": 0}, "Expected `float` > 0.0 - at `$.timeout`"),
        ({"command": ["x"], "include": "search"}, "got `str` - at `$.include`"),
        ({"command": ["x"], "name": "my server"}, "at `$.name`"),
    ],
)
def test_options_that_cannot_be_used(options, words):
    with pytest.raises(ConfigError) as error:
        MCPServer(**{"name": "raw"} | options)
    assert words in str(error.value)


def test_the_package_is_named_where_it_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "mcp", None)
    with pytest.raises(ConfigError, match=r'pip install "hotloop\[mcp\]"'):
        MCPServer(["x"], name="raw")


IMAGE = {"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"}
LINK = {"type": "resource_link", "name": "r", "uri": "file:///r.csv", "mimeType": "text/csv", "size": 7}
TEXT = {"type": "text", "text": "two"}


@pytest.mark.parametrize(
    ("result", "read"),
    [
        ({"content": []}, ""),
        ({"content": [{"type": "text", "text": "one"}, TEXT]}, "one\ntwo"),
        ({"content": [TEXT], "structuredContent": {"n": 2}}, '{"n":2}'),
        ({"content": [TEXT, IMAGE]}, 'two\n{"type":"image","mimeType":"image/png","bytes":5}'),
        (
            {"content": [IMAGE], "structuredContent": {"n": 2}},
            '{"n":2}\n{"type":"image","mimeType":"image/png","bytes":5}',
        ),
        ({"content": [{**IMAGE, "type": "audio"}]}, '{"type":"audio","mimeType":"image/png","bytes":5}'),
        ({"content": [LINK]}, '{"type":"resource_link","mimeType":"text/csv","bytes":7,"uri":"file:///r.csv"}'),
        (
            {"content": [{"type": "resource", "resource": {"uri": "file:///r", "text": "inside"}}]},
            '{"type":"resource","uri":"file:///r"}\ninside',
        ),
        (
            {"content": [{"type": "resource", "resource": {"uri": "file:///r", "blob": "aGVsbG8="}}]},
            '{"type":"resource","bytes":5,"uri":"file:///r"}',
        ),
    ],
)
async def test_what_a_model_reads_of_a_result(result, read):
    async with MCPServer(raw("x", results={"x": result}), name="raw") as server:
        (tool,) = await server.tools()
        assert await tool() == read


@pytest.mark.parametrize(
    ("result", "words"),
    [
        ({"content": [TEXT], "isError": True}, "two"),
        ({"content": [], "isError": True}, "The MCP server raw did not say what went wrong."),
        ({"contents": 1}, "gave an unusable result"),
        (None, "The MCP server raw refused the call: no 'x'"),
    ],
)
async def test_a_result_that_is_an_error(result, words):
    results = {} if result is None else {"x": result}
    async with MCPServer(raw("x", results=results), name="raw") as server:
        (tool,) = await server.tools()
        with pytest.raises(ToolError) as error:
            await tool()
        assert words in str(error.value)
        assert not error.value.retryable


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (
            ["no-such-command"],
            "(the command 'no-such-command') cannot be started: there is no such command. Install it",
        ),
        ([__file__], "cannot be started: Permission denied"),
        (
            python("raise SystemExit('Error: no paper\\nbye')"),
            "ended before it had answered. It wrote: Error: no paper | bye",
        ),
        (
            python("raise SystemExit('Error: no paper\\n' + '\\n'.join('abcd'))"),
            "It wrote: Error: no paper | b | c | d",
        ),
        (python("import sys; print('the key is hunter2', file=sys.stderr)"), "It wrote: the key is ***"),
        (python("import sys; sys.stdin.read()"), "did not answer within 0.3 s. Is it an MCP server?"),
        (
            python("for line in __import__('sys').stdin: print(line, flush=True)"),
            "could not be connected: Method not found",
        ),
    ],
)
async def test_a_server_that_cannot_be_started(command, words):
    server = MCPServer(command, name="bad", env={"KEY": "hunter2"}, timeout=0.3 if "0.3 s" in words else 10)
    for attempt in (server.connect, server.tools):
        with pytest.raises(ToolUnavailable) as error:
            await attempt()
        assert words in str(error.value)
        assert error.value.retryable
    await server.aclose()


async def test_a_server_that_could_not_list_its_tools_is_asked_again(tmp_path, caplog):
    tools = tmp_path / "tools.json"
    async with MCPServer(raw("pid", needs=str(tools)), name="raw") as server:
        for _ in range(2):
            with pytest.raises(ToolUnavailable, match="The MCP server raw did not list its tools: no "):
                await server.tools()
        tools.touch()
        (pid,) = await server.tools()
        assert await pid()


async def test_a_server_gets_no_secrets_of_ours(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    async with MCPServer(raw("environment"), name="raw", env={"SHOP_KEY": "given"}) as server:
        (environment,) = await server.tools()
        seen = json.loads(await environment())
    assert seen["SHOP_KEY"] == "given"
    assert "OPENAI_API_KEY" not in seen


async def test_a_server_that_ends_is_started_by_the_next_call():
    async with MCPServer(SHOP, name="shop") as server:
        tools = await by_name(server)
        first = await tools["process"]()
        waiting = asyncio.create_task(tools["wait"](reason="none"))
        with pytest.raises(ToolUnavailable) as error:
            await tools["leave"]()
        assert "whether it took effect is not known" in str(error.value)
        assert "It wrote: ValueError: out of paper" in str(error.value)
        with pytest.raises(ToolUnavailable):
            await waiting
        assert await tools["process"]() != first


async def test_a_server_that_ended_meanwhile_costs_no_call():
    async with MCPServer(raw("pid"), name="raw") as server:
        (pid,) = await server.tools()
        first = await pid()
        files = open_files()
        os.kill(int(first), 9)
        await eventually(lambda: open_files() < files)
        assert await pid() != first


async def test_a_call_is_cancelled_at_once_even_if_the_server_reads_no_more():
    async with MCPServer(raw("deaf", "pid"), name="raw") as server:
        deaf, pid = await server.tools()
        first = await pid()
        calls = [asyncio.create_task(deaf(text="x" * 200_000)) for _ in range(2)]
        await asyncio.sleep(0.05)
        begun = time.perf_counter()
        await stop(calls)
        assert time.perf_counter() - begun < 3  # seconds; a polite end may take five

        async def another() -> bool:
            try:
                return await pid() != first
            except ToolUnavailable:  # it was asked before it was given up
                return False

        await eventually(another)


async def refusing(scope, receive, send):
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": int(scope["path"].removeprefix("/")), "headers": []})
        await send({"type": "http.response.body"})


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (401, "wants other credentials (HTTP 401). Give them in headers="),
        (404, "Correct url="),
        (503, "failed (HTTP 503)"),
    ],
)
async def test_a_server_that_refuses_over_http(status, words):
    with serving(refusing) as url:
        server = MCPServer(url=url.replace("/mcp", f"/{status}?key=hunter2"), name="bad")
        with pytest.raises(ToolUnavailable) as error:
            await server.tools()
        assert words in str(error.value)
        assert "hunter2" not in str(error.value)
        await server.aclose()


async def test_nobody_at_the_url():
    server = MCPServer(url="http://127.0.0.1:9/mcp", name="bad")
    with pytest.raises(ToolUnavailable, match=r"cannot be reached: .*Is it running, and is url= right\?"):
        await server.tools()
    await server.aclose()


async def test_a_call_of_a_server_that_is_gone_was_not_sent():
    with serving(make().streamable_http_app()) as url:
        server = MCPServer(url=url, name="shop")
        tools = await by_name(server)
    for _ in range(2):
        with pytest.raises(ToolUnavailable) as error:
            await tools["process"]()
        assert str(error.value).startswith(f"The MCP server shop ({url}) cannot be reached: ")
        assert error.value.retryable
    await server.aclose()


async def test_this_machine_is_reached_past_a_proxy(monkeypatch):
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with serving(make().streamable_http_app()) as url:
        async with MCPServer(url=url, name="shop") as server:
            assert "order_status" in await by_name(server)


async def test_headers_go_with_every_call():
    with serving(make().streamable_http_app()) as url:
        async with MCPServer(url=url, name="shop", headers={"Authorization": "Bearer abc"}) as server:
            assert json.loads(await (await by_name(server))["told"]())["token"] == "Bearer abc"


async def test_a_server_that_was_restarted_serves_the_next_call():
    with serving(make().streamable_http_app()) as url:
        server = MCPServer(url=url, name="shop")
        tools = await by_name(server)
        await tools["process"]()
    with serving(make().streamable_http_app(), int(url.split(":")[2].split("/")[0])):
        assert await tools["process"]()
        await server.aclose()


async def test_a_session_that_the_server_forgot_is_begun_anew():
    shop = Forgetful()
    with serving(shop) as url:
        async with MCPServer(url=url, name="shop") as server:
            (count,) = await server.tools()
            assert await count() == "1"
            shop.forget()
            assert sorted(await asyncio.gather(count(), count())) == ["2", "3"]
    assert shop.begun == 2


async def test_a_call_that_was_cut_is_not_sent_again():
    shop = Forgetful()
    with serving(shop) as url:
        async with MCPServer(url=url, name="shop") as server:
            (count,) = await server.tools()
            shop.cut = True
            with pytest.raises(ToolUnavailable, match="whether it took effect is not known"):
                await count()
            shop.cut = False
            assert await count() == "2"


async def test_a_real_server_from_npm(everything):
    told: list[Any] = []
    loop = asyncio.get_running_loop()
    async with MCPServer(everything, name="all", trust_hints=True, env={"SHOP_KEY": "given"}) as server:
        tools = await by_name(server)
        assert await tools["echo"](message="你好") == "Echo: 你好"
        assert "20 and 22 is 42" in await tools["get-sum"](a=20, b=22)
        assert json.loads(await tools["get-structured-content"](location="Chicago"))["temperature"]
        assert '{"type":"image","mimeType":"image/png","bytes":4033}' in await tools["get-tiny-image"]()
        assert json.loads(await tools["get-env"]())["SHOP_KEY"] == "given"
        reporter.set(Reporter(told.extend, loop, Limit(None, loop), Caller("req-1"), "call-1", "long"))
        await tools["trigger-long-running-operation"](duration=0.02, steps=2)
    assert [event.status for event in told] == ["1 of 2", "2 of 2"]
    assert tools["echo"].read_only
    assert not tools["toggle-simulated-logging"].read_only


async def test_files_through_a_server_from_npm(npm, tmp_path):
    folder = tmp_path.resolve() / "files"
    folder.mkdir()
    command = ["node", str(npm / "server-filesystem" / "dist" / "index.js"), str(folder)]
    async with MCPServer(command, name="files", read_only=["read_text_file", "move_file"]) as server:
        tools = await by_name(server)
        await tools["write_file"](path=str(folder / "a.txt"), content="one\ntwo\n")
        assert json.loads(await tools["read_text_file"](path=str(folder / "a.txt"), head=1)) == {"content": "one"}
        with pytest.raises(ToolError, match="Access denied"):
            await tools["read_text_file"](path="/etc/passwd")
    assert [name for name, tool in tools.items() if tool.read_only] == ["read_text_file"]


def test_each_loop_has_a_connection_of_its_own():
    server = MCPServer(raw("pid"), name="raw")

    async def pid() -> str:
        (tool,) = server.known() or await server.tools()
        return await tool()

    seen = [asyncio.run(pid())]
    threads = [threading.Thread(target=lambda: seen.append(asyncio.run(pid()))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert len(set(seen)) == 4
    assert not any(runs(int(each)) for each in seen)


async def test_a_server_that_nobody_holds_ends():
    (pid,) = await MCPServer(raw("pid"), name="raw").tools()
    number = int(await pid())
    del pid
    gc.collect()
    await eventually(lambda: not runs(number))


PROGRAM = """
import asyncio, gc, json, os, sys
import uvloop
from hotloop.tools.mcp import MCPServer

COMMAND = json.loads(sys.argv[1])

def has_child():
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True

async def open_(server):
    print(await (await server.tools())[0]())

async def connecting(server):
    asyncio.create_task(server.connect())
    while not has_child():
        await asyncio.sleep(0.001)
    for _ in range(10):  # the event loop of Python 3.11 never ends if it has to in the three turns after a start
        await asyncio.sleep(0)

async def in_a_call(server):
    pid, silent = await server.tools()
    print(await pid())
    asyncio.create_task(silent())
    await asyncio.sleep(0.05)

async def closed(server):
    await open_(server)
    await server.aclose()

for loop in (asyncio, uvloop):
    for ending in (open_, connecting, in_a_call, closed):
        loop.run(ending(MCPServer(COMMAND, name="raw")))
        gc.collect()
"""


def test_a_loop_that_ends_without_closing_leaves_no_process_and_no_warning():
    command = [sys.executable, "-X", "dev", "-W", "error", "-c", PROGRAM]
    done = subprocess.run([*command, json.dumps(raw("pid", "silent"))], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stderr) == (0, "")
    pids = done.stdout.split()
    assert len(pids) == 6
    assert not any(runs(int(pid)) for pid in pids)


def test_nothing_is_imported_before_it_is_needed():
    code = (
        "import sys, hotloop.tools.mcp; print([name for name in ('mcp', 'anyio', 'pydantic') if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"
