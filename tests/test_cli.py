from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from hotloop.cli import main

COMMANDS = (
    *("demo", "run", "resume", "eval", "route", "sim", "probe", "check"),
    *("trace", "explain", "whatif", "bill", "prefetch", "session", "memory", "audit"),
)


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == "0.1.0\n"


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], []])
def test_help_lists_every_command_with_what_it_does(capsys, monkeypatch, arguments):
    monkeypatch.setenv("COLUMNS", "80")
    assert main(arguments) == 0
    out = capsys.readouterr().out
    for name in COMMANDS:
        (line,) = [line for line in out.splitlines() if line.startswith(f"│ {name} ")]
        assert len(line.split()) > 4
    assert "Exit codes" in out


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_every_command_has_an_example(capsys, name):
    assert main([name, "--help"]) == 0
    assert f"Example: hotloop {name}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["smi"], 'Unknown command "smi". Did you mean "sim"?'),
        (["run"], "CONFIG is missing."),
        (["eval", "cases.yaml"], "--agent is missing."),
        (["sim", "--ttft", "-5ms"], "--ttft takes a value; one that begins with a dash is written --ttft=-..."),
        (["sim", "--ttft=-5ms"], "'-5ms' is no duration; write it like 600ms, 1.5s or 2m"),
        (["run", "a.yaml", "where", "is", "it"], "'is it' is too much; put text with spaces in quotes."),
        (["run", "a.yaml", "hi", "--jsn"], "Unknown option: --jsn. Did you mean --json?"),
        (["sim", "--ttft", "5x"], "'5x' is no duration; write it like 600ms, 1.5s or 2m"),
        (["sim", "--port", "80000"], 'Invalid value "80000" for --port.'),
        (["probe", "http://127.0.0.1:9", "-n", "0"], 'Invalid value "0" for -n.'),
        (["run", "nowhere.yaml", "hi"], "There is no file nowhere.yaml"),
    ],
)
def test_what_cannot_be_done_is_a_sentence_and_exit_code_2(capsys, arguments, sentence):
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: ")
    assert sentence in captured.err


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "nowhere.yaml", "hi"],
        ["resume", "nowhere.yaml"],
        ["eval", "nowhere.yaml", "--agent", "nowhere.yaml"],
        ["route", "nowhere.jsonl", "--out", "nowhere.json"],
        ["sim", "--list", "--port", "80000"],
        ["probe", "http://127.0.0.1:1", "--model", "m"],
        ["check", "nowhere.yaml"],
        ["audit", "verify", "nowhere.jsonl"],
        ["demo", "--lang", "xx"],
        ["smi"],
    ],
)
def test_json_is_one_object_also_of_what_cannot_be_done(capsys, arguments):
    assert main([*arguments, "--json"]) == 2
    captured = capsys.readouterr()
    told = json.loads(captured.out)
    assert (sorted(told), told["trace"]) == (["error", "trace"], None)
    assert captured.err.endswith(f"error: {told['error']['message']}\n")


def test_json_behind_the_end_of_options_is_text(capsys):
    assert main(["run", "--", "nowhere.yaml", "--json"]) == 2
    assert capsys.readouterr().out == ""


@pytest.fixture
def broken(monkeypatch):
    """A command that fails as no command should."""

    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr("hotloop.commands.sim.load_script", fail)
    return ["sim", "--script", "x.yaml"]


def test_unexpected_error_is_a_line_and_a_file(capsys, monkeypatch, tmp_path, broken):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert main(broken) == 2
    error, bug = capsys.readouterr().err.splitlines()
    assert error == "error: ZeroDivisionError: a bug"
    assert "in fail" in Path(bug.split()[-1]).read_text(encoding="utf-8")


def test_unexpected_error_is_one_json_object_too(capsys, monkeypatch, tmp_path, broken):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert main([*broken, "--json"]) == 2
    told = {"kind": "ZeroDivisionError", "message": "a bug", "stage": None, "retryable": False}
    assert json.loads(capsys.readouterr().out) == {"error": told, "trace": None}


def test_debug_shows_the_traceback(broken):
    with pytest.raises(ZeroDivisionError):
        main([*broken, "--debug"])


def test_debug_after_the_end_of_options_is_text(capsys):
    assert main(["run", "--", "nowhere.yaml", "--debug"]) == 2
    assert "There is no file nowhere.yaml" in capsys.readouterr().err


def test_missing_extra_is_a_sentence(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "cyclopts", None)
    monkeypatch.delitem(sys.modules, "hotloop.commands.app", raising=False)
    assert main(["demo"]) == 2
    assert capsys.readouterr().err == 'error: The command line needs more packages: pip install "hotloop[cli]"\n'
