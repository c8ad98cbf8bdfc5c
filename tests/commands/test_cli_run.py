from __future__ import annotations

import io
import json
import logging
import re
import shlex
import sys

import pytest
from desk import ONE, TWO, open_desk, refunded
from terminal import Terminal, on_a_terminal

from hotloop.testing import call, raw, say
from hotloop.tools.approvals.store import ApprovalStore

posix = pytest.mark.skipif(sys.platform == "win32", reason="has no pseudo terminals")
CALL = call("order_status", order_id="20250101")
LOG_LINES = (
    r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} \[trace=req-001\] "
    r"turn=0 input_tokens=\d+ ttft=[\d.]+ms tpot=(?:[\d.]+ms|unknown|buffered) output_tokens=\d+",
    r"\S+ \S+ \[trace=req-001\] turn=0 tools=\[order_status\] max_parallel=8 total_ms=[\d.]+",
    r"\S+ \S+ \[trace=req-001\] turn=1 input_tokens=\d+ ttft=.* output_tokens=\d+",
    r"\S+ \S+ \[trace=req-001\] end_to_end=[\d.]+ms turns=2",
)


@pytest.fixture
def order_agent(serve, agent_file):
    """An agent that asks its tool and then answers."""
    return agent_file(serve([CALL, say("订单 20250101 已发货。")]))


def test_answer_on_stdout_and_everything_else_on_stderr(hotloop, order_agent):
    ended = hotloop("run", order_agent, "查询订单 20250101 的状态")
    assert (ended.code, ended.out) == (0, "订单 20250101 已发货。\n")
    for shown in ("→ order_status", "· asking the warehouse", "✓ order_status", "first token", "verdict", "noise"):
        assert shown in ended.err


def test_nothing_is_wider_than_the_terminal(hotloop, order_agent):
    ended = hotloop("run", order_agent, "Where is it?")
    assert max(map(len, ended.err.splitlines())) <= 80


def test_json_is_one_object_and_nothing_else(hotloop, order_agent):
    ended = hotloop("run", order_agent, "Where is it?", "--json", "--trace-id", "req-7")
    shown = json.loads(ended.out)
    assert sorted(shown) == ["finish_reason", "output", "trace", "usage"]
    assert shown["output"] == "订单 20250101 已发货。"
    assert shown["finish_reason"] == "stop"
    assert shown["usage"]["output_tokens"] > 0
    assert shown["trace"]["trace_id"] == "req-7"
    assert len(shown["trace"]["turns"]) == 2


def test_log_lines_have_exactly_their_form(hotloop, order_agent):
    ended = hotloop("run", order_agent, "Where is it?", "--log", "--quiet", "--trace-id", "req-001")
    lines = [line for line in ended.err.splitlines() if line != "noise on stdout"]
    assert len(lines) == len(LOG_LINES)
    for line, form in zip(lines, LOG_LINES, strict=True):
        assert re.fullmatch(form, line), line


def test_log_lines_end_with_the_command(hotloop, order_agent):
    assert "end_to_end=" in hotloop("run", order_agent, "Where is it?", "--log").err.splitlines()[-1]
    assert "[trace=" not in hotloop("run", order_agent, "Where is it?").err


def test_quiet_gives_the_answer_alone(hotloop, serve, agent_file):
    ended = hotloop("run", agent_file(serve(["Hello."])), "Hi", "--quiet")
    assert ended == (0, "Hello.\n", "")


@pytest.fixture
def two_services(serve, agent_file):
    """An agent whose first model fails, and whose second one answers."""
    other = f', fallback: [{{endpoint: "{serve(["Hello."])}", model: other}}]'
    return agent_file(serve([raw(b"{}", status=500)] * 9), inference=other)


def test_who_answered_is_shown(hotloop, two_services):
    shown = hotloop("run", two_services, "Hi").err
    assert re.search(r"· turn 0  first of simulated failed after \S+ ms \(.*500", shown)
    assert re.search(r"· turn 0  fallback of other ok after \S+ ms", shown)
    assert max(map(len, shown.splitlines())) <= 80


