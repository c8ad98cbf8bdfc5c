"""An agent from outside: run, stream and stop it, from async code, plain code and threads."""

import asyncio
import contextlib
import gc
import logging
import re
import subprocess
import sys
import threading
from contextlib import aclosing
from contextvars import ContextVar
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hotloop import Agent, Budget, HotloopError, Model, Result, Trace, report, tool
from hotloop.errors import (
    AuthenticationError,
    ConfigError,
    ConnectError,
    RepeatedFailure,
    TransportError,
    TurnLimit,
)
from hotloop.events import (
    CallOpened,
    CallSealed,
    ReasoningDelta,
    ReplyFinished,
    Reset,
    Retrying,
    RunFinished,
    TextDelta,
    ToolFinished,
    ToolStarted,
    ToolStatus,
)
from hotloop.testing import ScriptedModel, SimulatedService, call, raw, run_virtual, say
from hotloop.trace.ledger import Ledger

working: set[str] = set()  # the tools that are at work


@pytest.fixture(autouse=True)
def _nobody_works():
    working.clear()


@tool(read_only=True, status="Looking up {key}")
async def look_up(key: str, ms: int = 300) -> str:
    """Read something that takes its time."""
    working.add(key)
    try:
        await asyncio.sleep(ms / 1000)
    finally:
        working.discard(key)
    return f"{key} found"


@tool
async def stubborn(key: str) -> str:
    """Goes on once when it is cancelled."""
    working.add(key)
    try:
        await asyncio.sleep(0.2)
    except asyncio.CancelledError:
        return "I go on"
    finally:
        working.discard(key)
    return "done"


class Watched:
    """A transport that counts its open exchanges."""

    def __init__(self, model: ScriptedModel) -> None:
        self.model = model
        self.open = 0

    async def send(self, body, receiver) -> None:
        self.open += 1
        try:
            await self.model.send(body, receiver)
        finally:
            self.open -= 1

    async def warm(self, connections: int = 1) -> None:
        await self.model.warm(connections)

    async def aclose(self) -> None:
        await self.model.aclose()


def agent_of(script, *tools, ttft=0.0, tpot=0.0, **options) -> Agent:
    return Agent(model="m", endpoint=ScriptedModel(script, ttft=ttft, tpot=tpot), tools=tools or [look_up], **options)


async def events_of(agent: Agent, prompt: str = "go") -> list:
    return [event async for event in agent.stream(prompt)]


def kinds(events) -> list[str]:
    return [type(event).__name__ for event in events]


# Declaring


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"model": ""}, "model is ''; give a name, a Model or a Router"),
        ({"max_turns": 0}, r"Agent\(max_turns=...\): expected a whole number >= 1"),
        ({"max_parallel": 1.5}, r"Agent\(max_parallel=...\): expected a whole number, got a number"),
        ({"retries": -1}, r"Agent\(retries=...\): expected a whole number >= 0"),
        ({"tool_retry": -1}, r"Agent\(tool_retry=...\)"),
        ({"shortlist": 0}, r"Agent\(shortlist=...\)"),
        ({"temperature": "hot"}, r"Agent\(temperature=...\)"),
        ({"timeout": "5s"}, r"Agent\(timeout=...\): expected a number, got text"),
        ({"headers": {"x": 3}}, r"Agent\(headers"),
        ({"budget": {"total": 1}}, "make it with Budget"),
        ({"endpoint": "localhost:8000/v1"}, "begins with http://"),
        ({"dialect": "klingon"}, "There is no dialect 'klingon'"),
        ({"tools": [look_up, look_up]}, "several tools named look_up"),
    ],
)
def test_what_cannot_work_is_said_at_once(options, words):
    with pytest.raises(ConfigError, match=words):
        Agent(**{"model": "m", "endpoint": ScriptedModel([]), **options})


@pytest.mark.parametrize("prompt", [None, 3, b"x", "", "  "])
def test_a_prompt_is_text(prompt):
    model = ScriptedModel(["never"])
    with pytest.raises(ConfigError, match="The prompt is"):
        Agent(model="m", endpoint=model).run_sync(prompt)
    assert model.requests == []


