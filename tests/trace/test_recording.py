"""How the runs of agents are recorded, as they were declared, by default and not at all."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from pathlib import Path

import pytest
from endings import Kept

from hotloop import Agent, Budget, Traces, tool
from hotloop.errors import ApprovalRequired, ConfigError
from hotloop.testing import ScriptedModel, call, run_virtual
from hotloop.trace.record import TraceRecord
from hotloop.trace.recording.recorder import recorder
from hotloop.trace.recording.recording import read_traces
from hotloop.trace.store import TraceStore, Which
from hotloop.trace.trace import Trace


@tool(approval="always")
async def refund(order_id: str) -> str:
    """Pay back."""
    return "paid"


@tool(read_only=True, ttl=60)
async def look(order_id: str) -> str:
    """Look it up."""
    await asyncio.sleep(0.2)
    return f"{order_id} is shipped"


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "traces.db"


def agent(*script: object, **options: object) -> Agent:
    model = ScriptedModel(script, ttft=0.1, tpot=0.01)
    return Agent(name="orders", model="m", endpoint=model, tools=[look, refund], **options)


def recorded(path: Path | None = None) -> list[TraceRecord]:
    assert recorder.flush(30)
    return list(TraceStore(path).find())


def test_a_run_is_recorded(path):
    budget = Budget(total=1.5, model=0.6)
    ours = agent(call("look", order_id="7"), "It is shipped.", version="1.3", budget=budget, traces=path)
    result = run_virtual(ours.run("Where is order 7?"))
    (record,) = recorded(path)
    assert (record.trace_id, record.name, record.version, record.session) == (
        result.trace.trace_id,
        "orders",
        "1.3",
        "",
    )
    assert (record.source, record.outcome, record.error) == ("hotloop", "ok", "")
    assert record.limits == {"total": 1_500_000_000, "model": 600_000_000}
    assert (record.tools["look"].read_only, record.tools["refund"].ttl) == (True, None)
    assert (record.prompt.size, record.answer.size, record.said["call00001"].size) == (17, 14, 12)
    assert (record.prompt.text, record.said["call00001"].result) == (None, None)
    assert str(Trace(record)) == str(result.trace)
    assert Trace(record).to_dict() == result.trace.to_dict()


def test_a_turn_of_a_session_is_of_that_session(path):
    ours = agent("Hello.", "Again.", traces=path, sessions=":memory:")
    session = ours.session("user-42")
    for prompt in ("Hi", "Hi again"):
        run_virtual(session.run(prompt))
    assert [record.session for record in recorded(path)] == ["user-42", "user-42"]
    assert len(TraceStore(path).infos(Which(session="user-42"))) == 2


def test_how_runs_end_is_told(path, tmp_path):
    async def cancelled() -> None:
        task = asyncio.create_task(agent("Late.", traces=path).run("Hi", trace_id="cancelled"))
        await asyncio.sleep(0.05)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    async def paused() -> None:
        waits = agent(call("refund", order_id="7"), "Done.", traces=path, approvals=tmp_path / "waiting.db")
        with pytest.raises(ApprovalRequired):
            await waits.run("Pay", trace_id="paused")
        waits.approvals.decide("paused", "call00001", waits.approvals.load("paused").calls[0].call.digest, True, "ann")
        await waits.resume("paused")

    async def failed() -> None:
        with pytest.raises(ConfigError):
            await agent("Hi", traces=path).run("", trace_id="failed")

    for main in (cancelled, paused, failed):
        run_virtual(main())
    told = {(each.trace_id, each.outcome, each.error) for each in recorded(path)}
    assert told == {
        ("cancelled", "cancelled", ""),
        ("paused", "paused", ""),
        ("paused", "ok", ""),
        ("failed", "failed", "ConfigError"),
    }
    assert TraceStore(path).get("paused").outcome == "ok"


def test_runs_in_virtual_time_are_recorded(path):
    async def main() -> None:
        ours = agent(*["Hello."] * 100, traces=path)
        await asyncio.gather(*(ours.run("Hi", trace_id=f"run-{number}") for number in range(100)))

    run_virtual(main())
    assert len(recorded(path)) == 100
    assert all(record.end - record.start >= 100_000_000 for record in recorded(path))


def test_runs_are_recorded_unless_one_says_otherwise(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.delenv("HOTLOOP_TRACES")
    asyncio.run(agent("Hello.").run("Hi"))
    asyncio.run(agent("Hello.", traces=False).run("Hi"))
    assert len(recorded()) == 1
    assert TraceStore().path == tmp_path / "hotloop" / "traces.db"


def test_runs_in_virtual_time_are_recorded_where_somebody_asked_for_it(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.delenv("HOTLOOP_TRACES")
    kept = Kept()
    run_virtual(agent("Hello.").run("Hi"))
    run_virtual(agent("Hello.", exporters=[kept]).run("Hi"))
    assert recorded() == []
    assert len(kept.records) == 1
    run_virtual(agent("Hello.", traces=True).run("Hi"))
    assert len(recorded()) == 1


@pytest.mark.parametrize("switch", ["off", "OFF", "0", "false"])
def test_the_environment_turns_the_default_off(monkeypatch, switch):
    monkeypatch.setenv("HOTLOOP_TRACES", switch)
    assert read_traces(None) is None
    assert read_traces(True) == Traces()


def test_what_traces_may_be(tmp_path, monkeypatch):
    monkeypatch.setenv("HOTLOOP_TRACES", "on")
    assert read_traces(None) == Traces()
    assert read_traces(False) is None
    assert read_traces("a.db") == Traces(path="a.db")
    assert read_traces(tmp_path) == Traces(path=str(tmp_path))
    given = Traces(content=True, days=1, runs=5)
    assert read_traces(given) is given
    for wrong in ("", 3, [], {"path": "a.db"}):
        with pytest.raises(ConfigError, match=r"traces is .*; give a file, Traces\(\.\.\.\), True or False\."):
            read_traces(wrong)
    for name, value in {"days": 0, "runs": -1, "path": "", "content": "yes"}.items():
        with pytest.raises(ConfigError, match=rf"Traces\({name}=\.\.\.\)"):
            Traces(**{name: value})


def test_exporters_get_the_same_runs(path):
    kept = Kept()
    run_virtual(agent("Hello.", traces=path, exporters=[kept]).run("Hi"))
    assert recorded(path) == kept.records
    run_virtual(agent("Hello.", traces=False, exporters=[kept]).run("Hi"))
    assert recorder.flush(30)
    assert len(kept.records) == 2


def test_what_is_declared_of_keeping_holds(path):
    ours = agent(*["Hello."] * 9, traces=Traces(path=str(path), runs=3))
    for number in range(9):
        run_virtual(ours.run("Hi", trace_id=f"run-{number}"))
        assert recorder.flush(30)
    assert [record.trace_id for record in recorded(path)] == ["run-6", "run-7", "run-8"]


def test_agents_that_record_alike_share_a_batch(path, monkeypatch):
    writes = []
    write = TraceStore.write
    monkeypatch.setattr(TraceStore, "write", lambda self, rows: (writes.append(len(rows)), write(self, rows)))
    for number in range(20):
        run_virtual(agent("Hello.", traces=path).run("Hi", trace_id=f"run-{number}"))
    assert len(recorded(path)) == 20
    assert len(writes) < 20


def test_nothing_is_imported_that_is_not_needed():
    code = """
import sys
import hotloop
assert "sqlite3" not in sys.modules
agent = hotloop.Agent(model="m", endpoint="http://127.0.0.1:9/v1")
print([name for name in ("sqlite3", "hashlib", "hotloop.trace.store", "hotloop.hiding") if name in sys.modules])
import threading
print(threading.active_count())
"""
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={}, check=True).stdout
    assert told.splitlines()[-1] == "1"
    assert "sqlite3" not in told
    assert "hotloop.trace.store" not in told


def test_the_usual_file_gets_no_more_than_200_runs_a_second(monkeypatch):
    monkeypatch.delenv("HOTLOOP_TRACES")
    runs = 1000

    async def main() -> float:
        async with Agent(model="m", endpoint=ScriptedModel(["Yes."] * runs)) as agent:
            began = time.monotonic()
            for _ in range(runs):
                await agent.run("Go.")
            return time.monotonic() - began

    most = 200 + 200 * asyncio.run(main())
    assert recorder.flush(30)
    store = TraceStore()
    kept = len(store.infos())
    assert 0 < kept <= most
    assert kept + store.count_missed() == runs
