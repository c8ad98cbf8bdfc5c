"""A sandboxed tool runs in a process of its own: what it may do there, how it ends, and that nothing of it is left."""

from __future__ import annotations

import asyncio
import functools
import importlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import types
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
import uvloop

import sandboxed_tools as tools
from hotloop import testing, tool
from hotloop.errors import ConfigError, ToolDefinitionError, ToolError, ToolUnavailable
from hotloop.lab.virtual import run_virtual
from hotloop.tools.defining.define import make_tool
from hotloop.tools.defining.tool import Tool
from hotloop.tools.running.threads import DaemonPool
from hotloop.tools.sandbox import SandboxLimits, bubblewrap, call, check_sandboxed, run_sandboxed
from timed_tools import ran

MIB = 1 << 20


@pytest.fixture(scope="session")
def works_here() -> bool:
    """Whether bubblewrap is installed and may do what it is for."""
    program = shutil.which("bwrap")
    command = [program or "", "--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "true"]
    return program is not None and subprocess.run(command, capture_output=True).returncode == 0


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where fresh folders are made, here and in processes that a test starts."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


@pytest.fixture(params=["bubblewrap", "bare"])
def contained(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, works_here: bool) -> bool:
    """Whether there is bubblewrap: every test that asks for it runs once as the machine is, and once without."""
    if request.param == "bare":
        monkeypatch.setenv("PATH", "/nowhere")
        return False
    assert bool(bubblewrap.bubblewrap("", MIB)) is works_here
    return works_here


@pytest.fixture
def mark() -> Iterator[str]:
    """A word by which processes that a tool has started are known; none of them outlives the test."""
    word = f"mark-{os.getpid()}-{time.monotonic_ns()}"
    yield word
    for pid in marked(word):
        os.kill(pid, signal.SIGKILL)


def marked(mark: str) -> list[int]:
    """All processes with this word in their command line."""
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit() and mark in command(entry)]


def command(process: Path) -> str:
    try:
        return (process / "cmdline").read_text(errors="replace")
    except OSError:
        return ""


async def until(condition: Callable[[], Any]) -> None:
    """Wait for other processes; the test's timeout is the limit."""
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0.005)


def descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def run(function: Any, limits: SandboxLimits = SandboxLimits(), timeout: float = 60, **arguments: Any) -> str:  # noqa: B008
    return asyncio.run(asyncio.wait_for(run_sandboxed(sandboxed(function, limits), arguments), timeout))


def sandboxed(function: Any, limits: SandboxLimits) -> Tool:
    if isinstance(function, Tool):
        return function
    return make_tool(function.__name__, "", function, {}, msgspec.json.decode, sandbox=limits)


ORDER = tools.Order(datetime(2025, 1, 9, tzinfo=UTC), tools.Colour.RED)


@pytest.mark.parametrize(
    ("function", "arguments", "result"),
    [
        (tools.add, {"left": 1, "right": 2}, "3"),
        (tools.add.function, {"left": 1, "right": 1}, "2"),
        (tools.text, {"value": "héé 中文 \n"}, "héé 中文 \n"),
        (tools.text, {"value": "x" * MIB}, "x" * MIB),
        (
            tools.describe,
            {"order": ORDER, "box": tools.Box(3), "mark": tools.MISSING},
            '{"order":{"at":"2025-01-09T00:00:00Z","colour":"red"},"box":{"width":3},"own mark":true}',
        ),
        (tools.shout, {"megabytes": 3}, "done"),
    ],
    ids=["tool", "function", "text", "long", "values", "much printed"],
)
def test_a_function_gives_its_result_from_another_process(contained, function, arguments, result):
    assert run(function, **arguments) == result


