"""`hotloop whatif`: one question about recorded runs."""

import json

import pytest

from hotloop.trace.store import TraceStore
from made_runs import run_of, varied


@pytest.fixture
def whatif(hotloop, tmp_path):
    """Run `hotloop whatif` on recorded runs."""
    store = TraceStore(tmp_path / "traces.db")
    store.export([*varied(40), run_of(outcome="failed"), *varied(10, name="other")])
    store.close()
    return lambda *arguments: hotloop("whatif", *arguments, "--store", tmp_path / "traces.db")


def test_it_prints_before_and_after_what_is_assumed_and_what_the_profile_is_worth(whatif):
    ended = whatif("--service", "groqcloud-llama8b", "--tool", "lookup=0.5x", "--agent", "orders")
    assert ended.code == 0
    lines = ended.out.splitlines()
    assert lines[0] == "40 runs; 1 that did not end well are left out. What if:"
    assert lines[1:3] == ["· service groqcloud-llama8b", "· lookup takes 0.5 times as long"]
    p50 = next(line for line in lines if line.startswith("p50"))
    assert p50.count(" ms") == 5
    assert p50.count("%") == 1
    assert "· the other model needs as many tokens and calls the same tools" in lines
    assert "Groq's listed speeds" in ended.out


@pytest.mark.parametrize(
    ("arguments", "label"),
    [
        (
            ("--service", "gpu-h100-llama8b", "--in-place-of", "gpt", "--others", "3"),
            "service gpu-h100-llama8b instead",
        ),
        (("--max-parallel", "1"), "one call at a time"),
        (("--eager",), "calls start while the reply is written"),
        (("--late",), "calls start when the reply is complete"),
        (("--plan",), "dependent calls in one reply (plan)"),
        (("--tool", "lookup=80ms"), "lookup takes 80 ms"),
        (("--without", "weather", "--without", "memory"), "without weather"),
        (("--cache", "lookup=60%"), "cache of lookup, 60% hits"),
        (("--cache", "lookup=0.6"), "cache of lookup, 60% hits"),
        (("--cache-seen", "60s"), "results kept for 60 s"),
        (("--single-flight",), "equal calls at the same time share one"),
        (("--prefix-cache",), "prefix cache on"),
        (("--context-cap", "500"), "prompts of at most 500 tokens"),
        (("--max-result", "500"), "results of at most 500 tokens"),
        (("--hedge",), "a second request after the p95 of the first token"),
        (("--prefetch", "50%"), "50% of the calls guessed while the model thinks"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_every_change_has_an_option(whatif, arguments, label):
    ended = whatif(*arguments, "--json")
    assert (ended.code, ended.err) == (0, "")
    told = json.loads(ended.out)
    assert told["edits"][0].startswith(label)
    assert told["runs"] == 50
    assert told["bound"].keys() == {"p50", "p95", "mean"}
    assert told["times"]["saved"]["p50"]["low"] <= told["times"]["saved"]["p50"]["high"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "Nothing is to be changed"),
        (("--service", "groq"), "There is no profile 'groq'"),
        (("--in-place-of", "gpt"), "name a service"),
        (("--service", "groqcloud-llama8b", "--in-place-of", "gtp"), "No run has asked a model 'gtp'"),
        (("--eager", "--late"), "leave out --eager or --late"),
        (("--tool", "lokup=80ms"), "did you mean lookup?"),
        (("--tool", "lookup"), "write it like --tool search=..."),
        (("--tool", "lookup=3"), "write it like lookup=80ms or lookup=0.5x"),
        (("--cache", "lookup=often"), "write it like 5% or 0.05"),
        (("--cache", "lookup=140%"), "give a share from 0 to 1"),
        (("--without", "memry"), "did you mean memory?"),
        (("--prefetch", "2"), "'2' is no share"),
        (("--prefetch", "200%"), "give a share from 0 to 1"),
        (("--eager", "--agent", "nobody"), "there are orders, other"),
        (("--eager", "--failed"), "No recorded run of these ended well"),
        (("--eager", "--slow", "1h"), "is selected: run the agent first"),
        (("--max-parallel", "0"), "--max-parallel"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_cannot_be_asked_is_said_in_a_sentence(whatif, arguments, told):
    ended = whatif(*arguments)
    assert (ended.code, ended.out) == (2, "")
    assert told in " ".join(ended.err.split())


def test_where_no_run_was_recorded_it_says_so(hotloop, tmp_path):
    ended = hotloop("whatif", "--eager", "--store", tmp_path / "none.db")
    assert ended.code == 2
    assert "no run has been recorded there" in ended.err


def test_its_help_names_all_work_that_can_be_left_out(hotloop):
    ended = hotloop("whatif", "--help")
    words = " ".join(ended.out.replace("│", " ").split())
    assert ended.code == 0
    assert "approval, cache, connect, context, guard, memory, overhead, queue, or a tool" in words