def test_which_model_a_router_chose_is_shown(hotloop, serve, tmp_path):
    config = tmp_path / "agent.yaml"
    models = [
        f'{name}: {{endpoint: "{serve([text])}", model: {name}-1}}' for name, text in (("fast", ""), ("big", "Hi"))
    ]
    config.write_text(f"router: {{default: fast, models: {{{', '.join(models)}}}, cascade: {{}}}}\n")
    assert "· turn 0  route fast (default), answered by big\n" in hotloop("run", config, "Hi").err


@pytest.mark.parametrize(("option", "told"), [((), True), (("--quiet",), False), (("--json",), False)])
def test_warnings_of_the_library_are_no_part_of_a_quiet_run(hotloop, two_services, monkeypatch, option, told):
    monkeypatch.setattr(logging.getLogger(), "handlers", [])  # pytest's
    ended = hotloop("run", two_services, "Hi", *option)
    assert ended.code == 0
    assert ("the next model is asked" in ended.err) is told
    assert told or ended.err == ""


TYPES = """
import msgspec, pydantic
from typing import Literal

class Order(msgspec.Struct):
    id: str
    paid: bool

class Bill(pydantic.BaseModel):
    id: str
    paid: bool

Word = Literal["yes", "no"]
"""


@pytest.mark.parametrize(
    ("kind", "written", "shown"),
    [
        ("Order", '{"id":"七","paid":true}', '{\n  "id": "七",\n  "paid": true\n}\n'),
        ("Bill", '{"id":"七","paid":true}', '{\n  "id": "七",\n  "paid": true\n}\n'),
        ("Word", '{"value":"yes"}', "yes\n"),
    ],
)
def test_answer_that_is_a_value_is_json(hotloop, serve, agent_file, tmp_path, monkeypatch, kind, written, shown):
    monkeypatch.delitem(sys.modules, "cli_types", raising=False)  # another test's
    (tmp_path / "cli_types.py").write_text(TYPES, encoding="utf-8")
    config = agent_file(serve(lambda request: written), f"output: cli_types:{kind}", ", dialect: vllm")
    assert hotloop("run", config, "Hi").out == shown
    assert hotloop("run", config, "Hi", "--stream").out == shown
    told = json.loads(hotloop("run", config, "Hi", "--json").out)["output"]
    assert told == ("yes" if kind == "Word" else json.loads(written))


def test_stream_gives_the_text_as_it_came_also_before_calls(hotloop, serve, agent_file):
    config = agent_file(serve([say("Let me see.", CALL), "It is shipped."]))
    assert hotloop("run", config, "Hi", "--stream").out == "Let me see.\nIt is shipped.\n"
    assert hotloop("run", config, "Hi", "--no-stream").out == "It is shipped.\n"


def test_prompt_from_stdin(hotloop, serve, agent_file, monkeypatch):
    config = agent_file(serve(lambda request: request["messages"][-1]["content"]))
    monkeypatch.setattr(sys, "stdin", io.StringIO("从管道来的\n"))
    assert hotloop("run", config, "-", "--quiet").out == "从管道来的\n\n"


def test_prompt_that_looks_like_an_option(hotloop, serve, agent_file):
    config = agent_file(serve(lambda request: request["messages"][-1]["content"]))
    assert hotloop("run", config, "--quiet", "-5 degrees?").out == "-5 degrees?\n"


def test_exceeded_budget_exits_1_with_the_answer(hotloop, serve, agent_file):
    config = agent_file(serve(["Late."], ttft=0.02), "budget: {model: 1ms}")
    ended = hotloop("run", config, "Hi")
    assert (ended.code, ended.out) == (1, "Late.\n")
    assert re.search(r"model +1\.00 ms +\S+ ms +over", ended.err)


