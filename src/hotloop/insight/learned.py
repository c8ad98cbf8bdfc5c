"""What recorded requests show of a service: what reading and writing a token costs there, and how its waits vary."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from statistics import linear_regression, median, pstdev
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from hotloop.insight.graph import Graph
from hotloop.insight.pieces import Ask
from hotloop.units import NS_PER_S

Where = tuple[str, str]
"""A service, and a model there."""

_MOST = 600  # requests that are looked at
_PAIRS = 2000
_LEAST = 8  # requests that tell anything
_ENOUGH_ALONE = 20  # requests beside which there was no other, so that nobody held them up
_SURE = 3.0  # standard errors
_HELD = 0.2  # of a reply's writing: less may be chance


class Learned(msgspec.Struct, frozen=True):
    """A model at a service, as `asks` requests show it; times in nanoseconds.

    `token_in` is what a prompt token costs that is not cached; None if that cannot be told, because prompts are too
    alike, too few, or make no difference that could be seen. `token_out` is the time between tokens, None if it cannot
    be told. `caches` tells that prefixes are reused, `waits` are the times to the first token, where that is known.
    Beside a share `crowded` of the requests there were others of these runs.
    """

    asks: int
    token_in: float | None
    token_out: float | None
    caches: bool
    waits: list[int]
    crowded: float


def learn(graphs: Iterable[Graph]) -> dict[Where, Learned]:
    """What these runs show of each model that answered."""
    found: dict[Where, list[_Met]] = {}
    for graph in graphs:
        start = round(graph.started * NS_PER_S)
        for turn in graph.turns:
            for piece in turn.before:
                if type(piece) is Ask and piece.outcome in ("ok", "rejected"):
                    at = start + piece.begun
                    met = _Met(at, at + piece.connect + piece.prefill + piece.decode, piece, bool(turn.calls))
                    found.setdefault((piece.service, piece.model), []).append(met)
    return {where: _learned(met) for where, met in found.items()}


class _Met(NamedTuple):
    """A request from its start to its end (ns), and whether its reply had calls."""

    start: int
    end: int
    ask: Ask
    calls: bool


def _alone(met: list[_Met]) -> list[_Met]:
    """Those of the requests beside which there was no other."""
    met = sorted(met, key=lambda each: each.start)
    alone, latest = [], 0
    for each, after in zip_longest(met, met[1:]):
        if each.start >= latest and (after is None or after.start >= each.end):
            alone.append(each)
        latest = max(latest, each.end)
    return alone


def _learned(met: list[_Met]) -> Learned:
    draw = random.Random(0)
    asks = [each.ask for each in met]
    alone = _alone(met)
    chosen = alone if len(alone) >= _ENOUGH_ALONE else met
    chosen = chosen if len(chosen) <= _MOST else draw.sample(chosen, _MOST)
    some = [(ask, calls) for _, _, ask, calls in chosen if ask.prompt and ask.out]
    outs = [float(ask.out) for ask, _ in some]
    news = [float(ask.new) for ask, _ in some]
    token_out = _token_out(some)
    if token_out is None:  # nobody saw when first tokens came: a whole reply is what both kinds of token cost
        waits = [float(ask.prefill + ask.decode) for ask, _ in some]
        token_out = _slope(_without(outs, news), _without(waits, news), draw).cost
        waits = _without(waits, outs)
    else:
        waits = [_wait(ask, calls, token_out) for ask, calls in some]
        outs = []
    by_new = _slope(_without(news, outs), waits, draw)
    reported = any(ask.cached for ask, _ in some)
    if not reported:  # whether it caches and does not say so: which of the two explains the times
        unseen = [float(ask.prompt - ask.known) for ask, _ in some]
        by_unseen = _slope(_without(unseen, outs), waits, draw)
        if by_unseen.cost is not None and by_unseen.error < by_new.error:
            reported, by_new = True, by_unseen
    waits_seen = sorted(ask.prefill for ask in asks if ask.first_known)
    return Learned(len(asks), by_new.cost, token_out, reported, waits_seen, 1.0 - len(alone) / len(met))


class _Slope(msgspec.Struct, frozen=True):
    """What one more costs, None if it cannot be told; and how far from that the times are in the middle."""

    cost: float | None
    error: float


def _token_out(asks: Sequence[tuple[Ask, bool]]) -> float | None:
    """Replies without calls come first: of others, the beginning may have been held back."""
    paces = {True: [], False: []}  # type: dict[bool, list[float]]
    for ask, calls in asks:
        if ask.out > 1 and ask.paced:
            paces[calls].append(ask.decode / (ask.out - 1))
    told = paces[False] if len(paces[False]) >= _LEAST else paces[False] + paces[True]
    return median(told) if told else None


def _wait(ask: Ask, calls: bool, token_out: float) -> float:
    """The wait for the first token, also of a reply whose beginning was held back until a call was complete."""
    return float(shown(ask, calls, token_out).prefill)


def shown(ask: Ask, calls: bool, token_out: float | None) -> Ask:
    """The request as it would look if its reply had been seen from the first token on.

    Of one that was not seen, or whose `calls` each came whole, some of the writing is in the wait for the first token.
    """
    if token_out is None or ask.out < 2:
        return ask
    writing = round((ask.out - 1) * token_out)
    hidden = writing - ask.decode
    if ask.paced and not (calls and hidden > _HELD * writing):
        return ask
    hidden = max(min(hidden, ask.prefill), -ask.decode)
    return replace(ask, prefill=ask.prefill - hidden, decode=ask.decode + hidden)


def _without(values: list[float], others: list[float]) -> list[float]:
    """What of some values the others do not explain, as a line would."""
    if len(set(others)) < 2:
        return values
    slope, level = linear_regression(others, values)
    return [value - level - slope * other for value, other in zip(values, others, strict=True)]


def _slope(sizes: Sequence[float], times: Sequence[float], draw: random.Random) -> _Slope:
    """How times grow with sizes: the median of what random pairs say, which a few stragglers do not move."""
    count = len(sizes)
    if count < _LEAST or max(sizes) == min(sizes):
        return _Slope(None, _off(times))
    pairs = (draw.sample(range(count), 2) for _ in range(_PAIRS))
    slopes = [(times[a] - times[b]) / (sizes[a] - sizes[b]) for a, b in pairs if sizes[a] != sizes[b]]
    slope = median(slopes) if slopes else 0.0
    error = _off([time - slope * size for size, time in zip(sizes, times, strict=True)])
    sure = slope > _SURE * 1.48 * error / (pstdev(sizes) * count**0.5)
    return _Slope(slope if sure else None, error if sure else _off(times))


def _off(values: Sequence[float]) -> float:
    """How far values are from their median, in the middle."""
    if not values:
        return 0.0
    middle = median(values)
    return median([abs(value - middle) for value in values])
