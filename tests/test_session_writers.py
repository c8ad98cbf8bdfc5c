"""Sessions that last: over processes and agents, streamed or not, paused or not, and with several writers."""

import asyncio
import sqlite3
from contextlib import closing

import pytest

from bodies import said
from hotloop import Agent, ApprovalRequired, SessionBusy, SessionConflict, SessionKey, tool
from hotloop.context.sessions.sqlite import SQLiteSessions
from hotloop.errors import ConfigError
from hotloop.events import RunFinished, TextDelta
from hotloop.testing import ScriptedModel, SimulatedService, call, raw, run_virtual, say

REFUSED = raw(b'{"error":{"message":"no"}}', status=400)


@tool(read_only=True)
async def look_up(key: str) -> str:
    """Read something."""
    return f"{key} found"


@tool(approval="always")
async def pay(amount: int) -> str:
    """Pay."""
    return f"{amount} paid"


def agent_of(replies, folder, *, ttft=0.1, **options) -> tuple[Agent, ScriptedModel]:
    model = ScriptedModel(replies, ttft=ttft)
    places = {"sessions": folder / "sessions.db", "approvals": folder / "approvals.db"}
    return Agent(model="m", endpoint=model, tools=[look_up, pay], **{**places, **options}), model


def yes(request):
    return "Yes."


async def stream(session, prompt):
    return [event async for event in session.stream(prompt)]


def test_a_session_goes_on_in_another_agent_of_the_same_name(tmp_path):
    async def main():
        first, _ = agent_of([call("look_up", key="a"), "There."], tmp_path)
        await first.session("a").run("Where?")
        await first.aclose()
        second, model = agent_of(["Bye."], tmp_path)
        await second.session("a").run("Bye")
        other, alone = agent_of(["Bye."], tmp_path, name="other")
        await other.session("a").run("Bye")
        await second.aclose()
        await other.aclose()
        return said(model.requests[0]), said(alone.requests[0])

    assert run_virtual(main()) == (["Where?", None, "a found", "There.", "Bye"], ["Bye"])


def test_streamed_and_plain_runs_keep_the_same(tmp_path):
    script = [say("One moment.", call("look_up", key="a")), "There."]

    async def main():
        agent, _ = agent_of([*script, *script], tmp_path)
        await agent.session("plain").run("Where?")
        events = await stream(agent.session("streamed"), "Where?")
        histories = [await agent.session(name).history() for name in ("plain", "streamed")]
        await agent.aclose()
        return histories, events[-1]

    (plain, streamed), last = run_virtual(main())
    assert plain == streamed
    assert len(plain) == 4
    assert isinstance(last, RunFinished)


def test_loading_and_committing_are_stages_of_the_ledger(tmp_path):
    async def main():
        agent, _ = agent_of(yes, tmp_path)
        result = await agent.session("a").run("Hi")
        await agent.aclose()
        return result.trace

    trace = run_virtual(main())
    notes = [(stage.kind, stage.note) for stage in trace.stages]
    assert ("context", "session loaded") in notes
    assert ("context", "session committed") in notes
    assert trace.unattributed_ms == 0


def test_two_agents_see_what_the_other_has_added(tmp_path):
    async def main():
        one, _ = agent_of(yes, tmp_path)
        two, model = agent_of(yes, tmp_path)
        for number in range(3):
            await one.session("a").run(f"one {number}")
            await two.session("a").run(f"two {number}")
        await one.aclose()
        await two.aclose()
        return said(model.requests[-1])[::2]

    assert run_virtual(main()) == ["one 0", "two 0", "one 1", "two 1", "one 2", "two 2"]


@pytest.mark.parametrize("agents", [1, 2])
def test_a_run_waits_for_the_one_before_it_whichever_agent_has_it(tmp_path, agents):
    async def main():
        made = [agent_of(yes, tmp_path) for _ in range(agents)]
        sessions = [agent.session("a") for agent, _ in made]
        results = await asyncio.gather(*(sessions[number % agents].run(f"{number}") for number in range(4)))
        history = await sessions[0].history()
        for agent, _ in made:
            await agent.aclose()
        return [result.trace for result in results], history

    traces, history = run_virtual(main())
    assert [message["content"] for message in history[::2]] == ["0", "1", "2", "3"]
    queued = [sum(s.end - s.start for s in trace.stages if s.note == "waited for the session") for trace in traces]
    assert queued == [0, 100_000_000, 200_000_000, 300_000_000]
    assert all(trace.unattributed_ms == 0 for trace in traces)


