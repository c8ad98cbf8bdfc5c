"""The context: whether it grows, whether its beginning stays cached, and how much of it are tools."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise

from hotloop.insight.doctor.case import Case, listed, middle, usual
from hotloop.insight.doctor.measures import Run
from hotloop.insight.doctor.rule import Rule, Seen

_GROWTH = 1_000  # tokens a turn: 60 ms to be read, at a usual 0.06 ms each, and in every turn if they are not cached
_SESSION_GROWTH = 2_500  # tokens a run of a session: with a long answer and several lookups it is about 1,000
_GROWN, _STEPS = 3_000, 2  # tokens in all, and such turns, before it is a habit
_LOST = 512  # tokens that could have been cached: four blocks of the largest kind (128)
_LEAST = 1_024  # tokens: what is shorter some services do not cache (OpenAI, Gemini)
_MOSTLY, _OFTEN = 0.5, 0.2  # of first requests, which find a cold cache now and then, and of later ones
_RUNS = 3  # before a cold cache is no beginning
_TOOLS = 20  # what OpenAI's guide advises to stay below
_SHARE, _SIZE = 0.5, 2_000  # of the first prompt, and tokens, that their definitions take


def _growing_context(case: Case) -> Seen | None:
    """Prompts grow by much, turn after turn or, in a session, run after run."""
    grown = [_grown(_steps(run), _GROWTH) for run in case.runs]
    for place, growth in _session_growth(case.runs):
        grown[place] = max(grown[place], growth)
    hits = [growth > 0 for growth in grown]
    if not case.many(sum(hits)):
        return None
    longest = max((reply.tokens or 0 for reply in case.replies), default=0)
    return Seen(
        f"by {usual(grown):,.0f} tokens a run, to {longest:,} at most",
        case.reading(grown),
        hits,
        {"tokens": usual(grown), "longest": longest},
    )


def _broken_prefix(case: Case) -> Seen | None:
    """The service reads again what had been sent before."""
    told = [str(run.record.facts.get("prefix", "")) for run in case.runs]
    firsts, later = [_lost_first(run) for run in case.runs], [_lost_later(run) for run in case.runs]
    if len(case.runs) < _RUNS or sum(map(bool, firsts)) < _MOSTLY * len(case.runs):
        firsts = [0.0] * len(case.runs)
    misses, requests = sum(len(lost) for lost in later), sum(max(len(run.replies) - 1, 0) for run in case.runs)
    if misses < _OFTEN * requests:
        later = [[] for _ in case.runs]
    lost = [first + sum(tokens) for first, tokens in zip(firsts, later, strict=True)]
    if not any(told) and not any(lost):
        return None
    cause = next(filter(None, told), "") or _guess(within=any(later))
    tokens = usual(lost)
    return Seen(
        f"{f'{tokens:,.0f} tokens a run. ' if tokens else ''}{cause}",
        case.reading(lost),
        [bool(words or count) for words, count in zip(told, lost, strict=True)],
        {"tokens": tokens},
    )


def _too_many_tools(case: Case) -> Seen | None:
    """The model is offered many tools, most of which it never calls."""
    shares = [_tool_share(run) for run in case.runs]
    sizes = [
        share * (run.replies[0].tokens or 0) if share else 0.0 for run, share in zip(case.runs, shares, strict=True)
    ]
    hits = [
        len(run.record.tools) > _TOOLS or (size >= _SIZE and share >= _SHARE)
        for run, size, share in zip(case.runs, sizes, shares, strict=True)
    ]
    if not case.many(sum(hits)):
        return None
    offered = max(len(run.record.tools) for run in case.runs)
    called = {made.name for run in case.runs for made in run.calls}
    read = [size * _read_share(run) if hit else 0.0 for run, size, hit in zip(case.runs, sizes, hits, strict=True)]
    return Seen(
        f"{offered} of about {middle(sizes):,.0f} tokens, {middle(shares):.0%} of a first prompt; called were "
        f"{listed(Counter(sorted(called)), 6) or 'none'}",
        case.reading(read),
        hits,
        {"tools": offered, "tokens": middle(sizes), "share": middle(shares)},
    )


def _steps(run: Run) -> Iterator[int]:
    """By how many tokens each prompt of a run is longer than the one before."""
    return (after - one for one, after in pairwise(reply.tokens for reply in run.replies if reply.tokens is not None))


def _grown(steps: Iterator[int], least: int) -> int:
    """How many tokens came in large steps, 0 if these are few."""
    large = [step for step in steps if step >= least]
    return sum(large) if len(large) >= _STEPS and sum(large) >= _GROWN else 0


def _session_growth(runs: Sequence[Run]) -> Iterator[tuple[int, int]]:
    """The same of the first prompts of a session's runs: the place of each run, and the growth up to it."""
    sessions: dict[tuple[str, str], list[int]] = {}
    for place, run in enumerate(runs):
        if run.record.session and run.replies and run.replies[0].tokens is not None:
            sessions.setdefault((run.record.name, run.record.session), []).append(place)
    for places in sessions.values():
        places.sort(key=lambda place: runs[place].record.started)
        tokens = [runs[place].replies[0].tokens or 0 for place in places]
        large = [max(after - one, 0) if after - one >= _SESSION_GROWTH else 0 for one, after in pairwise(tokens)]
        counts = accumulate(map(bool, large))
        for place, count, growth in zip(places[1:], counts, accumulate(large), strict=True):
            if count >= _STEPS:
                yield place, growth


