from __future__ import annotations

import json
import re
import signal
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotloop.errors import AuditError
from hotloop.tools.audit.log import AuditLog
from hotloop.tools.audit.verification import verify
from hotloop.tools.running.caller import Caller

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX file locks")

CALLER = Caller("run-1", agent="orders", session="s-1", user="Ann")
WRITER = """
import os, sys
from hotloop.tools.audit.log import AuditLog
from hotloop.tools.running.caller import Caller

log = AuditLog(sys.argv[1])
os.fork()
for number in range(int(sys.argv[2])):
    log.outcome(Caller(str(os.getpid())), "pay", str(number), "ok", 1.0)
"""


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "audit.jsonl"


def write(path: Path, records: int, caller: Caller = CALLER) -> None:
    """Append so many records, decisions and outcomes in turn."""
    with closing(AuditLog(path)) as log:
        for number in range(records):
            if number % 2:
                log.outcome(caller, "pay", f"call-{number // 2}", "ok", 1.5)
            else:
                log.decision(caller, "pay", f"call-{number // 2}", {"amount": number}, (), "allowed")


def lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


def head_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.head")


def faults(path: Path, expect: str | None = None) -> list[tuple[int, str]]:
    return [tuple(fault) for fault in verify(path, expect).faults]


def test_what_a_record_says(path):
    with closing(AuditLog(path)) as log:
        arguments = {"amount": 5, "card": "4111", "password": "hunter2"}
        log.decision(CALLER, "pay", "call-1", arguments, {"card"}, "refused", "token=abc is too much", by="Bob")
        log.outcome(CALLER, "pay", "call-2", "timeout", 1200.5)
    decision, outcome = map(json.loads, lines(path))
    who = {"run": "run-1", "agent": "orders", "session": "s-1", "user": "Ann", "tool": "pay"}
    times = [record.pop("at") for record in (decision, outcome)]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", at) for at in times)
    assert decision == who | {
        "kind": "decision",
        "seq": 1,
        "call_id": "call-1",
        "arguments": {"amount": 5, "card": "***", "password": "***"},
        "decision": "refused",
        "reason": "token=*** is too much",
        "by": "Bob",
        "prev": "0" * 64,
        "hash": decision["hash"],
    }
    chained = {"seq": 2, "prev": decision["hash"], "hash": outcome["hash"]}
    assert outcome == who | chained | {"kind": "outcome", "call_id": "call-2", "outcome": "timeout", "ms": 1200.5}


def test_a_hash_can_be_checked_without_hotloop(path):
    write(path, 1)
    (line,) = lines(path)
    signed, digest = re.fullmatch(rb'(.*),"hash":"(\w{64})"}\n', line).groups()
    assert sha256(signed + b"}").hexdigest().encode() == digest


def test_only_the_owner_may_read_it(path):
    write(path, 1)
    assert {stat.S_IMODE(file.stat().st_mode) for file in (path, head_of(path))} == {0o600}


def test_verification_of_a_log_that_holds(path):
    AuditLog(path).close()
    assert (verify(path).records, verify(path).head, faults(path)) == (0, "0" * 64, [])
    write(path, 3)
    write(path, 4)
    found = verify(path)
    first, last = json.loads(lines(path)[0]), json.loads(lines(path)[-1])
    assert (found.held, found.records, found.first, found.last) == (True, 7, first["at"], last["at"])
    assert found.head == last["hash"]


@pytest.mark.parametrize(
    ("records", "open_calls"),
    [
        (["allowed"], 1),
        (["pending"], 1),
        (["pending", "approved", ""], 0),
        (["refused"], 0),
        (["pending", "refused"], 0),
    ],
)
def test_calls_without_an_outcome_are_open(path, records, open_calls):
    with closing(AuditLog(path)) as log:
        for decision in records:
            if decision:
                log.decision(CALLER, "pay", "call-1", {}, (), decision)
            else:
                log.outcome(CALLER, "pay", "call-1", "ok", 1.0)
    assert (verify(path).open, faults(path)) == (open_calls, [])


