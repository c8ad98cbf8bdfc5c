"""How a recorded run becomes a graph: what waited for what, so that it can be scheduled anew.

Scheduled as it is, a graph gives the recorded times to the nanosecond: where a piece began later than what it waited
for had ended, the difference is a step of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter

import msgspec

from hotloop.insight.lanes import Reply, read_calls
from hotloop.insight.pieces import Ask, Step, Turn
from hotloop.trace.ledger import UNKNOWN_FIRST, AttemptFacts, Stage, TurnFacts, Usage
from hotloop.trace.record import TraceRecord

OWN = "hotloop"
FOR_PLACE, TO_RETRY = "waits for a place", "waits to retry"
_QUEUES = {"a place at the service": FOR_PLACE, "retry after": TO_RETRY}
_MODEL = frozenset({"connect", "prefill", "decode"})
_BESIDE = frozenset({"prefill", "summary"})  # why requests are made that no reply waits for
_BYTES_PER_TOKEN = 4
_NOBODY = AttemptFacts(0, "", "", "first", 0, 0, "ok")

by_turn = attrgetter("turn")


class Graph(msgspec.Struct, frozen=True):
    """One run. `started` is Unix seconds, `took` how long it was (ns), `places` how many calls ran at once at most.

    `asked` is how many bytes its prompt had, 0 if that is not known.
    """

    trace_id: str
    name: str
    version: str
    session: str
    source: str
    started: float
    took: int
    places: int | None
    asked: int
    turns: tuple[Turn, ...]

    @staticmethod
    def of(record: TraceRecord) -> Graph:
        """The graph of a record, of hotloop's own or of an imported one."""
        limit = record.facts.get("max_parallel")
        return Graph(
            record.trace_id,
            record.name,
            record.version,
            record.session,
            record.source,
            record.started,
            record.end - record.start,
            limit if isinstance(limit, int) else None,
            record.prompt.size if record.prompt is not None else 0,
            tuple(_turns(record)),
        )

    @property
    def asks(self) -> list[Ask]:
        """Its requests to models, in their order."""
        return [piece for turn in self.turns for piece in turn.before if type(piece) is Ask]

    @property
    def has_calls(self) -> bool:
        """Whether any reply had calls."""
        return any(turn.calls for turn in self.turns)


def _turns(record: TraceRecord) -> list[Turn]:
    """The turns, one after the other: each begins where the one before has ended."""
    line = [stage for stage in record.stages if not stage.lane]
    lanes: dict[int, list[Stage]] = {}
    for stage in record.stages:
        if stage.lane:
            lanes.setdefault(stage.turn, []).append(stage)
    if record.source != OWN:
        line.sort(key=attrgetter("start"))
    facts = {each.turn: each for each in record.turns}
    attempts: dict[int, list[AttemptFacts]] = {}
    for each in record.attempts:
        if each.why not in _BESIDE:
            attempts.setdefault(each.turn, []).append(each)
    groups = [(number, list(stages)) for number, stages in groupby(line, by_turn)] or [(0, [])]
    ends = [*(stages[0].start for _, stages in groups[1:]), record.end]
    at, turns = record.start, []
    for (number, stages), end in zip(groups, ends, strict=True):
        about = facts.get(number)
        reader = _TurnReader(record, stages, attempts.get(number, []), about, at)
        turns.append(reader.turn(number, lanes.pop(number, []), end))
        at = max(reader.at, end)
    return turns


