"""Traces that agents of other frameworks have really made (benchmarks/foreign/samples.py): what becomes of them."""

from __future__ import annotations

import json
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

from hotloop.insight.graph import Graph
from hotloop.trace.importing.files import read_otlp
from hotloop.trace.record import TraceRecord
from hotloop.trace.trace import Trace

SAMPLES = Path(__file__).parent.parent.parent / "data" / "otel"
TOLD = json.loads((SAMPLES / "told.json").read_text())
NAMES = sorted(path.name.partition(".")[0] for path in SAMPLES.glob("*.jsonl*"))
SOURCES = {
    "agno": "agno",
    "haystack": "haystack",
    "langgraph": "langgraph",
    "langgraph_genai": "langchain",
    "llama_index": "llama-index",
    "openai_agents": "openai-agents",
    "openai_agents_genai": "openai-agents",
    "openai_agents_traceloop": "openai-agents",
    "openai_sdk": "openai",
    "openai_sdk_traceloop": "openai",
    "pydantic_ai": "pydantic-ai",
    "strands": "strands",
    "vercel_ai": "vercel-ai",
}
CALLED = {
    "single": [["order_status"], []],
    "parallel": [["order_status", "parcel_location"], []],
    "stream": [["order_status", "parcel_location"], []],
    "turns": [["customer_orders"], ["order_status"], ["parcel_location"], []],
    "failing": [["refund"], []],
    "retried": [["order_status"], []],
    "subagent": [["ask_carrier_desk"], ["parcel_location"], [], []],
    "handoff": [["handoff to parcels"], ["parcel_location"], []],
    "guarded": [["order_status"], []],
    "recalled": [["order_status"], []],
}
TIMES = {"order_status": 120, "parcel_location": 180, "customer_orders": 80, "refund": 50}  # ms at least
TELL_FIRST_TOKENS = ["langgraph_genai", "openai_sdk", "openai_sdk_traceloop", "pydantic_ai", "strands", "vercel_ai"]
TELL_NO_REQUESTS = "openai_agents_genai"  # but of the Responses API
TELL_NO_TOKENS = ("openai_agents_traceloop", TELL_NO_REQUESTS)
TELL_NO_WORDS = ("langgraph_genai", TELL_NO_REQUESTS)
ANSWER = "Your order 20250101 has shipped"

samples = pytest.mark.parametrize("name", NAMES)
those_with_requests = pytest.mark.parametrize("name", [name for name in NAMES if TELL_NO_REQUESTS not in name])


@cache
def imported(name: str, content: bool = False) -> TraceRecord:
    (path,) = SAMPLES.glob(f"{name}.jsonl*")
    (record,) = read_otlp(path, content)
    return record


def test_there_are_samples_of_each_framework_and_all_were_told_of():
    assert {name.partition("-")[0] for name in NAMES} == set(SOURCES)
    assert set(NAMES) == set(TOLD)


@samples
def test_every_moment_has_an_owner(name):
    record = imported(name)
    trace = Trace(record)
    assert trace.unattributed_ms <= 0.05 * trace.end_to_end_ms
    path = trace.critical_path()
    assert (path[0].start, path[-1].end) == (record.start, record.end)
    assert all(before.end == after.start for before, after in pairwise(path))


@those_with_requests
def test_what_took_long_is_what_did(name):
    trace = Trace(imported(name))
    spent = trace.critical_ms()
    tools = sum(TIMES[name] for name in _longest_tools(trace))
    assert tools - 1 <= spent["tool"] <= 1.2 * tools + 10
    others = sum(spent.get(kind, 0) for kind in ("prefill", "decode", "queue", "memory"))
    assert others + spent["tool"] >= 0.75 * trace.end_to_end_ms


def test_requests_that_are_not_told_of_are_a_warning():
    record = imported("openai_agents_genai-parallel")
    assert record.facts["warnings"] == ["no requests to models are in the trace: their time is in overhead"]
    tools = {stage.name: stage.lane for stage in record.stages if stage.kind == "tool"}
    assert tools == {"order_status": 0, "parcel_location": 1}


def _longest_tools(trace: Trace) -> list[str]:
    calls = [[call.name for call in turn.calls if call.name in TIMES] for turn in trace.turns]
    return [max(names, key=TIMES.__getitem__) for names in calls if names]


@those_with_requests
def test_totals_are_those_of_the_framework(name):
    record, told = imported(name), TOLD[name]
    trace = Trace(record)
    if told["requests"] is not None:
        assert len(record.turns) == told["requests"]
    if told["input_tokens"] is not None and not name.startswith(TELL_NO_TOKENS):
        assert (trace.usage.input_tokens, trace.usage.output_tokens) == (told["input_tokens"], told["output_tokens"])
    if not told["error"]:
        assert 0.95 * told["seconds"] * 1e3 <= trace.end_to_end_ms <= told["seconds"] * 1e3


@those_with_requests
def test_turns_have_the_calls_that_the_model_made(name):
    framework, _, scenario = name.partition("-")
    record = imported(name)
    called = [[call.name for call in turn.calls] for turn in record.turns]
    assert called == CALLED[scenario][: len(record.turns)]
    assert record.source == SOURCES[framework]
    assert (record.outcome, record.error) == (("failed", "ValueError") if TOLD[name]["error"] else ("ok", ""))
    assert record.facts == {}
    lanes = {(stage.turn, stage.lane): stage.name for stage in record.stages if stage.kind == "tool"}
    assert lanes == {(turn, lane): name for turn, names in enumerate(called) for lane, name in enumerate(names, 1)}


