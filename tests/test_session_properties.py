"""Sessions under everything at once: whatever happens in whatever order, requests are whole and answers are kept."""

import asyncio
import re
import tempfile
from contextlib import aclosing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hotloop import Agent, ApprovalRequired, Context, Model, Task, Window, tool
from hotloop.context.sessions.inprocess import InProcessSessions
from hotloop.context.sessions.sqlite import SQLiteSessions
from hotloop.errors import ConfigError, HotloopError
from hotloop.testing import ScriptedModel, call, raw, run_virtual, say

REFUSED = raw(b'{"error":{"message":"no"}}', status=400)
OVERFLOW = raw(b'{"error":{"message":"too long","code":"context_length_exceeded"}}', status=400)
PLAN = re.compile(r"P(\d+) (\d)x(\d)(?:([fop])(\d))?")  # its number, steps of so many calls, what happens at which step


@tool(read_only=True, max_result=40)
async def look_up(step: str, ms: int = 10) -> str:
    """Read something long that takes its time."""
    await asyncio.sleep(ms / 1000)
    return f"{step} found " * 30


@tool(approval="always")
async def pay(step: str) -> str:
    """Pay."""
    return "paid"


def said(request) -> list[str]:
    return [message["content"] or "" for message in request["messages"]]


def is_summary(request) -> bool:
    return said(request)[-1].startswith("Summarize our conversation")


def prompts(texts) -> list[int]:
    return [int(number) for text in texts for number in re.findall(r"P(\d+) \dx", text)]


def require_whole(messages) -> None:
    """One system message at most, first; roles alternate; each call has one result, at once, and none is an orphan."""
    assert all(message["role"] != "system" for message in messages[1:])
    calls, before = [], ""
    for message in messages:
        if message["role"] == "tool":
            calls.remove(message["tool_call_id"])
        else:
            assert not calls
            assert message["role"] != before
            calls = [item["id"] for item in message.get("tool_calls") or ()]
        before = message["role"]
    assert not calls


class Echo:
    """A model that does what the newest prompt plans, and whose summaries say which prompts they have seen."""

    def __init__(self) -> None:
        self.overflown: set[str] = set()
        self.sent: list[tuple[list[int], list[int]]] = []  # the prompts in the summary of a request, and beside it

    def __call__(self, request):
        messages = request["messages"]
        require_whole(messages)
        summary = next((text for text in said(request) if text.startswith("SUM")), "")
        covered = [int(number) for number in re.findall(r"\d+", summary)]
        seen = prompts(said(request))
        if is_summary(request):
            return "SUM " + " ".join(map(str, dict.fromkeys(covered + seen)))
        self.sent.append((covered, seen))
        plans = [(at, found) for at, text in enumerate(said(request)) if (found := PLAN.search(text))]
        at, plan = plans[-1]
        number, steps, calls, event, when = plan.groups()
        done = re.findall(r'"step": ?"(\d+)', str([message.get("tool_calls") for message in messages[at:]]))
        step = max(map(int, done), default=-1) + 1
        if event and int(when) == step:
            if event == "f":
                return REFUSED
            if event == "p":
                return call("pay", step=str(step))
            if number not in self.overflown:
                self.overflown.add(number)
                return OVERFLOW
        if step < int(steps):
            return say("", *(call("look_up", step=str(step), ms=5 * at) for at in range(int(calls))))
        return f"A{number}."


def agent_of(replies, sessions=":memory:", *, ttft=0.02, tpot=0.0, **options) -> tuple[Agent, ScriptedModel]:
    model = ScriptedModel(replies, ttft=ttft, tpot=tpot)
    options = {"name": "x", "tools": [look_up, pay], **options}
    return Agent(model="m", endpoint=model, sessions=sessions, **options), model


# Whatever happens


