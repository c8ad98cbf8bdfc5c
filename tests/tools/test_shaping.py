"""What the model reads of results, and what everybody else gets: later steps, caches and other calls the whole."""

from __future__ import annotations

import asyncio
import json
from typing import Any, NamedTuple

import pytest

from hotloop import Agent, Budget, tool
from hotloop.budget import Deadline
from hotloop.context.conversation import Conversation
from hotloop.errors import ApprovalRequired, ConfigError, ToolError
from hotloop.events import ToolFinished
from hotloop.models.reply import Call
from hotloop.models.sizes import text_tokens
from hotloop.testing import ScriptedModel, call, raw, run_virtual
from hotloop.tools.audit.log import AuditLog
from hotloop.tools.defining.tool import Tool
from hotloop.tools.running.caller import Caller
from hotloop.tools.running.executor import Executor, ToolPolicy
from hotloop.tools.running.job import Job, RunContext
from hotloop.tools.running.result import ToolResult
from hotloop.trace.ledger import Ledger, Stage
from hotloop.units import NS_PER_MS, clock
from timed_tools import end, head, now_ms, ran, results_of

KEEP = ("status", "items[].sku")
ORDER = {"status": "shipped", "total": 3, "items": [{"sku": "A1", "name": "Lamp"}, {"sku": "B2", "name": "Chair"}]}
SHOWN = {"status": "shipped", "items": [{"sku": "A1"}, {"sku": "B2"}]}


def order_tool(result: Any = ORDER, **options: Any) -> Tool:
    async def order(number: str = "1") -> Any:
        if isinstance(result, Exception):
            raise result
        return result

    return tool(order, **{"read_only": True, "keep": KEEP} | options)


@tool(read_only=True)
async def echo(text: str) -> str:
    return text


def context(ledger: Ledger, **options: Any) -> RunContext:
    """A run of which nobody hears."""
    budget = options.pop("budget", None)
    return RunContext(
        ledger,
        options.pop("emit", lambda events: None),
        Deadline(budget, ledger.start),
        Caller("r"),
        Conversation(),
        **options,
    )


def shaped(tool: Tool, result: ToolResult) -> tuple[ToolResult, RunContext]:
    """What becomes of a result of this tool, in a call with the id id0."""

    async def main() -> tuple[ToolResult, RunContext]:
        executor, run = Executor([tool], ToolPolicy()), context(Ledger(clock(), "r"))
        job = Job("id0", tool.name, "{}", executor.prepared[tool.name], 1, 0)
        shaped, _ = await executor.shaper.shape(job, result, run)
        return shaped, run

    return run_virtual(main())


# Parts of results


def test_the_model_reads_the_parts_and_can_ask_for_the_rest():
    done = ran([call("order"), call("read_result", result="call00001", path="items[1].name"), "ok"], order_tool())
    first = results_of(done.model.requests[1])
    assert first == ['{"status":"shipped","items":[{"sku":"A1"},{"sku":"B2"}],"…":"more with read_result call00001"}']
    assert done.contents == ["Chair"]
    offered = [each["function"]["name"] for each in done.model.requests[0]["tools"]]
    assert offered == ["order", "read_result"]


@pytest.mark.parametrize(
    "result",
    [
        {"status": "shipped", "items": [{"sku": "A1"}]},
        {"error": "no such order"},
        {"status": "shipped", "items": {"A1": {}}},
        "It was shipped.",
        ToolError("The warehouse is closed."),
    ],
)
def test_what_has_no_other_parts_or_none_of_these_is_read_whole(result):
    done = ran([call("order"), "ok"], order_tool(result))
    whole = {"error": str(result)} if isinstance(result, Exception) else result
    assert done.contents == [whole if isinstance(whole, str) else json.dumps(whole, separators=(",", ":"))]


def test_the_result_of_a_failed_call_is_never_cut_down_to_parts():
    failed = ToolResult(json.dumps({"status": "broken", "why": "a fuse"}), "a fuse")
    result, run = shaped(order_tool(), failed)
    assert result is failed
    assert not run.conversation.kept


