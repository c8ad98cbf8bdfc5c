"""What is measured of a run: its stages on the critical path, its requests to models, its calls of tools."""

from __future__ import annotations

from functools import cached_property
from operator import attrgetter

from hotloop.trace.ledger import AttemptFacts
from hotloop.trace.path import Step, steps_back, took_by
from hotloop.trace.record import TraceRecord
from hotloop.trace.rows import ALL_ROWS, ROWS, by_row, by_turn
from hotloop.trace.tokens import ANSWERED, is_counted
from hotloop.units import NS_PER_S

_OF_A_MODEL = frozenset((*ROWS["model"], *ROWS["network"]))
_NO_END = frozenset(("cancelled", "discarded", "skipped", "refused", "unknown", "pending", "known"))


class Measured:
    """One recorded run, measured; times are nanoseconds."""

    def __init__(self, record: TraceRecord) -> None:
        self.record = record

    @property
    def took(self) -> int:
        """The run, end to end."""
        return self.record.end - self.record.start

    @property
    def ended(self) -> float:
        """When it ended, in Unix seconds."""
        return self.record.started + self.took / NS_PER_S

    @cached_property
    def stages(self) -> dict[str, int]:
        """What each kind of stage took on the critical path."""
        return took_by(attrgetter("kind"), self._steps)

    @cached_property
    def tools(self) -> dict[str, int]:
        """What each tool took on the critical path."""
        return took_by(attrgetter("name"), [step for step in self._steps if step.stage.kind == "tool"])

    @cached_property
    def models(self) -> dict[str, int]:
        """What each model took on the critical path, with the way to it."""
        of_turn = self._model_of_turn
        asked = [step for step in self._steps if step.stage.kind in _OF_A_MODEL and step.stage.turn in of_turn]
        return took_by(lambda stage: of_turn[stage.turn], asked)

    @cached_property
    def rows(self) -> dict[str, int]:
        """What each row of the budget took on the critical path, from where that counts on: of the run, and of the
        turn that took most of it.

        They are named as in `Budget.limits`: "model", "total", "turn.model".
        """
        since = max(self.record.since, self.record.start)
        run, turns = by_row(self._steps, since), by_turn(self._steps, since)
        run["total"] = self.record.end - since
        whole = {row: run[row] for row in ALL_ROWS}
        return whole | {f"turn.{row}": max(turn[row] for turn in turns) for row in ALL_ROWS if turns}

    @cached_property
    def calls(self) -> list[tuple[str, int]]:
        """The calls that a tool worked for, each with the time of all its tries."""
        took: dict[tuple[str, int, int], int] = {}
        for stage in self.record.stages:
            if stage.kind == "tool":
                call = (stage.name, stage.turn, stage.lane)
                took[call] = took.get(call, 0) + stage.end - stage.start
        return [(name, spent) for (name, _, _), spent in took.items()]

    @property
    def ends(self) -> list[tuple[str, bool]]:
        """The calls that came to an end of their own, each with whether it failed."""
        calls = (call for turn in self.record.turns for call in turn.calls)
        return [(call.name, call.outcome == "error") for call in calls if call.outcome not in _NO_END]

    @property
    def replies(self) -> list[AttemptFacts]:
        """The requests to models that were answered."""
        return [each for each in self.record.attempts if each.outcome in ANSWERED]

    @property
    def counted(self) -> list[AttemptFacts]:
        """The requests whose tokens count."""
        return list(filter(is_counted, self.record.attempts))

    @property
    def tpots(self) -> list[tuple[str, int]]:
        """The time per output token of each reply that has one, after its model."""
        of_turn = self._model_of_turn
        return [(of_turn.get(turn.turn, ""), turn.tpot) for turn in self.record.turns if turn.tpot is not None]

    @cached_property
    def _steps(self) -> list[Step]:
        return steps_back(self.record.stages, self.record.end)

    @cached_property
    def _model_of_turn(self) -> dict[int, str]:
        """The model that gave the reply of each turn."""
        told = {turn.turn: turn.model for turn in self.record.turns if turn.model}
        return told | {each.turn: each.model for each in self.replies}
