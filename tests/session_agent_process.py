"""Processes with agents that share a file of sessions, to be killed: `session_agent_process.py WHAT FILE ...`."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import count, islice, takewhile
from pathlib import Path
from typing import Any

from hotloop import Agent, Context, Model, tool
from hotloop.context.sessions.record import SessionKey
from hotloop.context.sessions.sqlite import SQLiteSessions
from hotloop.events import RunFinished
from hotloop.testing import ScriptedModel, call

SHARED = "shared"
AT_ONCE = 5  # seconds, on a busy machine
TURN = ["user", "assistant", "tool", "tool", "assistant", "tool", "assistant"]
Message = dict[str, Any]
Prompts = dict[str, list[str]]
"""By session, in their order; a prompt is the name of whoever gave it, and a number."""
Said = Counter[tuple[str, str]]
"""How many answers somebody has had, by session and name."""


class Moments:
    """Stops this process when a moment has come so many times."""

    def __init__(self, name: str = "", times: int = 0) -> None:
        self._stop = name, times
        self._times: Counter[str] = Counter()

    def come(self, name: str) -> None:
        self._times[name] += 1
        if (name, self._times[name]) == self._stop:
            os.kill(os.getpid(), signal.SIGSTOP)


moments = Moments()


@tool(read_only=True)
async def look_up(key: str) -> str:
    """Read something long, of which the model is told a part."""
    await asyncio.sleep(0.001)
    moments.come("reading")
    return read(key)


@tool
async def note(text: str) -> str:
    """Write something down."""
    moments.come("writing")
    return f"{text} noted"


def read(key: str) -> str:
    return f"{key} is " + "long " * 200


def reply(request: Message) -> Any:
    """Two calls at once, then another one, then an answer."""
    messages = request["messages"][::-1]
    step = len(list(takewhile(lambda message: message["role"] != "user", messages)))
    prompt = messages[step]["content"]
    if step == 0:
        return [call("look_up", key=f"{prompt} {letter}") for letter in "ab"]
    moments.come("thinking")
    return call("note", text=prompt) if step == 3 else f"{prompt} it is."


def summary(request: Message) -> str:
    moments.come("summarizing")
    return f"{len(request['messages'])} messages."


def agent_on(path: Path, *, busy: Any = "queue") -> tuple[Agent, ScriptedModel]:
    """An agent with the sessions in this file, whose conversations are summarized now and then; and its model."""
    model = ScriptedModel(reply, ttft=0.001)
    small = Model(name="small", endpoint=ScriptedModel(summary, ttft=0.001))
    agent = Agent(
        model="m",
        endpoint=model,
        name="clerk",
        tools=[look_up, note],
        max_result=60,
        context=Context(limit=1500, compact_at=0.5, keep=2, summarizer=small),
        sessions=path,
        busy=busy,
    )
    return agent, model


async def ask(agent: Agent, session: str, prompt: str, *, streamed: bool = False) -> None:
    """Have this prompt answered."""
    if streamed:
        async for event in agent.session(session).stream(prompt):
            last = event
        assert isinstance(last, RunFinished)
        result = last.result
    else:
        result = await agent.session(session).run(prompt)
    assert result.output == f"{prompt} it is."


async def talk(path: Path, name: str, sessions: Sequence[str], say: int) -> None:
    """Ask prompt after prompt, streamed or not, until killed; say of each that it was answered."""
    agent, _ = agent_on(path)
    for number in count():
        for session in sessions:
            await ask(agent, session, f"{name} {number}", streamed=bool(number % 2))
            os.write(say, f"{session} {name} {number}\n".encode())


class Talkers:
    """Children that talk, by their names, and what they have `said`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        listen, self._say = os.pipe()
        self._heard = os.fdopen(listen)
        self._pids: dict[str, int] = {}
        self.said: Said = Counter()

    def begin(self, name: str, *sessions: str, stopping: Moments = moments) -> None:
        if (child := os.fork()) == 0:
            signal.alarm(60)  # it must not outlive a test that fails
            globals()["moments"] = stopping
            asyncio.run(talk(self._path, name, sessions, self._say))
        self._pids[name] = child

    def hear(self, answers: int) -> None:
        """Hear of so many answers; of fewer only if all are dead."""
        for line in islice(self._heard, answers):
            session, name, _ = line.split()
            self.said[session, name] += 1

    def await_stop(self, name: str) -> None:
        assert os.WIFSTOPPED(os.waitpid(self._pids[name], os.WUNTRACED)[1])

    def kill(self, name: str) -> None:
        os.kill(self._pids[name], signal.SIGKILL)
        assert os.WTERMSIG(os.waitpid(self._pids[name], 0)[1]) == signal.SIGKILL

    def close(self) -> None:
        """Hear of all other answers; all are dead."""
        os.close(self._say)
        self.hear(sys.maxsize)
        self._heard.close()


