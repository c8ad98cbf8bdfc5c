from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from desk import ONE, TWO, open_desk, refunded
from terminal import on_a_terminal

from hotloop.testing import call, raw
from hotloop.tools.approvals.store import ApprovalStore, PausedRun

UNAVAILABLE = raw(b'{"error":{"message":"gone"}}', status=503)


@pytest.fixture
def waiting(hotloop, serve, tmp_path, monkeypatch):
    """The file of an agent of which a run waits, as req-7, for decisions about `calls`; then the model says this."""

    def make(*script: object, calls: object = ONE) -> Path:
        monkeypatch.setenv("LOGNAME", "ann")
        config = open_desk(tmp_path, serve([calls, *script]))
        assert hotloop("run", config, "Pay back.", "--trace-id", "req-7", "--quiet").code == 3
        return config

    return make


def stored(config: Path) -> PausedRun:
    return ApprovalStore(config.with_name("waiting.db")).load("req-7")


def decisions(config: Path) -> list[tuple[bool, str, str] | None]:
    """What was decided about each call, by whom and why."""
    decided = [each.decision for each in stored(config).calls]
    return [each and (each.approved, each.by, each.reason) for each in decided]


def test_approved_call_runs_and_the_answer_comes_as_from_run(hotloop, waiting):
    config = waiting("Done.")
    ended = hotloop("resume", config, "req-7", "--approve", "call00001")
    assert (ended.code, ended.out, refunded(config)) == (0, "Done.\n", "1")
    for shown in ("→ Refunding order 1", "✓ refund", "req-7 · ", "verdict"):
        assert shown in ended.err
    ended = hotloop("resume", config, "req-7", "--approve", "call00001")
    assert (ended.code, refunded(config)) == (2, "1")
    assert ended.err.startswith("error: No run 'req-7' waits in ")


def test_reason_of_a_refusal_is_told(hotloop, waiting):
    config = waiting("Then not.")
    ended = hotloop("resume", config, "req-7", "--refuse", "call00001", "--reason", "it is too late")
    assert (ended.code, ended.out, refunded(config)) == (0, "Then not.\n", "")
    assert "✗ refund" in ended.err
    assert "A person refused this call of refund: it is too late. Do not try it again." in ended.err


@pytest.mark.parametrize(
    ("options", "effects"),
    [
        (["--approve-all"], "12"),
        (["--refuse-all"], ""),
        (["--approve-all", "--refuse", "call00001"], "2"),
        (["--refuse-all", "--approve", "call00001"], "1"),
        (["--approve", "call00001", "--refuse", "call00002"], "1"),
    ],
)
def test_all_calls_can_be_decided_at_once(hotloop, waiting, options, effects):
    config = waiting("Done.", calls=[ONE, TWO])
    assert hotloop("resume", config, "req-7", *options).out == "Done.\n"
    assert "".join(sorted(refunded(config))) == effects


def test_run_goes_on_only_when_all_is_decided(hotloop, waiting):
    config = waiting("Done.", calls=[ONE, TWO])
    ended = hotloop("resume", config, "req-7", "--approve", "call00002", "--by", "bob", "--reason", "seen it")
    assert (ended.code, ended.out, refunded(config)) == (3, "", "")
    assert ended.err.splitlines() == [
        '? call00001 refund {"order_id": "1"}',
        "Run req-7 waits for a decision about refund. To approve (or --refuse) and go on:",
        f"  hotloop resume {config} req-7 --approve call00001",
    ]
    assert decisions(config) == [None, (True, "bob", "seen it")]
    ended = hotloop("resume", config, "req-7", "--json")
    shown = json.loads(ended.out)
    assert (ended.code, [each["call_id"] for each in shown["paused"]["calls"]]) == (3, ["call00001"])
    assert shown["trace"] is None
    assert hotloop("resume", config, "req-7", "--refuse-all").out == "Done.\n"
    assert refunded(config) == "2"


@pytest.mark.skipif(sys.platform == "win32", reason="has no pseudo terminals")
def test_person_at_the_terminal_is_asked_about_what_is_left(waiting):
    config = waiting("Done.", calls=[ONE, TWO])
    decided = ("--approve", "call00001", "--by", "bob", "--reason", "seen it")
    with on_a_terminal("resume", config, "req-7", *decided) as terminal:
        terminal.until('? call00002 refund {"note": "broken", "order_id": "2"}\nApprove refund? [y/N/later] ')
        terminal.type("n\n")
        terminal.until("A person refused this call of refund: seen it. Do not try it again.\n")
        terminal.until("Done.\n")
        assert terminal.end()[0] == 0
    assert refunded(config) == "1"


def test_run_that_pauses_again_waits_for_the_next_call(hotloop, waiting):
    config = waiting(call("refund", order_id="3"), "Done.")
    ended = hotloop("resume", config, "req-7", "--approve-all", "--json")
    shown = json.loads(ended.out)
    assert (ended.code, refunded(config)) == (3, "1")
    assert [each["arguments"] for each in shown["paused"]["calls"]] == [{"order_id": "3"}]
    assert shown["trace"]["trace_id"] == "req-7"
    ended = hotloop("resume", config, "req-7", "--approve-all", "--json")
    assert (ended.code, json.loads(ended.out)["output"], refunded(config)) == (0, "Done.", "13")