def test_progress_of_a_long_log(path):
    write(path, 5_000)
    told = []
    verify(path, progress=lambda done, total: told.append((done, total)))
    assert told == [(len(b"".join(lines(path)[:4096])), path.stat().st_size)]


def test_what_is_written_during_a_verification_is_not_part_of_it(path):
    write(path, 5_000)
    found = verify(path, progress=lambda done, total: write(path, 2))
    assert (found.records, found.faults) == (5_000, [])


def change(log: list[bytes], place: int, value: int) -> bytes:
    text = bytearray(b"".join(log))
    spot = place % len(text)
    text[spot] = (text[spot] + value) % 256
    return bytes(text)


def remove(log: list[bytes], place: int, value: int) -> bytes:
    del log[place % len(log)]
    return b"".join(log)


def duplicate(log: list[bytes], place: int, value: int) -> bytes:
    log.insert(value % (len(log) + 1), log[place % len(log)])
    return b"".join(log)


def swap(log: list[bytes], place: int, value: int) -> bytes:
    first = place % len(log)
    second = (first + 1 + value % (len(log) - 1)) % len(log)
    log[first], log[second] = log[second], log[first]
    return b"".join(log)


def cut(log: list[bytes], place: int, value: int) -> bytes:
    text = b"".join(log)
    return text[: place % len(text)]


@given(
    st.integers(2, 8),
    st.sampled_from([change, remove, duplicate, swap, cut]),
    st.integers(0, 1 << 16),
    st.integers(1, 255),
    st.text(),
)
def test_any_change_is_found(records, tamper, place, value, text):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "log")
        write(path, records)
        with closing(AuditLog(path)) as log:
            log.decision(CALLER, "pay", "call", {"text": text}, (), "allowed")
        assert verify(path).held
        path.write_bytes(tamper(lines(path), place, value))
        assert not verify(path).held


@given(st.integers(0, 85), st.integers(1, 255))
def test_any_change_of_the_head_file_is_found(place, value):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "log")
        write(path, 3)
        head = bytearray(head_of(path).read_bytes())
        head[place] = (head[place] + value) % 256
        head_of(path).write_bytes(head)
        assert not verify(path).held


@pytest.mark.parametrize(
    ("order", "told"),
    [
        ([0, 1, 3, 4], [(3, "1 record is missing before record 4.")]),
        ([2, 3, 4], [(1, "2 records are missing before record 3.")]),
        ([0, 1, 1, 2, 3, 4], [(3, "Record 2 is here a second time, or too late.")]),
        (
            [0, 2, 1, 3, 4],
            [(2, "1 record is missing before record 3."), (3, "Record 2 is here a second time, or too late.")],
        ),
        ([0, 1], [(0, "3 records are missing at its end: its .head file tells of record 5.")]),
        ([], [(0, "5 records are missing at its end: its .head file tells of record 5.")]),
    ],
)
def test_what_is_told_of_records_in_the_wrong_places(path, order, told):
    write(path, 5)
    log = lines(path)
    path.write_bytes(b"".join(log[number] for number in order))
    assert faults(path) == told


@pytest.mark.parametrize("number", [1, 3, 5])
@pytest.mark.parametrize(
    ("replacement", "sentence"),
    [
        (lambda line: line.replace(b"Ann", b"Bob"), "It was changed: its hash is not that of its text."),
        (lambda line: b"\n", "It is no record of an audit log (Input data was truncated)."),
        (lambda line: b"{}\n", "It is no record of an audit log (Object missing required field `kind`)."),
    ],
)
def test_a_spoilt_line_is_one_fault(path, number, replacement, sentence):
    write(path, 5)
    log = lines(path)
    log[number - 1] = replacement(log[number - 1])
    path.write_bytes(b"".join(log))
    assert faults(path) == [(number, sentence)]


def test_a_record_of_another_log_does_not_fit(path, tmp_path):
    write(path, 3)
    write(tmp_path / "other", 3, Caller("run-2"))
    log, other = lines(path), lines(tmp_path / "other")
    path.write_bytes(log[0] + other[1] + log[2])
    replaced = "Record {} does not go with the record before it: one of them was replaced."
    assert faults(path) == [(2, replaced.format(2)), (3, replaced.format(3))]


