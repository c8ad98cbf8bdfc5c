"""What of a run is a turn, an attempt, a call, and whose each moment of it was."""

from __future__ import annotations

import json

import pytest
from otlpspans import EPOCH, MS, agent, chat, event, path, record, shown, span, tool

from hotloop.trace.ledger import Usage
from hotloop.trace.trace import Trace

STREAMED = {"gen_ai.usage.input_tokens": 100, "gen_ai.usage.output_tokens": 11}


def calls(*names, prefix="c"):
    """The output messages of a reply that calls these tools."""
    parts = [
        {"type": "tool_call", "id": f"{prefix}{place}", "name": name, "arguments": {"n": place}}
        for place, name in enumerate(names)
    ]
    return {"gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": parts}])}


def answered(*extra, **told):
    """A run of one request."""
    return record(agent("run", "", 0, 100), chat("ask", "run", 10, 90, told=told), *extra)


def only(found):
    (turn,) = found.turns
    return turn


@pytest.mark.parametrize(
    ("told", "events", "ttft"),
    [
        ({"gen_ai.response.time_to_first_chunk": 0.02}, [], 20),
        ({"gen_ai.client.operation.time_to_first_chunk": 0.02}, [], 20),
        ({"gen_ai.server.time_to_first_token": 20}, [], 20),
        ({}, [event("First Token Stream Event", 30)], 20),
        ({}, [event("llm.content.completion.chunk", 30), event("llm.content.completion.chunk", 70)], 20),
        ({"langfuse.observation.completion_start_time": '"2026-11-30T00:53:20.030000+00:00"'}, [], 20),
        ({"gen_ai.response.time_to_first_chunk": 7.0}, [], 80),
        ({"gen_ai.response.time_to_first_chunk": "soon"}, [], None),
        ({"gen_ai.response.time_to_first_chunk": -1}, [], None),
        ({"langfuse.observation.completion_start_time": "soon"}, [], None),
        ({}, [event("First Token Stream Event", 95)], None),
        ({}, [event("gen_ai.choice", 30)], None),
    ],
)
def test_the_first_token_is_known_if_somebody_noted_it(told, events, ttft):
    assert EPOCH == 1_796_000_000_000_000_000  # 2026-11-30T00:53:20Z
    found = record(agent("run", "", 0, 100), chat("ask", "run", 10, 90, told=STREAMED | told, events=events))
    turn = only(found)
    assert turn.ttft == (None if ttft is None else ttft * MS)
    assert found.attempts[0].first == (0 if ttft is None else (10 + ttft) * MS)
    kinds = [(kind, start, end) for kind, _, start, end in path(found) if kind != "overhead"]
    if ttft is None:
        assert turn.tpot is None
        assert kinds[0][0] == "decode"
    else:
        assert kinds[0] == ("prefill", 10, 10 + ttft)


def test_a_reply_without_a_first_token_is_one_stage_that_says_so():
    (stage,) = [stage for stage in answered().stages if stage.kind == "decode"]
    assert stage.note == "first token unknown"


def test_tpot_and_silence_are_those_of_the_chunks():
    chunks = [event("llm.content.completion.chunk", at) for at in (30, 40, 65, 80)]
    turn = only(record(agent("run", "", 0, 100), chat("ask", "run", 10, 90, told=STREAMED, events=chunks)))
    assert (turn.tpot, turn.gap) == (5 * MS, 25 * MS)


def test_tokens_in_one_instant_have_no_tpot():
    turn = only(answered(**STREAMED, **{"gen_ai.response.time_to_first_chunk": 0.08}))
    assert (turn.ttft, turn.tpot, turn.buffered) == (80 * MS, None, True)


@pytest.mark.parametrize(
    ("told", "usage"),
    [
        ({}, Usage()),
        ({"gen_ai.usage.input_tokens": 9, "gen_ai.usage.output_tokens": 3}, Usage(9, 3)),
        ({"gen_ai.usage.prompt_tokens": 9, "gen_ai.usage.completion_tokens": 3}, Usage(9, 3)),
        ({"llm.token_count.prompt": 9, "llm.token_count.completion": 3}, Usage(9, 3)),
        (
            {"gen_ai.usage.cache_read.input_tokens": 4, "gen_ai.usage.reasoning.output_tokens": 0},
            Usage(None, None, 4, 0),
        ),
        ({"llm.token_count.prompt_details.cache_read": 4}, Usage(None, None, 4)),
        ({"gen_ai.usage.input_tokens": "9", "gen_ai.usage.output_tokens": -3}, Usage()),
        ({"gen_ai.usage.input_tokens": True, "gen_ai.usage.output_tokens": float("nan")}, Usage()),
        ({"gen_ai.usage.input_tokens": 9.0}, Usage(9)),
    ],
)
def test_tokens_under_their_names(told, usage):
    assert only(answered(**told)).usage == usage