def test_plain_functions_become_tools():
    def add(one: int, other: int) -> int:
        """The sum."""
        return one + other

    agent = agent_of([call("add", one=2, other=3), "Five."], add)
    assert [each.name for each in agent.tools] == ["add"]
    assert run_virtual(agent.run("go")).output == "Five."


def test_a_declared_agent_is_the_same_agent(tmp_path: Path):
    (tmp_path / "declared_orders.py").write_text(
        "async def status(order_id: str) -> str:\n    'Status of an order.'\n    return 'shipped'\n"
    )
    (tmp_path / "agent.yaml").write_text(
        "inference: {endpoint: 'http://localhost:1/v1', model: m, temperature: 0.0, max_tokens: 64}\n"
        "tools: {use: ['declared_orders:status'], parallel: false}\nbudget: {total: 1.5s}\nname: orders\n"
    )
    agent = Agent.from_yaml(tmp_path / "agent.yaml")
    assert (agent.name, [each.name for each in agent.tools]) == ("orders", ["status"])


# Results


def test_a_result_has_output_usage_and_trace():
    result = run_virtual(
        agent_of([say("Yes.", usage={"prompt_tokens": 9, "completion_tokens": 2})]).run("go", trace_id="t")
    )
    assert isinstance(result, Result)
    assert (result.output, result.finish_reason, result.trace.trace_id) == ("Yes.", "stop", "t")
    assert (result.usage.input_tokens, result.usage.output_tokens) == (9, 2)


def test_every_run_has_an_id_of_its_own():
    agent = agent_of(lambda request: "Yes.")
    ids = {run_virtual(agent.run("go")).trace.trace_id for _ in range(20)}
    assert len(ids) == 20
    assert all(each.startswith("req-") and len(each) == 16 for each in ids)


def test_runs_at_the_same_time_do_not_mix():
    @tool(read_only=True)
    async def echo(text: str) -> str:
        await asyncio.sleep(len(text) % 7 / 100)
        return text

    def model(request):
        said, *rest = (message["content"] for message in request["messages"] if message["role"] != "assistant")
        return f"{said}={rest[0]}" if rest else call("echo", text=said)

    async def main():
        agent = agent_of(model, echo)
        return await asyncio.gather(*(agent.run("x" * number) for number in range(1, 60)))

    assert [result.output for result in run_virtual(main())] == [f"{'x' * n}={'x' * n}" for n in range(1, 60)]


# Streaming


def test_every_event_comes_in_its_place():
    @tool(status="Reading {key}")
    async def read(key: str) -> str:
        report("half of it")
        return key

    thought = raw(
        b'data: {"choices":[{"index":0,"delta":{"reasoning_content":"hm"}}]}\n\n',
        b'data: {"choices":[{"index":0,"delta":{"content":"There."},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n',
    )
    events = run_virtual(events_of(agent_of([say("One moment.", call("read", key="a")), thought], read, tpot=0.01)))
    result = events[-1].result
    assert events[:-1] == [
        TextDelta("One"),
        TextDelta(" moment."),
        CallOpened(0, "read"),
        CallSealed(0, "read", '{"key":"a"}'),
        ReplyFinished("tool_calls", 1),
        ToolStarted("call00001", "read", '{"key":"a"}', "Reading a"),
        ToolStatus("call00001", "read", "half of it"),
        ToolFinished("call00001", "read", "a", "ok", 0.0),
        ReasoningDelta("hm"),
        TextDelta("There."),
        ReplyFinished("stop", 0),
    ]
    assert isinstance(events[-1], RunFinished)
    assert (result.output, type(result.trace)) == ("There.", Trace)


def test_a_reply_that_is_asked_for_again_is_announced():
    cut = raw(b'data: {"choices":[{"index":0,"delta":{"content":"It"}}]}\n\n', cut=True)
    events = run_virtual(events_of(agent_of([cut, "It is."])))
    assert kinds(events) == ["TextDelta", "Reset", "Retrying", "TextDelta", "TextDelta", "ReplyFinished", "RunFinished"]
    assert (type(events[1]), type(events[2]), events[2].attempt) == (Reset, Retrying, 2)


