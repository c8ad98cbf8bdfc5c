from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading

import pytest

from hotloop.testing import raw

CASES = """
- {prompt: "say yes", equals: "yes"}
- {prompt: "say no", equals: "no"}
- {prompt: "say maybe", equals: "maybe"}
- {prompt: "count", matches: "^[0-9]+$"}
"""


@pytest.fixture
def cases(tmp_path):
    path = tmp_path / "cases.yaml"
    path.write_text(CASES)
    return path


@pytest.fixture
def agent(serve, agent_file):
    """An agent that is right about three of four."""
    return agent_file(serve(lambda request: request["messages"][-1]["content"].removeprefix("say ")))


def test_table_of_one_route(hotloop, cases, agent):
    ended = hotloop("eval", cases, "--agent", agent)
    assert (ended.code, ended.err) == (0, "")
    lines = ended.out.splitlines()
    assert lines[0].split() == [
        "route",
        "right",
        "accuracy",
        "p50",
        "p95",
        "tokens",
        "in",
        "out",
        "cost",
        "of",
        "1,000",
    ]
    assert re.match(r"simulated +3 of 4 +75\.0% +[\d.]+ ms +[\d.]+ ms +\d+ +\d+ +-$", lines[1])
    assert max(map(len, lines)) <= 80
    assert "wrong on simulated:" in lines
    assert "  count" in lines
    assert "    '^[0-9]+$' does not match 'count'" in lines


@pytest.mark.parametrize(("least", "code"), [("0.75", 0), ("0.76", 1), ("0", 0)])
def test_accuracy_decides_the_exit_code(hotloop, cases, agent, least, code):
    assert hotloop("eval", cases, "--agent", agent, "--min-accuracy", least).code == code


def test_json_has_every_outcome(hotloop, cases, agent):
    shown = json.loads(hotloop("eval", cases, "--agent", agent, "--json", "--concurrency", 2).out)
    assert [each["right"] for each in shown["outcomes"]] == [True, True, True, False]
    assert shown["scores"][0]["accuracy"] == 0.75


def test_records_can_be_learned_from(hotloop, cases, agent, tmp_path):
    records, out = tmp_path / "records.jsonl", tmp_path / "routes.json"
    hotloop("eval", cases, "--agent", agent, "--records", records)
    rows = [json.loads(line) for line in records.read_text().splitlines()]
    assert [(row["prompt"], row["route"], row["right"]) for row in rows][2:] == [
        ("say maybe", "simulated", True),
        ("count", "simulated", False),
    ]
    ended = hotloop("route", records, "--out", out)
    assert (ended.code, out.exists()) == (2, False)
    assert "there are 3 for simulated" in ended.err


@pytest.fixture
def shaky(serve, agent_file):
    """An agent whose service is broken for one question of four, and which is wrong about another."""

    def answer(request):
        prompt = request["messages"][-1]["content"]
        return raw(b"{}", status=400) if prompt == "say no" else prompt.removeprefix("say ")

    return agent_file(serve(answer))


def test_runs_that_failed_are_told_apart(hotloop, cases, shaky):
    ended = hotloop("eval", cases, "--agent", shaky)
    assert (ended.code, ended.err) == (1, "")
    assert re.search(r"route +failed +right +accuracy ", ended.out)
    assert re.search(r"(?m)^simulated +1 +2 of 3 +66\.7% ", ended.out)
    assert "\n1 run failed, which the accuracy leaves out; most often InvalidRequest: " in ended.out
    assert re.findall(r"(?m)^  (\w.*)", ended.out.partition("wrong on")[2]) == ["count"]


def test_where_all_failed_nothing_is_measured(hotloop, cases, serve, agent_file):
    ended = hotloop("eval", cases, "--agent", agent_file(serve(lambda request: raw(b"{}", status=400))))
    assert ended.code == 1
    assert re.search(r"(?m)^simulated +4 +0 of 0( +-){6}$", ended.out)
    assert "wrong on" not in ended.out


def test_records_say_nothing_of_a_run_that_failed(hotloop, cases, shaky, tmp_path):
    records = tmp_path / "records.jsonl"
    hotloop("eval", cases, "--agent", shaky, "--records", records)
    assert [json.loads(line)["right"] for line in records.read_text().splitlines()] == [True, None, True, False]