@pytest.mark.parametrize(
    ("told", "finish"),
    [
        ({"gen_ai.response.finish_reasons": ["stop"]}, "stop"),
        ({"gen_ai.response.finish_reasons": ["tool_call"]}, "tool_calls"),
        ({"gen_ai.response.finish_reasons": []}, ""),
        ({"llm.finish_reason": "max_tokens"}, "length"),
        ({"gen_ai.response.finish_reasons": 3}, ""),
    ],
)
def test_why_a_reply_ended_in_one_language(told, finish):
    assert only(answered(**told)).finish_reason == finish


def test_whom_was_asked():
    told = {"server.address": "api.groq.com", "server.port": 443, "gen_ai.response.model": "m-2026"}
    found = answered(**told)
    assert (found.attempts[0].service, found.attempts[0].model, only(found).model) == ("api.groq.com", "m", "m-2026")
    assert answered().attempts[0].service == "openai"


def test_tokens_of_an_agents_span_are_not_counted_again():
    counted = {"gen_ai.usage.input_tokens": 9, "gen_ai.usage.output_tokens": 3}
    found = record(agent("run", "", 0, 100, told=counted), chat("ask", "run", 10, 90, told=counted))
    assert Trace(found).usage == Usage(9, 3)
    assert "usage" not in found.facts


def test_tokens_that_only_the_agents_span_has_are_a_fact():
    found = record(agent("run", "", 0, 100, told={"gen_ai.usage.input_tokens": 9}), chat("ask", "run", 10, 90))
    assert Trace(found).usage == Usage()
    assert found.facts["usage"] == {"input_tokens": 9}


def test_a_request_within_a_request_is_the_same_one():
    inner = {"openinference.span.kind": "LLM", "llm.token_count.prompt": 9, "llm.model_name": "other"}
    found = answered(span("sdk", "ask", 15, 85, "ChatCompletion", attributes=inner))
    assert (len(found.turns), only(found).usage.input_tokens, found.attempts[0].model) == (1, 9, "m")


def test_what_a_server_tells_of_its_own_times():
    told = {"gen_ai.latency.time_in_queue": 0.003, "gen_ai.latency.time_in_model_prefill": 0.02}
    served = span("llm", "http", 20, 80, "llm_request", kind=2, attributes=told)
    http = span("http", "ask", 15, 85, "POST", kind=3, attributes={"http.request.method": "POST"})
    assert only(answered(http, served)).server_ms == {"queue_ms": 3.0, "prompt_ms": 20.0}


def test_http_requests_of_one_request():
    refused = {"http.request.method": "POST", "http.response.status_code": 503}
    good = {"http.request.method": "POST", "http.response.status_code": 200}
    found = answered(
        span("http1", "ask", 15, 30, "POST", kind=3, attributes=refused, failed=True),
        span("http2", "ask", 50, 85, "POST", kind=3, attributes=good),
    )
    assert [(kind, start, end) for kind, _, start, end in path(found) if kind != "overhead"] == [
        ("context", 10, 15),
        ("prefill", 15, 30),
        ("queue", 30, 50),
        ("decode", 50, 90),
    ]
    told = [(each.why, each.outcome, each.error, each.start / MS, each.end / MS) for each in found.attempts]
    assert told == [("first", "failed", "Overloaded", 15, 30), ("retry", "ok", "", 50, 90)]
    assert only(found).attempts == 2


def test_an_http_request_before_it_that_did_not_fail_is_another_matter():
    told = {"http.request.method": "POST", "http.response.status_code": 200}
    key = span("http1", "ask", 15, 30, "POST", kind=3, attributes=told)
    found = answered(key, span("http2", "ask", 50, 85, "POST", kind=3, attributes=told))
    assert [(each.why, each.outcome, each.start / MS) for each in found.attempts] == [("first", "ok", 50)]
    assert path(found)[1] == ("context", "", 10, 50)


def test_requests_that_failed_are_attempts_at_the_next_reply():
    raised = [event("exception", 20, **{"exception.type": "openai.RateLimitError"})]
    found = record(
        agent("run", "", 0, 100),
        chat("one", "run", 0, 20, failed=True, events=raised),
        chat("two", "run", 30, 50, failed=True, told={"error.type": "timeout"}),
        chat("three", "run", 60, 90, told={"gen_ai.request.model": "another"}),
    )
    told = [(each.turn, each.why, each.outcome, each.error) for each in found.attempts]
    assert told == [
        (0, "first", "failed", "RateLimited"),
        (0, "retry", "failed", "ReplyTimeout"),
        (0, "fallback", "ok", ""),
    ]
    assert (only(found).attempts, only(found).model) == (3, "another")


