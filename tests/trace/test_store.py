from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from endings import full_record, record

from hotloop.errors import ConfigError
from hotloop.trace.ledger import AttemptFacts, Stage, ToolFacts, TurnFacts, Usage
from hotloop.trace.retention import AT_ONCE, Retention
from hotloop.trace.store import Added, TraceInfo, TraceStore, Which

HOUR, DAY = 3600, 86_400
NOW = 1.8e9
WRITER = """
import sys
from hotloop.trace.record import TraceRecord
from hotloop.trace.store import TraceStore

store = TraceStore(sys.argv[1])
for number in range(50):
    store.export([TraceRecord(trace_id=f"{sys.argv[2]}-{number}", start=0, end=1, started=float(number))])
"""


@pytest.fixture
def store(tmp_path) -> Iterator[TraceStore]:
    with closing(TraceStore(tmp_path / "traces.db")) as opened:
        yield opened


@pytest.fixture
def several(store) -> TraceStore:
    """A store with runs of several kinds, not in the order in which they began."""
    orders = {"name": "orders", "version": "1.3", "session": "ann"}
    store.export(
        [
            record("late", took=0.5, started=NOW + HOUR, **orders),
            record("early", took=2.0, started=NOW - HOUR, **orders | {"version": "1.2", "outcome": "failed"}),
            record("other", took=1.0, started=NOW, name="refunds", outcome="cancelled"),
            record("foreign", took=3.0, started=NOW + 1, source="langgraph", session="bob"),
        ]
    )
    return store


@pytest.fixture
def now(monkeypatch) -> Iterator[list[float]]:
    """The time, as a list of one value that a test may change."""
    moment = [NOW]
    monkeypatch.setattr(time, "time", lambda: moment[0])
    yield moment


def ids(store: TraceStore, **which) -> list[str]:
    return [each.trace_id for each in store.find(Which(**which))]


def test_what_was_kept_is_found(store):
    given = [full_record(), record("req-2", started=1.9e9)]
    store.export(given)
    assert list(store.find()) == given
    assert list(TraceStore(store.path).find()) == given


def test_an_info_tells_what_a_list_needs(store):
    given = full_record()
    given.turns = [TurnFacts(0), TurnFacts(1), TurnFacts(2)]
    used = Usage(), Usage(200, 96), Usage(300, None)
    given.attempts = [
        AttemptFacts(turn, "host", "m", "first", 0, 1, "ok", 0, "", usage) for turn, usage in enumerate(used)
    ]
    store.export([given, record("req-2", started=1.9e9)])
    whose = ("req-1", "orders", "1.3", "user-42", "pydantic-ai")
    assert store.infos() == [
        TraceInfo(*whose, 1.8e9, 2_000_000_000, "failed", "Overloaded", 3, 500, 96),
        TraceInfo("req-2", "", "", "", "hotloop", 1.9e9, 1_000_000_000, "ok", "", 0, None, None),
    ]


@pytest.mark.parametrize(
    ("which", "found"),
    [
        ({}, "early other foreign late"),
        ({"trace_id": "late"}, "late"),
        ({"trace_id": "lat"}, ""),
        ({"agent": "orders"}, "early late"),
        ({"agent": ""}, "foreign"),
        ({"version": "1.3"}, "late"),
        ({"session": "bob"}, "foreign"),
        ({"source": "hotloop"}, "early other late"),
        ({"since": NOW}, "other foreign late"),
        ({"until": NOW}, "early"),
        ({"since": NOW, "until": NOW + 1}, "other"),
        ({"slow": 2.0}, "early foreign"),
        ({"failed": True}, "early"),
        ({"limit": 2}, "foreign late"),
        ({"limit": 1, "agent": "orders", "slow": 1.0}, "early"),
    ],
)
def test_runs_are_found_by_what_they_were(several, which, found):
    assert ids(several, **which) == found.split()
    assert [each.trace_id for each in several.infos(Which(**which))] == found.split()


def test_many_are_read_little_by_little(store):
    store.export([record(f"req-{number}", started=float(number)) for number in range(1_203)])
    found = store.find()
    assert [next(found).trace_id for _ in range(600)] == [f"req-{number}" for number in range(600)]
    store.delete(Which(since=1_000.0))
    assert [each.trace_id for each in found] == [f"req-{number}" for number in range(600, 1_000)]