PLANS = st.builds("{}x{}{} {}".format, st.integers(0, 3), st.integers(1, 3), *map(st.sampled_from, (
    ["", "", "", "f0", "f1", "o0", "o1", "p0"], ["", "x" * 120],
)))  # fmt: skip
HAPPENS = st.one_of(
    st.tuples(st.just("run"), PLANS),
    st.tuples(st.just("run"), PLANS),
    st.tuples(st.just("cancel"), PLANS, st.integers(0, 120)),
    st.tuples(st.just("leave"), PLANS, st.integers(1, 12)),
    st.tuples(st.just("both")),
    st.tuples(st.just("wait"), st.integers(0, 200)),
    st.tuples(st.just("reopen")),
    st.tuples(st.just("claim"), st.sampled_from(["", "One.", "Two."])),
)
CONTEXTS = st.builds(
    Context,
    limit=st.sampled_from([None, 400, 800]),
    compact_at=st.sampled_from([0.3, 0.6, 0.95]),
    keep=st.integers(1, 3),
    window=st.sampled_from([None, None, Window(turns=4), Window(turns=2, relevant=2)]),
    volatile=st.sampled_from([None, "It is noon."]),
    tasks=st.sampled_from([(), (Task(name="t", instructions="Mind the step.", when="3x"),)]),
)


class Story:
    """What happens to one session, with `kept`: the numbers of the prompts that were answered."""

    def __init__(self, context: Context, agents: int, folder: Path) -> None:
        self.echo, self.context, self.folder = Echo(), context, folder
        self.store = InProcessSessions()
        self.agents = [self.open() for _ in range(agents)]
        self.kept: list[int] = []
        self.begun = self.at = 0

    def open(self) -> Agent:
        approvals = self.folder / "approvals.db"
        options = {"context": self.context, "approvals": approvals, "instructions": "Be brief."}
        return agent_of(self.echo, self.store, tpot=0.003, **options)[0]

    async def goes_on(self, kind: str, *given) -> None:
        self.at = (self.at + 1) % len(self.agents)
        agent = self.agents[self.at]
        await getattr(self, kind)(agent, agent.session("a"), *given)
        await asyncio.sleep(0)
        await self.check()

    def prompt(self, plan: str) -> str:
        self.begun += 1
        return f"P{self.begun} {plan}"

    async def run(self, agent, session, plan) -> None:
        prompt = self.prompt(plan)
        try:
            result = await session.run(prompt)
        except ApprovalRequired as paused:
            for each in paused.calls:
                agent.approvals.decide(paused.run_id, each.call_id, each.digest, True)
            result = await self.agents[0].session("a").resume(paused.run_id)
        except HotloopError:
            assert "f" in plan or "o" in plan
            return
        self.kept.append(self.begun)
        assert result.output == f"A{self.begun}."
        assert result.trace.unattributed_ms == 0

    async def cancel(self, agent, session, plan, ms) -> None:
        task = asyncio.create_task(session.run(self.prompt(plan)))
        await asyncio.sleep(ms / 1000)
        task.cancel()
        await asyncio.wait([task])
        await self.kept_or_not(surely=not task.cancelled() and task.exception() is None)

    async def leave(self, agent, session, plan, most) -> None:
        count = 0
        try:
            async with aclosing(session.stream(self.prompt(plan))) as events:
                async for _ in events:
                    count += 1
                    if count == most:
                        break
        except HotloopError:
            assert "f" in plan or "o" in plan
        await self.kept_or_not()

    async def kept_or_not(self, *, surely: bool = False) -> None:
        kept = self.begun in prompts(said({"messages": await self.agents[0].session("a").history()}))
        assert kept or not surely
        self.kept += [self.begun] * kept

    async def both(self, agent, session) -> None:
        runs = [each.session("a").run(self.prompt("1x2")) for each in (self.agents[0], self.agents[-1])]
        self.echo.sent, before = [], self.echo.sent
        await asyncio.gather(*runs)  # what each sees depends on who is first
        self.echo.sent = before
        self.kept += [self.begun - 1, self.begun]

    async def wait(self, agent, session, ms) -> None:
        await asyncio.sleep(ms / 1000)

    async def reopen(self, agent, session) -> None:
        await agent.aclose()
        self.agents[self.at] = self.open()

    async def claim(self, agent, session, instructions) -> None:
        agent.session("a", instructions=instructions)

    async def check(self) -> None:
        history = await self.agents[0].session("a").history()
        require_whole(history)
        assert prompts(said({"messages": history})) == self.kept
        ids = [item["id"] for message in history for item in message.get("tool_calls") or ()]
        assert len(set(ids)) == len(ids)
        for covered, seen in self.echo.sent:
            assert not {*covered} & {*seen[1:-1]}  # the first may be one of which a part was summarized
            if self.context.window is None and covered:
                assert {number for number in self.kept if number < seen[-1]} <= {*covered, *seen}
        self.echo.sent.clear()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(CONTEXTS, st.integers(1, 2), st.lists(HAPPENS, min_size=4, max_size=12))
