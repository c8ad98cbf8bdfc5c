"""Recorded runs as files: out in several formats, in from our own lines and from what other frameworks told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hotloop.trace.ledger import Stage
from hotloop.trace.lines import to_lines
from hotloop.trace.record import TraceRecord
from hotloop.trace.store import TraceStore

FOREIGN = Path(__file__).parents[1] / "data" / "otel"


def run(trace_id: str, **options: object) -> TraceRecord:
    stages = [Stage("prefill", 0, 900_000_000, 0), Stage("overhead", 900_000_000, 1_000_000_000, 0)]
    return TraceRecord(trace_id=trace_id, started=1.8e9, start=0, end=1_000_000_000, stages=stages, **options)


@pytest.fixture
def path(tmp_path, monkeypatch) -> Path:
    """A file of runs, in the state folder."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    store = TraceStore()
    store.export([run("req-a1", name="orders"), run("req-a2", name="orders", session="ann"), run("req-b3")])
    store.close()
    return store.path


def ids(path: Path) -> list[str]:
    return [info.trace_id for info in TraceStore(path).infos()]


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ("", "req-a1 req-a2 req-b3"),
        ("--agent orders", "req-a1 req-a2"),
        ("req-b", "req-b3"),
        ("--session ann --format jsonl", "req-a2"),
    ],
)
def test_export_is_a_line_a_run(hotloop, path, options, found):
    ended = hotloop("trace", "export", *options.split())
    assert (ended.code, ended.err) == (0, "")
    assert [json.loads(line)["trace_id"] for line in ended.out.splitlines()] == found.split()


def test_export_of_no_run_is_no_empty_file(hotloop, path):
    ended = hotloop("trace", "export", "--agent", "nobody")
    assert (ended.code, ended.out) == (2, "")
    assert "nobody" in ended.err


def test_what_was_exported_is_imported_once(hotloop, path, tmp_path):
    file, other = tmp_path / "runs.jsonl", tmp_path / "other.db"
    file.write_text(hotloop("trace", "export").out)
    ended = hotloop("trace", "import", file, "--store", other)
    assert (ended.code, ended.out, ended.err) == (0, "", "Added: 3 runs.\n")
    assert list(TraceStore(other).find()) == list(TraceStore(path).find())
    assert hotloop("trace", "import", file, "--store", other).err == "Added: 0 runs, 3 runs were there already.\n"
    TraceStore(other).export([run("req-b3", version="1.4")])
    with file.open("ab") as more:
        more.writelines(to_lines([run("req-c4")]))
    ended = hotloop("trace", "import", file, "--store", other, "--json")
    assert json.loads(ended.out) == {"read": 4, "new": 1}
    assert ids(other) == ["req-a1", "req-a2", "req-b3", "req-c4"]


def test_nothing_is_imported_by_halves(hotloop, path, tmp_path):
    good, bad, none = tmp_path / "good.jsonl", tmp_path / "bad.jsonl", tmp_path / "none.jsonl"
    good.write_bytes(b"".join(to_lines([run("req-new")])))
    bad.write_bytes(good.read_bytes() * 2 + b'{"trace_id":"req-odd","start":0}\n')
    for file, sentence in (
        (bad, f"{bad}:3: missing key end."),
        (none, f"The file {none} cannot be read: No such file or directory."),
    ):
        ended = hotloop("trace", "import", good, file)
        assert (ended.code, ended.out, ended.err) == (2, "", f"error: {sentence}\n")
    assert ids(path) == ["req-a1", "req-a2", "req-b3"]


def test_runs_of_other_frameworks_are_imported(hotloop, path):
    files = sorted(FOREIGN.glob("*-parallel.jsonl*"))
    assert hotloop("trace", "import", *files).code == 0
    assert json.loads(hotloop("trace", "import", *files, "--json").out) == {"read": len(files), "new": 0}
    found = json.loads(hotloop("trace", "list", "--json").out)["runs"]
    assert {each["source"] for each in found} > {"hotloop", "langgraph"}
    assert len(found) == 3 + len(files)


@pytest.mark.parametrize("options", [(), ("--content",)])
def test_what_was_said_elsewhere_is_kept_if_that_is_asked_for(hotloop, path, options):
    file = next(iter(sorted(FOREIGN.glob("langgraph-parallel.jsonl*"))))
    hotloop("trace", "import", file, *options)
    (record,) = [each for each in TraceStore().find() if each.source != "hotloop"]
    assert (record.prompt.text is not None) == bool(options)


@pytest.mark.parametrize("text", ["", "{}", "not JSON", '{"trace": 1}'])
def test_a_file_of_something_else(hotloop, path, tmp_path, text):
    file = tmp_path / "notes.txt"
    file.write_text(text)
    ended = hotloop("trace", "import", file)
    assert (ended.code, ids(path)) == (2 if text else 0, ["req-a1", "req-a2", "req-b3"])


def test_export_for_perfetto(hotloop, path):
    told = json.loads(hotloop("trace", "export", "--format", "chrome", "--agent", "orders").out)
    assert told["otherData"]["runs"] == 2
    assert any(event["ph"] == "X" for event in told["traceEvents"])


def test_a_format_that_there_is_not(hotloop, path):
    ended = hotloop("trace", "export", "--format", "csv")
    assert ended.code == 2
    assert "csv" in ended.err and "jsonl" in ended.err
