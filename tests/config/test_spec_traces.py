"""How runs are recorded, declared in a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from hotloop import Agent, ConfigError, Traces
from hotloop.config.arguments import agent_arguments
from hotloop.config.spec import load_spec

_AGENT = 'inference: {endpoint: "http://127.0.0.1:1/v1", model: m}\n'


def declared(folder: Path, text: str) -> Path:
    path = folder / "agent.yaml"
    path.write_text(_AGENT + text)
    return path


@pytest.mark.parametrize(
    ("text", "traces"),
    [
        ("", None),
        ("traces: false", False),
        ("traces: true", True),
        ("traces: {content: true, days: 3, runs: 9}", Traces(content=True, days=3, runs=9)),
    ],
)
def test_traces_may_be_off_or_say_what_is_kept(tmp_path: Path, text: str, traces: object):
    path = declared(tmp_path, text)
    assert agent_arguments(load_spec(path))["traces"] == traces
    Agent.from_yaml(path).close_sync()


def test_the_file_lies_beside_the_declaration(tmp_path: Path):
    arguments = agent_arguments(load_spec(declared(tmp_path, 'version: "7"\ntraces: {path: runs.db}')))
    assert (arguments["traces"], arguments["version"]) == (Traces(path=str(tmp_path / "runs.db")), "7")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("traces: sometimes", "traces: expected true or false or keys with values, got text"),
        ("traces: {days: 0}", "traces.days: expected a whole number >= 1"),
        ("traces: {pth: x}", "traces.pth: unknown key; did you mean path?"),
        ("version: 7", "version: expected text, got a whole number; put it in quotes"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(tmp_path: Path, text: str, told: str):
    with pytest.raises(ConfigError, match=":2: ") as error:
        load_spec(declared(tmp_path, text))
    assert told in str(error.value)
