from __future__ import annotations

import json
import sys
from contextlib import closing
from pathlib import Path

import pytest

from hotloop.tools.audit.log import AuditLog
from hotloop.tools.running.caller import Caller

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX file locks")


@pytest.fixture
def log(tmp_path) -> Path:
    """A log of one finished and one open call."""
    with closing(AuditLog(tmp_path / "audit.jsonl")) as log:
        log.decision(Caller("run-1"), "pay", "call-1", {"amount": 5}, (), "approved", by="Ann")
        log.outcome(Caller("run-1"), "pay", "call-1", "ok", 12.5)
        log.decision(Caller("run-1"), "pay", "call-2", {"amount": 6}, (), "pending")
    return tmp_path / "audit.jsonl"


def records(log: Path) -> list[dict]:
    return [json.loads(line) for line in log.read_text().splitlines()]


def test_log_that_holds(hotloop, log):
    ended = hotloop("audit", "verify", log)
    verdict, *rows, hint = ended.out.splitlines()
    first, _, last = records(log)
    assert (ended.code, ended.err) == (0, "")
    assert verdict == f"{log} holds: no record was changed, none is missing."
    assert [row.split() for row in rows] == [
        ["records", "3"],
        ["open", "calls", "1"],
        ["first", first["at"]],
        ["last", last["at"]],
        ["head", last["hash"]],
    ]
    assert "--expect" in hint


def test_log_that_does_not_hold(hotloop, log):
    lines = log.read_text().splitlines(keepends=True)
    log.write_text(lines[0].replace("Ann", "Bob") + lines[1])
    ended = hotloop("audit", "verify", log)
    assert (ended.code, ended.err) == (1, "")
    assert ended.out.splitlines()[:3] == [
        f"{log} does not hold: 2 faults.",
        "  line 1: It was changed: its hash is not that of its text.",
        "  1 record is missing at its end: its .head file tells of record 3.",
    ]
    assert "--expect" not in ended.out


def test_faults_beyond_a_hundred_are_counted(hotloop, log):
    log.write_text(log.read_text() + "x\n" * 1_200)
    out = hotloop("audit", "verify", log).out
    assert "does not hold: 1,200 faults." in out
    assert "  ... and 1,100 more" in out


def test_as_json(hotloop, log):
    first, _, last = records(log)
    told = {"records": 3, "open": 1, "first": first["at"], "last": last["at"], "head": last["hash"]}
    ended = hotloop("audit", "verify", log, "--json")
    assert ended.code == 0
    assert json.loads(ended.out) == told | {"file": str(log), "held": True, "faults": []}
    log.with_name("audit.jsonl.head").unlink()
    ended = hotloop("audit", "verify", log, "--json")
    assert ended.code == 1
    (fault,) = json.loads(ended.out)["faults"]
    assert (fault["line"], fault["sentence"][:31]) == (0, "Its .head file is missing or da")


def test_an_expected_head(hotloop, log):
    early = records(log)[1]["hash"]
    assert hotloop("audit", "verify", log, "--expect", early).code == 0
    ended = hotloop("audit", "verify", log, "--expect", "f" * 64)
    assert ended.code == 1
    assert f"No record has the expected hash {'f' * 64}" in ended.out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nowhere.jsonl"], "The audit log nowhere.jsonl cannot be read: No such file or directory."),
        (["nowhere.jsonl", "--expect", "abc"], "'abc' is no hash; --expect takes the 64 digits"),
        ([], "FILE is missing."),
    ],
)
def test_what_cannot_be_done(hotloop, arguments, sentence):
    ended = hotloop("audit", "verify", *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(f"error: {sentence}")


@pytest.mark.parametrize("arguments", [["audit"], ["audit", "--help"], ["audit", "verify", "--help"]])
def test_help(hotloop, arguments):
    ended = hotloop(*arguments)
    assert ended.code == 0
    assert "Example: hotloop audit verify audit.jsonl" in ended.out
