from __future__ import annotations

import os
import random
import re
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, closing, suppress
from itertools import pairwise
from pathlib import Path

import pytest

import approval_process
from approval_process import STEPS, pending
from hotloop.errors import ConfigError, RunError
from hotloop.tools.approvals.store import ApprovalStore, PausedRun, digest_of
from killing import ENOUGH, started

posix = pytest.mark.skipif(sys.platform == "win32", reason="kills and forks")


@pytest.fixture
def store(tmp_path) -> ApprovalStore:
    return ApprovalStore(tmp_path / "approvals.db")


@pytest.fixture
def unprivileged() -> Iterator[None]:
    """Not root, who may write everywhere."""
    if os.geteuid():
        yield
        return
    os.seteuid(65534)
    yield
    os.seteuid(0)


def _started(what: str, store: ApprovalStore, *arguments: object) -> AbstractContextManager[subprocess.Popen[str]]:
    return started(approval_process.__file__, what, store.path, *arguments)


def _step_of(store: ApprovalStore, run_id: str) -> int:
    """How many steps a run has taken (0 again after the last), having checked that none was taken by half."""
    if run_id not in [run.run_id for run in store.runs()]:
        return 0
    run = store.load(run_id)
    first, second = run.calls
    assert (run.agent, run.state) == ("clerk", b"state of " + run_id.encode())
    assert (first.call, second.call) == (pending(run_id, "a"), pending(run_id, "b"))
    assert (second.decision, second.claimed) == (None, False)
    taken = [True, first.decision is not None, first.claimed, store.results(run_id) == {"a": b"done"}]
    assert all(before or not after for before, after in pairwise(taken))
    return sum(taken)


def _approved(store: ApprovalStore, run_id: str, *call_ids: str) -> PausedRun:
    store.pause(run_id, "clerk", b"state", [pending(run_id, call_id) for call_id in call_ids])
    for call_id in call_ids:
        store.decide(run_id, call_id, pending(run_id, call_id).digest, True)
    return store.load(run_id)


def test_run_comes_back_as_it_was_paused(store, monkeypatch):
    monkeypatch.setattr("time.time", lambda: 1_700_000_000.5)
    calls = [pending("r", "b", '{"amount":1}'), pending("r", "a")]
    store.pause("r", "clerk", b"\x00state", calls)
    store.decide("r", "a", calls[1].digest, False, by="ann", reason="too much")
    run = ApprovalStore(store.path).load("r")
    assert (run.run_id, run.agent, run.paused_at, run.state) == ("r", "clerk", 1_700_000_000.5, b"\x00state")
    assert [each.call for each in run.calls] == calls
    decided = run.calls[1].decision
    assert (decided.approved, decided.by, decided.reason, decided.at) == (False, "ann", "too much", 1_700_000_000.5)
    assert [(each.decision, each.claimed) for each in run.calls] == [(None, False), (decided, False)]


def test_runs_are_listed_oldest_first(store, monkeypatch):
    for run_id, at in [("new", 3.0), ("old", 1.0), ("middle", 2.0)]:
        monkeypatch.setattr("time.time", lambda at=at: at)
        store.pause(run_id, "clerk", run_id.encode(), [pending(run_id, "a")])
    assert store.runs() == [store.load(run_id) for run_id in ("old", "middle", "new")]


@pytest.mark.parametrize("odd", ["订单", "o'; DROP TABLE runs; --", '"', "", " ", "a\x00b", "a/../b", "%", "🙂" * 200])
def test_any_text_is_an_id(store, odd):
    _approved(store, odd, odd, "other")
    assert store.claim(odd, odd, pending(odd, odd).digest)
    store.record(odd, odd, b"done")
    with store.lease(odd):
        assert store.load(odd).calls[0].call.call_id == odd
        assert store.results(odd) == {odd: b"done"}
    store.finish(odd)
    assert store.runs() == []


def test_digest_tells_apart_what_differs_anywhere():
    calls = [("r", "a", "t", "{}"), ("ra", "", "t", "{}"), ("r", "at", "", "{}"), ("r", "a", "t", '{"x":1}')]
    calls += [("r", "a", 't","', "{}"), ("r", 'a","t', "", "{}")]
    digests = {digest_of(*call) for call in calls}
    assert len(digests) == len(calls)
    assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in digests)
    assert digest_of("r", "a", "t", "{}") == "0a8eac760dce6aff6530711aa0ee37cd2bbe7179386aef27aec9f5eabac1fcb4"