def test_a_log_that_was_cut_with_its_head_or_written_anew_is_found_by_a_head_noted_elsewhere(path, tmp_path):
    write(path, 4)
    early = verify(path).head
    cut, cut_head = path.read_bytes(), head_of(path).read_bytes()
    write(path, 2)
    noted = verify(path).head
    assert (faults(path, early), faults(path, noted)) == ([], [])
    path.write_bytes(cut)
    head_of(path).write_bytes(cut_head)
    assert faults(path) == []
    assert faults(path, noted) == [(0, f"No record has the expected hash {noted}: the log was cut or replaced.")]
    write(tmp_path / "anew", 6, Caller("run-2"))
    assert faults(tmp_path / "anew", noted)


def test_a_process_may_end_between_log_and_head(path):
    write(path, 3)
    behind = head_of(path).read_bytes()
    write(path, 1)
    head_of(path).write_bytes(behind)
    assert faults(path) == []
    write(path, 1)
    assert verify(path).records == 5
    head_of(path).write_bytes(behind)
    assert faults(path) == [(0, "Its .head file tells of another record 3, so that one of the two was replaced.")]


def end_half_written(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-9])


def end_missing(path: Path) -> None:
    path.write_bytes(b"".join(lines(path)[:-1]))


def end_changed(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"Ann", b"Anna"))


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def head_missing(path: Path) -> None:
    head_of(path).unlink()


def both_cut(path: Path) -> None:
    end_missing(path)
    head_of(path).write_text(f"{3:020} {json.loads(lines(path)[-1])['hash']}\n")


def moved(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))


def replaced(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.write_bytes(path.with_name("elsewhere").read_bytes())


def open_files() -> int:
    return len(list(Path("/dev/fd").iterdir()))


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (end_half_written, "its last line is not whole: its end was cut off, or never written because the power went"),
        (end_missing, "1 record is missing at its end: its .head file tells of record 4"),
        (end_changed, "its last line was changed: its hash is not that of its text"),
        (emptied, "4 records are missing at its end: its .head file tells of record 4"),
        (head_missing, "its .head file is missing or damaged, so that nobody can tell whether its end was cut off"),
    ],
)
def test_a_damaged_log_is_not_continued(path, damage, why):
    write(path, 4)
    damage(path)
    damaged, files = path.read_bytes(), open_files()
    with pytest.raises(
        AuditError, match=re.escape(f"Nothing more is appended to the audit log {path}: {why}. Keep it")
    ):
        AuditLog(path)
    assert (path.read_bytes(), open_files()) == (damaged, files)
    assert not verify(path).held


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (end_half_written, "its last line is not whole"),
        (emptied, "it ended with record 4, and now with record 0"),
        (both_cut, "it ended with record 4, and now with record 3"),
        (moved, "it was moved or deleted while it was in use"),
        (replaced, "another file has taken its place"),
    ],
)
def test_damage_is_noticed_while_the_log_is_in_use(path, damage, why):
    write(path, 3)
    with closing(AuditLog(path)) as log:
        log.outcome(CALLER, "pay", "call-3", "ok", 1.0)
        damage(path)
        with pytest.raises(AuditError, match=why):
            log.outcome(CALLER, "pay", "call-4", "ok", 1.0)


def test_a_closed_log_that_is_gone_is_not_begun_anew(path):
    log = AuditLog(path)
    log.outcome(CALLER, "pay", "call-1", "ok", 1.0)
    log.close()
    path.unlink()
    head_of(path).unlink()
    with closing(log), pytest.raises(AuditError, match="it ended with record 1, and now with record 0"):
        log.outcome(CALLER, "pay", "call-2", "ok", 1.0)


@pytest.mark.parametrize("place", ["nowhere/audit.jsonl", "."])
def test_a_log_that_cannot_be_opened(tmp_path, place):
    with pytest.raises(AuditError, match=r"The audit log .* cannot be written: (No such file|Is a) .*directory\."):
        AuditLog(tmp_path / place)
    with pytest.raises(AuditError, match=r"The audit log .* cannot be read: (No such file|Is a) .*directory\."):
        verify(tmp_path / place)


