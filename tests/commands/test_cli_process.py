"""What only a process of its own can show: signals, pipes, streams that are no terminal."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

import pytest

HANGING_TOOL = '''
import time

async def stuck() -> str:
    """Never comes back."""
    print("blocking now")
    time.sleep(60)
'''
HOTLOOP = (sys.executable, "-c", "import sys; from hotloop.cli import main; sys.exit(main())")
ENOUGH = 20  # seconds, for anything on a busy machine; what hangs would take 60


@contextmanager
def _started(*arguments: object, **options: object) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [*HOTLOOP, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        **options,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.skipif(sys.platform == "win32", reason="sends POSIX signals")
@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM])
def test_sim_serves_until_it_is_stopped(by):
    with _started("sim", "--ttft", "1ms", "--tpot", "0ms") as process:
        url = process.stdout.readline().strip()
        body = {"model": "any", "messages": [{"role": "user", "content": "Hi"}]}
        request = urllib.request.Request(f"{url}/chat/completions", json.dumps(body).encode())
        with urllib.request.urlopen(request, timeout=ENOUGH) as reply:
            assert "You said: Hi" in reply.read().decode()
        process.send_signal(by)
        _, err = process.communicate(timeout=ENOUGH)
    assert process.returncode == 0
    assert f"hotloop probe {url}" in err
    assert err.splitlines()[-1] == "requests served: 1 · tokens: 1"


INTERRUPTED_IMPORT = """
import os, signal, sys

class Interrupting:
    def find_spec(self, name, path, target=None):
        if name == sys.argv[1]:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
from hotloop.cli import main
sys.exit(main(sys.argv[2:]))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="sends POSIX signals")
@pytest.mark.parametrize("module", ["hotloop.commands.outcome", "cyclopts", "rich.console", "hotloop.commands.run"])
def test_ctrl_c_during_the_imports_is_no_traceback(module):
    command = [sys.executable, "-c", INTERRUPTED_IMPORT, module, "run", "nowhere.yaml", "Hi"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=ENOUGH)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "\nstopped\n")


@pytest.mark.skipif(sys.platform == "win32", reason="sends POSIX signals")
def test_ctrl_c_ends_a_run_whose_tool_blocks_everything(tmp_path, agent_file, serve):
    (tmp_path / "cli_hanging_tool.py").write_text(HANGING_TOOL)
    config = agent_file(serve())
    config.write_text(config.read_text().replace("cli_order_tools:order_status", "cli_hanging_tool:stuck"))
    with _started("run", config, "Hi", "--quiet") as process:
        assert process.stderr.readline() == "blocking now\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=ENOUGH)
    assert (process.returncode, out, err) == (130, "", "\nstopped\n")


def test_reader_that_leaves_early_is_no_error():
    with _started("sim", "--help") as process:
        process.stdout.close()
        assert process.wait(ENOUGH) == 1
        assert process.stderr.read() == ""


@pytest.mark.skipif(sys.platform == "win32", reason="has no such shell")
@pytest.mark.parametrize(
    ("closed", "out", "told"),
    [
        ("2>&-", "Hello.\n", False),
        (">&-", "", True),
        ("<&-", "Hello.\n", True),
        ("<&- >&- 2>&-", "", False),
    ],
)
def test_closed_streams_are_nowhere(agent_file, serve, closed, out, told):
    config = agent_file(serve(["Hello."]))
    script = f"{shlex.join([*HOTLOOP, 'run', str(config), 'Hi'])} {closed}"
    ended = subprocess.run(["sh", "-c", script], capture_output=True, text=True, timeout=ENOUGH)
    assert (ended.returncode, ended.stdout) == (0, out)
    assert ("1 turn" in ended.stderr) is told


@pytest.mark.skipif(sys.platform == "win32", reason="has no such shell")
def test_prompt_from_a_closed_stdin_is_empty(agent_file, serve):
    script = f"{shlex.join([*HOTLOOP, 'run', str(agent_file(serve(['Hello.']))), '-'])} <&-"
    ended = subprocess.run(["sh", "-c", script], capture_output=True, text=True, timeout=ENOUGH)
    assert (ended.returncode, ended.stderr) == (2, "error: The prompt is empty; say what the agent should do.\n")


