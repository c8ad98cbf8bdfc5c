"""Looking into recorded runs: which there are, where the time of one went, and deleting them."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pytest
from terminal import on_a_terminal

from hotloop.commands.selection import moment_of
from hotloop.trace.ledger import AttemptFacts, CallFacts, Stage, TurnFacts, Usage
from hotloop.trace.record import Said, TraceRecord
from hotloop.trace.store import TraceStore

posix = pytest.mark.skipif(sys.platform == "win32", reason="has no pseudo terminals")
NOW = time.time()
HOUR, DAY = 3600, 86_400
MS = 1_000_000


def run(trace_id: str, *, ago: float = 0.0, took: float = 1.0, **options: object) -> TraceRecord:
    """A run that began so many seconds ago."""
    return TraceRecord(trace_id=trace_id, started=NOW - ago, start=0, end=round(took * 1e9), **options)


def whole(trace_id: str, **options: object) -> TraceRecord:
    """A run with a turn, a call and what else there may be to show."""
    stages = [
        Stage("prefill", 0, 200 * MS, 0),
        Stage("tool", 200 * MS, 500 * MS, 0, 1, "look"),
        Stage("overhead", 500 * MS, 1_000 * MS, 0, note="end of run"),
    ]
    usage = Usage(1_200, 34)
    turn = TurnFacts(0, usage=usage, tools=["look"], calls=[CallFacts("call00001", "look", "ok", lane=1)])
    tried = [{"route": "fast", "outcome": "ok", "reason": "", "ms": 200.0, "confidence": None}]
    facts = {"max_parallel": 8, "routes": [{"turn": 0, "route": "fast", "why": "default", "tried": tried}]}
    attempts = [AttemptFacts(0, "host", "m", "first", 0, 200 * MS, "ok", 200 * MS, usage=usage)]
    limits = {"total": 600 * MS}
    told = {"stages": stages, "turns": [turn], "attempts": attempts, "facts": facts, "limits": limits}
    return run(trace_id, **told, **options)


@pytest.fixture
def kept(tmp_path, monkeypatch) -> Path:
    """A file of runs, in the state folder."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    store = TraceStore()
    store.export(
        [
            whole("req-aa1", name="orders", version="1.3", session="ann", ago=5),
            run("req-aa2", name="orders", version="1.2", ago=3 * HOUR, took=4.2, outcome="failed", error="ToolTimeout"),
            run("req-bb3", name="re\x1b[31mfunds", ago=3 * DAY, outcome="paused"),
            run("0af7651916cd43dd", source="langgraph", session="bob", ago=9 * DAY, took=0.05),
        ]
    )
    store.close()
    return store.path


def listed(ended) -> list[str]:
    return [each["trace_id"] for each in json.loads(ended.out)["runs"]]


def test_list_is_a_table(hotloop, kept):
    ended = hotloop("trace", "list")
    head, *rows = ended.out.splitlines()
    assert (ended.code, ended.err) == (0, "")
    assert " ".join(head.split()) == "when run agent version session source ended turns in out took"
    assert [row.split()[2] for row in rows] == ["req-aa1", "req-aa2", "req-bb3", "0af7651916cd43dd"]
    assert rows[0].split()[3:] == ["orders", "1.3", "ann", "-", "ok", "1", "1,200", "34", "1,000", "ms"]
    assert rows[1].split()[3:] == ["orders", "1.2", "-", "-", "failed:", "ToolTimeout", "0", "-", "-", "4,200", "ms"]
    assert "re\\u001b[31mfunds" in rows[2]


def test_columns_in_which_nothing_is_are_left_out(hotloop, kept):
    head = hotloop("trace", "list", "--failed").out.splitlines()[0]
    assert head.split() == ["when", "run", "agent", "version", "ended", "turns", "took"]


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ("", "req-aa1 req-aa2 req-bb3 0af7651916cd43dd"),
        ("--agent orders", "req-aa1 req-aa2"),
        ("--version 1.2", "req-aa2"),
        ("--session bob", "0af7651916cd43dd"),
        ("--source langgraph", "0af7651916cd43dd"),
        ("--since 2h", "req-aa1"),
        ("--since 2d --until 1h", "req-aa2"),
        ("--until 1w", "0af7651916cd43dd"),
        ("--slow 2s", "req-aa2"),
        ("--slow 100ms --last 1", "req-aa1"),
        ("--failed", "req-aa2"),
        ("--last 2", "req-aa1 req-aa2"),
        ("--agent nobody", ""),
    ],
)
def test_list_shows_those_that_are_meant(hotloop, kept, options, found):
    ended = hotloop("trace", "list", "--json", *options.split())
    assert (ended.code, listed(ended)) == (0, found.split())