def test_held_budget_exits_0(hotloop, serve, agent_file):
    assert hotloop("run", agent_file(serve(["In time."]), "budget: {total: 60s}"), "Hi").code == 0


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (raw(b'{"error":{"message":"bad key"}}', status=401), "bad key"),
        (raw(b"data: nonsense\n\n"), "error: "),
    ],
)
def test_unusable_service_exits_2_with_a_sentence(hotloop, serve, agent_file, reply, words):
    ended = hotloop("run", agent_file(serve([reply])), "Hi")
    assert (ended.code, ended.out) == (2, "")
    assert words in ended.err
    assert "Traceback" not in ended.err


def test_failed_run_shows_how_far_it_came(hotloop, serve, agent_file):
    config = agent_file(serve([CALL, raw(b'{"error":{"message":"gone"}}', status=404)]))
    ended = hotloop("run", config, "Hi")
    assert ended.code == 2
    assert "1 turn" in ended.err
    assert ended.err.splitlines()[-1].startswith("error: ")


def test_failed_run_is_one_json_object_too(hotloop, serve, agent_file):
    config = agent_file(serve([CALL, raw(b'{"error":{"message":"gone"}}', status=503)]))
    ended = hotloop("run", config, "Hi", "--json", "--trace-id", "req-7")
    shown = json.loads(ended.out)
    assert ended.code == 2
    assert shown["error"].keys() == {"kind", "message", "stage", "retryable"}
    assert (shown["error"]["kind"], shown["error"]["retryable"]) == ("Overloaded", True)
    assert ended.err.splitlines()[-1] == f"error: {shown['error']['message']}"
    assert (shown["trace"]["trace_id"], len(shown["trace"]["turns"])) == ("req-7", 1)


def test_run_that_never_began_has_no_trace_in_json(hotloop):
    ended = hotloop("run", "nowhere.yaml", "Hi", "--json")
    message = "There is no file nowhere.yaml."
    told = {"kind": "ConfigError", "message": message, "stage": None, "retryable": False}
    assert (ended.code, json.loads(ended.out)) == (2, {"error": told, "trace": None})
    assert ended.err == f"error: {message}\n"


@pytest.mark.parametrize("option", ["--quiet", "--json", "--stream"])
def test_answer_that_the_cap_cut_is_said_to_be(hotloop, serve, agent_file, option):
    config = agent_file(serve(["one two three four"]), inference=", max_tokens: 2")
    ended = hotloop("run", config, "Hi", option)
    assert ended.code == 0
    assert "one two" in ended.out and "three" not in ended.out
    told = "The answer was cut by the token cap; a higher max_tokens allows a longer one."
    assert ended.err.splitlines()[-1] == told


def test_wrong_file_says_where(hotloop, tmp_path):
    path = tmp_path / "agent.yaml"
    path.write_text("inference: {endpoint: local, modle: smollm2}\n")
    ended = hotloop("run", path, "Hi")
    assert ended.code == 2
    assert "agent.yaml:1: inference.modle: unknown key; did you mean model?" in ended.err


@pytest.mark.parametrize("option", ["--user", "--grant", "--trace-id"])
def test_names_are_not_empty(hotloop, order_agent, option):
    ended = hotloop("run", order_agent, "Hi", option, "")
    assert (ended.code, ended.out) == (2, "")
    assert re.fullmatch(rf"error: Invalid value .* for {option}. A name is empty; .*\n", ended.err)


def test_words_that_are_no_utf8_are_refused(hotloop, order_agent):
    ended = hotloop("run", order_agent, "Hi", "--user", "\udcff")
    assert (ended.code, ended.err) == (
        2,
        "error: '\\udcff' is not valid UTF-8, and nothing else can be sent or kept.\n",
    )