FULL = Path("/dev/full")


@pytest.mark.skipif(not FULL.exists(), reason="has no /dev/full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("arguments", [("--version",), ("--help",), ("run", None, "Hi", "--quiet"), ("sim",)])
def test_output_that_cannot_be_written_is_a_sentence(agent_file, serve, arguments, unbuffered):
    config = agent_file(serve(["Hello."]))
    command = [*HOTLOOP, *(str(each or config) for each in arguments)]
    with FULL.open("w") as full:
        ended = subprocess.run(
            command,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=ENOUGH,
            env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
        )
    assert ended.returncode == 2
    assert ended.stderr == "error: The output cannot be written: No space left on device.\n"


@pytest.mark.skipif(not FULL.exists(), reason="has no /dev/full")
@pytest.mark.parametrize("prompt", ["Hi", ""])
def test_messages_that_cannot_be_written_fail_quietly(agent_file, serve, prompt):
    with FULL.open("w") as full:
        command = [*HOTLOOP, "run", str(agent_file(serve())), prompt]
        assert subprocess.run(command, stdout=subprocess.PIPE, stderr=full, timeout=ENOUGH).returncode == 2


@pytest.mark.skipif(sys.platform == "win32", reason="sends POSIX signals")
@pytest.mark.parametrize("as_json", [False, True])
def test_ctrl_c_during_a_probe_shows_what_was_measured(serve, as_json):
    third = threading.Event()
    asked = count(1)

    def answer(request):
        if next(asked) < 3:
            return "one two"
        third.set()
        return " ".join(["word"] * 60)

    url = serve(answer, ttft=0.001, tpot=0.2)
    with _started("probe", url, "--model", "m", "-n", "20", *(["--json"] if as_json else [])) as process:
        assert third.wait(ENOUGH)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=ENOUGH)
    assert (process.returncode, err) == (130, "\nstopped\n")
    if as_json:
        assert [sample["output_tokens"] for sample in json.loads(out)["samples"]] == [2, 2]
    else:
        assert out.splitlines()[0] == f"{url.split('/')[2]} · m · 2 of 20 requests, 1 at a time"
        assert "2 of 2 complete · 4 tokens" in out


def test_json_is_utf8_and_text_readable_where_the_terminal_is_neither(agent_file, serve):
    config = agent_file(serve(["已发货"]))
    ascii_only = os.environ | {"PYTHONIOENCODING": "ascii"}
    with _started("run", config, "Hi", "--json", env=ascii_only) as process:
        assert json.loads(process.communicate(timeout=ENOUGH)[0])["output"] == "已发货"
    with _started("run", config, "Hi", env=ascii_only) as process:
        assert process.communicate(timeout=ENOUGH)[0] == "???\n"


@pytest.mark.skipif(sys.platform == "win32", reason="has no pseudo terminals")
@pytest.mark.parametrize(("no_color", "coloured"), [("", True), ("1", False)])
def test_terminal_gets_movement_and_colours_unless_told_not_to(agent_file, serve, no_color, coloured):
    config = agent_file(serve(ttft=0.01))
    shown = _on_a_terminal("run", config, "订单 20250101", environment={"NO_COLOR": no_color})
    assert "thinking" in shown
    assert ("\x1b[32m✓" in shown) is coloured
    assert "order_status answered: status 已发货." in shown


def _on_a_terminal(*arguments: object, environment: dict[str, str]) -> str:
    ours, theirs = os.openpty()
    settings = {"TERM": "xterm", "COLUMNS": "80"} | environment
    command = [*HOTLOOP, *map(str, arguments)]
    with subprocess.Popen(command, stdout=theirs, stderr=theirs, env=os.environ | settings) as process:
        os.close(theirs)
        shown = b""
        with suppress(OSError):  # Linux says so once the terminal's last user has gone
            while piece := os.read(ours, 4096):
                shown += piece
        os.close(ours)
        assert process.wait(ENOUGH) == 0
    return shown.decode()
