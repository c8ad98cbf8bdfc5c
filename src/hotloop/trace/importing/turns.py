"""The turns of a run: which requests were attempts at one reply, and which calls of tools are of which reply."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

import msgspec

from hotloop.trace.importing.asked import Asked, read_asked
from hotloop.trace.importing.called import Called, read_called
from hotloop.trace.importing.messages import SpokenCall
from hotloop.trace.importing.parts import Part
from hotloop.trace.importing.tree import Node

_BACK = 16  # turns in which the one that wrote a call is looked for


class Call(msgspec.Struct, gc=False):
    """A call of a tool, traced or not (then `called` is None), as the model wrote it (None: not known).

    `lane` is its place among the calls of its turn, from 1 on; `call_id` is unique in the run.
    """

    name: str
    call_id: str
    called: Called | None
    spoken: SpokenCall | None
    start: int
    end: int
    lane: int = 0

    @property
    def arguments(self) -> str:
        """What it was called with."""
        return self.spoken.arguments if self.spoken else self.called.arguments if self.called else ""

    @property
    def outcome(self) -> str:
        """What came of it; of a call that no span tells of, that there was a result."""
        return self.called.outcome if self.called else "ok"


class Turn(msgspec.Struct, gc=False):
    """One reply: the requests it took, the last of which was answered unless it was the run's last, and its calls."""

    number: int
    attempts: list[Asked] = []
    calls: list[Call] = []
    line: int = 0
    within: Node | None = None

    @property
    def reply(self) -> Asked | None:
        """The request that was answered; None if none was."""
        last = self.attempts[-1]
        return None if last.error else last


class Turns:
    """All turns of a run, in the order in which their first requests began."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self.all = _turns([part for part in parts if part.role == "model"])
        self._begun: dict[int, tuple[list[int], list[int]]] = {}  # on each line, when its turns began, and which
        for turn in self.all:
            starts, numbers = self._begun.setdefault(turn.line, ([], []))
            starts.append(turn.attempts[0].start)
            numbers.append(turn.number)
        self._add_calls([part for part in parts if part.role == "tool"])
        self._add_untraced()
        _number_calls(self.all)

    def at(self, moment: int, line: int) -> int:
        """The number of the turn that a moment of a line belongs to."""
        begun = self._begun.get(line) or self._begun.get(0)
        if not begun:
            return 0
        starts, numbers = begun
        return numbers[max(bisect_right(starts, moment) - 1, 0)]

    def _add_calls(self, tools: Sequence[Part]) -> None:
        by_tool: dict[int, list[Turn]] = {}
        for turn in self.all:
            by_tool.setdefault(id(turn.within), []).append(turn)
        for part in sorted(tools, key=lambda part: part.node.start):
            called = read_called(part.node)
            of = _turn_of(called, by_tool.get(id(part.within), []))
            if of is not None:
                spoken = _spoken(called, of)
                call_id = called.call_id or (spoken.call_id if spoken else "")
                of.calls.append(Call(called.name, call_id, called, spoken, part.node.start, part.node.end))

    def _add_untraced(self) -> None:
        """Tools that no span tells of: the model called them, and was asked again with their results."""
        for turn, following in zip(self.all, self.all[1:], strict=False):
            if turn.calls or turn.reply is None or turn.within is not following.within:
                continue
            start, end = turn.reply.end, following.attempts[0].start
            if start < end:
                turn.calls += [Call(each.name, each.call_id, None, each, start, end) for each in _calls(turn.reply)]


def _turns(models: Sequence[Part]) -> list[Turn]:
    """A request that failed is an attempt at the next reply, if the same agent asks for that, on the same line."""
    unanswered: dict[int, Turn] = {}
    turns: list[Turn] = []
    for part in sorted(models, key=lambda part: (part.node.start, part.node.end)):
        turn = unanswered.pop(part.line, None)
        if turn is None or turn.within is not part.within:
            turn = Turn(len(turns), line=part.line, within=part.within)
            turns.append(turn)
        asked = read_asked(part.node)
        turn.attempts.append(asked)
        if asked.error:
            unanswered[part.line] = turn
    return turns


def _turn_of(called: Called, turns: Sequence[Turn]) -> Turn | None:
    """The turn that wrote a call: of those that began before it the last, unless an earlier one names its id."""
    place = bisect_right(turns, called.node.start, key=lambda turn: turn.attempts[0].start)
    if not place:
        return None
    if called.call_id:
        for turn in reversed(turns[max(place - _BACK, 0) : place]):
            if turn.reply is not None and any(each.call_id == called.call_id for each in _calls(turn.reply)):
                return turn
    return turns[place - 1]


def _calls(asked: Asked) -> list[SpokenCall]:
    return [call for message in asked.reply for call in message.calls]


def _spoken(called: Called, turn: Turn) -> SpokenCall | None:
    """The call as the model wrote it: the one with its id, or the first with its name that is not taken."""
    taken = {id(call.spoken) for call in turn.calls}
    calls = [each for each in _calls(turn.reply) if id(each) not in taken] if turn.reply is not None else []
    by_id = (each for each in calls if called.call_id and each.call_id == called.call_id)
    return next(by_id, None) or next((each for each in calls if each.name == called.name), None)


def _number_calls(turns: Sequence[Turn]) -> None:
    """Each call gets its lane, and an id that no other call of the run has."""
    seen: dict[str, int] = {}
    for turn in turns:
        turn.calls.sort(key=lambda call: (call.start, call.end))
        for lane, call in enumerate(turn.calls, 1):
            call.lane = lane
            call.call_id = call.call_id or f"call-{turn.number}-{lane}"
            seen[call.call_id] = times = seen.get(call.call_id, 0) + 1
            if times > 1:
                call.call_id = f"{call.call_id}/{times}"