TURNS = st.lists(
    st.lists(
        st.builds(lambda key, ms: call("look_up", key=key, ms=ms), st.sampled_from("abc"), st.integers(0, 30)),
        min_size=1,
        max_size=4,
    ),
    max_size=3,
)


@settings(max_examples=60, deadline=None)
@given(TURNS, st.sampled_from([(0.0, 0.0), (0.01, 0.0), (0.01, 0.002)]), st.sampled_from([None, 60.0]))
def test_a_stream_tells_what_run_gives(turns, pace, ttl):
    script = [*turns, "There it is."]
    streamed = run_virtual(events_of(agent_of(script, ttft=pace[0], tpot=pace[1], tool_ttl=ttl)))
    result = run_virtual(agent_of(script, ttft=pace[0], tpot=pace[1], tool_ttl=ttl).run("go"))
    finished = [event for event in streamed if isinstance(event, RunFinished)]
    assert streamed[-1:] == finished
    assert finished[0].result.output == result.output
    assert finished[0].result.trace.end_to_end_ms == result.trace.end_to_end_ms
    assert finished[0].result.usage == result.usage
    started = [event.call_id for event in streamed if isinstance(event, ToolStarted)]
    ended = [event.call_id for event in streamed if isinstance(event, ToolFinished)]
    assert sorted(ended) == sorted(set(ended))
    assert set(started) <= set(ended)
    assert len(ended) == sum(map(len, turns))


