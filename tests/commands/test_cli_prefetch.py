"""What agents have learned to expect is shown, learned from recorded runs, and forgotten."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hotloop import Agent, Traces, tool
from hotloop.testing import ScriptedModel, call
from hotloop.trace.recording.recorder import recorder


@tool(read_only=True)
def order_status(order_id: str) -> dict[str, str]:
    """Status of an order."""
    return {"status": "sent", "parcel": f"P{order_id}"}


@tool(read_only=True)
def track(parcel: str) -> str:
    """Where a parcel is."""
    return "in Ulm"


def run(path: Path, runs: int, *, content: bool) -> None:
    script = [
        reply
        for number in range(runs)
        for reply in (
            call("order_status", order_id=str(1000 + number)),
            call("track", parcel=f"P{1000 + number}"),
            "Sent.",
        )
    ]
    traces = Traces(path=str(path), content=content)
    agent = Agent(name="shop", model="m", endpoint=ScriptedModel(script), tools=[order_status, track], traces=traces)
    for number in range(runs):
        agent.run_sync(f"Where is order {1000 + number}?")
    recorder.flush(10.0)


@pytest.fixture
def store(tmp_path) -> Path:
    """A file with six runs of a shop with what was said in them, and two without."""
    run(tmp_path / "traces.db", 6, content=True)
    run(tmp_path / "traces.db", 2, content=False)
    return tmp_path / "traces.db"


def test_learn_show_and_reset(hotloop, store, tmp_path):
    path = tmp_path / "learned.db"
    ended = hotloop("prefetch", "learn", "--store", store, "--path", path)
    assert ended.code == 0
    assert ended.err.startswith("Learned from 6 runs; ") and "from 2 more runs, of which" in ended.err.replace(
        "\n", " "
    )

    ended = hotloop("prefetch", "show", "--agent", "shop", "--path", path)
    heading, first, *more = ended.out.splitlines()
    assert heading.split()[:3] == ["agent", "after", "comes"]
    assert "order_status(order_id = the prompt like 9{4} (0))" in first and "5 of 5" in first
    assert any("track(parcel = order_status.parcel)" in line for line in more)

    told = json.loads(hotloop("prefetch", "show", "--path", path, "--json").out)
    assert {"agent", "after", "comes", "hits", "chances", "confidence", "won", "wasted", "pays"} <= told["patterns"][
        0
    ].keys()

    again = json.loads(hotloop("prefetch", "learn", "--store", store, "--path", path, "--json").out)
    assert (again["learned"], again["known_before"], again["without_words"]) == (0, 6, 2)

    assert hotloop("prefetch", "reset", "--agent", "shop", "--path", path).code == 2
    ended = hotloop("prefetch", "reset", "--agent", "shop", "--yes", "--path", path)
    assert (ended.code, ended.err) == (0, f"Forgot {len(told['patterns'])} patterns of the agent shop.\n")
    assert "Nothing is known to come next" in hotloop("prefetch", "show", "--path", path).out


@pytest.mark.parametrize("command", ["show", "reset"])
def test_where_nothing_was_learned(hotloop, tmp_path, command):
    ended = hotloop("prefetch", command, "--path", tmp_path / "none.db")
    assert (ended.code, ended.out) == (2, "") and "There is no file" in ended.err
    assert not (tmp_path / "none.db").exists()


def test_it_goes_by_the_agents_file(hotloop, store, tmp_path):
    path = tmp_path / "agent.yaml"
    path.write_text("inference: {endpoint: http://127.0.0.1:9/v1, model: m}\ntools: {prefetch: {path: own.db}}\n")
    assert hotloop("prefetch", "learn", "--store", store, "--agent-file", path).code == 0
    assert (tmp_path / "own.db").exists()
    path.write_text("inference: {endpoint: http://127.0.0.1:9/v1, model: m}\n")
    ended = hotloop("prefetch", "show", "--agent-file", path)
    assert ended.code == 2 and "declare it with prefetch" in ended.err.replace("\n", " ")
