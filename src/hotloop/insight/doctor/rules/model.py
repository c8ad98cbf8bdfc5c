"""The model: how long it reads, how fast and how evenly it writes, and whether it can be understood."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from hotloop.insight.doctor.case import Case, listed, middle
from hotloop.insight.doctor.measures import Reply, Run
from hotloop.insight.doctor.rule import Rule, Seen
from hotloop.insight.doctor.speeds import Speed
from hotloop.insight.doctor.turns import Turns
from hotloop.trace.stats import percentile
from hotloop.units import NS_PER_MS, ms, show_ms

_LONG = 2_000  # tokens that come with one question: 120 ms and more to be read, at a usual 0.06 ms each
_SLOW_TOKEN = 0.3 * NS_PER_MS  # to read one: twice what the slowest published service takes
_FAIR_TOKEN = 0.15 * NS_PER_MS  # what that one takes (GroqCloud)
_SLOW_BASE = 300 * NS_PER_MS  # before a prompt is read: the second grade of perceived latency
_FAIR_BASE = 170 * NS_PER_MS  # the longest published (Cerebras)
_SLOW_WRITING = 40 * NS_PER_MS  # a token: over twice what a 70B model on GPUs takes with few users
_FAIR_WRITING = 18 * NS_PER_MS  # what that takes
_UNEVEN = 2.0  # times as long a token in the slowest tenth of replies as in the fastest
_SLOWER = 1.5  # times a good pace, for a reply that is one of the slow ones
_SEVERAL = 5  # replies, before they are said to differ
_SILENCE, _TOKENS = 250 * NS_PER_MS, 10  # between tokens: long enough to be seen, and no common pause
_UNREAD = {"ToolUseFailed": "refused by the service", "TruncatedReply": "cut at the token cap"}


def _long_prompt(case: Case) -> Seen | None:
    """What comes with a question is long, and has to be read."""
    tokens = [_own_tokens(run) for run in case.runs]
    costs = case.reading(count if count >= _LONG else 0 for count in tokens)
    if not case.costly(costs):
        return None
    new = middle([count for count in tokens if count >= _LONG])
    return Seen(
        f"{new:,.0f} tokens in the middle that no earlier prompt had", costs, case.counts(costs), {"tokens": new}
    )


def _slow_prefill(case: Case) -> Seen | None:
    """The service is slow to read, or to begin."""
    costs = [sum(_waited(case.speeds[reply.where], reply) for reply in run.replies) for run in case.runs]
    if not case.costly(costs):
        return None
    where, speed = max(case.speeds.items(), key=lambda item: (_is_slow(item[1]), item[1].base or 0.0))
    told = [f"{ms(speed.reading):.2g} ms to read a token (published: 0.015 to 0.15 ms)"] if speed.reading else []
    told += [f"{show_ms(ms(speed.base))} before it reads"] if speed.base else []
    return Seen(
        f"{where} takes {' and '.join(told)}",
        costs,
        case.counts(costs),
        {"token_ms": ms(speed.token), "base_ms": ms(speed.base or 0.0)},
    )


def _slow_decode(case: Case) -> Seen | None:
    """The model writes slowly."""
    slow = {where: speed.writing for where, speed in case.speeds.items() if speed.writing >= _SLOW_WRITING}
    costs = [
        sum((slow[reply.where] - _FAIR_WRITING) * reply.out for reply in run.replies if reply.where in slow)
        for run in case.runs
    ]
    if not case.costly(costs):
        return None
    where, pace = max(slow.items(), key=lambda item: item[1])
    tokens = middle([sum(reply.out for reply in run.replies) for run in case.runs])
    return Seen(
        f"{where} takes {show_ms(ms(pace))} a token (a 70B model with few users: 18 ms), for {tokens:,.0f} a run",
        costs,
        case.counts(costs),
        {"tpot_ms": ms(pace)},
    )


def _unstable_decode(case: Case) -> Seen | None:
    """The model writes at a pace that changes, or falls silent within a reply."""
    paces = {where: _paces(speed) for where, speed in case.speeds.items()}
    costs = [sum(_late(reply, *paces[reply.where]) for reply in run.replies) for run in case.runs]
    if not case.costly(costs):
        return None
    known = [reply.tpot for speed in case.speeds.values() for reply in speed.paces if reply.tpot is not None]
    fast, slow = percentile(known, 10), percentile(known, 90)
    silence = max((reply.gap for reply in case.replies if not reply.acts), default=0)
    return Seen(
        f"{show_ms(ms(fast))} a token in the fastest tenth of replies, {show_ms(ms(slow))} in the slowest; the longest "
        f"silence was {show_ms(ms(silence))}",
        costs,
        case.counts(costs),
        {"fast_ms": ms(fast), "slow_ms": ms(slow), "silence_ms": ms(silence)},
    )


def _unparsable_calls(case: Case) -> Seen | None:
    """The model's calls or answers could not be read, and had to be written again."""
    names: Counter[str] = Counter()
    costs = [sum(_written_again(run, turns, names)) for run, turns in zip(case.runs, case.turns, strict=True)]
    hits = [cost > 0 for cost in costs]
    if not case.many(sum(hits)):
        return None
    return Seen(f"{sum(names.values()):,} times: {listed(names)}", costs, hits, {"times": sum(names.values())})