def _records(path):
    rows = [{"prompt": f"where is order {number}", "route": "fast", "right": True} for number in range(20)]
    rows += [{"prompt": f"prove theorem {number}", "route": "fast", "right": False} for number in range(20)]
    rows += [{"prompt": f"prove theorem {number}", "route": "strong", "right": True} for number in range(20)]
    rows += [{"prompt": "square the circle", "route": "strong", "right": False}]
    rows += [{"prompt": "trisect the angle", "route": "fast", "right": None}]
    rows += [{"prompt": "trisect the angle", "route": "strong", "right": True}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_training_says_how_well_it_does(hotloop, tmp_path):
    out = tmp_path / "routes.json"
    ended = hotloop("route", _records(tmp_path / "records.jsonl"), "--out", out, "--confidence", "0.8")
    assert ended.code == 0
    lines = ended.out.splitlines()
    counts = "40 prompts: 20 for fast · 20 for strong"
    assert lines[0] == f"{counts} · 1 left out: no route was right · 1 left out: a run failed"
    assert lines[1].split() == ["confidence", "decided", "right", "of", "these"]
    assert re.match(r" +0\.00 +100\.0% +100\.0%", lines[2])
    assert "decides from 0.8 on." in ended.out
    assert json.loads(out.read_text())["confidence"] == 0.8


def test_training_as_json(hotloop, tmp_path):
    out = tmp_path / "routes.json"
    shown = json.loads(hotloop("route", _records(tmp_path / "records.jsonl"), "--out", out, "--json").out)
    assert (shown["prompts"], shown["unanswered"], shown["failed"]) == ({"fast": 20, "strong": 20}, 1, 1)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--route", "fast"], "There is no route 'fast'; there are simulated."),
        (["--min-accuracy", "75"], "--min-accuracy is 75; give a share from 0 to 1."),
        (["--concurrency", "0"], "--concurrency"),
    ],
)
def test_options_that_cannot_be(hotloop, cases, agent_file, options, sentence):
    ended = hotloop("eval", cases, "--agent", agent_file("http://127.0.0.1:9/v1"), *options)
    assert ended.code == 2
    assert sentence in ended.err


@pytest.mark.parametrize(("command", "option"), [("eval", "--agent"), ("route", "--out")])
def test_an_option_that_is_not_given_is_said_to_be_missing(hotloop, cases, command, option):
    ended = hotloop(command, cases)
    assert (ended.code, ended.err) == (2, f"error: {option} is missing. See --help.\n")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [(["--records", "no/records.jsonl"], "cannot be written"), (["--min-accuracy", "5"], "give a share from 0 to 1")],
)
def test_what_cannot_be_is_told_before_anything_is_asked(hotloop, serve, agent_file, cases, options, sentence):
    requests = []
    url = serve(lambda request: requests.append(request) or "yes")
    ended = hotloop("eval", cases, "--agent", agent_file(url), *options)
    assert (ended.code, requests) == (2, [])
    assert sentence in ended.err


@pytest.mark.skipif(sys.platform == "win32", reason="sends POSIX signals")
def test_ctrl_c_shows_and_keeps_what_there_is(serve, agent_file, cases, tmp_path):
    last, go_on = threading.Event(), threading.Event()

    def answer(request):
        if request["messages"][-1]["content"] == "count":
            last.set()
            go_on.wait(20)
        return request["messages"][-1]["content"].removeprefix("say ")

    records, agent = tmp_path / "records.jsonl", agent_file(serve(answer))
    command = [sys.executable, "-c", "import sys; from hotloop.cli import main; sys.exit(main())", "eval", cases]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "cwd": tmp_path}
    with subprocess.Popen([*command, "--agent", agent, "--records", records, "--json"], **pipes) as process:
        assert last.wait(20)
        written = records.read_text().splitlines()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
        go_on.set()
    assert (process.returncode, err.splitlines()[-1]) == (130, "stopped")
    assert [each["prompt"] for each in json.loads(out)["outcomes"]] == ["say yes", "say no", "say maybe"]
    assert len(written) == 3
