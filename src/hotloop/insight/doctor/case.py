"""All runs that are looked at together, and what only several of them show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from statistics import median

from hotloop.insight.doctor.finding import Costs
from hotloop.insight.doctor.measures import Made, Reply, Run
from hotloop.insight.doctor.speeds import Speed, speeds
from hotloop.insight.doctor.turns import Turns, known_before, turns_of
from hotloop.trace.stats import percentile
from hotloop.units import NS_PER_MS, ms

NOTICED = 100 * NS_PER_MS
"""From here on a person notices a delay: the first grade of perceived latency."""
PART = 0.05
"""Of a run's time: less is lost in what differs from run to run. Of all runs: what fewer have does not show at p95."""
_FEW = 3  # runs, of which one alone counts


class Case:
    """The runs that a diagnosis is of. Lists over them have one item for each run, in their order."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self.runs = runs
        self.ours = any(run.ours for run in runs)

    @cached_property
    def replies(self) -> list[Reply]:
        """The replies of all runs."""
        return [reply for run in self.runs for reply in run.replies]

    @cached_property
    def speeds(self) -> dict[str, Speed]:
        """How fast each service reads and writes."""
        return speeds(self.replies)

    @cached_property
    def turns(self) -> list[Turns]:
        """The turns of each run that it could have done without."""
        return [turns_of(run) for run in self.runs]

    @cached_property
    def answered_before(self) -> list[bool]:
        """Whether a run asked what an earlier one had asked, and got the same answer."""
        seen: set[tuple[str, str, str]] = set()
        found = []
        for run in self.runs:
            prompt, answer = run.record.prompt, run.record.answer
            key = (run.record.name, prompt.digest, answer.digest) if prompt and answer else None
            found.append(key in seen and run.record.outcome == "ok")
            if key is not None:
                seen.add(key)
        return found

    @cached_property
    def again(self) -> list[list[Made]]:
        """The calls that had been made before, in the run or in an earlier one, and had given the same."""
        earlier = known_before(self.runs, self.answered_before)
        return [[*turns.again, *known] for turns, known in zip(self.turns, earlier, strict=True)]

    def reading(self, tokens: Iterable[float]) -> list[float]:
        """What it takes (ns) to read so many tokens in each run."""
        return [
            count * self.speeds[run.replies[0].where].token if count and run.replies else 0.0
            for run, count in zip(self.runs, tokens, strict=True)
        ]

    def many(self, hits: int) -> bool:
        """Whether so many runs are no chance: one alone counts only among few."""
        runs = len(self.runs)
        return hits >= PART * runs and (hits > 1 or (hits == 1 and runs <= _FEW))

    def counts(self, costs: Sequence[float]) -> list[bool]:
        """In which runs costs of so many nanoseconds are worth a thought."""
        return [cost > 0 and cost >= min(NOTICED, PART * run.wall) for run, cost in zip(self.runs, costs, strict=True)]

    def costly(self, costs: Sequence[float]) -> bool:
        """Whether they are in enough runs."""
        return self.many(sum(self.counts(costs)))

    def sum_up(self, costs: Sequence[float]) -> Costs:
        """Costs of so many nanoseconds in each run, over all of them."""
        share = sum(costs) / sum(run.wall for run in self.runs)
        return Costs(ms(percentile(costs, 50)), ms(percentile(costs, 95)), min(round(share, 4), 1.0))


def listed(names: Counter[str], count: int = 4) -> str:
    """The names that came most often, for a person."""
    told = ", ".join(name for name, _ in names.most_common(count))
    return told + (f" and {len(names) - count} more" if len(names) > count else "")


def middle(values: Sequence[float]) -> float:
    """The median, 0 of nothing."""
    return median(values) if values else 0.0


def usual(values: Iterable[float]) -> float:
    """The median of those that are not 0."""
    return middle([value for value in values if value])