def test_run_that_is_cut_off_says_how_it_goes_on_and_repeats_nothing(hotloop, waiting):
    config = waiting(UNAVAILABLE, "Done.")
    ended = hotloop("resume", config, "req-7", "--approve-all")
    assert (ended.code, ended.out, refunded(config)) == (2, "", "1")
    kept, command, error = ended.err.splitlines()[-3:]
    assert kept == "Run req-7 is kept as far as it came. To go on:"
    assert command == f"  hotloop resume {config} req-7"
    assert error.startswith("error: ")
    assert re.search(
        "req-7 · desk · can go on since .*\n✓ call00001 .*\n  approved by ann, and begun", _list(hotloop, config)
    )
    assert hotloop("resume", config, "req-7").out == "Done.\n"
    assert refunded(config) == "1"


def _list(hotloop, config: Path) -> str:
    ended = hotloop("resume", config)
    assert (ended.code, ended.err) == (0, "")
    return ended.out


def test_runs_that_wait_are_listed_with_what_was_decided(hotloop, waiting):
    config = waiting(calls=[ONE, TWO])
    hotloop("resume", config, "req-7", "--refuse", "call00001", "--reason", "too late")
    told = _list(hotloop, config).splitlines()
    assert re.fullmatch(r"req-7 · desk · waits since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d", told[0])
    assert told[1:] == [
        '✗ call00001 refund {"order_id": "1"}',
        "  refused by ann: too late",
        '? call00002 refund {"note": "broken", "order_id": "2"}',
        "",
        f"Go on with: hotloop resume {config} RUN_ID, with --approve ID or --refuse ID for each ?",
    ]
    (run,) = json.loads(hotloop("resume", config, "--json").out)["runs"]
    assert (run["run_id"], run["agent"], run["paused_at"]) == ("req-7", "desk", stored(config).paused_at)
    first, second = run["calls"]
    assert (first["name"], first["arguments"], first["claimed"]) == ("refund", {"order_id": "1"}, False)
    assert {key: first["decision"][key] for key in ("approved", "by", "reason")} == {
        "approved": False,
        "by": "ann",
        "reason": "too late",
    }
    assert second["decision"] is None


def test_where_no_run_waits_that_is_said(hotloop, tmp_path):
    config = open_desk(tmp_path, "http://127.0.0.1:9")
    assert _list(hotloop, config) == f"No run waits in {tmp_path / 'waiting.db'}.\n"
    assert json.loads(hotloop("resume", config, "--json").out) == {"runs": []}


def test_run_is_given_up(hotloop, waiting):
    config = waiting()
    ended = hotloop("resume", config, "req-7", "--discard")
    assert (ended.code, ended.out, ended.err) == (0, "", "Run req-7 is given up.\n")
    assert hotloop("resume", config, "req-7", "--discard").code == 2


@pytest.mark.parametrize("options", [["--approve-all"], ["--discard"]])
def test_run_that_another_process_is_resuming_is_left_alone(hotloop, waiting, options):
    config = waiting("Done.")
    with ApprovalStore(config.with_name("waiting.db")).lease("req-7"):
        ended = hotloop("resume", config, "req-7", *options)
    assert ended.code == 2
    assert "error: Run req-7 is being resumed already" in ended.err
    assert hotloop("resume", config, "req-7").code == (0 if options == ["--approve-all"] else 3)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--approve-all"], "Say for which run, by its id after the file."),
        (["--discard"], "Say for which run, by its id after the file."),
        (["req-7", "--discard", "--approve-all"], "A run that is given up needs no decisions"),
        (["req-7", "--approve-all", "--refuse-all"], "Either --approve-all or --refuse-all, not both."),
        (["req-7", "--approve", "call00001", "--refuse", "call00001"], "Either approve or refuse call00001, not both."),
        (["req-8", "--approve-all"], "No run 'req-8' waits in "),
        (
            ["req-7", "--approve", "call00002", "--approve", "call3"],
            "Run req-7 waits for no call 'call3'; it waits for",
        ),
        (["req-7", "--approve", "call00002", "--approve", "call00001"], "Call call00001 was refused already by ann"),
    ],
)
def test_what_cannot_be_is_a_sentence_and_decides_nothing(hotloop, waiting, arguments, sentence):
    config = waiting(calls=[ONE, TWO])
    hotloop("resume", config, "req-7", "--refuse", "call00001")
    before = stored(config)
    ended = hotloop("resume", config, *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(f"error: {sentence}")
    assert stored(config) == before


def test_failure_is_one_json_object_too(hotloop, waiting):
    ended = hotloop("resume", waiting(), "req-8", "--json")
    assert ended.code == 2
    assert json.loads(ended.out)["error"]["kind"] == "ConfigError"


def test_system_without_a_name_for_its_user_leaves_it_open(hotloop, waiting, monkeypatch):
    config = waiting(calls=[ONE, TWO])
    monkeypatch.setattr("getpass.getuser", lambda: {}["uid"])
    hotloop("resume", config, "req-7", "--approve", "call00001")
    assert decisions(config) == [(True, "", ""), None]


def test_example_pauses_and_goes_on(hotloop, serve, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.delitem(sys.modules, "refunds", raising=False)  # another test's copy
    examples = Path(__file__).parents[2] / "examples"
    config = tmp_path / "refunds.yaml"
    config.write_text((examples / "refunds.yaml").read_text().replace("http://127.0.0.1:8000/v1", serve()))
    (tmp_path / "refunds.py").write_text((examples / "refunds.py").read_text())
    asked = "Order 20250101 arrived broken, please refund {} EUR."
    assert hotloop("run", config, asked.format(20)).code == 0
    assert hotloop("run", config, asked.format(120), "--trace-id", "req-7").code == 3
    assert "120.00 EUR are on their way" in hotloop("resume", config, "req-7", "--approve-all").out