@pytest.mark.parametrize("place", ["folder", "nowhere.yaml"])
def test_file_that_is_none_is_a_sentence(hotloop, tmp_path, place):
    (tmp_path / "folder").mkdir()
    ended = hotloop("run", tmp_path / place, "Hi")
    assert ended.code == 2
    assert re.fullmatch("error: .*\n", ended.err)


def test_empty_prompt_is_refused(hotloop, serve, agent_file):
    ended = hotloop("run", agent_file(serve(["Hello."])), "  ")
    assert (ended.code, ended.err) == (2, "error: The prompt is empty; say what the agent should do.\n")


# Calls that a person must decide about


def test_run_that_must_wait_says_for_what_and_how_it_goes_on(hotloop, serve, tmp_path):
    config = open_desk(tmp_path, serve([[ONE, TWO], "Done."]))
    ended = hotloop("run", config, "Pay back.", "--trace-id", "req-7")
    assert (ended.code, ended.out, refunded(config)) == (3, "", "")
    command = f"  {shlex.join(['hotloop', 'resume', str(config), 'req-7'])} --approve call00001 --approve call00002"
    assert ended.err.splitlines() == [
        "? refund waits for a person",
        "? refund waits for a person",
        '? call00001 refund {"order_id": "1"}',
        '? call00002 refund {"note": "broken", "order_id": "2"}',
        "Run req-7 waits for a decision about refund. To approve (or --refuse) and go on:",
        command,
    ]
    ended = hotloop(*shlex.split(command)[1:])
    assert (ended.code, ended.out) == (0, "Done.\n")
    assert sorted(refunded(config)) == ["1", "2"]


def test_run_that_must_wait_is_one_json_object_too(hotloop, serve, tmp_path):
    config = open_desk(tmp_path, serve([ONE]))
    ended = hotloop("run", config, "Pay back.", "--json", "--trace-id", "req-7")
    shown = json.loads(ended.out)
    (stored,) = ApprovalStore(tmp_path / "waiting.db").load("req-7").calls
    waits = {"call_id": "call00001", "name": "refund", "arguments": {"order_id": "1"}, "digest": stored.call.digest}
    assert (ended.code, shown["paused"]) == (3, {"run_id": "req-7", "calls": [waits]})
    assert (shown["trace"]["trace_id"], len(shown["trace"]["turns"])) == ("req-7", 1)
    assert ended.err.startswith("Run req-7 waits for a decision about refund.")


def test_quiet_run_that_must_wait_says_just_that(hotloop, serve, tmp_path):
    ended = hotloop("run", open_desk(tmp_path, serve([ONE])), "Pay back.", "--quiet")
    assert (ended.code, ended.out) == (3, "")
    assert len(ended.err.splitlines()) == 2


def test_arguments_are_shown_over_several_lines_and_nothing_in_them_hides(hotloop, serve, tmp_path):
    note = "很" * 30 + "\u202etxet\u200b\x1b[2J[red]"
    config = open_desk(tmp_path, serve([call("refund", order_id="1", note=note)]))
    shown = hotloop("run", config, "Pay back.").err
    note = "很" * 30 + "\\u202etxet\\u200b\\u001b[2J[red]"
    assert f'? call00001 refund {{\n  "note": "{note}",\n  "order_id": "1"\n}}\n' in shown


def test_grants_and_user_are_the_run_s(hotloop, serve, tmp_path):
    config = open_desk(tmp_path, serve([call("close"), "Done."]))
    assert "this run was not granted cash" in hotloop("run", config, "Close.", "--grant", "books").err
    ended = hotloop("run", config, "Close.", "--grant", "books", "--grant", "cash", "--user", "ann")
    assert (ended.code, ended.out) == (0, "Done.\n")
    records = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    assert [(record["decision"], record["user"]) for record in records if "decision" in record] == [
        ("refused", ""),
        ("allowed", "ann"),
    ]