class _TurnReader:
    """Reads the stages of one turn; `at` is how far it has come."""

    def __init__(
        self,
        record: TraceRecord,
        stages: list[Stage],
        attempts: Sequence[AttemptFacts],
        facts: TurnFacts | None,
        at: int,
    ) -> None:
        self.at = at
        self._record = record
        self._own = record.source == OWN
        self._stages = stages
        self._attempts = attempts
        self._facts = facts
        self._first = 0  # when the first token of the last reply came
        self._span = 0

    def turn(self, number: int, lanes: list[Stage], end: int) -> Turn:
        """The turn, which lasts until `end`, with the calls in its lanes."""
        stages, begun = self._stages, self.at
        if not lanes:
            return Turn(number, (*self._pieces(stages), *self._gap(end)))
        fork = self._fork(min(stage.start for stage in lanes))
        before = self._pieces(stages[:fork])
        told = stages[fork].end if fork < len(stages) and stages[fork].kind == "overhead" else self.at
        reply = Reply(begun, self._first, self.at, told, self._span)
        calls, joined = read_calls(self._record, self._facts, lanes, reply, end)
        join = next((at for at in range(fork, len(stages)) if stages[at].start >= joined), len(stages))
        beside = self._steps(stages[fork:join])
        self.at = max(self.at, joined)
        return Turn(number, before, calls, beside, (*self._steps(stages[join:]), *self._gap(end)))

    def _fork(self, acting: int) -> int:
        """How many stages there are up to the reply's end, or to when it was acted upon, where that came later.

        What follows is beside the calls, or comes after them.
        """
        stages = self._stages
        last = max((place for place, stage in enumerate(stages) if stage.kind in _MODEL), default=-1) + 1
        while last < len(stages) and (stages[last].kind == "parse" or (not self._own and stages[last].end <= acting)):
            last += 1
        return last

    def _gap(self, start: int) -> tuple[Step, ...]:
        """The time until `start`, which nobody owns."""
        took, self.at = start - self.at, max(start, self.at)
        return (Step("unattributed", took),) if took > 0 else ()

    def _steps(self, stages: Sequence[Stage]) -> tuple[Step, ...]:
        return tuple(step for stage in stages for step in (*self._gap(stage.start), *self._step(stage)))

    def _step(self, stage: Stage) -> tuple[Step, ...]:
        took, self.at = stage.end - self.at, max(stage.end, self.at)
        return (Step(stage.kind, took, _name(stage)),) if took > 0 else ()

    def _pieces(self, stages: Sequence[Stage]) -> tuple[Step | Ask, ...]:
        pieces: list[Step | Ask] = []
        place = 0
        while place < len(stages):
            stage = stages[place]
            if stage.start > self.at:
                pieces += self._gap(stage.start)
            if stage.kind in _MODEL:
                end = _end_of_ask(stages, place)
                pieces.append(self._ask(stages[place:end]))
                place = end
            else:
                pieces += self._step(stage)
                place += 1
        return tuple(pieces)

    def _ask(self, stages: Sequence[Stage]) -> Ask:
        """One request, of these stages."""
        begun, took = self.at, {"connect": 0, "prefill": 0, "decode": 0}
        seen = False
        for stage in stages:
            if stage.kind == "decode" and stage.note != UNKNOWN_FIRST:
                self._first, seen = self.at, True
            took[stage.kind] += max(stage.end - self.at, 0)
            self.at = max(stage.end, self.at)
        facts = self._attempt(begun) or _NOBODY
        usage = self._usage(facts)
        prompt = usage.input_tokens or facts.prompt_bytes // _BYTES_PER_TOKEN
        self._first, self._span = (self._first, took["decode"]) if seen else (self.at, 0)
        return Ask(
            facts.service,
            facts.model or (self._facts.model or "" if self._facts is not None else ""),
            facts.outcome,
            took["connect"],
            took["prefill"],
            took["decode"],
            span=self._span,
            silence=self._silence(),
            prompt=prompt,
            cached=usage.cached_tokens,
            known=prompt * facts.known_bytes // facts.prompt_bytes if facts.prompt_bytes else 0,
            out=usage.output_tokens or 0,
            begun=begun - self._record.start,
        )

    def _silence(self) -> int:
        """The longest pause in the reply, unless that is the one before all calls came at once."""
        facts = self._facts
        return 0 if facts is None or facts.burst or facts.gap is None else facts.gap

    def _attempt(self, begun: int) -> AttemptFacts | None:
        """What is known of the request that was made from then until now; of a hedged one, of that which counts."""
        made = [each for each in self._attempts if each.outcome != "lost" and begun <= each.start <= self.at]
        return min(made, key=lambda each: abs(each.end - self.at), default=None)

    def _usage(self, facts: AttemptFacts) -> Usage:
        """The tokens of a request: as it says, or its turn does, for the one that was answered."""
        if facts.usage.input_tokens is None and facts.outcome == "ok" and self._facts is not None:
            return self._facts.usage
        return facts.usage


def _name(stage: Stage) -> str:
    """The name of a stage; of a queue what was waited for, which its note tells."""
    if stage.kind == "queue" and not stage.name:
        return next((name for note, name in _QUEUES.items() if stage.note.startswith(note)), "")
    return stage.name


def _end_of_ask(stages: Sequence[Stage], place: int) -> int:
    """Where the stages of the request that begins at `place` end."""
    end = place + 1
    while end < len(stages) and stages[end].kind in _MODEL and stages[end - 1].kind != "decode":
        end += 1
    return end