def _own_tokens(run: Run) -> float:
    """How many tokens of the first prompt came with the question; all that were read, where that is not known."""
    if not run.replies or run.replies[0].tokens is None:
        return 0
    first, prompt = run.replies[0], run.record.prompt
    if prompt is not None and run.body:
        return (first.tokens or 0) * prompt.size / run.body
    return 0 if first.cached is None else first.read or 0


def _is_slow(speed: Speed) -> bool:
    return speed.reading is not None and speed.reading > _SLOW_TOKEN


def _waited(speed: Speed, reply: Reply) -> float:
    """What the first token of a reply took more than at a fair service."""
    late = (speed.token - _FAIR_TOKEN) * (reply.read or 0) if _is_slow(speed) else 0.0
    return late + (speed.base - _FAIR_BASE if speed.base is not None and speed.base > _SLOW_BASE else 0.0)


def _paces(speed: Speed) -> tuple[float, bool]:
    """A good pace of a service, and whether its replies differ by much."""
    known = [reply.tpot for reply in speed.paces if reply.tpot is not None]
    if not known:
        return 0.0, False
    uneven = len(known) >= _SEVERAL and percentile(known, 90) >= _UNEVEN * percentile(known, 10)
    return percentile(known, 25), uneven


def _late(reply: Reply, pace: float, uneven: bool) -> float:
    """What a reply with text took more than at a good pace; calls may be held back until they are whole."""
    if reply.acts or reply.tpot is None:
        return 0
    silence = reply.gap if reply.gap >= max(_SILENCE, _TOKENS * pace) else 0
    slower = (reply.tpot - pace) * reply.out if uneven and reply.tpot > _SLOWER * pace else 0.0
    return max(silence, slower)


def _written_again(run: Run, turns: Turns, names: Counter[str]) -> Iterator[float]:
    """What each reply took that had to be written again; counts them by what was wrong."""
    for attempt in run.record.attempts:
        if attempt.error in _UNREAD or attempt.why == "repair":
            names[_UNREAD.get(attempt.error, "an answer of the wrong form")] += 1
            yield attempt.end - attempt.start
    for turn in turns.flawed:
        names.update(f"wrong arguments of {made.name}" for made in turns.calls[turn])
        yield run.thought.get(turn, 0)


RULES = (
    Rule(
        "long-prompt",
        "model",
        "Questions come with much to read",
        _long_prompt,
        do="Send only what the question needs: have parts of a document looked up by a tool, or shorten it. What "
        "stays the same belongs into the instructions, where the service caches it.",
        otherwise="Send only what the question needs, and put what stays the same at the front, where it is cached.",
    ),
    Rule(
        "slow-prefill",
        "model",
        "The first token comes late for what there is to read",
        _slow_prefill,
        do="Measure it with hotloop probe, and compare: another service or a smaller model, for some questions at "
        "least (Router). Fewer new tokens a turn help as well: Agent(max_result=...).",
        otherwise="Compare services and models by their first token for as many new ones; send fewer of these.",
    ),
    Rule(
        "slow-decode",
        "model",
        "The model writes slowly",
        _slow_decode,
        do="Ask a faster service or a smaller model, for some questions at least (Router), or for shorter answers "
        "(max_tokens). hotloop whatif says what another service would bring.",
        otherwise="Ask a faster service or a smaller model, or for shorter answers.",
    ),
    Rule(
        "unstable-decode",
        "model",
        "The model writes at a changing pace",
        _unstable_decode,
        do="Others are served in the same batch, or something holds the stream up: reserve capacity, take a service "
        "with a fixed rate, or have another model asked when this one is stuck: fallback=[...], Policy(stall=...).",
        otherwise="Others are served in the same batch, or something holds the stream up: reserve capacity, or take a "
        "service with a fixed rate.",
    ),
    Rule(
        "unparsable-calls",
        "model",
        "Calls that cannot be read are written again",
        _unparsable_calls,
        do="Say in tools' descriptions what arguments look like (Meta(pattern=...), examples), have fewer and simpler "
        "ones, raise max_tokens if calls are cut, or take a model or service that keeps to schemas.",
        otherwise="Describe arguments with examples and strict schemas, have fewer, or take a model that keeps to it.",
    ),
)
