"""Wherever a conversation is cut, summarized, taken back, branched or read again, a model can be asked with it.

Plain lists of messages go through the same beside it, and say what its bytes have to be.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from hotloop.context.conversation import Conversation
from hotloop.context.settings import Task

Part = list[dict[str, Any]]
"""Messages that stay together: a prompt, an answer, or calls with their results."""

TASK = Task(name="refund", instructions="Refunds take a week.", when="refund")
FOLLOWS = {  # what may come after what
    "": {"system", "user"},
    "system": {"user"},
    "user": {"assistant", "calls"},
    "assistant": {"user"},
    "calls": {"tool"},
    "tool": {"tool", "assistant", "calls"},
}
steps = st.lists(st.integers(1, 3), max_size=4)  # of a turn: how many calls each has
texts = st.sampled_from(["", "ok", 'say "no"', "a refund", "退款，\n谢谢", "},{[", '{"role":"user"}'])
numbers = st.integers(0, 10**6)


class Turn:
    """What was said in a turn, part by part; those in `hidden` are not seen, for a summary stands for them."""

    def __init__(self, number: int, prompt: str) -> None:
        self.number = number
        self.parts: list[Part] = [[{"role": "user", "content": prompt}]]
        self.hidden = slice(0, 0)

    @property
    def seen(self) -> list[Part]:
        return self.parts[: self.hidden.start] + self.parts[self.hidden.stop :]

    @property
    def steps(self) -> list[int]:
        """The parts that are steps, of those that are seen."""
        places = [place for place, part in enumerate(self.parts) if "tool_calls" in part[0]]
        return [place for place in places if place >= self.hidden.stop]


class Pair:
    """A conversation, and what is to be seen in it. `begun` tells that its newest turn was not just added to it."""

    def __init__(self, conversation: Conversation, before: list[Part], turns: list[Turn]) -> None:
        self.conversation = conversation
        self.before = before  # the turns: the system's message, and a summary
        self.turns = turns
        self.begun = False

    def begin(self, prompt: str) -> None:
        given = [turn.number for turn in self.turns].count(self.conversation.tasks.get(TASK.name, 0))  # the last time
        said = f"{TASK.instructions}\n\n{prompt}" if "refund" in prompt and not given else prompt
        self.conversation.begin(prompt, 7.0, [TASK])
        self.turns.append(Turn(self.conversation.number, said))
        self.begun = True

    def step(self, count: int, text: str, result: str) -> None:
        conversation = self.conversation
        ids = [conversation.new_id() for _ in range(count)]
        conversation.calls([(each, "look_up", '{"a":"}"}', {}) for each in ids], text=text)
        called = {"name": "look_up", "arguments": '{"a":"}"}'}
        calls = [{"id": each, "type": "function", "function": called} for each in ids]
        part: Part = [{"role": "assistant", "content": text if text.strip() else None, "tool_calls": calls}]
        for call_id in ids:
            conversation.result(call_id, result)
            conversation.keep(call_id, f"all of {result}")
            part.append({"role": "tool", "tool_call_id": call_id, "content": result})
        self.turns[-1].parts.append(part)

    def say(self, role: str, text: str) -> None:
        (self.conversation.answer if role == "assistant" else self.conversation.user)(text)
        self.turns[-1].parts.append([{"role": role, "content": text}])

    def forget(self, place: int) -> None:
        starts = [turn.start for turn in self.conversation.turns] + [len(self.conversation.messages)]
        self._cut(starts[place], lambda _: self.conversation.forget(place))
        del self.turns[:place]
        self.begun = self.begun and bool(self.turns)

    @property
    def places(self) -> int:
        """How many places there are to summarize up to: turns but the first, and steps of the newest."""
        return len(self.turns[1:]) + len(self.conversation.steps)

    def summarize(self, place: int, text: str) -> None:
        newest, earlier = self.turns[-1], len(self.turns) - 1
        if place < earlier:
            until = self.conversation.turns[place + 1].start
            del self.turns[: place + 1]
        else:
            until = self.conversation.steps[place - earlier]
            steps = [place for place, part in enumerate(newest.parts) if "tool_calls" in part[0]]
            newest.hidden = slice(steps[0], newest.steps[place - earlier])
            self.turns = [newest]
        self._cut(until, lambda until: self.conversation.summarize(until, text))
        system = [part for part in self.before if part[0]["role"] == "system"]
        asked = {"role": "user", "content": "What has been said and done so far, in short?"}
        self.before = [*system, [asked, {"role": "assistant", "content": text}]]

    def _cut(self, until: int, cut: Callable[[int], None]) -> None:
        """What was after it moves unchanged."""
        after = self.conversation.messages[until:]
        cut(until)
        assert self.conversation.messages.endswith(after)

    def check(self) -> None:
        conversation = self.conversation
        seen = [*self.before, *(part for turn in self.turns for part in turn.seen)]
        assert bytes(conversation.messages) == encoded(seen)
        starts = [len(encoded([*self.before, *parts])) for parts in self._parts_before()]
        assert [(turn.number, turn.start) for turn in conversation.turns] == [
            (turn.number, start + bool(start)) for turn, start in zip(self.turns, starts, strict=True)
        ]
        for step in conversation.steps:
            assert conversation.messages.startswith(b'{"role":"assistant"', step)
        assert len(conversation.steps) == (len(self.turns[-1].steps) if self.begun else 0)
        if self.turns:
            newest = self.turns[-1]
            assert conversation.newest() == encoded(newest.parts if self.begun else newest.seen)
            assert bool(conversation.covered) == (self.begun and newest.parts != newest.seen)

    def _parts_before(self) -> list[list[Part]]:
        """For each turn, what is seen of the turns before it."""
        return [[part for turn in self.turns[:place] for part in turn.seen] for place in range(len(self.turns))]


def encoded(parts: list[Part]) -> bytes:
    return b",".join(msgspec.json.encode(message) for part in parts for message in part)


class Cuts(RuleBasedStateMachine):
    """A session of one conversation."""

    @initialize(instructions=st.sampled_from(["", "Be brief."]), turns=st.lists(steps, min_size=2, max_size=5))
    def first(self, instructions: str, turns: list[list[int]]) -> None:
        self.instructions = instructions
        system: list[Part] = [[{"role": "system", "content": instructions}]] if instructions else []
        self.pair = Pair(Conversation.of(instructions), system, [])
        self.stored: list[tuple[Turn, bytes]] = []  # the turns that have ended
        self.open = self.fresh = False  # whether a turn has not ended, and whether the newest can be taken back
        for calls in turns:
            self.begin("a refund", calls)
            self.answer("ok")

    def told(self) -> tuple[object, ...]:
        """What there is of a conversation beside its messages."""
        conversation = self.pair.conversation
        return dict(conversation.tasks), conversation.ids_given, conversation.number

    @precondition(lambda self: not self.open)
    @rule(prompt=texts, calls=steps)
    def begin(self, prompt: str, calls: list[int]) -> None:
        self.before = self.told()
        self.pair.begin(prompt)
        for count in calls:
            self.pair.step(count, prompt, "ok")
        self.open = self.fresh = True

    @precondition(lambda self: self.open)
    @rule(count=st.integers(1, 3), text=texts, result=texts)
    def step(self, count: int, text: str, result: str) -> None:
        self.pair.step(count, text, result)

    @precondition(lambda self: self.open)
    @rule(text=texts)
    def ask_again(self, text: str) -> None:
        self.pair.say("assistant", text)
        self.pair.say("user", "Again.")

    @precondition(lambda self: self.open)
    @rule(text=texts)
    def answer(self, text: str) -> None:
        self.pair.say("assistant", text)
        self.stored.append((self.pair.turns[-1], self.pair.conversation.newest()))
        self.open = False

    @precondition(lambda self: self.fresh and not self.pair.conversation.covered)
    @rule()
    def undo(self) -> None:
        if not self.open:
            self.stored.pop()
        self.pair.conversation.undo()
        self.pair.turns.pop()
        assert self.told() == self.before
        self.pair.begun = self.open = self.fresh = False

    @precondition(lambda self: self.pair.turns)
    @rule(where=numbers)
    def forget(self, where: int) -> None:
        """Any turn may become the first; while none is open, all may go."""
        self.pair.forget(where % (len(self.pair.turns) + (not self.open)))
        self.fresh = self.fresh and bool(self.pair.turns)

    @precondition(lambda self: self.pair.turns and self.pair.places)
    @rule(where=numbers, text=texts)
    def summarize(self, where: int, text: str) -> None:
        self.pair.summarize(where % self.pair.places, text)

    @rule(goes_on=st.booleans(), how=st.sampled_from(["branch", "restore", "JSON"]), text=texts)
    def copy(self, goes_on: bool, how: str, text: str) -> None:
        """Of a conversation and its copy, either may go on; the other one leaves no trace."""
        conversation = self.pair.conversation
        saved = msgspec.json.encode(conversation)
        if how == "branch" or how == "restore":
            copy = conversation.branch()
        else:
            copy = msgspec.json.decode(saved, type=Conversation)
        goes, stays = (copy, conversation) if goes_on else (conversation, copy)
        if not self.open:
            stays.begin("a refund", 7.0, [TASK])
        stays.calls([(stays.new_id(), "look_up", "{}", {})])
        stays.keep("call99999", text)
        assert msgspec.json.encode(goes) == saved
        self.pair.conversation = goes
        self.fresh = self.fresh and not goes_on

    @precondition(lambda self: not self.open)
    @rule()
    def read_again(self) -> None:
        """As a session that another process goes on with."""
        old, summary = self.pair.conversation, self.pair.conversation.summary
        new = Conversation.of(self.instructions)
        new.number, new.ids_given, new.tasks, new.kept = old.number, old.ids_given, dict(old.tasks), dict(old.kept)
        summed = summary.turn if summary is not None else 0
        if summary is not None:
            new.begin_with(summary)
        for turn, messages in self.stored:
            if summary is not None and turn.number == summed + 1:
                messages = messages[: summary.prompt] + messages[summary.until :]
            if turn.number > summed:
                new.add_turn(messages, turn.number, 7.0)
        self.pair = Pair(new, self.pair.before, [turn for turn, _ in self.stored if turn.number > summed])
        self.fresh = False

    @precondition(lambda self: not self.open and self.pair.turns)
    @rule(chosen=st.sets(numbers, max_size=3), prompt=texts, steps=st.lists(texts, max_size=3), where=numbers)
    def answer_from_a_selection(self, chosen: set[int], prompt: str, steps: list[str], where: int) -> None:
        """As with a window by relevance: the turn is answered in another conversation, and taken from there."""
        whole, untouched = self.pair, bytes(self.pair.conversation.messages)
        places = sorted({each % len(whole.turns) for each in chosen})
        other = Pair(whole.conversation.select(places), whole.before, [whole.turns[place] for place in places])
        other.begin(prompt)
        for result in steps:
            other.step(1, prompt, result)
        if steps and where % 2:
            other.summarize(where % other.places, prompt)
        other.say("assistant", prompt)
        other.check()
        assert bytes(whole.conversation.messages) == untouched
        whole.conversation.add_newest_of(other.conversation)
        turn = other.turns[-1]
        turn.hidden = slice(0, 0)
        whole.turns.append(turn)
        self.stored.append((turn, other.conversation.newest()))
        whole.begun = self.fresh = False

    @invariant()
    def it_is_what_it_has_to_be(self) -> None:
        self.pair.check()

    @invariant()
    def a_model_can_be_asked_with_it(self) -> None:
        before, waiting = "", list[str]()
        ids: list[str] = []
        for message in msgspec.json.decode(b"[%b]" % bytes(self.pair.conversation.messages)):
            kind = "calls" if "tool_calls" in message else message["role"]
            assert kind in FOLLOWS[before]
            if kind == "tool":
                waiting.remove(message["tool_call_id"])
            else:
                assert not waiting
                waiting = [call["id"] for call in message.get("tool_calls", ())]
                ids += waiting
            before = kind
        assert not waiting
        assert len(set(ids)) == len(ids)


TestCuts = Cuts.TestCase
TestCuts.settings = settings(max_examples=200, stateful_step_count=20, deadline=None)