def test_parts_that_are_too_long_are_cut_and_marks_lead_on_in_the_whole():
    items = [{"name": "x" * 80, "sku": f"S{number:04d}", "note": ["y"] * 9} for number in range(200)]
    whole = json.dumps({"items": items, "extra": 1, "status": "shipped"})
    result, run = shaped(order_tool(max_result=150), ToolResult(whole))
    *first, mark = json.loads(result.content)["items"]
    assert 120 <= text_tokens(result.content) <= 150
    assert first == [{"sku": f"S{number:04d}"} for number in range(len(first))]
    assert mark["…"].startswith(f"{len(first)} of 200 items shown; path=$.items start={len(first)}")
    assert json.loads(result.content)["…"] == 'Call read_result with result "id0" for the rest.'
    assert run.conversation.kept == {"id0": whole}


@pytest.mark.parametrize("tokens", range(60, 130, 7))
@pytest.mark.parametrize("escaped", [True, False])
def test_parts_are_never_longer_than_the_bound(tokens, escaped):
    whole = json.dumps({"x": 1, "items": [{"sku": "第一" * 9, "b": 1}] * 3, "status": "é" * 40}, ensure_ascii=escaped)
    result, _ = shaped(order_tool(max_result=tokens), ToolResult(whole))
    assert text_tokens(result.content) <= tokens
    assert "read_result" in result.content


def test_a_long_result_is_shaped_as_any_other():
    items = [{"sku": "A1", "name": "x" * 100}] * 4000
    result, _ = shaped(order_tool(), ToolResult(json.dumps({"items": items})))
    assert json.loads(result.content) == {"items": [{"sku": "A1"}] * 4000, "…": "more with read_result id0"}


def test_nothing_is_kept_of_a_reply_that_came_to_nothing():
    pauses = [b": thinking\n\n"] * 9
    lost = raw(head(0, "order", "{}"), head(1, "order", '{"number":"2"}'), *pauses, end("length"))
    done = ran([lost, call("order"), call("read_result", result="call00001"), "ok"], order_tool(), tpot=0.01)
    assert done.result.trace.turns[0].discarded == 1
    assert "There is no result call00001; give the id" in done.errors[0]


# Who gets the whole


def test_a_later_step_of_a_plan_gets_the_whole():
    steps = [
        {"id": "s1", "tool": "order", "arguments": {}},
        {"id": "s2", "tool": "echo", "arguments": {"text": {"$ref": "s1.items[1].name"}}},
    ]
    script = [call("plan", steps=steps), call("read_result", result="call00001.s1", path="total"), "ok"]
    done = ran(script, order_tool(), echo, plan=True)
    (content,) = results_of(done.model.requests[1])
    assert json.loads(content) == {"s1": SHOWN | {"…": "more with read_result call00001.s1"}, "s2": "Chair"}
    assert done.contents == ["3"]


def test_calls_that_share_a_result_are_all_shown_parts_of_it():
    done = ran([[call("order"), call("order")], "ok"], order_tool())
    assert [json.loads(content)["items"] for content in done.contents] == [SHOWN["items"]] * 2
    assert [facts.outcome for facts in done.calls] == ["ok", "joined"]


def test_kept_results_are_whole_and_shaped_for_each_call():
    script = [call("order"), call("read_result", result="call00001", path="total"), "ok"]
    order, models = order_tool(ttl=60, scope="global"), [ScriptedModel(script), ScriptedModel(script)]

    async def main() -> list[str]:
        runs = [await Agent(model="m", endpoint=model, tools=[order]).run("go") for model in models]
        return [run.trace.turns[0].calls[0].outcome for run in runs]

    assert run_virtual(main()) == ["ok", "cached"]
    for model in models:
        assert json.loads(results_of(model.requests[1])[0])["items"] == SHOWN["items"]
        assert results_of(model.requests[2]) == ["3"]