def test_a_run_whose_last_request_failed_has_no_reply_of_that_turn():
    raised = [event("exception", 80, **{"exception.type": "APIError"})]
    found = record(
        agent("run", "", 0, 100, failed=True, events=raised), chat("ask", "run", 10, 90, failed=True, events=raised)
    )
    assert (found.outcome, found.error, found.turns) == ("failed", "APIError", [])
    assert [(stage.kind, stage.note) for stage in found.stages if stage.kind != "overhead"] == [("prefill", "failed")]


def test_a_run_that_was_cancelled():
    raised = [event("exception", 80, **{"exception.type": "asyncio.exceptions.CancelledError"})]
    found = record(agent("run", "", 0, 100, failed=True, events=raised), chat("ask", "run", 10, 90))
    assert (found.outcome, found.error) == ("cancelled", "")


def test_calls_side_by_side_have_lanes_of_their_own():
    found = record(
        agent("run", "", 0, 100),
        chat("ask", "run", 0, 30, told=calls("a", "b")),
        tool("t1", "run", 30, 60, "a", told={"gen_ai.tool.call.id": "c0"}),
        tool("t2", "run", 35, 80, "b", told={"gen_ai.tool.call.id": "c1"}),
        chat("again", "run", 80, 100),
    )
    assert shown(found) == [
        ("decode", 0, 0, "", 0, 30),
        ("tool", 0, 1, "a", 30, 60),
        ("tool", 0, 2, "b", 35, 80),
        ("decode", 1, 0, "", 80, 100),
    ]
    assert [(call.call_id, call.name, call.head_start) for call in found.turns[0].calls] == [
        ("c0", "a", 0),
        ("c1", "b", 0),
    ]
    assert found.turns[0].tools_ns == 50 * MS


def test_a_call_that_began_before_its_reply_was_complete_has_a_head_start():
    found = record(agent("run", "", 0, 100), chat("ask", "run", 0, 60), tool("t1", "run", 40, 90))
    assert found.turns[0].calls[0].head_start == 20 * MS


def test_calls_are_of_the_turn_that_wrote_them():
    found = record(
        agent("run", "", 0, 100),
        chat("one", "run", 0, 20, told=calls("slow", "fast")),
        tool("t1", "run", 20, 30, "fast", told={"gen_ai.tool.call.id": "c1"}),
        chat("two", "run", 30, 50, told=calls("other", prefix="d")),
        tool("t2", "run", 51, 60, "slow", told={"gen_ai.tool.call.id": "c0"}),
        tool("t3", "run", 51, 70, "other"),
        chat("three", "run", 70, 100),
    )
    assert [[call.call_id for call in turn.calls] for turn in found.turns] == [["c1", "c0"], ["d0"], []]


def test_an_id_that_comes_twice_is_made_another():
    told = {"gen_ai.tool.call.id": "call_0"}
    found = record(
        agent("run", "", 0, 100),
        chat("one", "run", 0, 20),
        tool("t1", "run", 20, 30, told=told),
        chat("two", "run", 30, 50),
        tool("t2", "run", 50, 60, told=told),
        tool("t3", "run", 60, 70),
    )
    assert list(found.said) == ["call_0", "call_0/2", "call-1-2"]


def test_tools_that_no_span_tells_of_took_the_time_between_two_requests():
    found = record(
        span("mine", "", 0, 100, "answer"),
        chat("one", "mine", 0, 20, told=calls("a")),
        chat("two", "mine", 70, 100),
    )
    assert shown(found) == [
        ("decode", 0, 0, "", 0, 20),
        ("tool", 0, 1, "a", 20, 70),
        ("decode", 1, 0, "", 70, 100),
    ]


def test_a_span_that_waits_for_the_tools_of_its_reply_is_no_longer_that_than_the_reply():
    streaming = {"ai.operationId": "ai.streamText.doStream"}
    found = record(
        agent("run", "", 0, 100),
        span("ask", "run", 0, 81, "ai.streamText.doStream", attributes=streaming),
        tool("t1", "run", 25, 60),
        tool("t2", "run", 30, 80),
        span("again", "run", 82, 100, "ai.streamText.doStream", attributes=streaming),
    )
    assert [(kind, start, end) for kind, _, start, end in path(found)] == [
        ("decode", 0, 30),
        ("tool", 30, 80),
        ("overhead", 80, 82),
        ("decode", 82, 100),
    ]
    assert [call.head_start for call in found.turns[0].calls] == [5 * MS, 0]