def test_a_run_may_be_refused_instead(tmp_path):
    async def main():
        agent, _ = agent_of(yes, tmp_path, busy="reject")
        session = agent.session("a")
        results = await asyncio.gather(session.run("one"), session.run("two"), return_exceptions=True)
        await session.run("three")
        history = await session.history()
        await agent.aclose()
        return results[1], [message["content"] for message in history[::2]]

    refused, prompts = run_virtual(main())
    assert isinstance(refused, SessionBusy)
    assert refused.retryable
    assert refused.trace is not None
    assert prompts == ["one", "three"]


def test_prompts_that_wait_may_be_answered_together(tmp_path):
    async def main():
        loop = asyncio.get_running_loop()
        agent, model = agent_of(lambda request: said(request)[-1], tmp_path, busy="merge")
        session, start = agent.session("a"), loop.time()
        first = asyncio.create_task(session.run("one"))
        await asyncio.sleep(0.05)
        runs = [first, session.run("two"), session.run("three"), stream(agent.session("a"), "four")]
        one, two, three, events = await asyncio.gather(*runs)
        seconds = round(loop.time() - start, 6)
        history = await session.history()
        await agent.aclose()
        return one, two, three, events, seconds, [message["content"] for message in history], len(model.requests)

    one, two, three, events, seconds, texts, requests = run_virtual(main())
    assert texts == ["one", "one", "two\n\nthree\n\nfour", "two\n\nthree\n\nfour"]
    assert two is three
    assert two.output == "".join(event.text for event in events if isinstance(event, TextDelta))
    assert one.output == "one"
    assert (seconds, requests) == (0.2, 2)


def test_who_leaves_a_merged_turn_does_not_end_it_for_the_others(tmp_path):
    async def main():
        agent, model = agent_of(yes, tmp_path, busy="merge")
        session = agent.session("a")
        tasks = [asyncio.create_task(session.run("one"))]
        await asyncio.sleep(0.05)
        tasks += [asyncio.create_task(session.run(prompt)) for prompt in ("two", "three", "four")]
        await asyncio.sleep(0.02)
        tasks[1].cancel()  # it waits
        await asyncio.sleep(0.1)
        tasks[2].cancel()  # it is being answered, with "four"
        await asyncio.wait(tasks)
        left = asyncio.create_task(session.run("five"))
        await asyncio.sleep(0.05)
        left.cancel()
        await asyncio.wait([left])
        await session.run("six")
        await agent.aclose()
        return [task.cancelled() for task in tasks], said(model.requests[-1])[::2]

    cancelled, prompts = run_virtual(main())
    assert cancelled == [False, True, True, False]
    assert prompts == ["one", "three\n\nfour", "six"]


def test_prompts_with_other_options_are_not_merged(tmp_path):
    async def main():
        agent, model = agent_of(yes, tmp_path, busy="merge")
        session = agent.session("a")
        runs = [session.run("one"), session.run("two", user="ann"), session.run("three", background=True)]
        await asyncio.gather(*runs)
        await agent.aclose()
        return said(model.requests[-1])[::2]

    assert run_virtual(main()) == ["one", "two", "three"]


def test_an_empty_prompt_is_refused_before_it_is_merged(tmp_path):
    async def main():
        agent, _ = agent_of(yes, tmp_path, busy="merge")
        session = agent.session("a")
        results = await asyncio.gather(session.run("one"), session.run("  "), return_exceptions=True)
        await agent.aclose()
        return results[1]

    assert isinstance(run_virtual(main()), ConfigError)


class Blind(SQLiteSessions):
    """A store that may not see what is newer."""

    blind = False

    async def load(self, key, known=0, born=""):
        return None if self.blind else await super().load(key, known, born)


def test_what_somebody_else_has_written_meanwhile_is_not_overwritten(tmp_path):
    """Where no lock keeps writers apart, the version does: nothing of the second turn is kept."""

    async def main():
        store = Blind(tmp_path / "sessions.db")
        agent, _ = agent_of(yes, tmp_path, sessions=store)
        other, _ = agent_of(yes, tmp_path)
        await agent.session("a").run("Hi")
        await other.session("a").run("Hi again")
        store.blind = True
        with pytest.raises(SessionConflict) as caught:
            await agent.session("a").run("Late")
        store.blind = False
        await agent.session("a").run("Once more")
        history = await agent.session("a").history()
        await agent.aclose()
        await other.aclose()
        return caught.value, [message["content"] for message in history[::2]]

    conflict, prompts = run_virtual(main())
    assert conflict.retryable
    assert prompts == ["Hi", "Hi again", "Once more"]


