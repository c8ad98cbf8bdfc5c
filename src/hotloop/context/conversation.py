"""The conversation: append-only, kept as the bytes that the model is sent."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Self

import msgspec

from hotloop.context.settings import Task
from hotloop.context.zones import new_tasks, prompt_text
from hotloop.errors import ConfigError

_encode = msgspec.json.encode
_KEPT = 16 << 20  # characters
_SUMMARY_REQUEST = "What has been said and done so far, in short?"


class Summary(msgspec.Struct, frozen=True):
    """What the model reads of the early part of a conversation: `text`, instead of all turns up to number `turn`.

    It also stands for what the turn after that has before `until` (bytes), but for its prompt, the first `prompt`
    bytes.
    """

    text: str
    turn: int
    prompt: int = 0
    until: int = 0


class Turn(msgspec.Struct, gc=False):
    """Where a turn, a prompt and all that came of it, begins in the messages; `at` is Unix seconds, 0 unless known."""

    number: int
    start: int
    at: float = 0.0


class Conversation(msgspec.Struct):
    """Messages as one run of JSON objects, so that a turn costs what it adds.

    `turns` are those that the model sees, oldest first; `steps` are where the replies with calls of the newest begin.
    At any of these the early part can be cut off without parting a call from its result. `number` is that of the newest
    turn, `summary` what stands for turns that were cut off, and `edits` how often anything but the end was changed.

    Call ids on the wire are ours, nine letters and digits that are unique in the conversation: some services refuse
    others' ids, and some repeat their own. `kept` holds the results of the newest turn by id that the model reads only
    a part of, the latest of them up to 16 MiB. `tasks` had instructions of their own, each in the turn of this number.
    """

    messages: bytearray = msgspec.field(default_factory=bytearray)
    turns: list[Turn] = []
    steps: list[int] = []
    kept: dict[str, str] = {}
    tasks: dict[str, int] = {}
    ids_given: int = 0
    number: int = 0
    edits: int = 0
    summary: Summary | None = None
    born: str = ""  # which one of those it is that had its id
    head: int = 0  # where the first message begins that is not of the system
    covered: bytes = b""  # steps of the newest turn that the summary stands for
    fresh: bool = False  # its bytes do not go on from what was sent before, and are not meant to
    before: tuple[dict[str, int], int] = ({}, 0)  # tasks, and how many ids were given, before the newest turn

    @classmethod
    def of(cls, instructions: str) -> Self:
        """A conversation that begins with these instructions, "" for none."""
        conversation = cls()
        if instructions:
            conversation._append({"role": "system", "content": instructions})
            conversation.head = len(conversation.messages) + 1
        return conversation

    def branch(self) -> Self:
        """A copy that can be written to and dropped without a trace in this one."""
        return msgspec.structs.replace(
            self,
            messages=bytearray(self.messages),
            turns=[msgspec.structs.replace(turn) for turn in self.turns],
            steps=list(self.steps),
            kept=dict(self.kept),
            tasks=dict(self.tasks),
        )

    def begin(self, prompt: str, at: float = 0.0, tasks: Sequence[Task] = ()) -> None:
        """A turn, with what the user says, and with the instructions of those tasks that it needs."""
        needed = new_tasks(tasks, prompt, self.tasks, [turn.number for turn in self.turns]) if tasks else []
        start = self._next()
        self.user(prompt_text(prompt, needed))
        self.before, self.number = (self.tasks, self.ids_given), self.number + 1
        self.turns.append(Turn(self.number, start, at))
        self.tasks = self.tasks | {task.name: self.number for task in needed} if needed else self.tasks
        self.kept, self.steps, self.covered = {}, [], b""

    def undo(self) -> None:
        """Take back the newest turn, as if it had never begun; not one that a summary stands for in part."""
        del self.messages[max(self.turns.pop().start - 1, 0) :]
        self.tasks, self.ids_given = self.before
        self.kept, self.steps = {}, []
        self.number -= 1
        self.edits += 1

    def newest(self) -> bytes:
        """The messages of the newest turn, all of them."""
        start = self.turns[-1].start
        if not self.covered:
            return bytes(self.messages[start:])
        first = self.steps[0]
        return b"".join((self.messages[start:first], self.covered, self.messages[first:]))

    def add_turn(self, turn: bytes, number: int, at: float) -> None:
        """An earlier turn, as `newest` gave it, or as much as is to be seen of it."""
        if self.messages:
            self.messages += b","
        self.turns.append(Turn(number, len(self.messages), at))
        self.messages += turn
        self.number = max(self.number, number)
        self.steps, self.covered = [], b""

    def add_turns(self, turns: Iterable[tuple[bytes, int, float]]) -> None:
        """Many earlier turns, each as for `add_turn`."""
        pieces = [bytes(self.messages)] if self.messages else []
        length = self._next()
        for turn, number, at in turns:
            self.turns.append(Turn(number, length, at))
            pieces.append(turn)
            length += len(turn) + 1
            self.number = number
        self.messages = bytearray(b",".join(pieces))

    def add_newest_of(self, other: Conversation) -> None:
        """The newest turn of a conversation that was selected from this one."""
        newest = other.turns[-1]
        self.add_turn(other.newest(), newest.number, newest.at)
        self.tasks, self.ids_given = dict(other.tasks), other.ids_given

    def select(self, places: Sequence[int]) -> Self:
        """A conversation of which only the turns at these places are to be seen."""
        chosen = self.branch()
        chosen.fresh = True
        first = self.turns[0].start if self.turns else len(self.messages) + 1
        chosen.messages = self.messages[: max(first - 1, 0)]
        ends = [*(turn.start - 1 for turn in self.turns[1:]), len(self.messages)]
        chosen.turns = []
        for place in places:
            turn = self.turns[place]
            chosen.add_turn(bytes(self.messages[turn.start : ends[place]]), turn.number, turn.at)
        return chosen

    def forget(self, count: int) -> None:
        """Leave out this many of the earliest turns; what a summary says of still earlier ones stays."""
        first = self.turns[0].start
        if count < len(self.turns):
            self._replace(first, self.turns[count].start, b"")
        else:
            del self.messages[max(first - 1, 0) :]
            self.turns, self.steps = [], []
            self.edits += 1

    def summarize(self, until: int, text: str) -> None:
        """Put a summary in the place of all that is before `until`, where a turn or a step begins.

        Of the newest turn its prompt stays, and `newest` still has all of it.
        """
        newest = self.turns[-1]
        if until <= newest.start:
            before = next(turn.number for turn in self.turns if turn.start >= until) - 1
            self.summary = Summary(text, before)
            self._replace(self.head, until, _summed(text))
            return
        prompt = bytes(self.messages[newest.start : self.steps[0]])
        self.covered += self.messages[self.steps[0] : until]
        self.summary = Summary(text, newest.number - 1, len(prompt), len(prompt) + len(self.covered))
        self._replace(self.head, until, _summed(text) + prompt)
        newest.start -= len(prompt)

    def begin_with(self, summary: Summary) -> None:
        """Begin with a summary that was made before; only what it does not stand for is to be added."""
        self.summary = summary
        if self.messages:
            self.messages += b","
        self.messages += _summed(summary.text)[:-1]

    def _replace(self, begin: int, until: int, instead: bytes) -> None:
        """Put these bytes in the place of earlier ones; what comes after moves, and turns that began there are gone."""
        self.messages[begin:until] = instead
        self.edits += 1
        moved = begin + len(instead) - until
        self.turns = [turn for turn in self.turns[:-1] if turn.start >= until] + self.turns[-1:]
        for turn in self.turns:
            turn.start = max(turn.start, until) + moved
        self.steps = [step + moved for step in self.steps if step >= until]

    def user(self, text: str) -> None:
        """What the user says."""
        self._append({"role": "user", "content": text})

    def answer(self, text: str) -> None:
        """What the model answers."""
        self._append({"role": "assistant", "content": text})

    def new_id(self) -> str:
        """The id of the next call."""
        self.ids_given += 1
        return f"call{self.ids_given:05d}"

    def keep(self, call_id: str, content: str) -> None:
        """Keep a whole result, of which the model reads a part."""
        self.kept[call_id] = content
        size = sum(map(len, self.kept.values()))
        while size > _KEPT and len(self.kept) > 1:
            size -= len(self.kept.pop(next(iter(self.kept))))

    def calls(
        self,
        calls: list[tuple[str, str, str, dict[str, Any]]],
        *,
        text: str = "",
        empty_content: str | None = None,
        reasoning: str = "",
    ) -> None:
        """The model's calls as (id, name, arguments, extra fields)."""
        items = []
        for call_id, name, arguments, extra in calls:
            function = {"name": name, "arguments": arguments}
            items.append({"id": call_id, "type": "function", "function": function, **extra})
        message: dict[str, Any] = {"role": "assistant", "content": text if text.strip() else empty_content}
        if reasoning:
            message["reasoning_content"] = reasoning
        message["tool_calls"] = items
        start = self._next()
        self._append(message)
        self.steps.append(start)

    def result(self, call_id: str, content: str) -> None:
        """What a tool gave; every call gets exactly one."""
        self._append({"role": "tool", "tool_call_id": call_id, "content": content})

    def _next(self) -> int:
        """Where the next message will begin."""
        return len(self.messages) + bool(self.messages)

    def _append(self, message: dict[str, Any]) -> None:
        encoded = _encoded(message)
        if self.messages:
            self.messages += b","
        self.messages += encoded


def _summed(text: str) -> bytes:
    """A summary as a question and its answer, so that the roles alternate and nobody takes it for instructions."""
    said = _encoded({"role": "user", "content": _SUMMARY_REQUEST}), _encoded({"role": "assistant", "content": text})
    return b",".join((*said, b""))


def _encoded(message: dict[str, Any]) -> bytes:
    try:
        return _encode(message)
    except UnicodeEncodeError as fault:
        odd = fault.object[fault.start]
        raise ConfigError(f"The text has {odd!r}, which is no character; decode its bytes in their encoding.") from None