async def test_a_paused_run_goes_on_with_parts_and_wholes(tmp_path):
    @tool(approval="always")
    async def pay(name: str) -> str:
        return f"paid for {name}"

    steps = [
        {"id": "s1", "tool": "order", "arguments": {}},
        {"id": "s2", "tool": "pay", "arguments": {"name": {"$ref": "s1.items[1].name"}}},
    ]
    model = ScriptedModel([call("plan", steps=steps), call("read_result", result="call00001.s1", path="total"), "ok"])

    def made() -> Agent:
        return Agent(model="m", endpoint=model, tools=[order_tool(), pay], plan=True, approvals=tmp_path / "waiting.db")

    agent = made()
    with pytest.raises(ApprovalRequired) as paused:
        await agent.run("go")
    (pending,) = paused.value.calls
    agent.approvals.decide(paused.value.run_id, pending.call_id, pending.digest, True, "ann")
    await made().resume(paused.value.run_id)
    (content,) = results_of(model.requests[1])
    assert json.loads(content) == {"s1": SHOWN | {"…": "more with read_result call00001.s1"}, "s2": "paid for Chair"}
    assert results_of(model.requests[2]) == ["3"]


# Summaries of long text

REPORT = "All of the words. " * 500


def report_tool(result: str = REPORT, **options: Any) -> Tool:
    async def report(topic: str = "ships") -> str:
        await asyncio.sleep(0.1)
        return result

    return tool(report, **{"summarize": True, "max_result": 100} | options)


class Acted(NamedTuple):
    """What came of one call: its result, its stages, and what is kept."""

    result: ToolResult
    stages: list[Stage]
    kept: dict[str, str]
    ms: float


def acted(tool: Tool, summarize: Any, *, count: int = 1, max_parallel: int = 8, **options: Any) -> Acted:
    """So many calls of the tool in virtual time; what came of the last."""

    async def main() -> Acted:
        ledger = Ledger(clock(), "r")
        run = context(ledger, **options)
        calls = Executor([tool], ToolPolicy(max_parallel), summarize=summarize).begin(run)
        ids = [f"id{number}" for number in range(count)]
        calls.complete([Call(tool.name, f'{{"topic":"{each}"}}') for each in ids], ids)
        results = await calls.run()
        stages = [stage for stage in ledger.stages if stage.lane == count and stage.kind != "overhead"]
        return Acted(results[-1], stages, run.conversation.kept, now_ms())

    return run_virtual(main())


async def good(text: str, tokens: int, spent: list) -> str:
    await asyncio.sleep(0.2)
    return " All of it in short. "