# Paused runs


@pytest.mark.parametrize("by_agent", [True, False])
def test_a_paused_turn_goes_on_in_another_process_and_is_kept_in_its_session(tmp_path, by_agent):
    async def main():
        agent, _ = agent_of(["Hello.", call("pay", amount=3)], tmp_path)
        await agent.session("a").run("Hi")
        with pytest.raises(ApprovalRequired) as caught:
            await agent.session("a").run("Pay 3")
        before = await agent.session("a").history()
        await agent.aclose()
        other, model = agent_of(["Paid.", "Bye."], tmp_path)
        for each in caught.value.calls:
            other.approvals.decide(caught.value.run_id, each.call_id, each.digest, True)
        run_id = caught.value.run_id
        result = await (other.resume(run_id) if by_agent else other.session("a").resume(run_id))
        await other.session("a").run("Bye")
        await other.aclose()
        return len(before), result.output, said(model.requests[-1])

    assert run_virtual(main()) == (2, "Paid.", ["Hi", "Hello.", "Pay 3", None, "3 paid", "Paid.", "Bye"])


def test_a_paused_turn_cannot_be_put_into_a_session_that_has_gone_on(tmp_path):
    async def main():
        agent, _ = agent_of([call("pay", amount=3), "Hello.", "Bye."], tmp_path)
        with pytest.raises(ApprovalRequired) as caught:
            await agent.session("a").run("Pay 3")
        await agent.session("a").run("Hi")
        for each in caught.value.calls:
            agent.approvals.decide(caught.value.run_id, each.call_id, each.digest, True)
        with pytest.raises(ConfigError, match="gone on"):
            await agent.session("a").resume(caught.value.run_id)
        await agent.session("a").run("Bye")
        history = await agent.session("a").history()
        await agent.aclose()
        return [message["content"] for message in history[::2]]

    assert run_virtual(main()) == ["Hi", "Bye"]


def test_a_session_that_was_damaged_goes_on_and_says_so(tmp_path):
    async def main():
        agent, _ = agent_of([call("look_up", key="a"), "There.", "Yes."], tmp_path)
        await agent.session("a").run("Where?")
        await agent.session("a").run("Sure?")
        await agent.aclose()
        with closing(sqlite3.connect(tmp_path / "sessions.db")) as db, db:
            db.execute("UPDATE turns SET messages = substr(messages, 1, length(messages) - 9) WHERE number = 2")
        later, model = agent_of(yes, tmp_path)
        trace = (await later.session("a").run("And now?")).trace
        again = (await later.session("a").run("Again?")).trace
        await later.aclose()
        return trace.facts["warnings"], "warnings" in again.facts, said(model.requests[0])

    (warning,), again, texts = run_virtual(main())
    assert "turn 2 unreadable" in warning
    assert not again
    assert texts == ["Where?", None, "a found", "There.", "And now?"]


# Whose it is


def test_a_session_is_of_one_user(tmp_path):
    async def main():
        agent, _ = agent_of(yes, tmp_path)
        await agent.session("a", user="ann").run("Hi")
        with pytest.raises(ConfigError, match="another user"):
            agent.session("a", user="bob")
        await agent.aclose()
        later, _ = agent_of(yes, tmp_path)
        with pytest.raises(ConfigError, match="another user"):
            await later.session("a", user="bob").run("Hi")
        await later.session("b", user="bob").run("Hi")
        infos = [(info.id, info.user, info.turns) for info in await SQLiteSessions(tmp_path / "sessions.db").sessions()]
        await later.aclose()
        return sorted(infos)

    assert run_virtual(main()) == [("a", "ann", 1), ("b", "bob", 1)]


def test_a_deleted_session_begins_anew(tmp_path):
    async def main():
        agent, model = agent_of(yes, tmp_path)
        other, _ = agent_of(yes, tmp_path)
        await agent.session("a").run("Hi")
        assert await other.session("a").delete()
        assert not await other.session("a").delete()
        await agent.session("a").run("Anew")
        await agent.aclose()
        await other.aclose()
        return said(model.requests[-1])

    assert run_virtual(main()) == ["Anew"]


def test_a_session_that_was_begun_for_nobody_is_nobodys(tmp_path):
    async def main():
        agent, _ = agent_of(yes, tmp_path)
        await agent.session("a").run("Secret")
        with pytest.raises(ConfigError, match="of no user"):
            agent.session("a", user="bob")
        await agent.session("a").run("Secret", user="bob")
        await agent.aclose()

    run_virtual(main())


