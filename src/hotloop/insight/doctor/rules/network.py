"""The network: connections, distance, and what holds a stream back on the way."""

from __future__ import annotations

from hotloop.insight.doctor.case import Case, middle
from hotloop.insight.doctor.measures import Reply
from hotloop.insight.doctor.rule import Rule, Seen
from hotloop.trace.stats import percentile
from hotloop.units import NS_PER_MS, ms, show_ms

_MOSTLY = 0.5  # of requests, or of streams
_SEVERAL = 3  # requests
_FAR = 80 * NS_PER_MS  # there and back: 8,000 km of fibre at 200 km/ms, another continent
_SURELY = 10  # per cent of replies came sooner: distance is there each time, and a busy event loop is not
_ROUNDS = 3  # there and back to open a connection: TCP, TLS, and one more for names or an older TLS


def _connections(case: Case) -> Seen | None:
    """Connections are opened anew although there had been some."""
    later = case.replies[1:]  # the first of all has to open one
    opened = [reply.connect for reply in later if reply.opened]
    costs = [sum(reply.connect for reply in run.replies if reply.opened) for run in case.runs]
    if len(case.replies) < _SEVERAL or len(opened) <= _MOSTLY * len(later) or not case.costly(costs):
        return None
    return Seen(
        f"{len(opened):,} of {len(later):,} requests opened one, {show_ms(ms(middle(opened)))} each",
        costs,
        case.counts(costs),
        {"opened": len(opened) / len(later), "open_ms": ms(middle(opened))},
    )


def _far_away(case: Case) -> Seen | None:
    """The service is far away."""
    ways = [way for reply in case.replies if (way := _way(reply)) is not None]
    opened = middle([reply.connect for reply in case.replies if reply.opened]) / _ROUNDS
    trip = percentile(ways, _SURELY) if ways else opened
    costs = [trip * len(run.replies) if trip >= _FAR else 0.0 for run in case.runs]
    if not case.costly(costs):
        return None
    how = "by the times that the service tells itself" if ways else "by how long connections take to open"
    return Seen(f"{show_ms(ms(trip))} there and back, {how}", costs, case.counts(costs), {"round_trip_ms": ms(trip)})


def _buffered_stream(case: Case) -> Seen | None:
    """Something on the way holds replies back until they are complete."""
    texts = [reply for reply in case.replies if not reply.acts]
    held = [reply for reply in texts if reply.buffered]
    hits = [any(reply.buffered and not reply.acts for reply in run.replies) for run in case.runs]
    if len(held) <= _MOSTLY * len(texts) or not case.many(sum(hits)):
        return None
    return Seen(
        f"{len(held):,} of {len(texts):,} answers came all at once, so that first words are late, and tools begin late",
        [sum(reply.told.writing or 0 for reply in run.replies if reply.buffered) for run in case.runs],
        hits,
        {"held": len(held) / len(texts)},
    )


def _way(reply: Reply) -> int | None:
    """The time there and back, where the service tells how much of the wait was its own.

    Not of calls: some services hold them back until they are whole, and the first token with them.
    """
    first = reply.told.first
    if first is None or reply.acts or reply.waited is None:
        return None
    return max(reply.waited - first, 0)


RULES = (
    Rule(
        "connections",
        "network",
        "Connections are not kept",
        _connections,
        do="Make the agent once and keep it: its connections are its own. agent.warm(connections=2) opens them before "
        "the first run. If a proxy closes them, have it not.",
        otherwise="Make the client once and keep it, with keep-alive; look for a proxy that closes connections.",
    ),
    Rule(
        "far-away",
        "network",
        "The service is far away",
        _far_away,
        do="Ask it in a region that is near to the agent, or run the agent near to it. Fewer turns help as well.",
        otherwise="Ask it in a region that is near to the agent, or run the agent near to it.",
    ),
    Rule(
        "buffered-stream",
        "network",
        "Streams are held back on the way",
        _buffered_stream,
        do="Switch buffering off in the proxy or gateway between (nginx: proxy_buffering off, and no compression of "
        "event streams), or ask the service directly.",
        otherwise="Switch buffering off in the proxy or gateway between, or ask the service directly.",
    ),
)
