"""A plan that is being written: its steps as they become complete, and what is wrong with it in the end."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from hotloop.errors import ArgumentsError
from hotloop.tools.plan.plan import MAX_STEPS, Step, read_plan, read_step
from hotloop.tools.plan.scanner import StepScanner


class PlanReader:
    """Reads the arguments of one call of `plan`; `steps` are those that are known, `fault` why there is no plan."""

    def __init__(self, tool_names: Collection[str]) -> None:
        self.steps: list[Step] = []
        self.fault = ""
        self._tool_names = tool_names
        self._scanner = StepScanner()
        self._read = 0

    def feed(self, fragments: Sequence[str]) -> list[Step]:
        """The steps that have become complete with these fragments of the arguments; those read before count once."""
        new: list[Step] = []
        for fragment in fragments[self._read :]:
            self._read += 1
            for text in self._scanner.feed(fragment):
                if self.fault or len(self.steps) == MAX_STEPS:
                    return new
                try:
                    step = read_step(text, self._tool_names)
                except ArgumentsError as error:
                    self.fault = str(error)
                    return new
                new.append(step)
                self.steps.append(step)
        return new

    def complete(self, arguments: str) -> list[Step]:
        """The steps that were not known yet, now that all arguments have come; none if there is a fault."""
        known = len(self.steps)
        try:
            steps = read_plan(arguments, self._tool_names)
        except ArgumentsError as error:
            self.fault = str(error)
            return []
        if steps[:known] != self.steps:
            self.fault = "The plan has its steps twice; write it again."
            return []
        self.steps = steps
        return steps[known:]
