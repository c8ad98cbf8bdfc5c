"""Log lines in exactly the form that the issue gives, one run after the other."""

import asyncio
import logging
import re
import time
from datetime import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hotloop import Agent, Trace, Usage, tool
from hotloop.lab.script import Call
from hotloop.testing import ScriptedModel, call, raw, run_virtual, say
from hotloop.trace.ledger import Ledger, Stage, TurnFacts
from hotloop.units import NS_PER_MS

STAMP = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}"
NUMBER = r"(?:\d+|\d\.\d{1,2})"
LINE = re.compile(
    rf"{STAMP} \[trace=[^\]]+\] (?:"
    rf"turn=\d+ input_tokens=(?:\d+|unknown) ttft=(?:{NUMBER}ms|unknown) tpot=(?:{NUMBER}ms|unknown|buffered)"
    r" output_tokens=(?:\d+|unknown)"
    rf"|turn=\d+ tools=\[[^\]\n]*\] max_parallel=\d+ total_ms={NUMBER}"
    rf"|end_to_end={NUMBER}ms turns=\d+)"
)
GOLDEN = """\
2025-01-07 10:00:00.001 [trace=req-001] turn=0 input_tokens=1240 ttft=58ms tpot=21ms output_tokens=96
2025-01-07 10:00:00.172 [trace=req-001] turn=0 tools=[search_order, get_user_info] max_parallel=4 total_ms=184
2025-01-07 10:00:00.461 [trace=req-001] end_to_end=461ms turns=2"""


def test_the_lines_of_the_issue():
    start = 1_000_000_000
    ledger = Ledger(lambda: start, "req-001", started=datetime(2025, 1, 7, 10).timestamp())
    ledger.facts["max_parallel"] = 4

    def add(kind: str, begin: int, end: int, turn: int = 0) -> None:
        ledger.stages.append(Stage(kind, start + begin * NS_PER_MS, start + end * NS_PER_MS, turn))

    add("overhead", 0, 1)
    add("context", 1, 2)
    add("tool", 172, 356)
    add("context", 356, 357, turn=1)
    usage = Usage(input_tokens=1240, output_tokens=96)
    tools = ["search_order", "get_user_info"]
    ledger.turns.append(
        TurnFacts(0, ttft=58 * NS_PER_MS, tpot=21 * NS_PER_MS, usage=usage, tools=tools, tools_ns=184 * NS_PER_MS)
    )
    ledger.turns.append(TurnFacts(1))
    ledger.end = start + 461 * NS_PER_MS
    first, second, _, last = Trace(ledger).log_lines()
    assert "\n".join((first, second, last)) == GOLDEN


@tool
async def look_up(ms: int) -> str:
    await asyncio.sleep(ms / 1000)
    return "found"


async def logged(script, *, ttft=0.02, tpot=0.001, **options) -> list[str]:
    model = ScriptedModel(script, ttft=ttft, tpot=tpot)
    return (
        await Agent(model="m", endpoint=model, tools=[look_up], **options).run("go", trace_id="req-1")
    ).trace.log_lines()


def lines(script, **options) -> list[str]:
    """The lines without their stamps."""
    return [line[line.index("[") :] for line in run_virtual(logged(script, **options))]


def test_a_run_with_a_round_of_tools():
    usage = {"prompt_tokens": 1240, "completion_tokens": 12}
    script = [say("", call("look_up", ms=184), call("look_up", ms=2), usage=usage), "There it is."]
    assert lines(script, max_parallel=4)[:2] == [
        "[trace=req-1] turn=0 input_tokens=1240 ttft=20ms tpot=0.55ms output_tokens=12",
        "[trace=req-1] turn=0 tools=[look_up, look_up] max_parallel=4 total_ms=184",
    ]


def test_what_came_from_the_cache_is_told_where_the_service_tells_it():
    usage = {"prompt_tokens": 291, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 232}}
    assert lines([say("It is.", usage=usage)])[0].endswith(" output_tokens=2 cached_tokens=232")


def test_what_is_unknown_or_buffered_is_said_to_be():
    body = b'data: {"choices":[{"index":0,"delta":{"content":"Yes"},"finish_reason":"stop"}]}\n\n'
    assert lines([raw(body)])[0].endswith("input_tokens=unknown ttft=20ms tpot=unknown output_tokens=unknown")
    assert "tpot=buffered output_tokens=6" in lines(["one two three four five six"], tpot=0.0)[0]


def test_tools_that_took_no_time_still_have_their_line():
    assert (
        lines([call("look_up", ms=0), "Done."])[1] == "[trace=req-1] turn=0 tools=[look_up] max_parallel=8 total_ms=0"
    )


def test_stamps_tell_when_each_thing_began():
    stamps = [
        datetime.fromisoformat(line[:23]) for line in run_virtual(logged([call("look_up", ms=100), "There it is."]))
    ]
    assert [round((stamp - stamps[0]).total_seconds() * 1000) for stamp in stamps] == [0, 23, 123, 145]


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.lists(
            st.builds(
                Call, st.sampled_from(["look_up", "unknown"]) | st.text(min_size=1), st.just('{"ms":3}') | st.just("{")
            ),
            min_size=1,
            max_size=3,
        ),
        max_size=2,
    ),
    st.sampled_from([(0.0, 0.0), (0.0004, 0.0), (0.02, 0.0005), (1.5, 0.02)]),
)
def test_every_line_of_every_run_has_the_form(turns, pace):
    """Also if the model calls tools by names that would break a line."""
    for line in run_virtual(logged([*turns, "That is all of it."], ttft=pace[0], tpot=pace[1])):
        assert LINE.fullmatch(line), line


@settings(max_examples=100, deadline=None)
@given(st.text(min_size=1) | st.just("a]\n2025-01-07 10:00:00.001 [trace=b] end_to_end=1ms turns=1"))
def test_a_trace_id_cannot_forge_a_line(trace_id):
    agent = Agent(model="m", endpoint=ScriptedModel(["Yes."]))
    told = run_virtual(agent.run("go", trace_id=trace_id)).trace.log_lines()
    assert len(told) == 2
    assert all(LINE.fullmatch(line) for line in told), told


def test_the_logger_gets_them_only_if_somebody_listens(caplog):
    agent = Agent(model="m", endpoint=ScriptedModel(lambda request: "Yes."), name="orders")
    with caplog.at_level(logging.WARNING, "hotloop.trace"):
        run_virtual(agent.run("go"))
    assert caplog.records == []
    with caplog.at_level(logging.INFO, "hotloop.trace"):
        run_virtual(agent.run("go"))
    assert [record.name for record in caplog.records] == ["hotloop.trace"] * 2
    assert all(LINE.fullmatch(record.getMessage()) for record in caplog.records)


def test_failed_and_cancelled_runs_are_logged_too(caplog):
    refused = raw(b'{"error":{"message":"no"}}', status=400)

    async def main():
        with pytest.raises(Exception, match="400"):
            await logged([refused])
        task = asyncio.create_task(logged(["Never."], ttft=10))
        await asyncio.sleep(0.25)
        task.cancel()
        await asyncio.wait({task})

    with caplog.at_level(logging.INFO, "hotloop.trace"):
        run_virtual(main())
    assert [record.getMessage()[24:] for record in caplog.records] == [
        "[trace=req-1] end_to_end=20ms turns=0",
        "[trace=req-1] end_to_end=250ms turns=0",
    ]


def test_the_stamp_is_local_time():
    before = time.time()
    (line, _) = run_virtual(logged(["Yes."]))
    assert before - 0.001 <= datetime.fromisoformat(line[:23]).timestamp() <= time.time() + 0.001
