"""The queue of runs that have ended and the thread that empties it; and what becomes of them when a process ends."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from endings import Kept, ended, spoken

from hotloop.trace.recording import recorder as module
from hotloop.trace.recording.recorder import Recorder
from hotloop.trace.store import TraceStore

ENOUGH = 30  # seconds, for anything on a busy machine
PROCESS = Path(__file__).parent / "recording_process.py"
posix = pytest.mark.skipif(sys.platform == "win32", reason="forks and kills")


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    made = Recorder()
    yield made
    assert made.flush(ENOUGH)


class Gate(Kept):
    """An exporter that waits until it may go on, and wants to know of what it misses."""

    def __init__(self) -> None:
        super().__init__()
        self.open, self.entered = threading.Event(), threading.Event()
        self.missing = 0

    def export(self, records) -> None:
        self.entered.set()
        assert self.open.wait(ENOUGH)
        super().export(records)

    def missed(self, runs: int) -> None:
        self.missing += runs


class Failing(Kept):
    def export(self, records) -> None:
        super().export(records)
        raise OSError("the disk is full")


def ids(kept: Kept) -> list[str]:
    return [record.trace_id for record in kept.records]


def held_up(recorder: Recorder) -> Gate:
    """An exporter that holds up the thread, which has taken its first run."""
    gate = Gate()
    recorder.submit((gate,), ended("first"))
    recorder._hurry.set()
    assert gate.entered.wait(ENOUGH)
    return gate


def test_each_exporter_gets_every_run_in_order(recorder):
    ours, theirs = Kept(), Kept()
    for number in range(600):
        recorder.submit((ours, theirs) if number % 2 else (ours,), ended(f"req-{number}"))
    assert recorder.flush(ENOUGH)
    assert ids(ours) == [f"req-{number}" for number in range(600)]
    assert ids(theirs) == [f"req-{number}" for number in range(1, 600, 2)]
    assert ours.batches <= 4  # of 256, however they came together
    assert (recorder.dropped, recorder.delivery.failed) == (0, 0)


def test_there_is_no_thread_before_the_first_run_has_ended():
    recorder = Recorder()
    assert recorder.flush(0)
    assert recorder._thread is None
    recorder.submit((Kept(),), ended())
    assert (recorder._thread.name, recorder._thread.daemon) == ("hotloop recorder", True)
    assert recorder.flush(ENOUGH)


def test_runs_may_end_in_many_threads(recorder):
    kept = Kept()

    def submit(thread: int) -> None:
        for number in range(200):
            recorder.submit((kept,), ended(f"{thread}-{number}"))

    threads = [threading.Thread(target=submit, args=(thread,)) for thread in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert recorder.flush(ENOUGH)
    assert sorted(ids(kept)) == sorted(f"{thread}-{number}" for thread in range(8) for number in range(200))
    assert len([each for each in threading.enumerate() if each is recorder._thread]) == 1


def test_what_finds_the_queue_full_is_dropped_and_told(recorder, monkeypatch, caplog):
    monkeypatch.setattr(module, "_MOST", 10)
    gate = held_up(recorder)
    for number in range(25):
        recorder.submit((gate,), ended(f"req-{number}"))
    gate.open.set()
    assert recorder.flush(ENOUGH)
    assert ids(gate) == ["first", *(f"req-{number}" for number in range(10))]
    assert (recorder.dropped, gate.missing) == (15, 15)
    assert caplog.messages == ["15 runs were not recorded: more ended than are recorded at once."]


def test_drops_do_not_flood_the_log(recorder, monkeypatch, caplog):
    monkeypatch.setattr(module, "_MOST", 1)
    for _ in range(5):
        gate = held_up(recorder)
        for _ in range(3):
            recorder.submit((gate,), ended())
        gate.open.set()
        assert recorder.flush(ENOUGH)
    assert recorder.dropped == 10
    assert caplog.messages == ["2 runs were not recorded: more ended than are recorded at once."]
    recorder.close()
    assert caplog.messages[1:] == ["8 runs were not recorded: more ended than are recorded at once."]


def test_the_queue_is_bounded_by_what_was_said_too(recorder, monkeypatch):
    monkeypatch.setattr(module, "_MOST_CHARACTERS", 10_000)
    gate = held_up(recorder)
    for number in range(5):
        recorder.submit((gate,), ended(f"req-{number}", spoken("x" * 4_000)))
    recorder.submit((gate,), ended("small"))
    gate.open.set()
    assert recorder.flush(ENOUGH)
    assert ids(gate) == ["first", "req-0", "req-1", "small"]
    recorder.submit((gate,), ended("large", spoken("x" * 40_000)))  # nothing else waits
    assert recorder.flush(ENOUGH)
    assert (ids(gate)[-1], recorder.dropped) == ("large", 3)


def test_an_exporter_that_fails_is_told_of_once_and_harms_no_other(recorder, caplog):
    failing, kept = Failing(), Kept()
    for number in range(3):
        recorder.submit((failing, kept), ended(f"req-{number}"))
        assert recorder.flush(ENOUGH)
    assert ids(kept) == ids(failing) == ["req-0", "req-1", "req-2"]
    assert recorder.delivery.failed == 3
    assert caplog.messages == ["Runs are not recorded: Failing raised OSError('the disk is full')."]


def test_flush_ends_in_time(recorder):
    gate = held_up(recorder)
    assert not recorder.flush(0.01)
    gate.open.set()


def test_at_the_end_exporters_are_closed(recorder):
    kept = Kept()
    recorder.submit((kept,), ended())
    recorder.close()
    assert (len(kept.records), kept.closed) == (1, True)


def test_where_an_exporter_is_stuck_the_others_are_closed_all_the_same(recorder, monkeypatch, caplog):
    monkeypatch.setattr(module, "_AT_EXIT", 0.4)
    kept = Kept()
    recorder.submit((kept,), ended())
    assert recorder.flush(ENOUGH)
    gate = held_up(recorder)
    recorder.close()
    assert kept.closed
    assert caplog.messages == ["The last runs were not recorded within 0.3 s, and are lost."]
    gate.open.set()


def test_exporters_are_closed_at_once_and_one_that_does_not_end_is_not_waited_for(recorder, monkeypatch, caplog):
    class Endless(Kept):
        def close(self) -> None:
            over.wait(ENOUGH)

    monkeypatch.setattr(module, "_AT_EXIT", 0.2)
    over, kept = threading.Event(), Kept()
    recorder.submit((Endless(), kept), ended())
    recorder.close()
    over.set()
    assert kept.closed
    assert caplog.messages == ["Not all that was recorded could be sent or kept within 0.2 s; the rest is lost."]


def test_no_thread_can_be_had(monkeypatch, caplog):
    def start(thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    recorder = Recorder()
    recorder.submit((Kept(),), ended())
    assert caplog.messages == ["Runs are not recorded: can't start new thread."]
    assert recorder.flush(0)


def test_words_go_to_those_who_take_them(recorder):
    plain, own, without = Kept(), Kept(), Kept()
    own.content, without.content = True, False
    recorder.submit((plain, own, without), ended("req-1", content=False))
    recorder.submit((plain, own, without), ended("req-2", content=True))
    assert recorder.flush(ENOUGH)
    told = {"plain": plain, "own": own, "without": without}.items()
    texts = {name: [each.prompt.text for each in kept.records] for name, kept in told}
    assert texts == {
        "plain": [None, "Where is it?"],
        "own": ["Where is it?", "Where is it?"],
        "without": [None, None],
    }


def test_a_child_begins_with_an_empty_queue(recorder):
    gate = held_up(recorder)
    recorder.submit((gate,), ended("waits"))
    recorder.start()  # as a forked child does
    kept = Kept()
    recorder.submit((kept,), ended("its own"))
    assert recorder.flush(ENOUGH)
    assert (ids(kept), recorder.dropped) == (["its own"], 0)
    gate.open.set()


def process(*arguments: object, **options) -> subprocess.Popen[str]:
    command = [sys.executable, "-W", "error", str(PROCESS), *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def said(started: subprocess.Popen[str]) -> tuple[str, str]:
    out, err = started.communicate(timeout=ENOUGH)
    assert started.returncode == 0, err
    return out, err


def kept_ids(path: Path) -> list[str]:
    return [info.trace_id for info in TraceStore(path).infos()]


def test_a_process_that_ends_has_recorded_all(tmp_path):
    path = tmp_path / "traces.db"
    assert said(process("runs", path, 3)) == ("3 runs\n", "")
    assert kept_ids(path) == ["run-0", "run-1", "run-2"]
    assert [each.name for each in tmp_path.iterdir()] == ["traces.db"]  # nothing is left in a log beside it


def test_a_process_that_fails_has_recorded_all(tmp_path):
    started = process("raises", tmp_path / "traces.db")
    _, err = started.communicate(timeout=ENOUGH)
    assert (started.returncode, err.splitlines()[-1]) == (1, "ValueError: as the test says")
    assert kept_ids(tmp_path / "traces.db") == ["run-0"]


def test_an_exporter_that_is_stuck_does_not_hold_up_the_end(tmp_path):
    _, err = said(process("stuck"))
    assert err == "The last runs were not recorded within 0.075 s, and are lost.\n"


@posix
def test_a_process_that_is_killed_loses_no_more_than_what_waits(tmp_path):
    path = tmp_path / "traces.db"
    with process("endless", path) as started:
        lines = [started.stdout.readline() for _ in range(2_000)]
        started.send_signal(signal.SIGKILL)
    assert all(lines)
    found = kept_ids(path)
    assert found
    assert found == [f"run-{number}" for number in range(len(found))]  # in a row from the first, and each can be read
    assert len(list(TraceStore(path).find())) == len(found)


@posix
def test_a_forked_child_records_its_own(tmp_path):
    path = tmp_path / "traces.db"
    out, err = said(process("forks", path))
    assert (out.split(), err) == (["child", "parent"], "")
    assert sorted(kept_ids(path)) == sorted(["run-1000", *(f"run-{number}" for number in range(5))])


@posix
@pytest.mark.skipif(sys.platform == "darwin", reason="the limit does not hold there")
def test_a_full_disk_is_one_warning_and_nothing_else(tmp_path):
    out, err = said(process("full", tmp_path / "traces.db"))
    assert out == "50 runs\n"
    assert len(err.splitlines()) == 1
    assert "The traces cannot be kept in" in err


@posix
@pytest.mark.skipif(os.geteuid() == 0 if hasattr(os, "geteuid") else False, reason="root may write anywhere")
def test_a_folder_where_nobody_may_write_is_one_warning(tmp_path):
    (tmp_path / "locked").mkdir(0o500)
    out, err = said(process("runs", tmp_path / "locked" / "traces.db", 3))
    assert (out, len(err.splitlines())) == ("3 runs\n", 1)


def test_a_file_that_is_something_else_is_one_warning(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("These are notes, and no database at all. " * 100)
    out, err = said(process("runs", path, 3))
    assert out == "3 runs\n"
    why = f"The traces cannot be kept in {path}: file is not a database. Give another path, or move that file away."
    assert err == f"Runs are not recorded: {why}\n"


def test_nothing_is_logged_of_what_went_well(recorder, caplog):
    with caplog.at_level(logging.DEBUG):
        recorder.submit((Kept(),), ended())
        assert recorder.flush(ENOUGH)
    assert not caplog.records