def test_the_same_run_is_kept_once(store):
    """A resumed run goes on under its id, with another start."""
    store.export([record("a"), record("a", source="other"), record("a", started=1.9e9)])
    store.export([record("a", name="again")])
    assert [(each.agent, each.source, each.started) for each in store.infos()] == [
        ("", "other", 1.8e9),
        ("again", "hotloop", 1.8e9),
        ("", "hotloop", 1.9e9),
    ]
    assert store.get("a").started == 1.9e9


def test_get_takes_the_beginning_of_an_id(several):
    several.export([record("late-2")])
    assert several.get("fo").trace_id == "foreign"
    assert several.get("late").trace_id == "late"
    assert several.get().trace_id == "late"
    for given, sentence in (
        ("la", r"The ids of 2 runs in .* begin with la; give more of it\."),
        ("lately", r"There is no run lately in .*; see `hotloop trace list`"),
        ("%", r"There is no run % in .*traces\.db; "),
    ):
        with pytest.raises(ConfigError, match=sentence):
            several.get(given)


def test_an_empty_store(store):
    assert (list(store.find()), store.infos(), store.count_missed(), store.delete(Which())) == ([], [], 0, 0)
    with pytest.raises(ConfigError, match=r"No run is recorded in .*traces\.db yet\."):
        store.get()


def test_what_is_deleted_is_nowhere_in_the_file(store):
    secret = "CANARY" * 20
    store.export([record(f"req-{number}", session=secret if number < 9 else "") for number in range(10)])
    assert store.delete(Which(session=secret)) == 9
    store.close()
    assert [each.name for each in store.path.parent.iterdir()] == ["traces.db"]
    assert b"CANARY" not in store.path.read_bytes()
    assert ids(store) == ["req-9"]


async def test_delete_from_beside_an_event_loop(several):
    assert await asyncio.to_thread(several.delete, Which(agent="orders")) == 2


def test_add_is_all_or_nothing(store):
    def some():
        yield record("a")
        raise ConfigError("line 2 is wrong")

    with pytest.raises(ConfigError, match="line 2 is wrong"):
        store.add(some())
    assert store.infos() == []
    assert store.add(record(name) for name in "abc") == Added(3, 3)
    assert store.add(record(name) for name in "bcd") == Added(3, 1)
    assert store.add([]) == Added(0, 0)
    assert ids(store) == ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    "given",
    [
        record("a", name="\ud800"),
        record("a", facts={"why": "\ud800"}),
        record("a", facts={"many": 1 << 70}),
        record("a", turns=[TurnFacts(0, usage=Usage(1 << 70))]),
    ],
)
def test_what_cannot_be_kept_is_said(store, given):
    with pytest.raises(ConfigError, match=r"is no text that can be kept|Run a cannot be kept: "):
        store.export([given])


def test_a_damaged_record_is_left_out(several, caplog):
    with closing(sqlite3.connect(several.path)) as db, db:
        db.execute("UPDATE runs SET record = x'80' WHERE trace_id = 'other'")
    assert ids(several) == ["early", "foreign", "late"]
    (told,) = caplog.messages
    assert told.startswith(f"Run other in {several.path} is damaged: ")


def test_runs_that_were_dropped_are_counted_by_day(store, now):
    store.missed(3)
    store.missed(4)
    now[0] += DAY
    store.missed(5)
    assert store.count_missed() == 12


def test_several_processes_write_at_once(tmp_path):
    path = tmp_path / "traces.db"
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(path), name]) for name in "abc"]
    assert [each.wait(30) for each in writers] == [0, 0, 0]
    assert sorted(ids(TraceStore(path))) == sorted(f"{name}-{number}" for name in "abc" for number in range(50))


def test_where_no_file_can_be(tmp_path):
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(ConfigError, match="The traces cannot be kept in"):
        TraceStore(tmp_path / "file" / "traces.db").export([record()])


def test_the_usual_file_is_in_the_state_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert TraceStore().path == tmp_path / "hotloop" / "traces.db"


def kept(path: Path, days: int = 14, runs: int = 100_000) -> TraceStore:
    return TraceStore(path, retention=Retention(days, runs))