def test_tools_below_the_request_that_called_them_are_beside_it():
    found = record(
        agent("run", "", 0, 100),
        chat("ask", "run", 0, 80),
        tool("t1", "ask", 25, 60),
        tool("t2", "ask", 26, 79),
        chat("again", "run", 82, 100),
    )
    assert [(kind, start, end) for kind, _, start, end in path(found)] == [
        ("decode", 0, 26),
        ("tool", 26, 79),
        ("overhead", 79, 82),
        ("decode", 82, 100),
    ]
    assert [len(turn.calls) for turn in found.turns] == [2, 0]


def test_an_agent_that_is_a_tool_is_taken_apart():
    found = record(
        agent("run", "", 0, 100),
        chat("ask", "run", 0, 20, told=calls("ask_desk")),
        tool("t1", "run", 20, 80, "ask_desk"),
        agent("sub", "t1", 22, 78, "desk"),
        chat("ask2", "sub", 24, 40, told=calls("find")),
        tool("t2", "sub", 40, 60, "find"),
        chat("ask3", "sub", 60, 76),
        chat("ask4", "run", 82, 100),
    )
    assert shown(found) == [
        ("decode", 0, 0, "", 0, 20),
        ("tool", 0, 1, "ask_desk", 20, 22),
        ("overhead", 0, 0, "invoke_agent desk", 22, 24),
        ("decode", 1, 0, "desk", 24, 40),
        ("tool", 1, 1, "find", 40, 60),
        ("decode", 2, 0, "desk", 60, 76),
        ("overhead", 2, 0, "invoke_agent desk", 76, 78),
        ("overhead", 2, 0, "execute_tool ask_desk", 78, 80),
        ("overhead", 2, 0, "invoke_agent orders", 80, 82),
        ("decode", 3, 0, "", 82, 100),
    ]
    assert [[call.name for call in turn.calls] for turn in found.turns] == [["ask_desk"], ["find"], [], []]


def test_agents_side_by_side_are_on_lines_of_their_own():
    found = record(
        agent("run", "", 0, 100),
        chat("ask", "run", 0, 20, told=calls("desk", "shelf")),
        tool("t1", "run", 20, 80, "desk"),
        tool("t2", "run", 20, 90, "shelf"),
        agent("sub1", "t1", 20, 80, "desk"),
        agent("sub2", "t2", 20, 90, "shelf"),
        chat("ask1", "sub1", 20, 80),
        chat("ask2", "sub2", 20, 90),
        chat("last", "run", 90, 100),
    )
    asked = [(stage.turn, stage.lane, stage.name) for stage in found.stages if stage.kind == "decode"]
    assert asked == [(0, 0, ""), (1, 2, "desk"), (2, 1, "shelf"), (3, 0, "")]
    assert path(found) == [("decode", "", 0, 20), ("decode", "shelf", 20, 90), ("decode", "", 90, 100)]


def test_a_chat_that_is_handed_over_goes_on_in_the_same_run():
    found = record(
        span("flow", "", 0, 100, attributes={"openinference.span.kind": "CHAIN"}),
        agent("first", "flow", 0, 40, "router"),
        chat("ask", "first", 0, 40),
        agent("second", "flow", 40, 100, "refunds"),
        chat("ask2", "second", 40, 100),
    )
    assert found.name == "router"
    assert [(turn, name) for kind, turn, _, name, *_ in shown(found)] == [(0, ""), (1, "refunds")]


@pytest.mark.parametrize(
    ("told", "kind"),
    [
        ({"openinference.span.kind": "RETRIEVER"}, "memory"),
        ({"openinference.span.kind": "EMBEDDING"}, "memory"),
        ({"gen_ai.operation.name": "embeddings"}, "memory"),
        ({"db.system.name": "redis"}, "memory"),
        ({"openinference.span.kind": "guardrail"}, "guard"),
        ({"traceloop.span.kind": "tool"}, "tool"),
        ({"mcp.method.name": "tools/list"}, "connect"),
        ({"http.request.method": "GET"}, "connect"),
        ({"traceloop.span.kind": "task"}, "overhead"),
        ({"my.own": 1}, "overhead"),
    ],
)
def test_what_else_takes_its_time(told, kind):
    found = record(
        agent("run", "", 0, 100), span("it", "run", 0, 40, "it", kind=3, attributes=told), chat("ask", "run", 40, 100)
    )
    assert path(found) == [(kind, "it", 0, 40), ("decode", "", 40, 100)]


