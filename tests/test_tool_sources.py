"""Agents with tools from elsewhere: when they are listed and connected, and what happens when that fails."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
import threading
from contextlib import aclosing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hotloop import Agent, MCPServer, Result, Tool, tool
from hotloop.config.arguments import agent_arguments
from hotloop.config.spec import load_spec
from hotloop.errors import ConfigError, ToolUnavailable
from hotloop.events import RunFinished
from hotloop.testing import ScriptedModel, call, run_virtual
from mcp_servers import raw


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A user with an empty cache."""
    monkeypatch.setenv("HOTLOOP_CACHE", str(tmp_path / "cache"))


@pytest.fixture(autouse=True)
def nothing_left():
    """When a test has closed its agents, or its loops have ended, no file is left open."""
    files = open_files()
    yield
    assert open_files() <= files


def open_files() -> int:
    return len(list(Path("/dev/fd").iterdir()))


def runs(pid: str) -> bool:
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    return True


def waited_for_tools(result: Result) -> bool:
    return ("connect", "tools listed") in [(stage.kind, stage.note) for stage in result.trace.stages]


def calling(*names: str) -> ScriptedModel:
    """A model that calls these tools, then says what came of them."""

    def reply(request: dict[str, Any]) -> Any:
        results = [message["content"] for message in request["messages"] if message["role"] == "tool"]
        asked = sum(message["role"] == "user" for message in request["messages"])
        return " ".join(results[-len(names) :]) if len(results) == asked * len(names) else [call(n) for n in names]

    return ScriptedModel(reply)


def agent_with(*tools: Any, model: ScriptedModel | None = None) -> Agent:
    return Agent(model="m", endpoint=model or calling("raw_pid"), tools=tools)


def raw_server(*tools: str, name: str = "raw", **script: Any) -> MCPServer:
    return MCPServer(raw.command(*tools or ["pid"], **script), name=name)


async def run(agent: Agent) -> Result:
    return await agent.run("Who?")


async def streamed(agent: Agent) -> Result:
    events = [event async for event in agent.stream("Who?")]
    assert isinstance(events[-1], RunFinished)
    return events[-1].result


async def in_a_session(agent: Agent) -> Result:
    return await agent.session("one").run("Who?")


@pytest.mark.parametrize("ask", [run, streamed, in_a_session])
async def test_the_first_run_lists_and_the_next_ones_do_not(ask):
    server = raw_server()
    async with agent_with(server) as agent:
        assert agent.tools == []
        first = await ask(agent)
        tasks = asyncio.all_tasks()
        second = await ask(agent)
        assert asyncio.all_tasks() == tasks
    assert (waited_for_tools(first), waited_for_tools(second)) == (True, False)
    assert first.output == second.output
    assert not runs(first.output)
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_warm_agent_has_its_tools_and_connections():
    server = raw_server()
    async with agent_with(server) as agent:
        await agent.warm()
        assert [each.name for each in agent.tools] == ["raw_pid"]
        assert server.connected
        assert not waited_for_tools(await run(agent))


async def test_a_server_that_is_known_connects_beside_the_run_and_a_call_waits_for_it():
    async with raw_server() as before:
        await before.tools()
    server = raw_server()
    async with agent_with(server) as agent:
        assert [each.name for each in agent.tools] == ["raw_pid"]
        assert not server.connected
        result = await run(agent)
        assert not waited_for_tools(result)
        assert runs(result.output)
        await agent.aclose()
        assert not server.connected
        assert (await run(agent)).output != result.output


async def test_an_agent_that_is_closed_while_it_connects_leaves_nothing():
    async with raw_server() as before:
        await before.tools()
    agent = agent_with(raw_server(), model=ScriptedModel(["Nobody."]))
    await run(agent)
    await agent.aclose()
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_reader_that_leaves_early_leaves_nothing():
    agent = agent_with(raw_server("silent"), model=calling("raw_silent"))
    async with agent, aclosing(agent.stream("Who?")) as events:
        await anext(events)
    assert asyncio.all_tasks() == {asyncio.current_task()}