def test_the_last_runs_are_kept(tmp_path):
    with closing(kept(tmp_path / "traces.db", runs=10)) as store:
        for number in range(25):
            store.export([record(f"req-{number}", started=NOW - number)])  # the last written began first
        assert ids(store) == [f"req-{number}" for number in reversed(range(15, 25))]


def test_each_agent_has_its_own_runs_and_days(tmp_path, now):
    path = tmp_path / "traces.db"
    with closing(kept(path, runs=100)) as theirs, closing(kept(path, days=1, runs=2)) as ours:
        theirs.export([record(f"theirs-{number}", name="theirs") for number in range(3)])
        for number in range(3):
            ours.export([record(f"{name}-{number}", name=name) for name in ("one", "two")])
        assert sorted(ids(ours)) == ["one-1", "one-2", *(f"theirs-{number}" for number in range(3)), "two-1", "two-2"]
        now[0] += DAY + 1
        ours.export([record("one-3", name="one")])
        assert sorted(ids(ours)) == ["one-3", *(f"theirs-{number}" for number in range(3))]


def test_more_than_the_last_runs_are_kept_for_a_while_where_many_are(tmp_path):
    """So that nobody counts them after each batch."""
    with closing(kept(tmp_path / "traces.db", runs=1_000)) as store:
        for start in range(0, 1_200, 4):
            store.export([record(f"req-{number}", started=float(number)) for number in range(start, start + 4)])
            assert len(store.infos()) <= 1_010
        assert len(store.infos()) >= 1_000


def test_runs_are_kept_for_days(tmp_path, now):
    """Counted from when they were written, so that runs of last year can be imported."""
    with closing(kept(tmp_path / "traces.db", days=2)) as store:
        store.add([record("imported", started=NOW - 365 * DAY)])
        store.missed(7)
        now[0] += 2 * DAY - 1
        store.export([record("second")])
        assert sorted(ids(store)) == ["imported", "second"]
        now[0] += HOUR
        store.export([record("third")])
        assert sorted(ids(store)) == ["second", "third"]
        now[0] += 2 * DAY + 1
        store.export([record("fourth")])
        assert (ids(store), store.count_missed()) == (["fourth"], 0)


def test_a_little_goes_at_a_time(tmp_path):
    path = tmp_path / "traces.db"
    with closing(TraceStore(path)) as store:
        store.export([record(f"req-{number}") for number in range(2 * AT_ONCE + 100)])
    counts = []
    with closing(kept(path, runs=50)) as store:
        for number in range(4):
            store.export([record(f"new-{number}")])
            counts.append(len(store.infos()))
    assert counts == [AT_ONCE + 101, 102, 50, 50]


def test_the_file_does_not_grow_for_ever(tmp_path):
    stages = [Stage("tool", number, number + 1, 0, 1, "look") for number in range(40)]
    with closing(kept(tmp_path / "traces.db", runs=200)) as store:
        sizes = []
        for batch in range(20):
            store.export([record(f"req-{batch}-{number}", stages=stages) for number in range(50)])
            store.close()
            sizes.append(store.path.stat().st_size)
    assert max(sizes[5:]) <= sizes[5] * 1.1
    assert len(msgspec.msgpack.encode(stages)) * 200 < sizes[-1] * 3


def test_what_agents_declare_is_kept_as_long_as_their_runs(tmp_path, now):
    with closing(kept(tmp_path / "traces.db", days=2)) as store:
        tools = [{f"tool{number}": ToolFacts(size=number)} for number in range(3)]
        for number in (0, 1, 1):
            store.export([record(f"req-{now[0]}", started=now[0], tools=tools[number])])
            now[0] += DAY + 1
        store.export([record("last", started=now[0], tools=tools[2])])
        assert [each.tools for each in store.find()] == [tools[1], tools[2]]
        assert declarations(store) == 2
        store.delete(Which(trace_id="last"))
        assert declarations(store) == 1


def declarations(store: TraceStore) -> int:
    with closing(sqlite3.connect(store.path)) as db:
        return db.execute("SELECT count(*) FROM declarations").fetchone()[0]


def test_without_retention_all_are_kept(store, now):
    store.export([record("old")])
    now[0] += 1_000 * DAY
    store.export([record("new")])
    assert len(store.infos()) == 2