class Flood:
    """A transport that writes as fast as it may: `chunks` of text, held up while it is paused."""

    def __init__(self, chunks: int) -> None:
        self.chunks = chunks
        self.written = 0
        self.flowing = asyncio.Event()
        self.pauses = 0

    def pause(self) -> None:
        self.pauses += 1
        self.flowing.clear()

    def resume(self) -> None:
        self.flowing.set()

    async def send(self, body, receiver) -> None:
        self.flowing.set()
        receiver.sent(False, self)
        receiver.head(200, [])
        for _ in range(self.chunks):
            await self.flowing.wait()
            receiver.data(b'data: {"choices":[{"index":0,"delta":{"content":"x"}}]}\n\n')
            self.written += 1
        receiver.data(b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n')

    async def warm(self, connections: int = 1) -> None: ...

    async def aclose(self) -> None: ...


def test_a_slow_reader_holds_the_model_up_and_still_gets_everything():
    async def main():
        flood = Flood(5000)
        read = ahead = 0
        async for event in Agent(model="m", endpoint=flood, timeout=3600).stream("go"):
            if isinstance(event, TextDelta):
                read += 1
                if read % 100 == 0:
                    await asyncio.sleep(0.1)
                ahead = max(ahead, flood.written - read)
        return read, ahead, flood.pauses, event.result.output

    read, ahead, pauses, output = run_virtual(main())
    assert (read, output) == (5000, "x" * 5000)
    assert ahead <= 2 * 1024 + 2  # a full queue, and the batch that is being read
    assert pauses >= 3


# Errors


REFUSED = raw(b'{"error":{"message":"bad key"}}', status=401)


@pytest.mark.parametrize(
    ("script", "options", "error"),
    [
        ([REFUSED], {}, AuthenticationError),
        ([call("look_up", key="a"), REFUSED], {}, AuthenticationError),
        ([raw(b"data: {}\n\n", cut=True)], {"retries": 0}, TransportError),
        (lambda request: call("look_up", key=str(len(request["messages"]))), {"max_turns": 1}, TurnLimit),
        ([call("nothing")] * 4, {}, RepeatedFailure),
    ],
)
def test_errors_come_with_the_trace_and_the_time(script, options, error):
    with pytest.raises(error) as ran:
        run_virtual(agent_of(script, ttft=0.02, **options).run("go"))
    seen = []

    async def stream():
        async for event in agent_of(script, ttft=0.02, **options).stream("go"):
            seen.append(event)  # noqa: PERF401  what came before the error counts

    with pytest.raises(error) as streamed:
        run_virtual(stream())
    for caught in (ran.value, streamed.value):
        assert isinstance(caught.trace, Trace)
        assert caught.trace.end_to_end_ms >= 20
        assert caught.elapsed_ms == caught.trace.end_to_end_ms
        assert str(caught.trace)
    assert str(ran.value) == str(streamed.value)
    assert not any(isinstance(event, RunFinished) for event in seen)


def test_an_error_that_nobody_waits_for_any_more_is_not_complained_about(caplog):
    async def main():
        events = agent_of([say("Let me see.", call("look_up", key="a", ms=0)), REFUSED]).stream("go")
        async for _ in events:
            await asyncio.sleep(1)  # the run fails meanwhile
            break
        await events.aclose()
        del events
        gc.collect()

    with caplog.at_level(logging.ERROR, "asyncio"):
        run_virtual(main())
    assert caplog.records == []


def test_a_bug_in_a_transport_is_not_hidden():
    class Buggy(ScriptedModel):
        async def send(self, body, receiver):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_virtual(Agent(model="m", endpoint=Buggy([])).run("go"))


def test_a_run_that_broke_is_gone_without_a_collection():
    class Buggy(ScriptedModel):
        async def send(self, body, receiver):
            raise ZeroDivisionError

    def ledgers() -> int:
        return sum(isinstance(each, Ledger) for each in gc.get_objects())

    async def main():
        agent = Agent(model="m", endpoint=Buggy([]))
        before = ledgers()
        with contextlib.suppress(ZeroDivisionError):
            await agent.run("go")
        assert ledgers() == before

    gc.collect()
    gc.disable()
    try:
        run_virtual(main())
    finally:
        gc.enable()


# Stopping


async def left_after(seconds: float = 0.1) -> set:
    """What is still there when so much time has passed."""
    await asyncio.sleep(seconds)
    return asyncio.all_tasks() - {asyncio.current_task()}


SCRIPT = [
    say("Let me see.", call("look_up", key="a", ms=20), call("stubborn", key="b"), call("look_up", key="c", ms=90)),
    [call("stubborn", key="d")],
    raw(b'{"error":{"message":"busy"}}', status=503, headers={"retry-after": "0.05"}),
    "There it is.",
]


def watched(pace=(0.02, 0.001), **options) -> tuple[Agent, Watched]:
    transport = Watched(ScriptedModel(list(SCRIPT), ttft=pace[0], tpot=pace[1]))
    return Agent(model="m", endpoint=transport, tools=[look_up, stubborn], **options), transport


@settings(max_examples=150, deadline=None)
@given(
    st.integers(0, 550), st.integers(0, 40), st.sampled_from([1, 2, 8]), st.sampled_from([(0.02, 0.001), (0.0, 0.0)])
)
def test_a_run_that_is_cancelled_at_any_moment_is_gone(ms, steps, places, pace):
    async def main():
        agent, transport = watched(pace, max_parallel=places)
        task = asyncio.create_task(agent.run("go"))
        await asyncio.sleep(ms / 1000)
        for _ in range(steps):
            await asyncio.sleep(0)
        ended = task.done()
        task.cancel()
        left = await left_after()
        assert (left, transport.open, working) == (set(), 0, set())
        return task.cancelled() or ended

    assert run_virtual(main())


async def leave(agent: Agent, number: int) -> None:
    async for _ in agent.stream("go"):
        number -= 1
        if number < 0:
            break


async def close(agent: Agent, number: int) -> None:
    events = agent.stream("go")
    for _ in range(number):
        await anext(events, None)
    await events.aclose()


async def throw(agent: Agent, number: int) -> None:
    with pytest.raises(LookupError):
        async with aclosing(agent.stream("go")) as events:
            async for _ in events:
                number -= 1
                if number < 0:
                    raise LookupError
            raise LookupError


async def cancel(agent: Agent, number: int) -> None:
    reached = asyncio.Event()

    async def read():
        left = number
        async for _ in agent.stream("go"):
            left -= 1
            if left < 0:
                reached.set()

    task = asyncio.create_task(read())
    await asyncio.wait({task, waiter := asyncio.create_task(reached.wait())}, return_when=asyncio.FIRST_COMPLETED)
    waiter.cancel()
    task.cancel()
    await asyncio.wait({task, waiter})


@settings(max_examples=150, deadline=None)
@given(st.sampled_from([leave, close, throw, cancel]), st.integers(0, 50), st.sampled_from([1, 8]))
def test_a_stream_that_is_left_at_any_event_is_gone(how, number, places):
    async def main():
        agent, transport = watched(max_parallel=places)
        await how(agent, number)
        return await left_after(), transport.open, working

    assert run_virtual(main()) == (set(), 0, set())


def test_a_stream_that_was_never_begun_leaves_nothing():
    async def main():
        events = watched()[0].stream("go")
        await events.aclose()
        return await left_after(0)

    assert run_virtual(main()) == set()


def test_a_time_limit_of_the_caller_stops_the_run():
    async def main():
        agent, transport = watched()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await agent.run("go")
        return await left_after(), transport.open, working

    assert run_virtual(main()) == (set(), 0, set())


async def test_cancelling_closes_the_socket():
    async with SimulatedService(["word " * 500], tpot=0.01) as service, Agent(model="m", endpoint=service.url) as agent:
        async for _ in agent.stream("go"):
            break
        for _ in range(100):
            if not service.stats.open:
                break
            await asyncio.sleep(0.01)
        assert (service.stats.open, service.stats.abandoned) == (0, 1)


# Without asyncio


class InThread:
    """A simulated service on a loop of its own, for callers that block."""

    def __init__(self, replies, **pace) -> None:
        self._service = SimulatedService(replies, **pace)
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        async with self._service as service:
            self.url = service.url
            self._ready.set()
            await self._stop.wait()

    def __enter__(self) -> "InThread":
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)