@posix
def test_person_at_the_terminal_is_asked_and_the_run_goes_on(serve, tmp_path):
    config = open_desk(tmp_path, serve([[ONE, TWO], call("refund", order_id="3"), "Done."]))
    with on_a_terminal("run", config, "Pay back.") as terminal:
        terminal.until('? call00001 refund {"order_id": "1"}\nApprove refund? [y/N/later] ')
        terminal.type("what?\n")
        terminal.until("Approve refund? [y/N/later] ")
        terminal.type("Y\n")
        terminal.until('? call00002 refund {"note": "broken", "order_id": "2"}\nApprove refund? [y/N/later] ')
        terminal.type("\n")
        terminal.until("→ Refunding order 1\n")
        terminal.until('? call00003 refund {"order_id": "3"}\nApprove refund? [y/N/later] ')
        terminal.type("yes\n")
        terminal.until("Done.\n")
        code, shown = terminal.end()
    assert (code, refunded(config)) == (0, "13")
    assert "end to end" in shown


@posix
def test_what_is_decided_stays_when_the_rest_is_left_for_later(serve, tmp_path):
    config = open_desk(tmp_path, serve([[ONE, TWO]]))
    with on_a_terminal("run", config, "Pay back.", LOGNAME="ann") as terminal:
        terminal.until("[y/N/later] ")
        terminal.type("y\n")
        terminal.until("[y/N/later] ")
        terminal.type("later\n")
        code, shown = terminal.end()
    (run,) = ApprovalStore(tmp_path / "waiting.db").runs()
    assert shown.splitlines()[-1].endswith(f"{run.run_id} --approve call00002")
    assert [each.decision and (each.decision.approved, each.decision.by) for each in run.calls] == [(True, "ann"), None]
    assert (code, refunded(config)) == (3, "")


@posix
@pytest.mark.parametrize(
    ("leave", "exit_code"), [(lambda terminal: terminal.type("\x04"), 3), (Terminal.interrupt, 130)]
)
def test_run_goes_on_waiting_when_the_person_leaves(serve, tmp_path, leave, exit_code):
    config = open_desk(tmp_path, serve([ONE]))
    with on_a_terminal("run", config, "Pay back.") as terminal:
        terminal.until("[y/N/later] ")
        leave(terminal)
        code, shown = terminal.end()
    assert code == exit_code
    assert "waits for a decision about refund. To approve (or --refuse) and go on:\n  hotloop resume" in shown
    assert [each.decision for run in ApprovalStore(tmp_path / "waiting.db").runs() for each in run.calls] == [None]


@posix
def test_run_that_is_stopped_after_the_decision_can_go_on(hotloop, serve, tmp_path):
    config = open_desk(tmp_path, serve([ONE, "Done."], ttft=0.3))
    with on_a_terminal("run", config, "Pay back.", "--trace-id", "req-7") as terminal:
        terminal.until("[y/N/later] ")
        terminal.type("y\n")
        terminal.until("✓ refund")
        terminal.interrupt()
        code, shown = terminal.end()
    assert code == 130
    assert f"Run req-7 is kept as far as it came. To go on:\n  hotloop resume {config} req-7\n" in shown
    assert (hotloop("resume", config, "req-7").out, refunded(config)) == ("Done.\n", "1")


@posix
def test_what_was_typed_before_the_question_is_no_answer(serve, tmp_path):
    config = open_desk(tmp_path, serve([ONE], ttft=0.5))
    with on_a_terminal("run", config, "Pay back.") as terminal:
        terminal.until("thinking")
        terminal.type("y\n")
        terminal.until("[y/N/later] ")
        terminal.type("later\n")
        assert terminal.end()[0] == 3
    assert refunded(config) == ""


@posix
def test_nobody_is_asked_by_a_quiet_run(serve, tmp_path):
    with on_a_terminal("run", open_desk(tmp_path, serve([ONE])), "Pay back.", "--quiet") as terminal:
        code, shown = terminal.end()
    assert (code, "Approve" in shown) == (3, False)