@samples
def test_tools_of_one_reply_ran_side_by_side(name):
    if "parallel" in name or "stream" in name:
        tools = [stage for stage in imported(name).stages if stage.kind == "tool"]
        assert len(tools) == 2
        assert max(tool.start for tool in tools) < min(tool.end for tool in tools)


@pytest.mark.parametrize("name", [name for name in NAMES if name.endswith("-failing") and TELL_NO_REQUESTS not in name])
def test_a_tool_that_failed_is_known(name):
    assert [call.outcome for call in imported(name).turns[0].calls] == ["error"]


@samples
def test_first_tokens_are_known_where_they_were_noted_and_nowhere_else(name):
    framework, _, scenario = name.partition("-")
    noted = framework in TELL_FIRST_TOKENS and (scenario == "stream" or framework == "strands")
    for turn in imported(name).turns:
        assert (turn.ttft is not None) == noted
        assert turn.ttft is None or 5e6 < turn.ttft < 150e6
        assert turn.tpot is None or noted


def test_a_subagent_has_its_name_and_its_turns_are_turns():
    for framework in ("pydantic_ai", "langgraph", "openai_agents"):
        record = imported(f"{framework}-subagent")
        asked = [(stage.turn, stage.lane, stage.name) for stage in record.stages if stage.kind == "decode"]
        assert asked == [(0, 0, ""), (1, 0, "carrier_desk"), (2, 0, "carrier_desk"), (3, 0, "")]
        assert record.name == "orders"


def test_a_chat_that_was_handed_over_tells_whose_turn_it_was():
    record = imported("openai_agents-handoff")
    assert [stage.name for stage in record.stages if stage.kind == "decode"] == ["", "parcels", "parcels"]


def test_a_guardrail_and_a_memory_are_told_apart_from_tools():
    spent = {name: Trace(imported(name)).critical_ms() for name in ("openai_agents-guarded", "langgraph-recalled")}
    (guard,) = [stage for stage in imported("openai_agents-guarded").stages if stage.kind == "guard"]
    assert guard.lane and 29e6 < guard.end - guard.start < 60e6
    assert spent["openai_agents-guarded"].get("guard", 0) < 10  # it was beside the first request
    assert 59 < spent["langgraph-recalled"]["memory"] < 100


def test_requests_that_were_made_again_are_attempts():
    record = imported("pydantic_ai-retried")
    told = [(each.turn, each.why, each.outcome, each.error, each.reason) for each in record.attempts]
    failed, answered = ("failed", "RateLimited", "status 429"), ("ok", "", "")
    assert told == [(0, "first", *failed), (0, "retry", *answered), (1, "first", *failed), (1, "retry", *answered)]
    waits = [stage.end - stage.start for stage in record.stages if stage.kind == "queue"]
    assert len(waits) == 2
    assert all(90e6 < wait < 200e6 for wait in waits)
    assert [turn.attempts for turn in record.turns] == [2, 2]


@samples
def test_no_text_is_kept_unless_it_is_asked_for(name):
    kept = json.dumps(Trace(imported(name)).to_dict()) + repr(imported(name))
    assert "Shenzhen" not in kept
    assert "Where is my order" not in kept


@pytest.mark.parametrize(
    "name", ["pydantic_ai-parallel", "langgraph-parallel", "agno-parallel", "strands-parallel", "vercel_ai-parallel"]
)
def test_texts_are_kept_if_they_are_asked_for(name):
    record = imported(name, content=True)
    assert record.prompt.text == "Where is my order 20250101?"
    assert record.answer.text.startswith(ANSWER)
    said = [*record.said.values()]
    assert json.loads(said[0].text) == {"order_id": "20250101"}
    assert json.loads(said[1].result) == {"parcel": "p-77", "carrier": "DHL", "location": "Shenzhen airport"}


def test_the_same_words_have_the_same_digest_in_all_frameworks():
    names = ("pydantic_ai", "agno", "openai_agents", "langgraph", "strands", "vercel_ai", "llama_index", "openai_sdk")
    of = [imported(f"{name}-parallel") for name in names]
    assert len({record.prompt.digest for record in of}) == 1
    assert len({tuple(said.digest for said in record.said.values()) for record in of}) == 1


@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith(TELL_NO_WORDS)])
def test_a_prompt_grows_at_its_end(name):
    record = imported(name)
    agents = {stage.turn: stage.name for stage in record.stages if stage.kind == "decode"}
    for agent in set(agents.values()):
        own = [each for each in record.attempts if agents[each.turn] == agent and each.outcome == "ok"]
        assert own[0].known_bytes < 0.2 * own[0].prompt_bytes
        for before, after in pairwise(own):
            assert before.prompt_bytes - 2 <= after.known_bytes <= before.prompt_bytes < after.prompt_bytes


@those_with_requests
def test_the_graph_of_it_takes_as_long(name):
    record = imported(name)
    graph = Graph.of(record)
    assert graph.took == record.end - record.start
    assert [len(turn.calls) for turn in graph.turns if turn.calls] == [
        len(turn.calls) for turn in record.turns if turn.calls
    ]