def test_run_sync_keeps_its_connection():
    with InThread(["Yes."]) as service:
        agent = Agent(model="m", endpoint=service.url)
        notes = []
        for _ in range(3):
            result = agent.run_sync("go")
            assert result.output == "Yes."
            notes += [stage.note for stage in result.trace.stages if stage.kind == "connect"]
    assert notes == ["opened", "kept", "kept"]


def test_run_sync_in_async_code_says_what_to_write():
    async def main():
        agent_of(["Yes."]).run_sync("go")

    with pytest.raises(RuntimeError, match=r"write `await agent\.run"):
        asyncio.run(main())


def test_run_sync_from_many_threads_at_once():
    def echo(request):
        return request["messages"][-1]["content"]

    with InThread(echo, ttft=0.002) as service:
        agent = Agent(model="m", endpoint=service.url)
        outputs: dict[str, str] = {}

        def work(name: str) -> None:
            for number in range(10):
                outputs[f"{name}{number}"] = agent.run_sync(f"{name}{number}").output

        threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    assert outputs == {f"{name}{number}": f"{name}{number}" for name in "abcd" for number in range(10)}


def test_each_call_outside_asyncio_has_the_context_that_it_was_made_in():
    user: ContextVar[str] = ContextVar("user", default="nobody")
    seen = []

    @tool
    async def whoami() -> str:
        """Who is asking."""
        seen.append(user.get())
        return "known"

    agent = agent_of([call("whoami"), "Ann.", call("whoami"), "Bob."], whoami)
    for name in ("ann", "bob"):
        token = user.set(name)
        agent.run_sync("Who am I?")
        user.reset(token)
    assert seen == ["ann", "bob"]


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts open files by /proc")
def test_threads_that_ended_leave_no_loop_and_no_socket():
    def open_files() -> int:
        gc.collect()
        return len(list(Path("/proc/self/fd").iterdir()))

    with InThread(["Yes."]) as service:
        agent = Agent(model="m", endpoint=service.url)

        def once() -> None:
            thread = threading.Thread(target=agent.run_sync, args=("go",))
            thread.start()
            thread.join(10)

        once()
        before = open_files()
        for _ in range(5):
            once()
        assert open_files() <= before