def kill(path: str, lives: str, seed: str) -> None:
    """`lives` times: let three children talk, kill each at a moment of its own, and look at what they leave."""
    chance, kept = random.Random(int(seed)), Prompts()
    for life in range(int(lives)):
        talkers, names = Talkers(Path(path)), [f"{life}-{number}" for number in range(3)]
        for number, name in enumerate(names):
            talkers.begin(name, f"own-{number}", SHARED)
        talkers.hear(3)
        for name in names:
            time.sleep(chance.random() * 0.05)
            talkers.kill(name)
        talkers.close()
        kept = asyncio.run(look(Path(path), talkers.said, dict.fromkeys(names, 1), kept))
    print(sum(map(len, kept.values())), flush=True)


def stop(path: str, moment: str, times: str, unsaid: str) -> None:
    """Kill a child that has stopped at a moment of its turn, and hear that another one goes on with the session.

    `unsaid` is how many turns of the first may have been kept without its having said so.
    """
    talkers = Talkers(Path(path))
    talkers.begin("victim", SHARED, stopping=Moments(moment, int(times)))
    talkers.await_stop("victim")
    talkers.begin("other", SHARED)
    talkers.kill("victim")
    while talkers.said[SHARED, "other"] < 3:
        talkers.hear(1)
    talkers.kill("other")
    talkers.close()
    asyncio.run(look(Path(path), talkers.said, {"victim": int(unsaid), "other": 1}, {}))


async def look(path: Path, said: Said, unsaid: Mapping[str, int], before: Prompts) -> Prompts:
    """The prompts of each session, which are those before, those said to be answered, and at most so many unsaid ones.

    Every turn is whole, and every session goes on at once.
    """
    kept: Prompts = {}
    agent, model = agent_on(path, busy="reject")
    store = SQLiteSessions(path)
    async with agent:
        for session in [info.id for info in await store.sessions()]:
            known = before.get(session, [])
            turns = whole_turns(await agent.session(session).history())
            prompts = [str(turn[0]["content"]) for turn in turns]
            assert prompts[: len(known)] == known
            for name in unsaid:
                numbers = [int(prompt.split()[1]) for prompt in prompts[len(known) :] if prompt.startswith(f"{name} ")]
                assert numbers == list(range(len(numbers)))
                assert 0 <= len(numbers) - said[session, name] <= unsaid[name]
            for turn in turns[len(known) :]:
                await check_results(store, SessionKey("clerk", session), turn)
            await asyncio.wait_for(ask(agent, session, "look 0"), AT_ONCE)
            check_calls(model.requests[-1]["messages"])
            kept[session] = [*prompts, "look 0"]
    return kept


def whole_turns(history: list[Message]) -> list[list[Message]]:
    """The turns of a conversation, each as it has to be."""
    check_calls(history)
    turns = [history[start : start + len(TURN)] for start in range(0, len(history), len(TURN))]
    for turn in turns:
        assert [message["role"] for message in turn] == TURN
        assert turn[-1]["content"] == f"{turn[0]['content']} it is."
    return turns


def check_calls(messages: list[Message]) -> None:
    """Every call has one result, right after it, and every result its call."""
    ids: list[str] = []
    open_calls: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            open_calls.remove(message["tool_call_id"])
        else:
            assert not open_calls
            open_calls = [each["id"] for each in message.get("tool_calls") or ()]
            ids += open_calls
    assert not open_calls and len(set(ids)) == len(ids)


async def check_results(store: SQLiteSessions, key: SessionKey, turn: list[Message]) -> None:
    """The whole results are there of which the model was told a part."""
    for letter, each in zip("ab", turn[1]["tool_calls"], strict=True):
        assert await store.result(key, each["id"]) == read(f"{turn[0]['content']} {letter}")


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
