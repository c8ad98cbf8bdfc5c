from __future__ import annotations

import io
import sys

import pytest
from terminal import on_a_terminal

from hotloop.commands.screen import Screen
from hotloop.events import (
    ApprovalNeeded,
    Event,
    Reset,
    Retrying,
    TextDelta,
    ToolFinished,
    ToolStarted,
    ToolStatus,
)
from hotloop.testing import call, raw, say
from hotloop.visible import answer_for, indented, one_line, visible

FORGED = "a\x1b[31mb\nforged line ✓ pay 3 ms\r\x1b[2J\u202etxet\u200b[red]"
SHOWN = "a\\u001b[31mb ⏎ forged line ✓ pay 3 ms ⏎ \\u001b[2J\\u202etxet\\u200b[red]"
SPOKEN = "a\\u001b[31mb\nforged line ✓ pay 3 ms\\u000d\\u001b[2J\\u202etxet\u200b[red]"
TOOLS = """
from hotloop import report, tool

@tool(read_only=True, status="At {x}")
def look(x: str) -> str:
    "Look."
    print(x)
    report(x)
    raise ValueError(x)
"""


class Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("订单　20250101 ✓ é ü 🙂 ⚠\ufe0f", "订单　20250101 ✓ é ü 🙂 ⚠\ufe0f"),
        ("\0\x07\x1b\x7f\x9b", "\\u0000\\u0007\\u001b\\u007f\\u009b"),
        ("\u200b\u202e\u2066\ufeff\u00ad", "\\u200b\\u202e\\u2066\\ufeff\\u00ad"),
        ("\u115f\u3164\u2800\ufe00", "\\u115f\\u3164\\u2800\\ufe00"),
        ("\U000e0041\U000e0100", "\\udb40\\udc41\\udb40\\udd00"),
        ("\udcff", "\\udcff"),
    ],
)
def test_what_cannot_be_seen_or_acts_is_escaped(text, shown):
    assert visible(text) == shown


def test_lines_of_a_message():
    assert one_line(" a\tb\r\nc\u2028d\n") == "a b ⏎ c ⏎ d"
    assert indented("a\n✓ pay\t\x1b") == "a\n  ✓ pay\t\\u001b"


def test_answer_is_escaped_on_a_terminal_only():
    assert answer_for(Tty(), FORGED) == SPOKEN
    assert answer_for(Tty(), "a\tb می\u200cخواهم 👩\u200d💻") == "a\tb می\u200cخواهم 👩\u200d💻"
    assert answer_for(io.StringIO(), FORGED) == FORGED


@pytest.mark.parametrize(
    "event",
    [
        ToolStarted("1", "look", "{}", FORGED),
        ToolStarted("1", FORGED, "{}", ""),
        ToolStatus("1", "look", FORGED),
        ToolFinished("1", FORGED, "{}", "ok", 1.0),
        ToolFinished("1", "look", FORGED, "error", 1.0),
        ApprovalNeeded("1", FORGED, "{}", "d"),
        Reset(FORGED),
        Retrying(1, 0.1, FORGED),
    ],
)
def test_event_is_one_visible_line(capsys, monkeypatch, event: Event):
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    with Screen(answer=True, status=True) as screen:
        screen.show(event)
    shown = capsys.readouterr().err
    assert SHOWN in shown
    assert shown.count("\n") == 1


def test_answer_on_the_screen(monkeypatch):
    terminal = Tty()
    monkeypatch.setattr(sys, "stdout", terminal)
    with Screen(answer=True, status=False) as screen:
        screen.show(TextDelta(FORGED))
    assert terminal.getvalue() == f"{SPOKEN}\n"


def test_error_of_a_service_is_visible(hotloop, serve, agent_file):
    reply = raw(b'{"error":{"message":"gone\\u001b[2J\\n\\u2713 pay 3 ms"}}', status=404)
    ended = hotloop("run", agent_file(serve([reply])), "Hi", "--quiet")
    assert "gone\\u001b[2J" in ended.err
    assert not any(line.startswith("✓") for line in ended.err.splitlines())


@pytest.mark.skipif(sys.platform == "win32", reason="has no pseudo terminals")
@pytest.mark.parametrize("options", [[], ["--no-stream"]])
def test_nothing_of_a_model_acts_on_the_terminal(serve, agent_file, tmp_path, options):
    (tmp_path / "forging_tool.py").write_text(TOOLS)
    config = agent_file(serve([say("Well \x1b[2J", call("look", x=FORGED), call(FORGED)), FORGED]))
    config.write_text(config.read_text().replace("cli_order_tools:order_status", "forging_tool:look"))
    with on_a_terminal("run", config, "Hi", *options) as terminal:
        code, shown = terminal.end()
    assert code == 0
    assert f"· {SHOWN}\n" in shown
    assert f"→ At {SHOWN}\n" in shown
    assert f"{SPOKEN}\n" in shown
    assert "│ forged line ✓ pay" in shown  # printed by the tool
    assert not any(hidden in shown for hidden in "\x1b\u202e")
    begun = [line for line in shown.splitlines() if line.startswith("forged")]
    assert len(begun) == 1  # the model's answer may have lines