def test_whatever_happens_requests_are_whole_and_what_was_answered_is_kept(context, agents, happens):
    async def main(folder):
        story = Story(context, agents, folder)
        for each in happens:
            await story.goes_on(*each)
        for agent in story.agents:
            await agent.aclose()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    with tempfile.TemporaryDirectory() as folder:
        run_virtual(main(Path(folder)))


# What a failure or a stranger leaves behind


def test_a_summary_stands_for_what_it_was_made_of_though_the_window_moves():
    async def main(limit):
        echo = Echo()
        context = Context(limit=limit, compact_at=0.6, keep=3, window=Window(turns=6))
        agent, _ = agent_of(echo, ttft=0, tools=[], instructions="Be brief.", context=context)
        for number in range(10, 26):
            await agent.session("a").run(f"P{number} 0x1 " + "so " * 50)
        await agent.aclose()
        return echo.sent

    sent = [pair for limit in range(600, 800, 10) for pair in run_virtual(main(limit))]
    assert any(covered for covered, _ in sent)
    assert [pair for pair in sent if {*pair[0]} & {*pair[1]}] == []


def test_half_of_a_summary_is_of_what_it_stands_for_though_the_window_moves():
    async def main(words):
        asked = []

        def small(request):
            asked.append(prompts(said(request)))
            return OVERFLOW if len(asked) == 1 else "SUM"

        summarizer = Model(name="s", endpoint=ScriptedModel(small, ttft=0.25))
        context = Context(limit=1600, compact_at=0.5, keep=2, window=Window(turns=6), summarizer=summarizer)
        agent, _ = agent_of(Echo(), ttft=0.1, tools=[], context=context)
        for number in range(11):
            await agent.session("a").run(f"P{number} 0x1 " + "so " * words)
        await agent.aclose()
        return asked[:2]

    pairs = [asked for words in range(100, 200, 10) if len(asked := run_virtual(main(words))) == 2]
    assert pairs
    assert [pair for pair in pairs if not {*pair[1]} <= {*pair[0]}] == []


def test_a_service_that_is_down_does_not_cost_the_beginning_of_a_conversation():
    down = []

    async def main():
        agent, model = agent_of(lambda request: REFUSED if down else "Yes.", context=Context(limit=700, compact_at=1.0))
        session = agent.session("a")
        for number in range(9):
            await session.run(f"P{number} 0x1 " + "x" * 200)
        down.append(True)
        with pytest.raises(HotloopError):
            await session.run("y " * 400)
        down.clear()
        await session.run("Bye")
        await agent.aclose()
        return said(model.requests[-1])

    assert not any("left out" in text for text in run_virtual(main()))


def test_an_overflow_shortens_the_prompt_though_the_summary_in_the_background_failed():
    asked, overflow = [], []

    def replies(request):
        if is_summary(request):
            asked.append(request)
            return REFUSED if len(asked) == 1 else "SUM"
        return overflow.pop() if overflow else "Yes."

    async def main():
        agent, model = agent_of(replies, context=Context(limit=2000, compact_at=0.2, keep=2))
        session = agent.session("a")
        while not asked:
            await session.run("x" * 200)
            await asyncio.sleep(0.001)
        overflow.append(OVERFLOW)
        await session.run("Bye")
        await agent.aclose()
        return said(model.requests[-1])

    assert any("short?" in text for text in run_virtual(main()))


def test_who_asks_for_the_session_of_another_does_not_shut_its_owner_out(tmp_path):
    async def main():
        first, _ = agent_of(lambda _: "Yes.", tmp_path / "s.db")
        await first.session("a", user="ann").run("Hi")
        await first.aclose()
        agent, _ = agent_of(lambda _: "Yes.", tmp_path / "s.db")
        with pytest.raises(ConfigError):
            await agent.session("a", user="bob").run("Hi")
        try:
            await agent.session("a", user="ann").run("Hi")
        finally:
            await agent.aclose()

    run_virtual(main())