def test_users_and_instructions_are_text(tmp_path):
    agent, _ = agent_of(yes, tmp_path)
    with pytest.raises(ConfigError, match="user is 7"):
        agent.session("a", user=7)
    with pytest.raises(ConfigError, match="instructions are 5"):
        agent.session("a", instructions=5)


def test_prompts_with_ids_of_their_own_are_merged_and_a_bad_one_fails_alone(tmp_path):
    async def main():
        agent, _ = agent_of(yes, tmp_path, busy="merge")
        session = agent.session("a", user="ann")
        first = asyncio.create_task(session.run("one", trace_id="1"))
        await asyncio.sleep(0.05)
        runs = [session.run("two", trace_id="2"), session.run("\udc00"), session.run("three", user="ann")]
        done = await asyncio.gather(first, *runs, return_exceptions=True)
        listed = await agent.sessions.sessions(user="ann")
        await agent.sessions.delete(SessionKey("", "a"))
        history = await session.history()
        await agent.aclose()
        return done, [info.turns for info in listed], history

    (first, two, bad, three), turns, history = run_virtual(main())
    assert isinstance(bad, ConfigError)
    assert two is three
    assert (first.trace.trace_id, two.trace.trace_id) == ("1", "2")
    assert (turns, history) == ([2], [])


@pytest.mark.parametrize("bad", [None, "", 3])
def test_an_id_that_is_no_text_is_refused(tmp_path, bad):
    agent, _ = agent_of(yes, tmp_path)
    with pytest.raises(ConfigError, match="id"):
        agent.session(bad)


def test_sessions_that_are_not_used_are_let_go_and_read_again(tmp_path):
    async def main():
        agent, model = agent_of(yes, tmp_path, ttft=0)
        for number in range(300):
            await agent.session(f"s{number}").run("Hi")
        await agent.session("s0").run("Again")
        await agent.aclose()
        return said(model.requests[-1])

    assert run_virtual(main()) == ["Hi", "Yes.", "Again"]


def test_what_is_of_another_user_is_neither_shown_nor_deleted_nor_written_to(tmp_path):
    async def main():
        agent, _ = agent_of(yes, tmp_path)
        await agent.session("a", user="ann").run("Hi")
        await agent.aclose()
        later, _ = agent_of(yes, tmp_path)
        of_bob = later.session("a", user="bob")
        for work in (of_bob.run, of_bob.run):
            with pytest.raises(ConfigError, match="another user"):
                await work("Again")
        for work in (of_bob.history, of_bob.delete):
            with pytest.raises(ConfigError, match="another user"):
                await work()
        (info,) = await SQLiteSessions(tmp_path / "sessions.db").sessions()
        await later.aclose()
        return info.user, info.turns

    assert run_virtual(main()) == ("ann", 1)


@pytest.mark.parametrize("leaves", [True, False])
async def test_a_merged_reply_waits_for_its_slowest_reader_and_for_nobody_who_has_left(leaves):
    text = "word " * 20_000

    async with SimulatedService(lambda request: text, tpot=0.0) as service:
        agent = Agent(model="m", endpoint=service.url, sessions=":memory:", busy="merge")
        session = agent.session("a")
        first, second = session.stream("one"), session.stream("two")

        async def read_all(stream) -> str:
            return "".join([event.text async for event in stream if isinstance(event, TextDelta)])

        slow = asyncio.create_task(anext(second))
        fast = asyncio.create_task(read_all(first))
        await asyncio.wait({slow})
        for _ in range(200):
            await asyncio.sleep(0)
        if leaves:
            await second.aclose()
        else:
            assert len(await read_all(second)) > 90_000
        assert await asyncio.wait_for(fast, 10) == text
        await agent.aclose()


async def test_the_paused_first_turn_of_one_user_is_not_resumed_for_another(tmp_path):
    agent, _ = agent_of([call("pay", amount=3), "Paid."], tmp_path, ttft=0)
    with pytest.raises(ApprovalRequired) as caught:
        await agent.session("a", user="ann").run("Pay 3")
    for each in caught.value.calls:
        agent.approvals.decide(caught.value.run_id, each.call_id, each.digest, True)
    with pytest.raises(ConfigError, match="another user than bob"):
        await agent.session("a", user="bob").resume(caught.value.run_id)
    assert (await agent.session("a", user="ann").resume(caught.value.run_id)).output == "Paid."
    await agent.aclose()