@pytest.mark.parametrize(
    ("function", "arguments", "limits", "kind", "retryable", "words"),
    [
        (tools.refuse, {"retryable": False}, {}, ToolError, False, "No such order: \\udcff."),
        (tools.refuse, {"retryable": True}, {}, ToolError, True, "No such order: \\udcff."),
        (tools.fail, {}, {}, ToolError, True, "fail failed: LookupError: trouble"),
        (tools.leave, {}, {}, ToolError, True, "leave failed: SystemExit: 3"),
        (tools.text, {"value": object}, {}, ToolError, False, "The tool's result has no JSON form"),
        (tools.spin, {}, {"cpu": 1}, ToolError, False, "spin used more than 1 s of CPU time."),
        (tools.hoard, {}, {"memory": 200 * MIB}, ToolError, False, "hoard needed more than 200 MiB of memory."),
        (tools.fill, {}, {"file_size": MIB}, ToolError, False, "fill wrote a file longer than 1 MiB."),
        (tools.open_many, {}, {}, ToolError, False, "open_many opened more than 64 files at once."),
        (tools.text, {"value": "x" * MIB}, {"result": 1000}, ToolError, False, "text gave a result longer than 1,000"),
        (tools.crash, {}, {}, ToolUnavailable, True, "crash crashed (SIGSEGV)."),
        (tools.kill_itself, {}, {}, ToolUnavailable, True, "kill_itself was killed, as the system does"),
        (tools.vanish, {}, {}, ToolUnavailable, True, "vanish ended its process without a result (exit code 7)."),
        (tools.scribble, {}, {}, ToolUnavailable, True, "scribble ended its process without a result (exit code 0)."),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_an_end_without_a_result_is_an_error_that_says_why(
    contained, function, arguments, limits, kind, retryable, words
):
    with pytest.raises(ToolError) as raised:
        run(function, SandboxLimits(**limits), **arguments)
    assert type(raised.value) is kind
    assert raised.value.retryable is retryable
    assert str(raised.value).startswith(words)


def test_the_log_has_the_traceback_and_what_was_printed(contained, caplog):
    with pytest.raises(ToolError):
        run(tools.fail)
    (record,) = caplog.records
    assert record.name == "hotloop.tools"
    text = record.getMessage()
    assert text.startswith("The tool fail failed: LookupError: trouble\nTraceback")
    assert 'raise LookupError("trouble")' in text
    assert text.endswith("It printed last:\nlooking for trouble\n")
    caplog.clear()
    with pytest.raises(ToolError):
        run(tools.crash)
    assert "in string_at" in caplog.text  # where a crash was


def test_a_tool_inherits_nothing_and_leaves_nothing(contained, temporary, monkeypatch):
    monkeypatch.setenv("HOTLOOP_TEST_API_KEY", "secret")
    monkeypatch.setenv("LC_TIME", "C")
    with Path(__file__).open() as inherited:
        os.set_inheritable(inherited.fileno(), True)
        seen = msgspec.json.decode(run(tools.surroundings))
    folder = seen["folder"]
    environment = {
        name: value for name, value in seen["environment"].items() if name not in ("PWD", "LANG", "LC_CTYPE", "TZ")
    }
    assert environment == {"PATH": os.environ["PATH"], "LC_TIME": "C", "HOME": folder, "TMPDIR": folder}
    assert len(seen["descriptors"]) == 5  # standard ones, the result's, and the one that lists them
    assert (seen["input"], seen["arguments"]) == ("", ["-c"])
    assert "\nNoNewPrivs:\t1\n" in seen["status"]
    assert seen["pid"] < 100 if contained else Path(folder).parent == temporary
    assert not list(temporary.iterdir())


@pytest.mark.parametrize("seconds", [0, 60], ids=["its end", "its timeout"])
def test_nothing_that_a_tool_has_started_is_left_after(contained, mark, seconds):
    if seconds:
        with pytest.raises(TimeoutError):
            run(tools.settle, timeout=1.5, mark=mark, seconds=seconds)
    else:
        assert run(tools.settle, mark=mark, seconds=seconds) == "settled"
    assert marked(mark) == []


LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.mark.parametrize("loop", LOOPS)
def test_cancelled_it_ends_at_once_with_all_that_it_has_started(contained, mark, temporary, loop):
    async def attempt() -> float:
        await asyncio.sleep(0)
        before = descriptors()
        task = asyncio.create_task(run_sandboxed(tools.settle, {"mark": mark, "seconds": 60}))
        await until(lambda: len(marked(mark)) >= 3)
        since = time.monotonic()
        task.cancel()
        asyncio.get_running_loop().call_soon(task.cancel)  # as `hotloop.limit.stop` does when it takes long
        with pytest.raises(asyncio.CancelledError):
            await task
        took = time.monotonic() - since
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert descriptors() == before
        assert marked(mark) == []
        return took

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        assert any(runner.run(attempt()) < 0.1 for _ in range(3))  # the machine may be busy with something else
    assert not list(temporary.iterdir())


def test_cancelled_at_any_moment_it_leaves_nothing(contained, mark, monkeypatch):
    async def main() -> None:
        for step in range(24):
            task = asyncio.create_task(run_sandboxed(tools.settle, {"mark": mark, "seconds": 60}))
            await asyncio.sleep(step**2 / 4000)  # most of them while the process is being made
            task.cancel()
            await asyncio.wait([task])
            assert marked(mark) == []

    monkeypatch.syspath_prepend(f"/nowhere/{mark}")  # and so it is in every command
    asyncio.run(main())


def test_a_call_that_waits_for_a_place_is_cancelled_without_one(monkeypatch, mark):
    async def main() -> None:
        first = asyncio.create_task(run_sandboxed(tools.settle, {"mark": mark, "seconds": 60}))
        await until(lambda: marked(mark))
        second = asyncio.create_task(run_sandboxed(tools.add, {"left": 1}))
        await asyncio.sleep(0)
        second.cancel()
        await asyncio.wait([second], timeout=1)
        assert second.cancelled()
        assert not first.done()
        first.cancel()
        await asyncio.wait([first])

    monkeypatch.setattr(call, "_threads", DaemonPool(1))
    asyncio.run(main())


def test_it_works_on_a_loop_in_another_thread_and_in_virtual_time():
    results: list[str] = []
    thread = threading.Thread(target=lambda: results.append(run(tools.add, left=1)))
    thread.start()
    thread.join()
    results.append(run_virtual(run_sandboxed(tools.add, {"left": 2})))
    assert results == ["2", "3"]


def test_an_agent_runs_a_tool_within_the_limits_that_it_was_given():
    limited = tool(tools.text, sandbox=SandboxLimits(result=1000))
    assert ran([testing.call("text", value="x" * 20_000), "ok"], limited).errors == [
        "text gave a result longer than 1,000 bytes; it has to return less."
    ]
    assert ran([testing.call("text", value="x"), "ok"], tool(tools.text, sandbox="process")).contents == ["x"]


def test_many_run_at_the_same_time(contained):
    async def main() -> list[str]:
        return await asyncio.gather(*[run_sandboxed(tools.add, {"left": number}) for number in range(8)])

    assert asyncio.run(main()) == [str(number + 1) for number in range(8)]


SCRIPT = """
import asyncio, logging, sys
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from hotloop import tool
from hotloop.tools.sandbox import run_sandboxed
sys.path.append({tests!r})
import sandboxed_tools

class Colour(Enum):
    RED = "red"

@dataclass
class Box:
    colour: Colour

ENV = str(Path(__file__).with_name(".env"))

@tool(sandbox="process")
def look(box: Box) -> list[str]:
    "Look."
    return [box.colour.value, str(isinstance(box, Box)), str(sandboxed_tools.can_read(ENV))]

async def main():
    print(*await asyncio.gather(*[run_sandboxed(look, {{"box": Box(Colour.RED)}}) for _ in range(3)]), sep="\\n")

if __name__ == "__main__":
    print("started")
    logging.basicConfig()
    if sys.argv[1:]:
        asyncio.run(run_sandboxed(sandboxed_tools.settle, {{"mark": sys.argv[1], "seconds": 60}}))
    else:
        asyncio.run(main())
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "project" / "agent.py"
    path.parent.mkdir()
    path.write_text(SCRIPT.format(tests=str(Path(tools.__file__).parent)))
    path.with_name(".env").write_text("KEY=secret")
    path.with_name(".git").mkdir()
    return path


@pytest.mark.parametrize("way", [["agent.py"], ["-m", "agent"]], ids=["script", "module"])
def test_a_function_of_the_main_script_is_found_without_running_the_script(contained, script, way):
    ended = subprocess.run([sys.executable, *way], cwd=script.parent, capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines() == ["started"] + 3 * [f'["red","True","{not contained}"]']
    left = {entry.name for entry in script.parent.iterdir()} - {"__pycache__"}  # -m writes it, if Python may
    assert left == {".env", ".git", "agent.py"}
    warnings = [line for line in ended.stderr.splitlines() if line.startswith("WARNING:hotloop.tools:")]
    assert len(warnings) == (0 if contained else 1)  # once for the process
    assert contained or "code that means harm is not held: it can use the network" in warnings[0]
    assert contained or "install the package bubblewrap" in warnings[0]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT], ids=["kill -9", "Ctrl-C"])
def test_when_hotloop_is_ended_its_sandboxes_end_too(contained, mark, temporary, script, number):
    with subprocess.Popen([sys.executable, script, mark], stderr=subprocess.PIPE, start_new_session=True) as hotloop:
        asyncio.run(until(lambda: len(marked(mark)) >= 4))  # the script itself is one
        os.killpg(hotloop.pid, number)
        _, printed = hotloop.communicate()
    assert (b"KeyboardInterrupt" in printed) is (number is signal.SIGINT)
    asyncio.run(asyncio.wait_for(until(lambda: not marked(mark) and not list(temporary.iterdir())), 1))


def test_in_bubblewrap_there_is_no_network_and_little_of_the_disk(contained, tmp_path):
    """Without it there is all that the warning speaks of (asserted where a script is run)."""
    own_code = Path(tools.__file__).with_name("written.txt")
    (tmp_path / "data").write_text("x")
    with socket.create_server(("127.0.0.1", 0)) as server:
        seen = msgspec.json.decode(
            run(
                tools.look_around,
                port=server.getsockname()[1],
                read=["/etc/passwd", "/etc/shadow", str(tmp_path / "data"), sys.executable],
                write=[str(tmp_path / "written"), *[str(own_code), "/written", "/dev/written"] * contained, "written"],
            )
        )
    if contained:
        assert not seen["connects"]
        assert seen["read"] == ["/etc/passwd", sys.executable]
        assert seen["written"] == ["written"]
        assert seen["processes"] == 2  # bubblewrap's and its own
        assert not own_code.exists()
    else:
        assert seen["connects"]
        assert {str(tmp_path / "data"), str(tmp_path / "written")} <= {*seen["read"], *seen["written"]}
    assert not (tmp_path / "written").exists() or not contained


def test_in_bubblewrap_nothing_hidden_beside_code_is_shown(contained, tmp_path, monkeypatch):
    shown = ["settings.py", "package/deep/data.txt", "package/linked.txt"]
    private = [".env", "package/.env", "package/deep/.git/config", "node_modules/x/key", "package/node_modules/key"]
    too_much = [f"large/a/{number}" for number in range(1001)]
    paths = [tmp_path / "project" / name for name in [*shown, *private, *too_much]]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    (tmp_path / "project" / "package" / ".link").symlink_to(paths[0])
    (tmp_path / "project" / "outside").symlink_to(tmp_path)
    monkeypatch.setattr(bubblewrap, "_MOST", 1000)
    monkeypatch.syspath_prepend(tmp_path / "project")
    seen = msgspec.json.decode(run(tools.look_around, port=1, read=[*map(str, paths)], write=[]))["read"]
    assert seen == [str(path) for path in (paths[: len(shown)] if contained else paths)]


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        (lambda: None, "a lambda"),
        (functools.partial(tools.text, "x"), "a functools.partial"),
        (Path().exists, "a bound method"),
        (functools.cache(tools.text), "a callable object"),
    ],
)
def test_what_another_process_cannot_find_is_refused(function, kind):
    with pytest.raises(ToolDefinitionError, match=f"another process, which cannot find {kind} by name; write it with"):
        check_sandboxed(function)


def test_a_function_of_a_function_or_of_an_interactive_session_is_refused():
    def inner() -> None: ...

    with pytest.raises(ToolDefinitionError, match="cannot find a function that is defined inside another by name"):
        check_sandboxed(inner)
    lines = "from hotloop.tools.sandbox import check_sandboxed\ndef f(): ...\ncheck_sandboxed(f)"
    ended = subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True)
    assert "cannot find a function of an interactive session by name" in ended.stderr


def test_what_another_process_can_find_is_taken(monkeypatch):
    check_sandboxed(tools.text)
    check_sandboxed(tools.add.function)
    monkeypatch.setattr(call, "os", types.SimpleNamespace(name="nt"))
    with pytest.raises(ToolDefinitionError, match="needs a Unix"):
        check_sandboxed(tools.text)


MODULE = """
import os
KEY = os.environ["HOTLOOP_TEST_KEY"]
def loaded_with_a_key() -> None: ...
"""


def test_a_module_that_cannot_be_loaded_there_is_an_error_that_says_so(contained, tmp_path, monkeypatch, caplog):
    (tmp_path / "module_with_key.py").write_text(MODULE)
    monkeypatch.setenv("HOTLOOP_TEST_KEY", "secret")
    monkeypatch.syspath_prepend(tmp_path)
    function = importlib.import_module("module_with_key").loaded_with_a_key
    words = "^loaded_with_a_key cannot be loaded in its sandbox: KeyError: 'HOTLOOP_TEST_KEY'$"
    with pytest.raises(ToolError, match=words) as raised:
        run(function)
    assert not raised.value.retryable
    assert "module_with_key.py" in caplog.text


def test_what_a_decorator_was_put_around_is_not_run_in_its_stead():
    with pytest.raises(ToolError, match=r"in another process: sandboxed_tools\.crash is not the function of"):
        run(functools.wraps(tools.crash)(lambda: None))


def test_arguments_that_cannot_be_sent_are_an_error():
    with pytest.raises(ToolError, match=r"^text cannot be given its arguments in another process: ."):
        run(tools.text, value=lambda: None)


def test_limits_are_whole_numbers():
    with pytest.raises(ConfigError, match=r"The sandbox limit cpu=0\.5 is no limit; give a whole number, 1 or more\."):
        SandboxLimits(cpu=0.5)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="memory=0"):
        SandboxLimits(memory=0)
