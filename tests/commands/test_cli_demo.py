from __future__ import annotations

import json
import re

import pytest

from hotloop.agent import Agent
from hotloop.commands import comparison, weights
from hotloop.commands.comparison import Run, Service, conclusion
from hotloop.errors import WeightsError

SIX = [
    Run("GPU-like", "serial", 800, 199, 1, 1000),
    Run("GPU-like", "parallel", 800, 109, 1, 910),
    Run("GPU-like", "early", 800, 99, 1, 900),
    Run("LPU-like", "serial", 100, 199, 1, 300),
    Run("LPU-like", "parallel", 100, 109, 1, 210),
    Run("LPU-like", "early", 100, 99, 1, 200),
]


@pytest.fixture(autouse=True)
def fast_services(monkeypatch):
    """The demo's services, but quick: what is left are its tools, which take 0.15 and 0.18 s."""
    monkeypatch.setattr(comparison, "GPU", Service("GPU-like", ttft=0.02, tpot=0.002))
    monkeypatch.setattr(comparison, "LPU", Service("LPU-like", ttft=0.001, tpot=0.0002))


@pytest.fixture
def no_weights(monkeypatch, tmp_path):
    """An empty cache, and no way to fill it; six runs that took no time."""

    async def compare(*_):
        return SIX

    def fail(progress):
        progress(1, 2)
        raise WeightsError("The index is not there.")

    monkeypatch.setenv("HOTLOOP_CACHE", str(tmp_path))
    monkeypatch.setattr(weights, "fetch_weights", fail)
    monkeypatch.setattr("hotloop.commands.demo.compare", compare)


def test_conclusion_is_computed_from_the_runs():
    assert conclusion(SIX) == (
        "The faster chip alone makes this agent 3.3 times as fast, parallel tools that start early alone "
        "1.1 times, both together 5.0 times; of what is left, 50% is tools, 50% the model and 0.5% hotloop itself."
    )


def test_six_runs_side_by_side(hotloop):
    ended = hotloop("demo", "--no-local", "--prompt", "Where is order 20250101?")
    assert (ended.code, ended.err) == (0, "")
    lines = ended.out.splitlines()
    heading = next(number for number, line in enumerate(lines) if line.startswith("service"))
    times = r"( +[\d,.]+ ms){4} +\d+\.\dx"
    for line, run in zip(lines[heading + 1 :], SIX, strict=False):
        assert re.fullmatch(rf"{run.service} +{run.tool_calls}{times}", line), line
    assert lines[0] == "? Where is order 20250101?"
    assert "The faster chip alone" in ended.out
    assert max(map(len, lines)) <= 80


def test_json_of_the_six_runs_adds_up(hotloop):
    ended = hotloop("demo", "--no-local", "--json", "--lang", "zh")
    shown = json.loads(ended.out)
    assert (shown["question"], shown["local"]) == ("查询订单 20250101 的状态，同时查一下物流信息", None)
    runs = shown["services"]
    assert [(run["service"], run["tool_calls"]) for run in runs] == [(run.service, run.tool_calls) for run in SIX]
    for run in runs:
        parts = run["model_ms"] + run["tools_ms"] + run["loop_ms"]
        assert parts == pytest.approx(run["end_to_end_ms"], abs=0.01)
    serial, parallel, early = runs[:3]
    assert serial["tools_ms"] > 1.4 * parallel["tools_ms"]  # 0.15 + 0.18 s, and 0.18 s
    assert early["tools_ms"] < parallel["tools_ms"] - 5  # the first call is there 12 ms before the second
    assert [run["model_ms"] for run in runs[:2]] == pytest.approx([early["model_ms"]] * 2, rel=0.2)
    assert min(run["faster"] for run in runs) == 1.0


def test_without_weights_the_services_are_still_shown(hotloop, no_weights):
    ended = hotloop("demo")
    assert ended.code == 1
    assert "error: The embedded model cannot answer. The index is not there." in ended.err
    assert "The faster chip alone" in ended.out


def test_without_weights_json_says_why(hotloop, no_weights):
    ended = hotloop("demo", "--json")
    assert ended.code == 1
    assert json.loads(ended.out)["local"] == {"error": "The index is not there."}


def test_answer_that_the_cap_cut_is_said_to_be(hotloop, no_weights, monkeypatch, serve):
    def make(*, endpoint, **options):
        return Agent(endpoint=serve(["one two three four"]), max_tokens=2, **options)

    monkeypatch.setattr("hotloop.commands.demo.have_weights", lambda *_: None)
    monkeypatch.setattr("hotloop.commands.demo.Agent", make)
    ended = hotloop("demo")
    assert "\none two\n" in ended.out
    assert "The answer was cut by the token cap" in ended.err


@pytest.mark.usefixtures("local")
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_embedded_model_answers_with_what_both_tools_said(hotloop, lang):
    ended = hotloop("demo", "--lang", lang)
    assert "Looking up order 20250101" in ended.err
    assert "Asking where order 20250101 is" in ended.err
    assert "first token" in ended.out
    assert re.search(r"model +14,000 ms", ended.out)
    if lang == "en":
        answer = ended.out.split("CPU\n")[1].split("req-")[0]
        assert "shipped" in answer
        assert "Shenzhen" in answer