def test_pausing_again_keeps_decisions_about_the_same_arguments(store):
    _approved(store, "r", "same", "changed", "gone", "run")
    assert store.claim("r", "run", pending("r", "run").digest)
    store.record("r", "run", b"done")
    calls = [pending("r", "new"), pending("r", "changed", '{"amount":9}'), pending("r", "same"), pending("r", "run")]
    store.pause("r", "clerk", b"later", calls)
    run = store.load("r")
    assert run.state == b"later"
    assert [each.call for each in run.calls] == calls
    assert [each.decision is not None for each in run.calls] == [False, False, True, True]
    assert [each.claimed for each in run.calls] == [False, False, False, True]
    assert store.results("r") == {"run": b"done"}
    claimed = [call.call_id for call in [*calls, pending("r", "gone")] if store.claim("r", call.call_id, call.digest)]
    assert claimed == ["same"]


def test_approval_is_used_once(store):
    _approved(store, "r", "a")
    digest = pending("r", "a").digest
    assert [store.claim("r", "a", digest) for _ in range(3)] == [True, False, False]
    store.pause("r", "clerk", b"", [pending("r", "a")])
    assert not store.claim("r", "a", digest)


def test_only_what_was_approved_can_be_claimed(store):
    calls = [pending("r", call_id) for call_id in ("open", "refused", "approved")]
    store.pause("r", "clerk", b"", calls)
    store.decide("r", "refused", calls[1].digest, False)
    store.decide("r", "approved", calls[2].digest, True)
    assert not store.claim("r", "approved", pending("r", "approved", '{"amount":9}').digest)
    assert not store.claim("r", "unknown", calls[2].digest)
    assert [store.claim("r", call.call_id, call.digest) for call in calls] == [False, False, True]


def test_deciding_the_same_again_changes_nothing(store):
    first = _approved(store, "r", "a")
    store.decide("r", "a", pending("r", "a").digest, True, by="bob")
    assert store.load("r") == first


def test_what_cannot_be_decided_is_a_sentence(store):
    _approved(store, "r", "a", "used")
    digest = pending("r", "a").digest
    store.claim("r", "used", pending("r", "used").digest)
    store.pause("q", "clerk", b"", [pending("q", "a")])
    store.decide("q", "a", pending("q", "a").digest, False, by="ann")
    before = store.runs()
    for given, sentence in [
        (("r", "a", digest, False), "Call a was approved already, and that is final"),
        (("q", "a", pending("q", "a").digest, True), "Call a was refused already by ann, and that is final"),
        (("r", "a", pending("q", "a").digest, True), "Call a is not what was shown; look at its arguments again"),
        (("r", "used", pending("r", "used").digest, True), "Call used has been run already"),
        (("r", "b", digest, True), "Run r waits for no call 'b'; it waits for a, used"),
    ]:
        with pytest.raises(ConfigError, match=sentence):
            store.decide(*given)
    assert store.runs() == before


def test_call_without_approval_begins_once(store):
    store.pause("r", "clerk", b"", [pending("r", "a")])
    assert [store.begin("r", "free") for _ in range(2)] == [True, False]
    with pytest.raises(ConfigError, match="Call a needs an approval; claim it"):
        store.begin("r", "a")
    store.record("r", "other", b"read")
    assert not store.begin("r", "other")
    assert store.results("r") == {"other": b"read"}


def test_recorded_result_stays(store):
    store.pause("r", "clerk", b"", [])
    store.begin("r", "a")
    store.record("r", "a", b"")
    store.record("r", "a", b"another")
    assert store.results("r") == {"a": b""}


def test_two_calls_with_one_id_are_refused(store):
    with pytest.raises(ConfigError, match="Run r cannot wait for two calls with the same id"):
        store.pause("r", "clerk", b"", [pending("r", "a"), pending("r", "a", '{"amount":9}')])
    assert store.runs() == []


