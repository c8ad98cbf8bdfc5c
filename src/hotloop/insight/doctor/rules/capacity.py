"""The capacity: places, limits, refusals, second requests, and a service that is full."""

from __future__ import annotations

from collections import Counter

from hotloop.insight.doctor.case import Case, usual
from hotloop.insight.doctor.measures import Run
from hotloop.insight.doctor.rule import Rule, Seen
from hotloop.units import NS_PER_MS, ms, show_ms

_LIMITED, _OVERLOADED = "RateLimited", "Overloaded"
_FAILED = (_OVERLOADED, "TransportError", "ConnectError", "ReplyTimeout", "MalformedReply")
_VAIN = 0.8  # of second requests; where they help, about half of them are first
_FEW, _MANY = 3, 0.02  # second requests, and of all requests: less costs nothing to speak of
_OWN_QUEUE = 50 * NS_PER_MS  # that services count as queueing with nobody there (GroqCloud: about 30 ms)


def _queue(case: Case) -> Seen | None:
    """Requests wait for a place in front of the service."""
    costs = [run.places for run in case.runs]
    if not case.costly(costs):
        return None
    return Seen(f"{show_ms(ms(usual(costs)))} a run that waited", costs, case.counts(costs))


def _rate_limits(case: Case) -> Seen | None:
    """Requests wait for rate limits, or are refused by them."""
    refused = [sum(each.error == _LIMITED for each in run.record.attempts) for run in case.runs]
    held = _held(case, _LIMITED)
    costs = [run.limits + run.retries.get(_LIMITED, 0) + hold for run, hold in zip(case.runs, held, strict=True)]
    hits = [bool(count) or worth for count, worth in zip(refused, case.counts(costs), strict=True)]
    if not case.many(sum(hits)):
        return None
    return Seen(
        f"{sum(refused):,} requests were refused; {show_ms(ms(usual(costs)))} a run that waited",
        costs,
        hits,
        {"refused": sum(refused)},
    )


def _failed_requests(case: Case) -> Seen | None:
    """Requests fail and are sent again."""
    names = Counter(each.error for run in case.runs for each in run.record.attempts if each.error in _FAILED)
    hits = [any(each.error in _FAILED for each in run.record.attempts) for run in case.runs]
    if not case.many(sum(hits)):
        return None
    requests = sum(len(run.record.attempts) for run in case.runs)
    told = ", ".join(f"{count:,} {name}" for name, count in names.most_common())
    return Seen(
        f"{sum(names.values()):,} of {requests:,} requests: {told}",
        [_failing(run) + hold for run, hold in zip(case.runs, _held(case, _OVERLOADED), strict=True)],
        hits,
        {"failed": sum(names.values()), "requests": requests},
    )


def _vain_hedges(case: Case) -> Seen | None:
    """Second requests are sent, and hardly ever come first."""
    requests = sum(len(run.record.attempts) for run in case.runs)
    second = [[each for each in run.record.attempts if each.why == "hedge"] for run in case.runs]
    sent = sum(map(len, second))
    lost = sum(each.outcome != "ok" for some in second for each in some)
    if sent < max(_FEW, _MANY * requests) or lost < _VAIN * sent:
        return None
    return Seen(
        f"{lost:,} of {sent:,} were not the first to answer; {requests:,} requests in all",
        [0.0] * len(case.runs),
        [bool(some) for some in second],
        {"sent": sent, "lost": lost},
    )


def _full_service(case: Case) -> Seen | None:
    """Requests wait inside of the service."""
    costs = [sum(max((reply.told.queue or 0) - _OWN_QUEUE, 0) for reply in run.replies) for run in case.runs]
    if not case.costly(costs):
        return None
    return Seen(f"by its own times they queue there for {show_ms(ms(usual(costs)))} a run", costs, case.counts(costs))


def _failing(run: Run) -> float:
    """What failed requests took, with the waits after them."""
    took = sum(each.end - each.start for each in run.record.attempts if each.error in _FAILED and each.why != "hedge")
    return took + sum(wait for error, wait in run.retries.items() if error in _FAILED)


def _held(case: Case, error: str) -> list[int]:
    """What each run waited because the service had asked others to, if it mostly did so for this reason."""
    asked = Counter(each.error for run in case.runs for each in run.record.attempts)
    reason = max((_LIMITED, _OVERLOADED), key=lambda each: asked[each])
    return [run.holds if error == reason else 0 for run in case.runs]


RULES = (
    Rule(
        "queue",
        "capacity",
        "Requests wait for a place",
        _queue,
        do="Raise Policy(max_concurrent=...), if the service can take more; run what nobody waits for with "
        "background=True; or spread runs over services.",
        otherwise="Allow more requests at once, if the service can take them.",
    ),
    Rule(
        "rate-limits",
        "capacity",
        "The service's rate limits are used up",
        _rate_limits,
        do="Raise the limit, or spread requests over keys, models or services (fallback). Fewer turns and shorter "
        "prompts need less of it.",
        otherwise="Raise the limit, spread requests over services, make fewer and shorter ones.",
    ),
    Rule(
        "failed-requests",
        "capacity",
        "Requests fail and are sent again",
        _failed_requests,
        do="Name a second service, which is then asked at once: fallback=[Model(...)]. If failing takes long, shorten "
        "Policy(first_token, stall, total). Tell whoever runs the service.",
        otherwise="Have a second service asked, fail faster, and tell whoever runs the service.",
    ),
    Rule(
        "vain-hedges",
        "capacity",
        "Second requests are sent in vain",
        _vain_hedges,
        do="Switch Policy(hedge) off, or lower hedge_share: what is slow for all is not cured by more requests, "
        "and each costs tokens and a place.",
        otherwise="Switch hedging off: what is slow for all is not cured by more requests.",
    ),
    Rule(
        "full-service",
        "capacity",
        "Requests wait inside of the service",
        _full_service,
        do="It has too few slots for what it is asked: reserve capacity, ask a higher tier, send what nobody waits "
        "for at another time, or spread runs over services.",
        otherwise="Reserve capacity, ask a higher tier, or spread runs over services.",
    ),
)