@contextmanager
def room_for(size: int) -> Iterator[None]:
    """Let files grow to this many bytes only, as a full disk would."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("room", [0, 30])
def test_a_record_is_written_wholly_or_not_at_all(path, room):
    write(path, 2)
    before = path.read_bytes()
    with closing(AuditLog(path)) as log:
        with room_for(len(before) + room), pytest.raises(AuditError, match="cannot be written: "):
            log.outcome(CALLER, "pay", "call-1", "ok", 1.0)
        assert path.read_bytes() == before
        log.outcome(CALLER, "pay", "call-1", "ok", 1.0)
    assert (verify(path).records, faults(path)) == (3, [])


def test_of_arguments_that_are_too_long_the_record_has_the_hash(path):
    with closing(AuditLog(path)) as log:
        log.decision(CALLER, "pay", "call-1", {"all": ["x" * 2_000] * 600}, (), "allowed")
    (record,) = map(json.loads, path.read_text().splitlines())
    assert record["arguments"]["…"] == "1,201,809 bytes of arguments"
    assert len(record["arguments"]["sha256"]) == 64
    assert faults(path) == []


def test_a_record_that_is_too_long_is_refused(path):
    with closing(AuditLog(path)) as log:
        with pytest.raises(AuditError, match=r"A record of [\d,]+ bytes is too long for the audit log"):
            log.outcome(CALLER, "x" * 2_000_000, "call-1", "ok", 1.0)
        log.outcome(CALLER, "pay", "call-1", "ok", 1.0)
    assert (verify(path).records, faults(path)) == (1, [])


def test_a_name_that_utf8_cannot_carry_is_refused(path):
    with closing(AuditLog(path)) as log, pytest.raises(AuditError, match=r"cannot carry 'Ann\\udc80'"):
        log.outcome(Caller("run-1", user="Ann\udc80"), "pay", "call-1", "ok", 1.0)
    assert (verify(path).records, faults(path)) == (0, [])


def test_threads_share_a_log(path):
    with closing(AuditLog(path)) as log:

        def append() -> None:
            for number in range(100):
                log.outcome(CALLER, "pay", str(number), "ok", 1.0)

        threads = [threading.Thread(target=append) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert (verify(path).records, faults(path)) == (400, [])


def test_a_lock_that_another_keeps_is_an_error_and_no_stop(path, monkeypatch):
    import fcntl

    monkeypatch.setattr("hotloop.tools.audit.records._PATIENCE", 0)
    write(path, 1)
    kept = r"another process has kept it locked for 0 s; let it go on, or end it\.$"
    with closing(AuditLog(path)) as log:
        with path.open() as other:
            fcntl.flock(other, fcntl.LOCK_EX)
            with pytest.raises(AuditError, match=f"cannot be written: {kept}"):
                log.outcome(CALLER, "pay", "call-1", "ok", 1.0)
            with pytest.raises(AuditError, match=f"cannot be read: {kept}"):
                verify(path)
        log.outcome(CALLER, "pay", "call-1", "ok", 1.0)
    assert (verify(path).records, faults(path)) == (2, [])


def test_processes_and_their_forks_share_a_log(path):
    command = [sys.executable, "-c", WRITER, path, "200"]
    processes = [subprocess.Popen(command, stderr=subprocess.PIPE) for _ in range(3)]
    assert [process.communicate(timeout=60)[1] for process in processes] == [b""] * 3  # read until the forks end, too
    assert (verify(path).records, faults(path)) == (1200, [])
    assert len({json.loads(line)["run"] for line in lines(path)}) == 6


def test_a_killed_process_leaves_a_log_that_holds_and_goes_on(path):
    with subprocess.Popen([sys.executable, "-c", WRITER.replace("os.fork()", ""), path, "1000000"]) as process:
        while process.poll() is None and not (path.exists() and path.stat().st_size):
            pass
        while verify(path).records < 500:  # also while it is written
            assert faults(path) == []
        process.send_signal(signal.SIGKILL)
    assert faults(path) == []
    written = verify(path).records
    write(path, 1)
    assert (verify(path).records, faults(path)) == (written + 1, [])