def test_list_as_json(hotloop, kept):
    told = json.loads(hotloop("trace", "list", "--json", "--last", 1).out)
    assert told == {
        "path": str(kept),
        "missed": 0,
        "runs": [
            {
                "trace_id": "req-aa1",
                "agent": "orders",
                "version": "1.3",
                "session": "ann",
                "source": "hotloop",
                "started": NOW - 5,
                "outcome": "ok",
                "error": "",
                "turns": 1,
                "input_tokens": 1_200,
                "output_tokens": 34,
                "took_ms": 1_000.0,
            }
        ],
    }


def test_only_the_last_are_listed(hotloop, tmp_path):
    path = tmp_path / "traces.db"
    TraceStore(path).export([run(f"req-{number}", ago=number) for number in range(60)])
    ended = hotloop("trace", "list", "--store", path)
    assert len(ended.out.splitlines()) == 51
    assert ended.err == "Only the last 50 are listed; --last N lists more.\n"
    assert len(hotloop("trace", "list", "--store", path, "--last", 55).out.splitlines()) == 56
    assert len(listed(hotloop("trace", "list", "--store", path, "--json"))) == 60


def test_runs_that_were_dropped_are_told(hotloop, kept):
    TraceStore().missed(1_204)
    ended = hotloop("trace", "list", "--last", 1)
    assert ended.err == "1,204 more runs ended faster than they could be recorded.\n"
    assert json.loads(hotloop("trace", "list", "--json").out)["missed"] == 1_204


def test_where_nothing_is(hotloop, kept, tmp_path):
    told = f"No run in {kept} is selected: run the agent first, or choose other runs.\n"
    assert hotloop("trace", "list", "--until", "2001-01-01").out == told
    for command in ("show", "export"):
        ended = hotloop("trace", command, "--until", "2001-01-01")
        assert (ended.code, ended.out, ended.err) == (2, "", f"error: {told}")
    ended = hotloop("trace", "list", "--store", tmp_path / "none.db")
    assert ended.code == 2
    assert ended.err == f"error: There is no file {tmp_path}/none.db: no run has been recorded there.\n"
    assert not (tmp_path / "none.db").exists()


@pytest.mark.parametrize(
    ("given", "there"),
    [
        (
            ("--agent", "order"),
            "run of agent 'order' in {}; there are orders, re\\u001b[31mfunds (did you mean orders?).",
        ),
        (("--version", "2"), "run of version '2' in {}; there are 1.2, 1.3."),
        (
            ("--source", "langgrph"),
            "run of source 'langgrph' in {}; there are hotloop, langgraph (did you mean langgraph?).",
        ),
    ],
)
def test_of_an_unknown_name_it_tells_which_there_are(hotloop, kept, given, there):
    for command in ("list", "show", "export"):
        ended = hotloop("trace", command, *given)
        assert there.format(kept) in ended.out + ended.err
        assert ended.code == (0 if command == "list" else 2)


def test_show_is_as_a_run_shows_it(hotloop, kept):
    ended = hotloop("trace", "show")
    lines = ended.out.splitlines()
    assert (ended.code, ended.err) == (0, "")
    assert lines[0].endswith(" · agent orders · version 1.3 · session ann · ok")
    assert lines[2] == "req-aa1 · 1,000 ms end to end · 1 turn"
    assert "· turn 0  route fast (default)" in ended.out
    assert any(line.startswith("total") and "over" in line for line in lines)


def test_show_finds_what_is_meant(hotloop, kept):
    assert "failed: ToolTimeout" in hotloop("trace", "show", "--failed").out
    assert "req-bb3" in hotloop("trace", "show", "req-b").out
    assert "of langgraph" in hotloop("trace", "show", "0af").out
    for given, sentence in (
        ("req-aa", f"The ids of 2 runs in {kept} begin with req-aa; give more of it."),
        ("req-aa3", f"There is no run req-aa3 in {kept}; see `hotloop trace list`"),
    ):
        ended = hotloop("trace", "show", given)
        assert (ended.code, ended.out) == (2, "")
        assert ended.err.startswith(f"error: {sentence}")