def _lost_first(run: Run) -> float:
    """How many tokens of what a run's first prompt begins with could have been cached and were not."""
    prompt = run.record.prompt
    if not run.replies or not run.body or prompt is None:
        return 0
    first = run.replies[0]
    if first.tokens is None or first.cached is None:
        return 0
    return _lost(first.tokens * (1 - prompt.size / run.body), first.cached)


def _lost_later(run: Run) -> list[float]:
    """The same of each later prompt of which the service had seen much in this run, and forgotten much."""
    lost = (_lost(reply.known, reply.cached) for reply in run.replies[1:] if reply.cached is not None)
    return [tokens for tokens in lost if tokens]


def _lost(known: float, cached: int) -> float:
    return known - cached if known >= _LEAST and known - cached >= _LOST else 0.0


def _guess(*, within: bool) -> str:
    if within:
        return "Within a run nothing of what was sent has changed; the service did not keep it."
    return "What prompts begin with changes from one run to the next, or they come too seldom to stay cached."


def _tool_share(run: Run) -> float:
    """Which share of the first prompt the definitions of tools are."""
    if not run.replies or not run.body:
        return 0.0
    return sum(tool.size for tool in run.record.tools.values()) / run.body


def _read_share(run: Run) -> float:
    """Which share of the first prompt was read."""
    first = run.replies[0] if run.replies else None
    return (first.read or 0) / first.tokens if first is not None and first.tokens else 0.0


RULES = (
    Rule(
        "growing-context",
        "context",
        "Prompts grow turn by turn",
        _growing_context,
        do="Have the model read less of results: max_result, @tool(keep=...), @tool(summarize=True). Bound long "
        "conversations: Context(limit=...).",
        otherwise="Cut results to what the model needs, and bound the history.",
    ),
    Rule(
        "broken-prefix",
        "context",
        "What had been sent before is read again",
        _broken_prefix,
        do="Keep what prompts begin with the same to the byte: hotloop check finds what changes. The time belongs "
        "into Context(volatile=...). If nothing changes, replicas share no cache (a session keeps to one), or it "
        "is full.",
        otherwise="Keep instructions, tools and history the same to the byte, and put what changes last. If nothing "
        "changes, replicas share no cache, or it is full.",
    ),
    Rule(
        "too-many-tools",
        "context",
        "Many tools are offered",
        _too_many_tools,
        do="Offer those that fit the question: Agent(shortlist=8); or split the agent. They are read in every prompt "
        "that is not cached, and many make a wrong choice likelier.",
        otherwise="Offer only tools that fit the question, or split the agent.",
    ),
)