def test_a_guard_beside_a_request_is_beside_it():
    guard = span("rail", "run", 0, 30, "rail", attributes={"openinference.span.kind": "GUARDRAIL"})
    found = record(agent("run", "", 0, 100), guard, chat("ask", "run", 10, 100))
    lanes = {(stage.kind, stage.lane) for stage in found.stages if stage.kind != "overhead"}
    assert lanes == {("guard", 1), ("decode", 0)}


def test_spans_inside_a_tool_are_the_tools():
    found = record(
        agent("run", "", 0, 100),
        chat("ask", "run", 0, 20),
        tool("t1", "run", 20, 90),
        span("get", "t1", 30, 80, "GET", kind=3, attributes={"http.request.method": "GET"}),
    )
    assert path(found)[1] == ("tool", "look", 20, 90)


@pytest.mark.parametrize(
    ("told", "failed", "outcome"),
    [
        ({}, False, "ok"),
        ({}, True, "error"),
        ({"gen_ai.tool.status": "error"}, False, "error"),
        ({"output.value": json.dumps({"tool_call_id": "c", "content": "no", "status": "error"})}, False, "error"),
    ],
)
def test_what_came_of_a_call(told, failed, outcome):
    found = record(
        agent("run", "", 0, 100), chat("ask", "run", 0, 20), tool("t1", "run", 20, 90, told=told, failed=failed)
    )
    assert [call.outcome for call in found.turns[0].calls] == [outcome]


def test_whose_run_it_was():
    told = {"gen_ai.conversation.id": "s-1", "gen_ai.agent.version": "7"}
    found = record(agent("run", "", 0, 100, told=told, scope="pydantic-ai"), chat("ask", "run", 0, 20))
    assert (found.session, found.version, found.source) == ("s-1", "7", "pydantic-ai")
    of_service = record(agent("run", "", 0, 100, resource={"service.version": "3"}), chat("ask", "run", 0, 20))
    assert of_service.version == "3"


@pytest.mark.parametrize(
    ("scope", "source"),
    [
        ("openinference.instrumentation.openai_agents", "openai-agents"),
        ("opentelemetry.instrumentation.openai.v1", "openai"),
        ("strands.telemetry.tracer", "strands"),
        ("@opentelemetry/instrumentation-openai", "openai"),
        ("pydantic-ai", "pydantic-ai"),
        ("hotloop", "hotloop-otlp"),
        ("", "otlp"),
    ],
)
def test_the_framework_is_told_from_who_recorded_the_spans(scope, source):
    assert record(agent("run", "", 0, 10, scope=scope), chat("ask", "run", 0, 5, scope=scope)).source == source


def test_tools_that_the_model_was_offered():
    defined = [{"type": "function", "function": {"name": "a"}}, {"name": "b", "parameters": {}}, "c", {"name": 3}]
    found = answered(**{"gen_ai.tool.definitions": json.dumps(defined)})
    assert {name: facts.size for name, facts in found.tools.items()} == {"a": 43, "b": 28}


def test_content_is_masked_where_it_is_kept():
    told = {
        "gen_ai.tool.call.arguments": '{"api_key": "sk-abcdefghijklmnop1234567890"}',
        "gen_ai.tool.call.result": "ok",
    }
    spans = [agent("run", "", 0, 100), chat("ask", "run", 0, 20), tool("t1", "run", 20, 90, told=told)]
    (said,) = record(*spans, content=True).said.values()
    assert "abcdefgh" not in said.text
    assert said.result == "ok"
    (hidden,) = record(*spans).said.values()
    assert (hidden.text, hidden.result, hidden.size) == (None, None, 2)


@pytest.mark.parametrize("content", [False, True])
def test_what_nobody_recorded_of_a_call_has_no_digest(content):
    told = [{}, {"gen_ai.tool.call.arguments": "{}"}, {"gen_ai.tool.call.result": "shipped"}]
    tools = [tool(f"t{place}", "run", 20, 40, told=each) for place, each in enumerate(told)]
    found = record(agent("run", "", 0, 100), chat("ask", "run", 0, 10), *tools, content=content)
    assert [(bool(each.digest), bool(each.result_digest)) for each in found.said.values()] == [
        (False, False),
        (True, False),
        (False, True),
    ]
    assert [(each.text, each.result) for each in found.said.values()] == [
        (None, None),
        ("{}" if content else None, None),
        (None, "shipped" if content else None),
    ]