def test_finished_run_leaves_nothing(store):
    for run_id in ("r", "other"):
        _approved(store, run_id, "a")
        store.claim(run_id, "a", pending(run_id, "a").digest)
        store.record(run_id, "a", b"done")
    with store.lease("r"):
        store.finish("r")
    with closing(sqlite3.connect(store.path)) as db:
        tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        rows = {table: db.execute(f"SELECT run_id FROM {table}").fetchall() for table in tables}
    assert rows == {table: [("other",)] for table in ("runs", "calls", "decisions", "executions")}
    assert [path.name for path in store.path.parent.iterdir()] == ["approvals.db"]


@pytest.mark.parametrize(
    "use",
    [
        lambda store, run_id: store.load(run_id),
        lambda store, run_id: store.decide(run_id, "a", "", True),
        lambda store, run_id: store.claim(run_id, "a", ""),
        lambda store, run_id: store.begin(run_id, "a"),
        lambda store, run_id: store.record(run_id, "a", b""),
        lambda store, run_id: store.results(run_id),
        lambda store, run_id: store.finish(run_id),
        lambda store, run_id: store.lease(run_id).__enter__(),
    ],
)
def test_unknown_run_is_a_sentence(store, use):
    store.pause("known", "clerk", b"", [])
    with pytest.raises(ConfigError, match=r"No run 'know' waits in .*approvals\.db: it has ended"):
        use(store, "know")
    with pytest.raises(ConfigError, match=r"'\\udcff' is no text that can be kept"):
        use(store, "\udcff")
    assert [path.name for path in store.path.parent.iterdir()] == ["approvals.db"]


# The file


@posix
def test_file_is_made_in_the_state_folder_for_its_owner_only(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    store = ApprovalStore()
    assert not store.path.parent.exists()
    assert store.runs() == []
    assert store.path == tmp_path / "state" / "hotloop" / "approvals.db"
    assert [stat.S_IMODE(path.stat().st_mode) for path in (store.path, store.path.parent)] == [0o600, 0o700]
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert ApprovalStore().path == tmp_path / ".local" / "state" / "hotloop" / "approvals.db"
    assert ApprovalStore("~/mine.db").path == tmp_path / "mine.db"


@posix
def test_folder_that_cannot_be_written_is_a_sentence(tmp_path, unprivileged):
    with suppress(PermissionError):  # of root's folder, when the tests run as root
        tmp_path.chmod(0o500)
    with pytest.raises(ConfigError, match=r"cannot be kept in .*: Permission denied\. Give a path"):
        ApprovalStore(tmp_path / "approvals.db").runs()


def _text(path: Path) -> None:
    path.write_text("Dear diary, this is no database. " * 40)


def _foreign(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE bookmarks (url TEXT)")


def _newer(path: Path) -> None:
    ApprovalStore(path).runs()
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA user_version = 2")


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (_text, "file is not a database. Give another path, or move that file away"),
        (_foreign, "is the database of another program; give another path"),
        (_newer, r"was written by a newer hotloop \(layout 2\); update this one"),
    ],
)
def test_file_that_is_not_ours_is_left_alone(store, make, sentence):
    make(store.path)
    before = store.path.read_bytes()
    with pytest.raises(ConfigError, match=sentence):
        store.pause("r", "clerk", b"", [])
    assert store.path.read_bytes() == before


@pytest.mark.parametrize("path", ["", "file/approvals.db"])
def test_path_that_can_be_no_file_is_a_sentence(tmp_path, path):
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"The paused runs cannot be kept in .* Give a path where you may write"):
        ApprovalStore(tmp_path / path).runs()


def test_file_that_another_keeps_busy_is_a_sentence(store, monkeypatch):
    store.pause("r", "clerk", b"", [])
    monkeypatch.setattr("hotloop.sqlitefile.BUSY_SECONDS", 0)
    with closing(sqlite3.connect(store.path)) as db:
        db.execute("BEGIN IMMEDIATE")
        with pytest.raises(ConfigError, match="Another process has kept it busy for 10 s; try again"):
            store.load("r")
    assert store.load("r").run_id == "r"


# Threads and processes