@pytest.mark.parametrize("kind", ["in process", "file"])
def test_what_was_deleted_is_not_read_again_where_two_agents_share_a_store(tmp_path, kind):
    async def main():
        store = InProcessSessions() if kind == "in process" else SQLiteSessions(tmp_path / "s.db")
        one, model = agent_of(lambda _: "Yes.", store)
        two, _ = agent_of(lambda _: "Yes.", store)
        await one.session("a").run("Old")
        await two.session("a").delete()
        await two.session("a").run("New")
        await one.session("a").run("What?")
        await one.aclose()
        await two.aclose()
        return said(model.requests[-1])

    assert run_virtual(main()) == ["New", "Yes.", "What?"]


def test_a_run_that_was_paused_does_not_bring_back_what_was_deleted(tmp_path):
    async def main():
        script = ["Noted.", call("pay", step="0"), "Hello.", "Paid."]
        agent, _ = agent_of(script, approvals=tmp_path / "approvals.db")
        session = agent.session("a")
        await session.run("A secret")
        with pytest.raises(ApprovalRequired) as caught:
            await session.run("Pay")
        await session.delete()
        await session.run("Hi")
        for each in caught.value.calls:
            agent.approvals.decide(caught.value.run_id, each.call_id, each.digest, True)
        try:
            with pytest.raises(ConfigError, match="gone on"):
                await session.resume(caught.value.run_id)
        finally:
            await agent.aclose()

    run_virtual(main())


def test_a_session_that_was_deleted_is_nobodys():
    async def main():
        agent, model = agent_of(lambda _: "Yes.", instructions="Be brief.")
        await agent.session("a", user="ann", instructions="She is a child.").run("Hi")
        await agent.session("a").delete()
        await agent.session("a", user="bob").run("Hi")
        await agent.aclose()
        return said(model.requests[-1])

    assert run_virtual(main()) == ["Be brief.", "Hi"]


# Several processes


def test_a_summary_is_used_though_another_agent_has_gone_on_meanwhile(tmp_path):
    async def main():
        echo = Echo()
        context = Context(limit=1500, compact_at=0.3, keep=2)
        agents = [agent_of(echo, tmp_path / "s.db", context=context)[0] for _ in range(2)]
        for number in range(16):
            await agents[number % 2].session("a").run(f"P{number} 0x1 " + "x" * 200)
            await asyncio.sleep(0.1)
        for agent in agents:
            await agent.aclose()
        return echo.sent[-1]

    covered, _ = run_virtual(main())
    assert covered


def test_a_window_keeps_its_beginning_for_some_turns_whichever_agent_answers(tmp_path):
    async def first_seen(number: int) -> int:
        echo = Echo()
        agent, _ = agent_of(echo, tmp_path / "s.db", context=Context(window=Window(turns=8)))
        await agent.session("a").run(f"P{number} 0x1")
        await agent.aclose()
        return echo.sent[0][1][0]

    async def main():
        return [await first_seen(number) for number in range(20)]

    firsts = run_virtual(main())
    assert len({*firsts[8:]}) <= 6  # cut back to three quarters: seldom, not every time


# Closing


def test_an_agent_may_be_closed_while_its_sessions_are_used():
    async def main():
        agent, _ = agent_of(Echo(), context=Context(limit=2000, compact_at=0.1, keep=1))
        for name in "ab":
            for number in range(2):
                await agent.session(name).run(f"P{number} 0x1 " + "so " * 200)

        async def use() -> None:
            agent.session("c")

        await asyncio.gather(agent.aclose(), use())

    run_virtual(main())


def test_a_tokeniser_that_fails_does_not_hide_that_a_turn_was_kept():
    def count(text: str) -> int:
        if "<|end|>" in text:
            raise ValueError("a special token")
        return len(text)

    async def main():
        agent, _ = agent_of(["<|end|>"] * 2, context=Context(limit=1000, count_tokens=count))
        answered = 0
        for _ in range(2):
            try:
                await agent.session("a").run("Hi")
                answered += 1
            except (ValueError, HotloopError):
                pass
        turns = await agent.session("a").history()
        await agent.aclose()
        return answered, len(turns) // 2

    answered, kept = run_virtual(main())
    assert answered == kept == 1  # it is asked about the answer when the next prompt is to be sent
