"""Which changes are worth asking about for these runs, what each would save and cost, and the setting that makes it."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import msgspec

from hotloop.insight.critical import CriticalPath, critical_path
from hotloop.insight.edits import (
    ContextCap,
    Eager,
    Edit,
    Hedge,
    Parallel,
    Plan,
    Prefetch,
    PrefixReuse,
    SeenCache,
    Service,
    ShapedResults,
    SingleFlight,
    ToolTime,
    Without,
)
from hotloop.insight.edits.guessing import LEAST
from hotloop.insight.graph import FOR_PLACE, TO_RETRY, Graph
from hotloop.insight.pieces import Ask, Call, Turn
from hotloop.insight.serving import ServiceProfile
from hotloop.insight.whatif import Prediction, whatif
from hotloop.insight.workload import Workload
from hotloop.trace.record import TraceRecord
from hotloop.trace.stats import percentile

_TTL = 60.0
_MOST_PLACES = 16
_LONG_RESULT = 1000  # tokens
_LONG_PROMPT = 4000  # tokens
_STRAGGLES = 3.0  # times the median first token
_NOTABLE = 0.02  # of the runs, the tokens or the time: less is not worth a question
_LEAST_SAVED = 0.005  # of the p50 or the p95
_TOOLS = 3
_GUESSED = 0.5  # of the calls: nobody knows before it is tried
_PATTERN = 3  # times that calls have to come again before they look like a habit
_BYTES_PER_TOKEN = 4


class Proposal(msgspec.Struct, frozen=True):
    """A change: what it costs and what is to be done, in words; and what does it in hotloop.

    That is said in Python and in the file of an agent, "" for nothing.
    """

    edit: Edit
    cost: str
    do: str = ""
    python: str = ""
    yaml: str = ""


class Candidate(NamedTuple):
    """A change with what it is predicted to bring."""

    proposal: Proposal
    prediction: Prediction


def candidates(
    runs: Workload | Iterable[TraceRecord], services: Sequence[ServiceProfile] = (), others: Iterable[Proposal] = ()
) -> list[Candidate]:
    """The changes that would save something, what saves most at the p50 first, then what saves most at the p95.

    They are those that these runs give reason to ask about and `others`; and each of `services` in the place of theirs,
    whatever it would bring.
    """
    work = runs if isinstance(runs, Workload) else Workload.of(runs)
    if not work.graphs:
        return []
    found = [Candidate(each, whatif(work, [each.edit])) for each in (*proposals(work, services), *others)]
    saving = [each for each in found if isinstance(each.proposal.edit, Service) or _saves(each.prediction)]
    return sorted(saving, key=lambda each: (-_saved(each.prediction)[0], -_saved(each.prediction)[1]))


def proposals(work: Workload, services: Sequence[ServiceProfile] = ()) -> list[Proposal]:
    """The changes that these runs give reason to ask about."""
    sample = [work.graphs[place] for place in work.sample]
    turns = [turn for graph in sample for turn in graph.turns]
    path = critical_path(sample)
    return [
        *(_service(profile) for profile in services),
        *_acting(work, turns),
        *_sharing(work),
        *_prompts(work, turns),
        *_waiting(work, path),
        *_tools(path),
        *_guessing(sample, path),
    ]


def _saved(prediction: Prediction) -> tuple[float, float]:
    """Milliseconds at the p50 and at the p95."""
    return prediction.times.saved.p50.value, prediction.times.saved.p95.value


def _saves(prediction: Prediction) -> bool:
    p50, p95 = _saved(prediction)
    before = prediction.times.before
    return p50 > _LEAST_SAVED * before.p50.value or p95 > _LEAST_SAVED * before.p95.value


def _service(profile: ServiceProfile) -> Proposal:
    cost = "another model: whether its answers do is for `hotloop eval` to say"
    found = _MODEL.search(profile.name)
    model = found[0] if found else "..."
    return Proposal(
        Service(profile),
        cost,
        f"ask a service like {profile.name}",
        f'Agent(endpoint="...", model="{model}")',
        f"inference: {{endpoint: ..., model: {model}}}",
    )


_MODEL = re.compile(r"(?:gpt-oss|llama|gemma)\S*")  # in the name of a profile, which has no other word for it


def _acting(work: Workload, turns: Sequence[Turn]) -> Iterator[Proposal]:
    most = max((len(turn.calls) for turn in turns), default=0)
    limits = [work.graphs[place].places for place in work.sample]
    if any(call.in_line for turn in turns for call in turn.calls) or any(limit and limit < most for limit in limits):
        places = min(max(most, 2), _MOST_PLACES)
        cost = "more load on the tools at once"
        python, yaml = f"Agent(max_parallel={places})", f"tools: {{max_parallel: {places}}}"
        yield Proposal(Parallel(places), cost, "run the calls of a reply side by side", python, yaml)
    late = sorted({call.name for turn in turns for call in turn.calls if call.takes_place and not call.read_only})
    if late:
        cost = f"only for tools that change nothing: {_listed(late)}"
        python, yaml = "@tool(read_only=True)", "tools: {mcp: [{name: ..., read_only: [...]}]}"
        yield Proposal(Eager(tools=frozenset(late)), cost, "begin calls as soon as they are written", python, yaml)
    if _share(turn.number > 0 and bool(turn.calls) for turn in turns) > _NOTABLE:
        cost = "a longer prompt, and a model that plans well"
        do = "let the model write calls that need each other in one reply"
        yield Proposal(Plan(), cost, do, "Agent(plan=True)", "tools: {plan: true}")


def _sharing(work: Workload) -> Iterator[Proposal]:
    kept = SeenCache(_TTL)
    if kept.hits(work):
        cost = f"results that are up to {_TTL:g} s old"
        python, yaml = f"Agent(tool_ttl={_TTL:g})", f"cache: {{tool_result_ttl_seconds: {_TTL:g}}}"
        yield Proposal(kept, cost, "keep the results of tools that only read", python, yaml)
    if SingleFlight().hits(work):
        cost = "who asks later gets a result that was begun earlier"
        do = "let equal calls of all runs share one"
        yield Proposal(SingleFlight(), cost, do, '@tool(scope="global")', _RULES.format("scope: global"))


_RULES = "tools: {{mcp: [{{name: ..., rules: {{TOOL: {{{}}}}}}}]}}"


def _prompts(work: Workload, turns: Sequence[Turn]) -> Iterator[Proposal]:
    asks = [piece for turn in turns for piece in turn.before if type(piece) is Ask]
    tokens = sum(ask.prompt for ask in asks)
    reread = sum(max(ask.known - (ask.cached or 0), 0) for ask in asks if not _caches_silently(ask, work))
    if tokens and reread / tokens > 10 * _NOTABLE:
        cost = "memory at the service; the prompt must begin with the same bytes each time (`hotloop check`)"
        do = "ask a service that caches prefixes; if prefix_cache=False is set for the agent, take that out"
        yield Proposal(PrefixReuse(), cost, do)
    sizes = [call.size // _BYTES_PER_TOKEN for turn in turns for call in turn.calls]
    if _share(size > _LONG_RESULT for size in sizes) > _NOTABLE:
        cost = "the model sees less of long results, and has to ask for more of them"
        python, yaml = f"Agent(max_result={_LONG_RESULT})", f"tools: {{max_result: {_LONG_RESULT}}}"
        yield Proposal(ShapedResults(_LONG_RESULT), cost, "shorten long results", python, yaml)
    in_sessions = [ask.prompt for place in work.sample if (graph := work.graphs[place]).session for ask in graph.asks]
    if in_sessions and (longest := percentile(in_sessions, 95)) > _LONG_PROMPT:
        limit = max(int(longest) // 2000 * 1000, _LONG_PROMPT // 2)
        cost = "the beginning of long conversations is known only by its summary"
        python, yaml = f"Agent(context=Context(limit={limit}))", f"context: {{limit: {limit}}}"
        yield Proposal(ContextCap(limit), cost, "summarize the beginning of long conversations", python, yaml)


def _caches_silently(ask: Ask, work: Workload) -> bool:
    """Whether its service has a prefix cache that it does not tell of."""
    known = work.service_of(ask)
    return ask.cached is None and known is not None and known.caches


def _waiting(work: Workload, path: CriticalPath) -> Iterator[Proposal]:
    if any(len(known.waits) >= LEAST and _straggles(known.waits) for known in work.services.values()):
        cost = "5 % more requests"
        do = "send a second request beside one that is slow to begin"
        yield Proposal(Hedge(), cost, do, "Agent(policy=Policy(hedge=True))", "inference: {policy: {hedge: true}}")
    shares: dict[str, float] = defaultdict(float)
    for row in path.rows:
        if row.kind != "tool":
            shares[row.name if row.kind == "queue" else row.kind] += row.share
    for what, told in _WAITS.items():
        if shares[what] > _NOTABLE:
            yield Proposal(Without(what), *told)


_WAITS = {
    "memory": (
        "facts that come late are left out",
        "do not wait for the memory",
        "Memory(timeout=0.02)",
        "memory: {timeout: 20ms}",
    ),
    FOR_PLACE: (
        "more requests at once at the service",
        "let more requests run at once",
        "Policy(max_concurrent=...)",
        "inference: {policy: {max_concurrent: ...}}",
    ),
    TO_RETRY: (
        "what another service costs, or a higher rate limit",
        "have a second service to fall back to, or a higher rate limit",
        "Agent(fallback=[Model(...)])",
        "inference: {fallback: [{model: ..., endpoint: ...}]}",
    ),
    "connect": (
        "connections that stay open",
        "keep connections for all runs, and open them before the first one",
        "one Agent for all runs, and await agent.warm()",
    ),
    "approval": (
        "calls that nobody approves",
        "let tools that do no harm run without approval",
        '@tool(approval="never")',
        _RULES.format("approval: never"),
    ),
}


def _straggles(waits: Sequence[int]) -> bool:
    return percentile(waits, 99) > _STRAGGLES * percentile(waits, 50)


def _tools(path: CriticalPath) -> Iterator[Proposal]:
    """The tools that runs wait for most, twice as fast."""
    slow = [row.name for row in path.rows if row.kind == "tool" and row.share > _NOTABLE]
    for name in slow[:_TOOLS]:
        cost = f"work on {name}, or results that are older, guessed or missing"
        yield Proposal(ToolTime(name, factor=0.5), cost, _FASTER, _FASTER_PYTHON)


_FASTER = "make it faster, keep its results, begin it early or while the model thinks, or cut it off"
_FASTER_PYTHON = "@tool(ttl=...), @tool(read_only=True), Agent(prefetch=Prefetch()), @tool(timeout=..., on_timeout=...)"


class _Guessed(Prefetch, frozen=True):
    """Prefetch before it is tried: its rate is assumed."""

    @property
    def label(self) -> str:
        """See `Edit`."""
        return f"{super().label}, as is assumed"

    def assumptions(self, work: Workload) -> list[str]:
        """See `Edit`."""
        told = f"{self.rate:.0%} of these calls are guessed right, which is assumed: `hotloop prefetch learn` counts it"
        return [told, *super().assumptions(work)]


def _guessing(graphs: Sequence[Graph], path: CriticalPath) -> Iterator[Proposal]:
    """Tools that runs wait for begin before they are called, where they tend to come after the same calls."""
    waited = {row.name for row in path.rows if row.kind == "tool" and row.share > _NOTABLE}
    tools = waited & _habits(graphs)
    if tools:
        cost = "calls in vain: more load on tools, which have to change nothing"
        do = "begin calls that tend to come next while the model is thinking"
        python, yaml = "Agent(prefetch=Prefetch())", "tools: {prefetch: {}}"
        yield Proposal(_Guessed(_GUESSED, frozenset(tools)), cost, do, python, yaml)


def _habits(graphs: Sequence[Graph]) -> set[str]:
    """Read-only tools that come, more often than not, in the turn after calls of certain tools."""
    after: Counter[frozenset[str]] = Counter()
    comes: Counter[tuple[frozenset[str], str]] = Counter()
    for before, turn in (pair for graph in graphs for pair in pairwise(graph.turns) if pair[0].calls):
        had = frozenset(call.name for call in before.calls)
        after[had] += 1
        comes.update((had, name) for name in {call.name for call in turn.calls if _may_be_guessed(call)})
    return {name for (had, name), times in comes.items() if times >= max(_PATTERN, _GUESSED * after[had])}


def _may_be_guessed(call: Call) -> bool:
    return call.takes_place and call.read_only and not call.ahead


def _share(which: Iterable[bool]) -> float:
    found = list(which)
    return sum(found) / len(found) if found else 0.0


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:_TOOLS]) + (f" and {len(names) - _TOOLS} more" if len(names) > _TOOLS else "")
