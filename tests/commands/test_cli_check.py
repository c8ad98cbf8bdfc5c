from __future__ import annotations

import json
import re

import pytest

CLOCK = '''
from datetime import date
from hotloop import tool

TAGS = {"red", "green", "blue", "white", "black"}

@tool(timeout=1.0)
def get_order(order_id: str) -> str:
    """Find an order."""
    return "x"

@tool(description=f"Lists orders by tag, one of {TAGS}.", timeout=1.0, read_only=True)
def orders_by_tag(tag: str) -> str:
    return "x"

@tool(description=f"Refund an order. Today is {date.today()}. " + "These are the rules. " * 50)
def refund(order_id: str) -> str:
    return "x"

@tool(description="Waits.", timeout=90.0)
def wait(order_id: str) -> str:
    return "x"
'''


@pytest.fixture
def agent(agent_file, monkeypatch):
    """Write an agent's file, without any key in the environment; `extra` is more YAML."""
    for variable in ("GROQ_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(variable, raising=False)

    def write(extra: str = "", url: str = "http://127.0.0.1:9/v1", inference: str = ", dialect: vllm"):
        return agent_file(url, extra, inference)

    return write


def unwrapped(ended) -> str:
    return " ".join(ended.out.split())


def graded(ended) -> dict[str, str]:
    return {found["check"]: found["grade"] for found in json.loads(ended.out)["findings"]}


SOUND = """
budget: {total: 60s, answer_reserve: 2s}
"""


def test_a_sound_agent(hotloop, agent):
    fallback = ", dialect: vllm, fallback: [{endpoint: 'http://127.0.0.1:8/v1', model: other}]"
    ended = hotloop("check", agent(SOUND, inference=fallback))
    assert (ended.code, ended.err) == (0, "")
    same = "✓ The prompt is the same in 4 fresh processes with other hash seeds, time zones and dates."
    assert same in unwrapped(ended)
    assert {line[0] for line in ended.out.splitlines()} == {"✓", " "}
    assert max(map(len, ended.out.splitlines())) <= 80


def test_an_agent_that_is_not(hotloop, agent, tmp_path, monkeypatch):
    (tmp_path / "cli_clock_tools.py").write_text(CLOCK, encoding="utf-8")
    path = agent("", "https://api.groq.com/openai/v1", "")
    tools = ", ".join(f"cli_clock_tools:{name}" for name in ("get_order", "orders_by_tag", "refund", "wait"))
    path.write_text(path.read_text().replace('"cli_order_tools:order_status"', tools) + "budget: {total: 40s}\n")
    ended = hotloop("check", path, "--json")
    told = json.loads(ended.out)
    faults = [found for found in told["findings"] if found["grade"] == "fault"]
    assert (ended.code, told["held"]) == (1, False)
    assert [found["check"] for found in faults] == ["stable prompt", "stable prompt", "keys"]
    assert "tools[1].function.description (orders_by_tag)" in faults[0]["told"]
    assert "It is the same in another order" in faults[0]["told"]
    assert "tools[2].function.description (refund)" in faults[1]["told"]
    assert "It looks like a clock" in faults[1]["told"]
    assert faults[2]["advice"] == "Set GROQ_API_KEY, or inference.api_key."
    grades = graded(ended)
    assert grades["dated prompt"] == grades["deadline"] == "warning"
    assert grades["tool times"] == grades["tool names"] == grades["fallback"] == "hint"
    monkeypatch.setattr("hotloop.commands.check.fresh_prompts", lambda path: [])
    ended = hotloop("check", path)
    shown = unwrapped(ended)
    assert "✗ There is no key for api.groq.com.\n  Set GROQ_API_KEY" in ended.out
    assert "· wait may take as long as a whole run (40 s)" in shown
    assert "· get_order: by its name this tool only reads, but it is not declared so. With" in shown


@pytest.mark.parametrize(
    ("extra", "inference", "check", "grade"),
    [
        ("", ", dialect: vllm", "deadline", "warning"),
        ("budget: {total: 60s}", ", dialect: vllm", "deadline", "warning"),
        (SOUND, ", dialect: vllm", "deadline", "ok"),
        ("", ", dialect: vllm", "cached prefix", "ok"),
        ("", ", dialect: openai, api_key: k", "cached prefix", "hint"),
        ("", "", "cached prefix", "hint"),
        ("cache: {prefix_cache: false}", ", dialect: llamacpp", "cached prefix", "hint"),
        ("context: {limit: 8000}", "", "context limit", "ok"),
        ("context: {limit: 20}", "", "context limit", "fault"),
        ("sessions: {path: chats.db}", "", "context limit", "hint"),
        ("context: {window: {turns: 9, relevant: 3}}", "", "context order", "hint"),
        ("context: {volatile: You are kind.}", "", "context order", "hint"),
        ("", ", dialect: openai", "keys", "fault"),
        ("", ", dialect: openai, api_key: k", "keys", "ok"),
        ("", ", dialect: openai, headers: {Authorization: Bearer k}", "keys", "ok"),
    ],
)
def test_single_checks(hotloop, agent, monkeypatch, extra, inference, check, grade):
    monkeypatch.setattr("hotloop.commands.check.fresh_prompts", lambda path: [])
    assert graded(hotloop("check", agent(extra, inference=inference), "--json"))[check] == grade


ALERT = "telemetry: {{alerts: [{{when: tool_p95, over: 1s, tool: {}}}]}}"


@pytest.mark.parametrize(
    ("extra", "check", "told"),
    [
        ("budget: {on_exceed: abort}", "measures", "budget.on_exceed is abort, but there is no limit"),
        ("budget: {on_exceed: abort, memory: 1s}", "measures", "budget.on_exceed is abort, but"),
        ("budget: {on_exceed: abort, turn: {on_exceed: warn, total: 1s}}", "measures", "budget.on_exceed is abort"),
        ("budget: {total: 1s, turn: {on_exceed: abort}}", "measures", "budget.turn.on_exceed is abort, but"),
        ("budget: {on_exceed: abort, turn: {total: 1s}}", "measures", None),
        ("budget: {on_exceed: degrade, total: 1s}", "degrading", "no step in budget.degrade, and no optional tool"),
        ("budget: {on_exceed: degrade, total: 1s, degrade: [{max_tokens: 9}]}", "degrading", None),
        (
            "budget: {total: 1.5s, turn: {total: 2s}}",
            "turn limits",
            "budget.turn.total (2 s) is over budget.total (1.5 s)",
        ),
        ("budget: {total: 2s, turn: {total: 2s}}", "turn limits", None),
        (
            ALERT.format("order_statis"),
            "alerts",
            "which the agent does not have; did you mean order_status?",
        ),
        (ALERT.format("order_status"), "alerts", None),
    ],
)
def test_what_can_never_be_is_told(hotloop, agent, monkeypatch, extra, check, told):
    monkeypatch.setattr("hotloop.commands.check.fresh_prompts", lambda path: [])
    found = json.loads(hotloop("check", agent(extra), "--json").out)["findings"]
    texts = [each["told"] for each in found if each["check"] == check]
    assert len(texts) == (told is not None)
    assert told is None or told in texts[0]


def test_an_optional_tool_is_enough_to_degrade(hotloop, agent, tmp_path, monkeypatch):
    monkeypatch.setattr("hotloop.commands.check.fresh_prompts", lambda path: [])
    (tmp_path / "cli_optional.py").write_text(
        "from hotloop import tool\n@tool(optional=True)\ndef reviews() -> str:\n    'Reviews.'\n    return ''\n"
    )
    path = agent("budget: {on_exceed: degrade, total: 1s}")
    path.write_text(path.read_text().replace("cli_order_tools:order_status", "cli_optional:reviews"))
    assert "degrading" not in graded(hotloop("check", path, "--json"))


def test_what_is_said_last_need_not_be_the_same(hotloop, agent, tmp_path):
    (tmp_path / "cli_clock.py").write_text("import time\ndef now(): return time.strftime('It is %Y-%m-%d %H:%M:%S.')\n")
    ended = hotloop("check", agent("context: {limit: 8000, volatile: {function: 'cli_clock:now'}}"), "--json")
    grades = graded(ended)
    assert grades["stable prompt"] == "ok"
    assert not {"dated prompt", "context order"} & grades.keys()


ROUTER = """
router:
  models:
    fast: {endpoint: "http://127.0.0.1:9/v1", model: small, dialect: vllm}
    strong: {endpoint: "https://api.groq.com/openai/v1", model: big}
  default: fast
"""
LAST = "  fallback: [{endpoint: 'http://127.0.0.1:8/v1', model: other, dialect: openai}]"


@pytest.mark.parametrize(
    ("more", "grade", "told"),
    [
        ("", "hint", "When small or big fails, no other model is asked."),
        ("  cascade: {confidence: 0.5}", "hint", "When big fails, no other model is asked."),
        (LAST, "ok", "When a model fails, another one is asked."),
        (f"  cascade: {{confidence: 0.5}}\n{LAST}", "ok", "When a model fails, another one is asked."),
        (
            LAST.replace("8/v1', model: other", "9/v1', model: small"),
            "hint",
            "When small fails, no other model is asked.",
        ),
    ],
)
def test_a_router_asks_another_model_only_where_it_says_so(hotloop, tmp_path, monkeypatch, more, grade, told):
    monkeypatch.setattr("hotloop.commands.check.fresh_prompts", lambda path: [])
    path = tmp_path / "router.yaml"
    path.write_text(ROUTER + more)
    found = json.loads(hotloop("check", path, "--json").out)["findings"]
    (fallback,) = (each for each in found if each["check"] == "fallback")
    assert (fallback["grade"], fallback["told"]) == (grade, told)
    assert fallback["advice"] == ("" if grade == "ok" else "Name another model in router.fallback.")


def test_a_missing_key_is_missed_where_its_model_is_declared(hotloop, agent, tmp_path, monkeypatch):
    monkeypatch.setattr("hotloop.commands.check.fresh_prompts", lambda path: [])
    path = tmp_path / "router.yaml"
    path.write_text(ROUTER + LAST)
    found = json.loads(hotloop("check", path, "--json").out)["findings"]
    advice = [each["advice"] for each in found if each["check"] == "keys"]
    assert advice == [
        "Set GROQ_API_KEY, or router.models.strong.api_key.",
        "Set OPENAI_API_KEY, or router.fallback[0].api_key.",
    ]


def test_an_agent_that_cannot_be_made_elsewhere(hotloop, agent, tmp_path):
    path = agent(SOUND)
    (tmp_path / "cli_order_tools.py").write_text("raise RuntimeError('only once')\n")
    ended = hotloop("check", path)
    assert ended.code == 2
    assert "only once" in ended.err


def test_what_it_prints_while_it_is_imported_is_no_finding(hotloop, agent, tmp_path):
    path = agent(SOUND)
    module = tmp_path / "cli_order_tools.py"
    module.write_text("print('imported')\n" + module.read_text(encoding="utf-8"), encoding="utf-8")
    ended = hotloop("check", path, "--json")
    assert json.loads(ended.out)["held"]
    assert "imported" in ended.err


def log(tmp_path, *instructions: str):
    path = tmp_path / "log.jsonl"
    asked = [{"role": "user", "content": "Hi"}]
    bodies = [{"model": "m", "messages": [{"role": "system", "content": each}, *asked]} for each in instructions]
    path.write_text("\n".join(map(json.dumps, bodies)))
    return path


LONG = "You are a helpful assistant of a shop. " * 20


def test_recorded_prompts(hotloop, tmp_path):
    ended = hotloop("check", "--prompts", log(tmp_path, *(f"It is 10:0{minute}. {LONG}" for minute in range(3))))
    assert (ended.code, ended.err) == (1, "")
    first, last = unwrapped(ended).split(" 3 prompts in 3 conversations, about ")
    assert first.startswith("✗ 2 times, from one conversation to another; line 2 after line 1: The prompts diverge at")
    assert re.fullmatch(r"\d+ tokens; \d+ \(\d+%\) of them were read anew although they had been sent before.", last)


def test_recorded_prompts_that_use_the_cache(hotloop, tmp_path):
    ended = hotloop("check", "--prompts", log(tmp_path, LONG, LONG), "--json")
    told = json.loads(ended.out)
    assert (ended.code, told["held"], told["faults"], told["prompts"]) == (0, True, [], 2)


def test_recorded_prompts_that_may_be_meant(hotloop, tmp_path):
    ended = hotloop("check", "--prompts", log(tmp_path, f"Be brief. {LONG}", f"Write SQL. {LONG}"))
    assert ended.code == 0
    assert ended.out.startswith("· once, ")
    again = re.search(r"About (\d+) tokens behind it had been sent before", unwrapped(ended))[1]
    anew = "0 (0%) of them were read anew although they had been sent before. So were"
    assert re.search(rf"{re.escape(anew)} {again} \(\d\d%\) where that may be meant.$", unwrapped(ended))


def test_a_single_prompt_is_counted_as_one(hotloop, tmp_path):
    assert "1 prompt in 1 conversation, about" in hotloop("check", "--prompts", log(tmp_path, LONG)).out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "Give the file of an agent, or --prompts"),
        (["agent.yaml", "--prompts", "x.jsonl"], "Give the file of an agent or --prompts, not both"),
        (["nowhere.yaml"], "nowhere.yaml"),
        (["--prompts", "nowhere.jsonl"], "nowhere.jsonl cannot be read: No such file or directory."),
    ],
)
def test_what_cannot_be_done(hotloop, arguments, sentence):
    ended = hotloop("check", *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert sentence in ended.err


def test_nothing_is_recorded_or_learned(hotloop, agent, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("HOTLOOP_TRACES")
    hotloop("check", agent("traces: {path: kept.db}"))
    hotloop("check", agent())
    assert not (tmp_path / "kept.db").exists()
    assert not (tmp_path / "state").exists()