def test_threads_have_connections_of_their_own():
    agent = agent_with(raw_server())
    seen: list[list[str]] = []

    def ask_twice() -> None:
        seen.append([agent.run_sync("Who?").output for _ in range(2)])

    threads = [threading.Thread(target=ask_twice) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    (one, again), (other, other_again) = seen
    assert (one, other) == (again, other_again)
    assert one != other
    assert not runs(one)
    assert not runs(other)


async def test_a_file_declares_servers(tmp_path):
    declared = {
        "inference": {"endpoint": "http://127.0.0.1:9/v1", "model": "m"},
        "tools": {"mcp": [{"name": "raw", "command": raw.command("pid", "silent"), "include": ["pid"]}]},
    }
    (tmp_path / "agent.json").write_text(json.dumps(declared))
    arguments = agent_arguments(load_spec(tmp_path / "agent.json"))
    arguments["model"] = msgspec.structs.replace(arguments["model"], endpoint=calling("raw_pid"))
    async with Agent(**arguments) as agent:
        assert runs((await run(agent)).output)
        assert [each.name for each in agent.tools] == ["raw_pid"]


async def test_a_server_that_cannot_be_listed_fails_the_run_and_the_next_one_tries_again(tmp_path):
    present = tmp_path / "present"
    async with agent_with(raw_server(needs=str(present))) as agent:
        with pytest.raises(ToolUnavailable, match="The MCP server raw did not list its tools") as error:
            await run(agent)
        assert error.value.trace.end_to_end_ms > 0
        present.touch()
        assert runs((await run(agent)).output)


async def test_the_model_is_told_of_a_known_server_that_cannot_be_started(tmp_path):
    script = tmp_path / "server.py"
    shutil.copy(raw.__file__, script)
    command = [sys.executable, "-S", str(script), json.dumps({"tools": [{"name": "pid"}]})]
    async with MCPServer(command, name="raw") as before:
        await before.tools()
    script.unlink()
    async with agent_with(MCPServer(command, name="raw")) as agent:
        output = (await run(agent)).output
    assert "The MCP server raw" in output
    assert "ended before it had answered. It wrote: " in output


@tool
def first() -> str:
    """Not from elsewhere."""
    return "1"


@tool
def last() -> str:
    """Not from elsewhere."""
    return "9"


async def test_tools_are_in_the_order_in_which_they_were_given():
    async with agent_with(first, raw_server("b", "a"), last, raw_server("c")) as agent:
        await agent.warm()
        assert [each.name for each in agent.tools] == ["first", "raw_a", "raw_b", "last", "raw_c"]


async def test_two_servers_with_one_tool_name_are_refused():
    one, other = raw_server("pid"), raw_server("pid", "silent")
    async with agent_with(one, other) as agent:
        with pytest.raises(ConfigError, match="several tools named raw_pid"):
            await run(agent)
    with pytest.raises(ConfigError, match="several tools named raw_pid"):
        agent_with(one, other)


class Shop:
    """A source that takes a second to connect; `connects` counts how often it is told to, `sold` has the calls."""

    name = "shop"

    def __init__(self, known: bool) -> None:
        self._known = known
        self._open = asyncio.Event()
        self.connected = False
        self.connects = 0
        self.sold: list[str] = []

        @tool(read_only=True, ttl=60)
        async def sell(item: str = "") -> str:
            """Sell an item."""
            await self._ready()
            self.sold.append(item)
            return item

        self._tools: list[Tool] = [sell]

    async def _ready(self) -> None:
        if not self.connected:
            self.connected = True
            await asyncio.sleep(1)
            self._open.set()
        await self._open.wait()

    def known(self) -> list[Tool] | None:
        return self._tools if self._known else None

    async def tools(self) -> list[Tool]:
        await self._ready()
        return self._tools

    async def connect(self) -> None:
        self.connects += 1
        await self._ready()

    async def aclose(self) -> None:
        self.connected = False


@pytest.mark.parametrize(("known", "seconds"), [(True, 1.2), (False, 1.4)])
def test_a_source_connects_once_and_beside_the_model_if_it_is_known(known, seconds):
    async def main() -> None:
        shop = Shop(known)
        model = ScriptedModel([call("sell", item="a"), "Sold.", "Sold out."], ttft=0.2)
        agent = agent_with(shop, model=model)
        begun = asyncio.get_running_loop().time()
        assert (await run(agent)).output == "Sold."
        assert asyncio.get_running_loop().time() - begun == pytest.approx(seconds)
        assert (await run(agent)).output == "Sold out."
        assert shop.connects == known
        await agent.aclose()

    run_virtual(main())


@pytest.mark.parametrize(
    "others",
    [
        lambda agent: agent.run("b"),
        lambda agent: agent.warm(),
    ],
)
def test_first_runs_at_the_same_time_share_one_executor(others):
    def reply(request: dict[str, Any]) -> Any:
        *_, message = request["messages"]
        return "Sold." if message["role"] == "tool" else call("sell", item=message["content"])

    async def main() -> None:
        shop = Shop(known=False)
        agent = agent_with(shop, model=ScriptedModel(reply))
        await asyncio.gather(agent.run("a"), others(agent))
        sold = list(shop.sold)
        await asyncio.gather(*[agent.run(item) for item in sold])
        assert shop.sold == sold
        await agent.aclose()

    run_virtual(main())
