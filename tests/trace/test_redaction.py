"""What is recorded of runs in which every text that is anybody's has a word in it that must not be in the file."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hotloop import Agent, AnswerCache, Cascade, Memory, Model, Result, Router, Traces, tool
from hotloop.errors import HotloopError, ToolError
from hotloop.testing import ScriptedModel, call, raw, run_virtual
from hotloop.trace.lines import to_lines
from hotloop.trace.recording.recorder import recorder
from hotloop.trace.store import TraceStore

WORD = "canary"
SECRET = "sk-abcdefghijklmnop1234"
ASKED = f"Where is the {WORD}? My key is {SECRET}."
LONG = "You are an order assistant. " * 200


@tool(read_only=True, reads=["order:{name}"])
async def look(name: str) -> dict[str, Any]:
    """Look something up."""
    return {"found": f"{WORD} {name}", "api_key": SECRET}


@tool(writes=["order:{name}"])
async def change(name: str) -> str:
    """Change something."""
    await asyncio.sleep(0.1)
    return f"changed {WORD}"


@tool
async def fail(name: str) -> str:
    """Go wrong."""
    raise ToolError(f"There is no {WORD}.")


def step(name: str, of: str, argument: Any) -> dict[str, Any]:
    return {"id": name, "tool": of, "arguments": {"name": argument}}


def agent(*script: Any, **options: Any) -> Agent:
    options = {"tools": [look, change, fail], "endpoint": ScriptedModel(script), "model": "m"} | options
    return Agent(name="orders", **options)


def refusal(status: int) -> Any:
    return raw(b'{"error":{"message":"Not that %b.","code":"no_%b"}}' % (WORD.encode(), WORD.encode()), status=status)


def finished(reason: str) -> Any:
    chunk = f'{{"choices":[{{"index":0,"delta":{{"content":"{WORD}"}},"finish_reason":"{reason}"}}]}}'
    return raw(f"data: {chunk}\n\ndata: [DONE]\n\n".encode())


async def plain(traces: Traces) -> None:
    """Calls that share a resource, calls that fail, and calls of tools that there are not."""
    calls = [call("change", name=WORD), call("look", name=WORD), call("fail", name=WORD), call(f"{WORD}_tool", a=WORD)]
    await agent(calls, f"It is a {WORD}.", traces=traces).run(ASKED)


async def planned(traces: Traces) -> None:
    """Steps with names that the model gave them."""
    steps = [step(WORD, "look", WORD), step("second", "change", {"$ref": f"{WORD}.found"})]
    await agent(call("plan", steps=steps), WORD, plan=True, traces=traces).run(ASKED)


async def repeated(traces: Traces) -> Result:
    """The same call fails again and again."""
    return await agent(*[call("fail", name=WORD)] * 3, f"No {WORD}.", traces=traces).run(ASKED)


async def refused(traces: Traces) -> None:
    """A service that says in its errors what it was asked."""
    await agent(refusal(503), raw(WORD.encode(), cut=True), WORD, retries=3, traces=traces).run(ASKED)


async def failed(traces: Traces) -> None:
    """A run that fails."""
    with pytest.raises(HotloopError):
        await agent(refusal(400), traces=traces).run(ASKED)


async def routed(traces: Traces) -> None:
    """A reply that does not do, for a reason of the program's own."""
    cascade = Cascade(reject=[lambda reply: f"it says {WORD}" if "first" in reply.text else ""])
    fast, strong = ScriptedModel([f"first {WORD}"]), ScriptedModel([WORD])
    models = {"fast": Model(name="small", endpoint=fast), "strong": Model(name="big", endpoint=strong)}
    router = Router(models=models, default="fast", cascade=cascade)
    await agent(model=router, endpoint=None, traces=traces).run(ASKED)


async def remembered(traces: Traces) -> None:
    """A memory that cannot be used, which is told with its path."""
    memory = Memory(Path(__file__) / f"{WORD}.db")
    await agent(WORD, memory=memory, traces=traces).run(ASKED, user=f"{WORD} ann")


async def kept(traces: Traces) -> None:
    """An answer that is given again, to a question that is told."""
    ours = agent(WORD, answers=AnswerCache(ttl=60, scope="global"), tools=[], traces=traces)
    await ours.run(ASKED)
    await ours.run(ASKED)