@pytest.mark.parametrize("daemon", [True, False])
def test_the_process_ends_quietly_while_another_thread_is_in_run_sync(daemon):
    program = f"""
import threading
from hotloop import Agent
from hotloop.testing import ScriptedModel
asked = threading.Event()

def model(request):
    if threading.current_thread() is not threading.main_thread():
        asked.set()
    return "Yes."

agent = Agent(model="m", endpoint=ScriptedModel(model, ttft=0.2))
print(agent.run_sync("go").output)
threading.Thread(target=agent.run_sync, args=("go",), daemon={daemon}).start()
asked.wait()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=20)
    assert (done.stdout, done.stderr, done.returncode) == ("Yes.\n", "", 0)


async def test_a_closed_agent_can_be_used_again():
    async with SimulatedService(["Yes."]) as service:
        async with Agent(model="m", endpoint=service.url) as agent:
            await agent.warm(2)
            assert (await agent.run("go")).output == "Yes."
        assert (await agent.run("go")).output == "Yes."
        await agent.aclose()


def test_the_budget_of_the_agent_is_in_the_trace():
    result = run_virtual(agent_of(["Yes."], ttft=0.2, budget=Budget(total=1.0, model=0.1)).run("go"))
    assert {row.stage: row.verdict for row in result.trace.budget()} == {
        "model": "over",
        "tools": "-",
        "memory": "-",
        "network": "-",
        "other": "-",
        "total": "ok",
    }


def test_everything_that_can_go_wrong_is_one_kind_of_error():
    assert issubclass(AuthenticationError, HotloopError)
    with pytest.raises(HotloopError):
        run_virtual(agent_of([REFUSED]).run("go"))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"user": 5}, "user is 5; give text."),
        ({"user": "\ud800"}, "give text."),
        ({"trace_id": 7}, "trace_id is 7; give text."),
        ({"trace_id": "x" * 201}, "The trace_id has 201 characters; give one of 200 at most."),
        ({"grants": "money"}, "grants is 'money'; give a set of names."),
    ],
)
def test_what_is_said_of_a_run_is_checked(options, says):
    with pytest.raises(ConfigError, match=re.escape(says)):
        run_virtual(agent_of(["Hello."]).run("go", **options))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"tools": None}, "tools is None; give a list of tools."),
        ({"endpoint": None}, 'endpoint is None; give a URL or "local".'),
        ({"audit": 5}, "audit is 5; give a file."),
        ({"approvals": ""}, "approvals is ''; give a file."),
    ],
)
def test_what_an_agent_is_made_of_is_checked(options, says):
    with pytest.raises(ConfigError, match=re.escape(says)):
        Agent(**({"model": "m", "endpoint": ScriptedModel(["Hello."])} | options))


def test_a_session_wants_an_id():
    with pytest.raises(ConfigError, match="id is None"):
        agent_of([]).session(None)


def test_outside_asyncio_a_session_runs_and_everything_closes():
    agent = agent_of(["One.", "Two."])
    session = agent.session("ann")
    assert [session.run_sync("go").output, session.run_sync("on").output] == ["One.", "Two."]
    agent.close_sync()


# Before the first run


def test_only_the_first_model_has_to_be_there_when_an_agent_warms(caplog):
    class Down(ScriptedModel):
        async def warm(self, connections=1):
            raise ConnectError("nothing listens")

    there, down = ScriptedModel(["Hello"]), Down([])
    run_virtual(Agent(model="m", endpoint=there, fallback=[Model(name="f", endpoint=down)]).warm())
    assert "f at Down could not be prepared: nothing listens" in caplog.text
    with pytest.raises(ConnectError, match="nothing listens"):
        run_virtual(Agent(model="m", endpoint=down, fallback=[Model(name="f", endpoint=there)]).warm())


@pytest.mark.parametrize("wrong", [{"connections": each} for each in ("2", 0, -1, 1.0, True)] + [{"prefix": "yes"}])
def test_what_an_agent_cannot_warm_is_said(wrong):
    with pytest.raises(ConfigError, match=rf"^warm\({next(iter(wrong))}={next(iter(wrong.values()))!r}\): give "):
        run_virtual(agent_of(["Hello"]).warm(**wrong))


def test_the_prompt_can_be_read_before_the_first_run():
    model = ScriptedModel(["", "Hello"])
    agent = Agent(model="m", endpoint=model, dialect="vllm", instructions="Be brief. " * 40, tools=[look_up])

    async def main():
        await agent.warm(prefix=True)
        await agent.run("Hi")

    run_virtual(main())
    read, asked = model.requests
    assert (read["max_tokens"], read["tools"], read["messages"][0]) == (1, asked["tools"], asked["messages"][0])