def test_show_as_json_has_everything(hotloop, kept):
    told = json.loads(hotloop("trace", "show", "--json").out)
    assert (told["trace_id"], told["agent"], told["version"], told["outcome"]) == ("req-aa1", "orders", "1.3", "ok")
    assert (told["end_to_end_ms"], told["turns"][0]["input_tokens"], told["max_parallel"]) == (1_000.0, 1_200, 8)
    assert [stage["kind"] for stage in told["stages"]] == ["prefill", "tool", "overhead"]
    assert told["said"] == {"prompt": None, "calls": {}, "answer": None}


def test_show_has_what_was_said_where_that_was_recorded(hotloop, kept):
    said = {"call00001": Said(text='{"order_id":"7"}', result="shipped \x1b[31m")}
    given = whole("req-cc4", prompt=Said(text="Where is\nit?"), answer=Said(text="On its way."), said=said)
    TraceStore().export([given])
    lines = hotloop("trace", "show", "req-cc4").out.splitlines()
    assert lines[1:6] == [
        "user    Where is",
        "        it?",
        'call    look {"order_id":"7"}',
        "result  shipped \\u001b[31m",
        "model   On its way.",
    ]


@pytest.mark.parametrize(
    ("options", "left"),
    [
        ("req-aa1", "req-aa2 req-bb3 0af7651916cd43dd"),
        ("req-b", "req-aa1 req-aa2 0af7651916cd43dd"),
        ("--agent orders", "req-bb3 0af7651916cd43dd"),
        ("--until 2d", "req-aa1 req-aa2"),
        ("--all", ""),
        ("--agent nobody", "req-aa1 req-aa2 req-bb3 0af7651916cd43dd"),
    ],
)
def test_delete_takes_those_that_are_meant(hotloop, kept, options, left):
    count = 4 - len(left.split())
    told = json.loads(hotloop("trace", "delete", *options.split(), "--yes", "--json").out)
    assert told == {"path": str(kept), "deleted": count}
    assert listed(hotloop("trace", "list", "--json")) == left.split()


@pytest.mark.parametrize("options", ["", "req-aa1 --all", "--agent orders --all", "req-aa1 --failed"])
def test_delete_must_know_what_is_meant(hotloop, kept, options):
    ended = hotloop("trace", "delete", *options.split(), "--yes")
    assert ended.code == 2
    assert ended.err == "error: Give the id of a run, or options that say which runs, or --all.\n"
    assert len(TraceStore().infos()) == 4


def test_delete_asks_nobody_who_is_not_there(hotloop, kept):
    ended = hotloop("trace", "delete", "--all")
    assert ended.code == 2
    assert ended.err == f"error: Delete 4 runs in {kept}? Nobody is here to be asked: give --yes if it is meant.\n"


@posix
@pytest.mark.parametrize(("answer", "left"), [("n", 4), ("y", 3)])
def test_delete_asks_on_a_terminal(kept, answer, left):
    with on_a_terminal("trace", "delete", "req-aa1") as terminal:
        terminal.until("Delete run req-aa1 in")
        terminal.until("[y/N]")
        terminal.type(f"{answer}\n")
        assert terminal.end()[0] == (1 if answer == "n" else 0)
    assert len(TraceStore().infos()) == left


@pytest.mark.parametrize(
    ("text", "ago"),
    [("2h", 2 * HOUR), ("1.5d", 1.5 * DAY), ("2w", 14 * DAY), (" 90s ", 90), ("0s", 0)],
)
def test_times_ago(text, ago):
    assert moment_of(text, NOW) == NOW - ago


def test_dates():
    assert moment_of("2026-11-30T12:00:00Z", NOW) == 1_796_040_000
    assert moment_of("2026-11-30 12:00+01:00", NOW) == 1_796_036_400
    assert moment_of("2026-11-30", NOW) == time.mktime((2026, 11, 30, 0, 0, 0, 0, 0, -1))


@pytest.mark.parametrize("text", ["", "yesterday", "2y", "-2h", "2026-13-01", "12:00", "1e3"])
def test_what_is_no_time(hotloop, kept, text):
    ended = hotloop("trace", "list", f"--since={text}")
    assert (ended.code, ended.out) == (2, "")
    assert f"'{text}' is no time; write how long ago (2h, 3d) or when (2026-11-30, '2026-11-30 14:05')" in ended.err


def test_help_names_all_options(hotloop):
    options = "--store --agent --version --session --source --since --until --slow --failed --last --json"
    text = hotloop("trace", "list", "--help").out
    assert [option for option in options.split() if option not in text] == []
