"""`hotloop explain`: budget, critical path, diagnosis and what would help, of runs that were recorded."""

import json

import pytest

from hotloop.lab.profilefile import load_profile
from hotloop.trace.store import TraceStore
from made_runs import run_of, varied


@pytest.fixture
def explain(hotloop, tmp_path):
    """Run `hotloop explain` on 40 recorded runs, of which one failed."""
    store = TraceStore(tmp_path / "traces.db")
    store.export(varied(39, limits={"total": 1.0, "tools": 0.1}))
    store.export([run_of(trace_id="failed-1", outcome="failed", error="ReplyTimeout")])
    store.close()
    return lambda *arguments: hotloop("explain", "--store", tmp_path / "traces.db", *arguments)


def test_it_has_four_parts(explain):
    ended = explain()
    assert (ended.code, ended.err) == (0, "")
    first, *lines = ended.out.splitlines()
    assert first.startswith("40 runs of orders, version 1 · ")
    assert first.endswith("; 1 did not end well and count in budget and diagnosis only")
    parts = [line.partition(":")[0] for line in lines if line and line[0].isupper()]
    assert parts == ["Budget", "Critical path", "Diagnosis", "What would help"]
    start = lines.index("Critical path: what the runs could not have ended without") + 3
    rows = [line.split() for line in lines[start : start + 3]]
    assert sorted(row[:2] for row in rows) == [["decode", "gpt"], ["prefill", "gpt"], ["tool", "lookup"]]
    assert "+ lookup takes 0.5 times as long" in lines


def test_for_a_program_it_is_one_object(explain):
    told = json.loads(explain("--json").out)
    assert (told["runs"], told["left_out"], told["agents"]) == (40, 1, ["orders"])
    path = told["critical_path"]
    assert sum(row["mean_ms"] for row in path["rows"]) == pytest.approx(path["mean_ms"], abs=0.01)
    helps = {each["change"]: each["prediction"]["times"]["saved"]["p50"]["value"] for each in told["helps"]}
    assert helps["lookup takes 0.5 times as long"] > 0
    assert {row["stage"]: row["acceptable"] for row in told["report"]["lines"]}["total"] == 1000.0


def test_one_run_is_explained_by_its_id(explain):
    assert explain("failed-").out.startswith("1 run of orders, version 1 · ")


@pytest.mark.parametrize("service", ["cerebras-gpt-oss-120b", "gpu-h100x2-llama70b-fp8"])
def test_a_service_that_is_asked_about_is_told_of_with_what_its_profile_is_worth(explain, service):
    out = explain("--service", service).out
    said = out.partition(f"service {service}\n")[2].partition("\n\n")[0]
    assert load_profile(service).confidence in said


def test_agents_that_are_explained_together_are_told(explain, tmp_path):
    store = TraceStore(tmp_path / "traces.db")
    store.export([run_of(name="refunds")])
    store.close()
    assert "--agent chooses" in explain().out.splitlines()[0]
    assert "--agent chooses" not in explain("--agent", "refunds").out.splitlines()[0]


@pytest.mark.parametrize("source", ["hotloop", "langgraph"])
def test_what_to_do_is_said_in_words_and_settings_are_only_hotloops(hotloop, tmp_path, source):
    store = TraceStore(tmp_path / "theirs.db")
    store.export(varied(20, source=source))
    store.close()
    out = hotloop("explain", "--store", tmp_path / "theirs.db").out
    advice = [
        line.split(maxsplit=1)[1]
        for line in out.partition("What would help")[2].splitlines()
        if line.startswith("  do ")
    ]
    assert any(line.startswith("make it faster, keep its results") for line in advice)
    assert all(("; in hotloop: " in line) == (source != "hotloop") for line in advice)
    assert "at best (Amdahl) " in out
    assert "\n  profile " in out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--agent", "nobody"), "there are orders"),
        (("nothing-like-it",), "nothing-like-it"),
        (("--service", "gpu-9"), "There is no profile 'gpu-9'"),
    ],
)
def test_what_cannot_be_explained_is_told(explain, arguments, told):
    ended = explain(*arguments)
    assert (ended.code, ended.out) == (2, "")
    assert told in ended.err