async def typed(traces: Traces) -> None:
    """An answer of the wrong form, asked for again."""
    await agent(f'"{WORD}"', "7", output=int, traces=traces).run(ASKED)


async def diverging(traces: Traces) -> None:
    """Prompts that begin with another time, around which they are quoted."""
    model = ScriptedModel(lambda request: WORD)
    for minute in range(2):
        instructions = f"The {WORD} says 10:0{minute}. {LONG}"
        await agent(instructions=instructions, endpoint=model, traces=traces).run(ASKED)


async def odd(traces: Traces) -> None:
    """A service that ends a reply for a reason of its own."""
    await agent(finished(f"because of the {WORD}"), WORD, traces=traces).run(ASKED)


WORLDS: list[tuple[Callable[[Traces], Any], str]] = [
    (plain, "for change (order:canary)"),
    (plain, "canary_tool"),
    (planned, "call00001.canary"),
    (repeated, "it failed each time: There is no canary."),
    (refused, "The service answered 503 (no_canary): Not that canary."),
    (failed, "The service answered 400 (no_canary): Not that canary."),
    (routed, "it says canary"),
    (remembered, "test_redaction.py/canary.db"),
    (kept, "Where is the canary? My key is ***."),
    (typed, "Where is the canary? My key is ***."),
    (diverging, "The canary says 10:01."),
    (odd, "because of the canary"),
]
"""What a run does, and where the word is in what could be recorded of it."""


def recorded(world: Callable[[Traces], Any], path: Path, *, content: bool) -> str:
    """All that is in the file after a world's runs, as JSON; the file itself has no more of the word."""
    run_virtual(world(Traces(path=str(path), content=content)))
    assert recorder.flush(30)
    text = b"".join(to_lines(TraceStore(path).find())).decode()
    raw_text = b"".join(each.read_bytes() for each in path.parent.iterdir()).decode("utf-8", "replace")
    assert (WORD in raw_text.lower()) == (WORD in text.lower())
    assert text
    assert SECRET not in raw_text
    return text


@pytest.mark.parametrize(("world", "told"), WORLDS)
def test_nothing_that_was_said_is_in_the_file(world, told, tmp_path):
    without = recorded(world, tmp_path / "traces.db", content=False)
    assert WORD not in without.lower()


@pytest.mark.parametrize(("world", "told"), WORLDS)
def test_with_content_it_is_but_for_secrets(world, told, tmp_path):
    assert told in recorded(world, tmp_path / "traces.db", content=True)


def test_what_is_not_said_stays(tmp_path):
    """Names of tools, and what hotloop itself has to say."""
    path = tmp_path / "traces.db"
    recorded(plain, path, content=False)
    (facts, _) = TraceStore(path).get().turns
    assert facts.tools == ["change", "look", "fail", "…"]
    assert [call.waited_for for call in facts.calls] == ["", "change", "", ""]
    notes = [stage.note for stage in TraceStore(path).get().stages if stage.note]
    assert notes == ["reply to calls", "failed", "error", "for change", "tools done", "end of run"]


def test_the_trace_of_the_run_itself_keeps_all(tmp_path):
    result = run_virtual(repeated(Traces(path=str(tmp_path / "traces.db"))))
    assert recorder.flush(30)
    assert result.trace.facts["stopped"].endswith("There is no canary.")


def test_errors_that_quote_nobody_are_told(tmp_path):
    path = tmp_path / "traces.db"
    recorded(refused, path, content=False)
    first, second, _ = TraceStore(path).get().attempts
    assert (first.error, first.reason) == ("Overloaded", "The service answered 503…")
    assert (second.error, second.reason) == ("TransportError", "the connection broke in the middle of the reply")


def test_steps_of_plans_are_numbered(tmp_path):
    path = tmp_path / "traces.db"
    recorded(planned, path, content=False)
    record = TraceStore(path).get()
    first, second = record.turns[0].calls
    assert (first.call_id, second.call_id, second.needs) == ("call00001.1", "call00001.2", ("call00001.1",))
    assert [*record.said] == ["call00001.1", "call00001.2"]