def test_long_text_is_summarized_and_the_whole_can_be_read():
    asked: list[Any] = []

    async def summarize(text: str, tokens: int, spent: list) -> str:
        asked.append((text, tokens))
        return await good(text, tokens, spent)

    done = acted(report_tool(), summarize, prompt="Which words?")
    mark = "[summary of 2,250 tokens; all of it with read_result id0]"
    assert done.result.content == f"All of it in short.\n{mark}"
    assert done.kept == {"id0": REPORT} and done.result.whole == REPORT
    ((text, tokens),) = asked
    assert text == f'The user asked: Which words?\nFor that, report was called with {{"topic":"id0"}}\n\n{REPORT}'
    assert 80 <= tokens + text_tokens(mark) < 100
    assert [(stage.kind, stage.note, (stage.end - stage.start) // NS_PER_MS) for stage in done.stages] == [
        ("tool", "", 100),
        ("context", "summarized", 200),
    ]


async def fails(text: str, tokens: int, spent: list) -> str:
    raise ConfigError("no model")


async def slow(text: str, tokens: int, spent: list) -> str:
    await asyncio.sleep(99)
    return "late"


async def wordy(text: str, tokens: int, spent: list) -> str:
    return "word " * tokens


async def mute(text: str, tokens: int, spent: list) -> str:
    return " "


async def gives_up(text: str, tokens: int, spent: list) -> str:
    raise asyncio.CancelledError


@pytest.mark.parametrize(
    ("summarize", "options", "note"),
    [
        (fails, {}, "cut: the summary failed: ConfigError"),
        (slow, {}, "cut: no summary within 30 s"),
        (wordy, {}, "cut: the summary was too long"),
        (mute, {}, "cut: the summary was empty"),
        (gives_up, {}, "cut: the summary was given up"),
        (slow, {"budget": Budget(total=1.0, answer_reserve=0.5)}, "cut: no summary within 0.4 s"),
    ],
)
def test_without_a_good_summary_in_time_the_text_is_cut_and_the_ledger_says_why(summarize, options, note):
    done = acted(report_tool(), summarize, **options)
    assert done.result.content.startswith("All of the words. ")
    assert "[cut: " in done.result.content and text_tokens(done.result.content) <= 100
    assert done.kept == {"id0": REPORT}
    assert [each.note for each in done.stages if each.kind == "context"] == [note]


@pytest.mark.parametrize(
    ("result", "options"),
    [
        ("All of the words.", {}),
        (json.dumps(["word"] * 1000), {}),
        (REPORT, {"summarize": False}),
        (REPORT, {"max_result": 3000}),
    ],
)
def test_nobody_is_asked_to_summarize_json_or_what_fits_or_was_not_meant(result, options):
    done = acted(report_tool(result, **options), fails)
    assert [stage.note for stage in done.stages if stage.kind == "context"] in ([], [""], ["cut"])


def test_without_anybody_to_ask_the_text_is_cut():
    done = acted(report_tool(), None)
    assert done.result.content.startswith("All of the words. ") and "[cut: " in done.result.content


def test_other_tools_may_run_while_a_summary_is_made():
    assert acted(report_tool(), good, count=3, max_parallel=1).ms == 3 * 100 + 200


def test_a_step_gets_the_whole_of_what_the_model_reads_as_a_summary():
    async def main() -> Any:
        run = context(Ledger(clock(), "r"))
        calls = Executor([report_tool(), echo], ToolPolicy(plan=True), summarize=good).begin(run)
        steps = [
            {"id": "s1", "tool": "report", "arguments": {}},
            {"id": "s2", "tool": "echo", "arguments": {"text": {"$ref": "s1"}}},
        ]
        calls.complete([Call("plan", json.dumps({"steps": steps}))])
        (result,) = await calls.run()
        return json.loads(result.content)

    told = run_virtual(main())
    assert told["s1"].startswith("All of it in short.")
    assert told["s2"] == REPORT


def test_what_a_tool_has_done_stays_told_when_its_summary_is_cancelled(tmp_path):
    events: list[Any] = []

    async def main() -> Ledger:
        ledger, audit = Ledger(clock(), "r"), AuditLog(tmp_path / "audit.jsonl")
        calls = Executor([report_tool()], ToolPolicy(), audit, summarize=slow).begin(
            context(ledger, emit=events.extend)
        )
        calls.complete([Call("report", "{}")])
        task = asyncio.create_task(calls.run())
        await asyncio.sleep(0.5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return ledger

    stages = [
        (stage.kind, stage.note) for stage in run_virtual(main()).stages if stage.lane and stage.end > stage.start
    ]
    assert stages == [("tool", ""), ("context", "stopped")]
    assert [event.outcome for event in events if isinstance(event, ToolFinished)] == ["ok"]
    assert '"outcome":"ok"' in (tmp_path / "audit.jsonl").read_text()


def test_a_result_is_on_record_before_a_summary_is_asked_for():
    seen: list[Any] = []

    class Journal:
        def asked(self, call_id: str) -> bool:
            return False

        async def begin(self, call_id: str, name: str) -> None:
            seen.append("begun")

        async def record(self, call_id: str, result: ToolResult) -> None:
            seen.append(result)

    async def summarize(text: str, tokens: int, spent: list) -> str:
        seen.append("asked")
        return "In short."

    acted(report_tool(), summarize, journal=Journal())
    assert seen[:3] == ["begun", ToolResult(REPORT), "asked"]


def test_what_an_earlier_process_had_recorded_is_shaped_when_the_run_goes_on():
    async def main() -> Any:
        run = context(Ledger(clock(), "r"))
        calls = Executor([order_tool()], ToolPolicy()).begin(run)
        known = {"id0": ToolResult(json.dumps(ORDER))}
        calls.complete([Call("order", "{}")], ["id0"], known)
        (result,) = await calls.run()
        return json.loads(result.content), run.conversation.kept

    told, kept = run_virtual(main())
    assert told == SHOWN | {"…": "more with read_result id0"}
    assert kept == {"id0": json.dumps(ORDER)}