def test_threads_share_a_store(store):
    call_ids = [f"call-{number}" for number in range(10)]
    run = _approved(store, "r", *call_ids)
    claimed: list[str] = []

    def claim_all() -> None:
        claimed.extend(each.call.call_id for each in run.calls if store.claim("r", each.call.call_id, each.call.digest))

    threads = [threading.Thread(target=claim_all) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(claimed) == call_ids


def test_of_four_processes_one_gets_each_call(store):
    call_ids = [f"call-{number:02}" for number in range(30)]
    _approved(store, "r", *call_ids)
    with ExitStack() as stack:
        racers = [stack.enter_context(_started("race", store, "r")) for _ in range(4)]
        assert [racer.stdout.readline() for racer in racers] == ["ready\n"] * 4
        for racer in racers:
            racer.stdin.write("go\n")
            racer.stdin.flush()
        claimed = [call_id for racer in racers for call_id in racer.communicate(timeout=ENOUGH)[0].split()]
    assert sorted(claimed) == call_ids


def test_run_is_resumed_by_one_at_a_time(store):
    for run_id in ("r", "other"):
        store.pause(run_id, "clerk", b"", [])
    with store.lease("r"), store.lease("other"):
        with pytest.raises(RunError, match="Run r is being resumed already; wait for its end, or stop it"):
            store.lease("r").__enter__()
        store.pause("r", "clerk", b"paused again", [])
        with pytest.raises(RunError):
            store.lease("r").__enter__()
    with pytest.raises(ZeroDivisionError), store.lease("r"):
        raise ZeroDivisionError
    with store.lease("r"):
        pass
    assert [path.name for path in store.path.parent.iterdir()] == ["approvals.db"]


def test_lease_may_end_in_another_thread(store):
    store.pause("r", "clerk", b"", [])
    stack = ExitStack()
    stack.enter_context(store.lease("r"))
    thread = threading.Thread(target=stack.close)
    thread.start()
    thread.join()
    with store.lease("r"):
        pass


@posix
def test_lease_of_a_killed_process_is_free_though_its_child_lives(store):
    store.pause("r", "clerk", b"", [])
    with _started("hold", store, "r") as holder:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(RunError, match="Run r is being resumed already"):
            store.lease("r").__enter__()
        holder.kill()
        holder.wait(ENOUGH)
        with store.lease("r"):
            assert len(list(store.path.parent.iterdir())) == 2
    assert [path.name for path in store.path.parent.iterdir()] == ["approvals.db"]


@posix
def test_leases_that_come_and_go_never_overlap(store, tmp_path):
    store.pause("r", "clerk", b"", [])
    counter = tmp_path / "counter"
    counter.write_text("0")
    with ExitStack() as stack:
        adders = [stack.enter_context(_started("add", store, "r", counter, 40)) for _ in range(6)]
        assert [adder.wait(ENOUGH) for adder in adders] == [0] * 6
    assert counter.read_text() == "240"


@posix
@pytest.mark.parametrize("seed", range(6))
def test_nothing_that_returned_is_lost_when_a_process_is_killed(store, seed):
    for life in range(2):
        with _started("work", store, f"life-{life}") as worker:
            said = [worker.stdout.readline() for _ in range(random.Random(seed * 10 + life).randrange(1, 60))]
            worker.kill()
            said += worker.stdout.readlines()
        number, step = [line for line in said if line.endswith("\n")][-1].split()
        taken = STEPS.index(step) + 1
        run_id = f"life-{life}-{number}" if taken < len(STEPS) else f"life-{life}-{int(number) + 1}"
        assert _step_of(store, run_id) in {taken % len(STEPS), (taken + 1) % len(STEPS)}
        left = {run.run_id for run in store.runs()}
        assert {run for run in left if run.startswith(f"life-{life}-")} <= {run_id}


@posix
@pytest.mark.parametrize("step", STEPS)
def test_step_is_taken_whole_or_not_at_all_wherever_it_dies(store, step):
    with _started("die_at_each_statement", store, step) as process:
        said = [line.split() for line in process.communicate(timeout=ENOUGH)[0].splitlines()]
    before, after = STEPS.index(step), (STEPS.index(step) + 1) % len(STEPS)
    assert [end for _, end in said] == ["died"] * (len(said) - 1) + ["survived"]
    assert [_step_of(store, run_id) for run_id, _ in said] == [before] * (len(said) - 1) + [after]
    assert len(said) > 5
