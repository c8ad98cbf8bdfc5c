"""What if the calls of several turns were written in one reply?"""

from __future__ import annotations

from itertools import takewhile

import msgspec
from msgspec.structs import replace

from hotloop.insight.edits.edit import Change, reread, with_asks
from hotloop.insight.edits.service import token_marks
from hotloop.insight.graph import Graph
from hotloop.insight.learned import shown
from hotloop.insight.pieces import GRAIN, Ask, Call, Turn
from hotloop.insight.workload import Workload

_PLAN_DEFINITION = 200  # tokens that describe the tool `plan`
_STEP_FRAME, _PLAN_FRAME = 35, 12  # characters around the tool and the arguments of a step, and around all steps
_CHARACTERS_PER_TOKEN = 4


class Plan(msgspec.Struct, frozen=True):
    """The calls of successive turns are written in one reply, as the steps of a plan."""

    @property
    def label(self) -> str:
        """See `Edit`."""
        return "dependent calls in one reply (plan)"

    @property
    def chance(self) -> bool:
        """See `Edit`."""
        return False

    def change(self, work: Workload) -> Change:
        """See `Edit`."""
        return lambda graph, _: _planned(graph, work)

    def without(self, work: Workload) -> Change:
        """See `Edit`."""

        def change(graph: Graph, _: object) -> Graph:
            if len(_acting(graph)) < 2:
                return graph
            plan, *rest = _planned(graph, work).turns
            asked = plan.ask
            before = tuple(_written(each) if type(each) is Ask and each is asked else each for each in plan.before)
            return replace(graph, turns=(replace(plan, before=before), *rest))

        return change

    def assumptions(self, work: Workload) -> list[str]:
        """See `Edit`."""
        share = sum(len(_acting(work.graphs[place])) > 1 for place in work.sample) / max(len(work.sample), 1)
        return [
            f"{share:.0%} of the runs have calls in several turns in a row; the model knows all of them in the first",
            "a step waits for all calls of the turn that was before it",
            f"the plan's definition is {_PLAN_DEFINITION} tokens more in each prompt, and each step is written out",
        ]


def _written(ask: Ask) -> Ask:
    """The request, whose reply is written at once."""
    return replace(ask, decode=0)


def _acting(graph: Graph) -> list[Turn]:
    """The turns with calls that a run begins with, if each has a reply of which the tokens are known."""
    return list(takewhile(lambda turn: turn.calls and (ask := turn.ask) is not None and ask.out > 0, graph.turns))


def _planned(graph: Graph, work: Workload) -> Graph:
    acting = _acting(graph)
    longer = with_asks(graph, lambda ask: _with_definition(ask, work)).turns
    if len(acting) < 2:
        return replace(graph, turns=longer)
    first, last = acting[0], acting[-1]
    ask = longer[0].ask
    assert ask is not None
    tokens, calls = _steps(acting, work)
    known = work.service_of(ask)
    pace = known.token_out if known is not None and known.token_out is not None else _pace(acting)
    seen = shown(ask, True, pace)
    one = replace(seen, out=tokens, decode=round((tokens - 1) * pace), span=(tokens - 1) * GRAIN)
    if seen is not ask or (
        one.by is not None and one.by.profile.granularity != "token"
    ):  # it comes whole, with all its steps
        calls = tuple(replace(call, sealed=one.span) for call in calls)
    before = tuple(one if each is ask else each for each in longer[0].before)
    turn = Turn(first.number, before, calls, last.beside, last.after)
    rest = [_after_plan(each, ask, work) for each in longer[len(acting) : len(acting) + 1]]
    return replace(graph, turns=(turn, *rest, *longer[len(acting) + 1 :]))


def _with_definition(ask: Ask, work: Workload) -> Ask:
    """The request with one tool more."""
    seen = ask.known + _PLAN_DEFINITION if ask.known else 0
    return reread(ask, ask.prompt + _PLAN_DEFINITION, seen, work.service_of(ask))


def _after_plan(turn: Turn, planned: Ask, work: Workload) -> Turn:
    """The turn after a plan: all that came of it is new to the service."""
    before = tuple(
        reread(each, each.prompt, min(each.known, planned.prompt), work.service_of(each)) if type(each) is Ask else each
        for each in turn.before
    )
    return Turn(turn.number, before, turn.calls, turn.beside, turn.after)


def _steps(acting: list[Turn], work: Workload) -> tuple[int, tuple[Call, ...]]:
    """How many tokens the plan has, and its steps: each of a turn waits for all of the turn before."""
    written = 1 + _PLAN_FRAME / _CHARACTERS_PER_TOKEN
    steps: list[Call] = []
    before: tuple[int, ...] = ()
    for turn in acting:
        ask, offset = turn.ask, len(steps)
        assert ask is not None
        frames = [(_STEP_FRAME + len(call.name)) / _CHARACTERS_PER_TOKEN - 1 for call in turn.calls]
        marks, extra = token_marks(ask, turn.calls, work.service_of(ask)), 0.0
        for place, (call, mark, frame) in enumerate(zip(turn.calls, marks, frames, strict=True)):
            extra += frame
            needs = (*(offset + need for need in call.needs), *before)
            early = call.able and all(steps[need].early for need in needs)
            sealed = round((written + mark + extra) * GRAIN)
            lane = offset + place + 1
            step = replace(
                call, call_id=f"plan.s{lane}", lane=lane, sealed=sealed, needs=needs, early=early, in_line=False
            )
            steps.append(step)
        before = tuple(range(offset, len(steps)))
        written += ask.out + extra
    return round(written), tuple(steps)


def _pace(acting: list[Turn]) -> float:
    """The time between tokens in these replies."""
    asks = [turn.ask for turn in acting if turn.ask is not None]
    return sum(ask.decode for ask in asks) / max(sum(ask.out - 1 for ask in asks), 1)
