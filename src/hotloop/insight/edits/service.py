"""What if another service answered?"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from hotloop.insight.arrivals import following
from hotloop.insight.edits.edit import Change, with_asks
from hotloop.insight.graph import Graph
from hotloop.insight.learned import Learned, shown
from hotloop.insight.pieces import GRAIN, Ask, Call, Turn
from hotloop.insight.serving import Place, ServiceProfile
from hotloop.insight.workload import Workload

_NOTABLE = 0.1  # of the time


class Service(msgspec.Struct, frozen=True):
    """A service of this profile answers, in the place of `model` alone if that is given.

    With `others` so many more replies are always running there; without, those of the recorded runs meet each other.
    """

    profile: ServiceProfile
    model: str | None = None
    others: int | None = None

    @property
    def label(self) -> str:
        """See `Edit`."""
        instead = f" instead of {self.model}" if self.model else ""
        beside = f", {self.others} others there" if self.others is not None else ""
        return f"service {self.profile.name}{instead}{beside}"

    @property
    def chance(self) -> bool:
        """See `Edit`."""
        return bool(self.profile.queue_sigma or (self.profile.decode_sigma and self.profile.kind == "lpu"))

    def change(self, work: Workload) -> Change:
        """See `Edit`."""
        place = Place(self.profile, self.others)

        def change(graph: Graph, _: object) -> Graph:
            streamed = any(ask.paced for ask in graph.asks)
            return replace(graph, turns=tuple(self._turn(turn, place, work, streamed) for turn in graph.turns))

        return change

    def without(self, work: Workload) -> Change:
        """See `Edit`."""

        def instant(ask: Ask) -> Ask:
            return replace(ask, prefill=0, decode=0, by=None) if self._is_meant(ask) else ask

        answered = self.change(work)
        return lambda graph, draw: with_asks(answered(graph, draw), instant)

    def assumptions(self, work: Workload) -> list[str]:
        """See `Edit`."""
        told = ["the other model needs as many tokens and calls the same tools"]
        asks = [ask for place in work.sample for ask in work.graphs[place].asks if self._is_meant(ask)]
        if not self.profile.cache_block:
            told.append(f"{self.profile.name} has no prefix cache")
        elif any(ask.known for ask in asks):
            share = sum(ask.known for ask in asks) / max(sum(ask.prompt for ask in asks), 1)
            told.append(f"its prefix cache has what was sent before: {share:.0%} of the prompt tokens")
        if Place(self.profile, self.others).shared:
            again = len(following(work.graphs)) / max(len(work.graphs), 1)
            those = f"; {again:.0%} of them as long after an answer as they did" if again else ""
            told.append(f"nobody but these runs is there at the same time; they begin when they began{those}")
        if any(not ask.out for ask in asks):
            told.append("replies whose tokens nobody counted take as long to write as they took")
        if _share_of_tools(work) > _NOTABLE:
            told.append("what tools do inside, such as asking models, takes as long as it did")
        if any(ask.outcome not in ("ok", "rejected") for ask in asks):
            told.append("requests that failed fail there as well, after the same time")
        return told

    def _is_meant(self, ask: Ask) -> bool:
        return ask.outcome in ("ok", "rejected", "") and self.model in (None, ask.model)

    def _turn(self, turn: Turn, place: Place, work: Workload, streamed: bool) -> Turn:
        """The turn, answered there; calls of a reply that is `streamed` start early if they may."""
        ask = turn.ask
        before = tuple(
            replace(piece, by=place) if type(piece) is Ask and self._is_meant(piece) and piece.out else piece
            for piece in turn.before
        )
        if ask is None or not self._is_meant(ask) or not turn.calls or ask.out < 2:
            return replace(turn, before=before)
        seals = _seals(ask, turn.calls, work.service_of(ask), place.profile.granularity)
        span = (ask.out - 1) * GRAIN
        last = max(place for place, piece in enumerate(before) if type(piece) is Ask)
        asked = (*before[:last], replace(before[last], span=span), *before[last + 1 :])
        calls = tuple(
            _sealed(call, round(seal * GRAIN), turn.calls if streamed else ())
            for call, seal in zip(turn.calls, seals, strict=True)
        )
        return Turn(turn.number, asked, calls, turn.beside, turn.after)


def _share_of_tools(work: Workload) -> float:
    """How much of the runs' time tools take, side by side or not."""
    graphs = [work.graphs[place] for place in work.sample]
    calls = (call for graph in graphs for turn in graph.turns for call in turn.calls)
    return sum(step.took for call in calls for step in call.work) / max(sum(graph.took for graph in graphs), 1)


def _sealed(call: Call, seal: int, calls: tuple[Call, ...]) -> Call:
    """The call, sealed at another point; one of these `calls` starts early if it may, also if it had no time before."""
    may = bool(calls) and call.able and all(calls[need].able for need in call.needs)
    return replace(call, sealed=seal, early=call.early or may)


def token_marks(ask: Ask, calls: tuple[Call, ...], known: Learned | None) -> list[float]:
    """After how many tokens (beyond the first) each call was complete, which shows when the next one begins.

    A call that came whole shows only when the next has come whole: the first one had ended where the reply was first
    seen, or, if there were words before it, one silence before the second had. Where all came at once they are taken to
    be of the same length.
    """
    tokens, count = ask.out - 1, len(calls)
    whole = shown(ask, True, known.token_out if known is not None else None)
    held = tokens * (1 - ask.decode / whole.decode) if whole.decode > ask.decode else 0.0
    if not are_marked(ask, calls) and not (count == 2 and _came_whole(ask, calls)):
        return [tokens * (place + 1) / count for place in range(count)]
    marks = [held + (tokens - held) * min(call.sealed / ask.span, 1.0) for call in calls]
    if count < 2:
        return [float(tokens)] if held else marks
    if not (held or _came_whole(ask, calls)):
        return marks
    first = held or max(marks[0] - tokens * ask.silence / max(whole.decode, 1), 0.0)
    return [first + 1.0, *(mark + 1.0 for mark in marks[: count - 2]), float(tokens)]


def _came_whole(ask: Ask, calls: Sequence[Call]) -> bool:
    """Whether each call came in one piece: then the last two are complete together, and something was awaited."""
    if len(calls) < 2 or ask.out < 2 or not ask.paced or not ask.silence:
        return False
    return calls[-1].sealed - calls[-2].sealed < ask.span / (ask.out - 1) / 2


def are_marked(ask: Ask, calls: Sequence[Call]) -> bool:
    """Whether it was seen when each call was complete."""
    return ask.paced and (len(calls) < 2 or any(call.sealed < ask.span for call in calls))


def _seals(ask: Ask, calls: tuple[Call, ...], known: Learned | None, granularity: str) -> list[float]:
    """After how many tokens each call is known to be complete, where calls are streamed like this."""
    marks, tokens = token_marks(ask, calls, known), float(ask.out - 1)
    if granularity == "token":
        return marks
    if granularity == "burst" or any("." in call.call_id for call in calls):  # the steps of a plan are one call
        return [tokens] * len(calls)
    return [*(min(mark - 1.0, tokens) for mark in marks[1:-1]), *[tokens] * min(len(calls), 2)]
