"""Which changes are worth asking about for these runs, what each would save and cost, and the setting that makes it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
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
    PrefixReuse,
    SeenCache,
    Service,
    ShapedResults,
    SingleFlight,
    ToolTime,
    Without,
)
from hotloop.insight.pieces import Ask, Turn
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
_BYTES_PER_TOKEN = 4


class Proposal(msgspec.Struct, frozen=True):
    """A change: what it costs in words, and what makes it, in Python and in the file of an agent ("" for nothing)."""

    edit: Edit
    cost: str
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
    return Proposal(
        Service(profile), cost, 'Agent(endpoint="...", model="...")', "inference: {endpoint: ..., model: ...}"
    )


def _acting(work: Workload, turns: Sequence[Turn]) -> Iterator[Proposal]:
    most = max((len(turn.calls) for turn in turns), default=0)
    limits = [work.graphs[place].places for place in work.sample]
    if any(call.in_line for turn in turns for call in turn.calls) or any(limit and limit < most for limit in limits):
        places = min(max(most, 2), _MOST_PLACES)
        cost = "more load on the tools at once"
        yield Proposal(Parallel(places), cost, f"Agent(max_parallel={places})", f"tools: {{max_parallel: {places}}}")
    late = sorted({call.name for turn in turns for call in turn.calls if call.takes_place and not call.read_only})
    if late:
        cost = f"only for tools that change nothing: {_listed(late)}"
        python = "@tool(read_only=True)"
        yield Proposal(Eager(tools=frozenset(late)), cost, python, "tools: {mcp: [{name: ..., read_only: [...]}]}")
    if _share(turn.number > 0 and bool(turn.calls) for turn in turns) > _NOTABLE:
        cost = "a longer prompt, and a model that plans well"
        yield Proposal(Plan(), cost, "Agent(plan=True)", "tools: {plan: true}")


def _sharing(work: Workload) -> Iterator[Proposal]:
    kept = SeenCache(_TTL)
    if kept.hits(work):
        cost = f"results that are up to {_TTL:g} s old"
        yield Proposal(kept, cost, f"Agent(tool_ttl={_TTL:g})", f"cache: {{tool_result_ttl_seconds: {_TTL:g}}}")
    if SingleFlight().hits(work):
        cost = "who asks later gets a result that was begun earlier"
        yield Proposal(SingleFlight(), cost, '@tool(scope="global")', "rules: {TOOL: {scope: global}}")


def _prompts(work: Workload, turns: Sequence[Turn]) -> Iterator[Proposal]:
    asks = [piece for turn in turns for piece in turn.before if type(piece) is Ask]
    tokens = sum(ask.prompt for ask in asks)
    reread = sum(max(ask.known - (ask.cached or 0), 0) for ask in asks if not _caches_silently(ask, work))
    if tokens and reread / tokens > 10 * _NOTABLE:
        cost = "memory at the service; the prompt must begin with the same bytes each time (`hotloop check`)"
        yield Proposal(PrefixReuse(), cost, "Agent(prefix_cache=True)", "cache: {prefix_cache: true}")
    sizes = [call.size // _BYTES_PER_TOKEN for turn in turns for call in turn.calls]
    if _share(size > _LONG_RESULT for size in sizes) > _NOTABLE:
        cost = "the model sees less of long results, and has to ask for more of them"
        python, yaml = f"Agent(max_result={_LONG_RESULT})", f"tools: {{max_result: {_LONG_RESULT}}}"
        yield Proposal(ShapedResults(_LONG_RESULT), cost, python, yaml)
    in_sessions = [ask.prompt for place in work.sample if (graph := work.graphs[place]).session for ask in graph.asks]
    if in_sessions and (longest := percentile(in_sessions, 95)) > _LONG_PROMPT:
        limit = max(int(longest) // 2000 * 1000, _LONG_PROMPT // 2)
        cost = "the beginning of long conversations is known only by its summary"
        yield Proposal(
            ContextCap(limit), cost, f"Agent(context=Context(limit={limit}))", f"context: {{limit: {limit}}}"
        )


def _caches_silently(ask: Ask, work: Workload) -> bool:
    """Whether its service has a prefix cache that it does not tell of."""
    known = work.service_of(ask)
    return ask.cached is None and known is not None and known.caches


def _waiting(work: Workload, path: CriticalPath) -> Iterator[Proposal]:
    if any(known.waits and _straggles(known.waits) for known in work.services.values()):
        cost = "5 % more requests"
        policy = "policy=Policy(hedge=True)"
        yield Proposal(Hedge(), cost, f"Agent({policy})", "inference: {policy: {hedge: true}}")
    shares = {row.kind: row.share for row in path.rows if row.kind != "tool"}
    for kind, (cost, python, yaml) in _WAITS.items():
        if shares.get(kind, 0.0) > _NOTABLE:
            yield Proposal(Without(kind), cost, python, yaml)


_WAITS = {
    "memory": ("facts that come late are left out", "Memory(timeout=0.02)", "memory: {timeout: 20ms}"),
    "queue": (
        "more requests at once at the service",
        "Policy(max_concurrent=...)",
        "inference: {policy: {max_concurrent: ...}}",
    ),
    "connect": ("connections that stay open", "await agent.warm()", ""),
    "approval": ("calls that nobody approves", '@tool(approval="never")', "rules: {TOOL: {approval: never}}"),
}


def _straggles(waits: Sequence[int]) -> bool:
    return percentile(waits, 99) > _STRAGGLES * percentile(waits, 50)


def _tools(path: CriticalPath) -> Iterator[Proposal]:
    """The tools that runs wait for most, twice as fast."""
    slow = [row.name for row in path.rows if row.kind == "tool" and row.share > _NOTABLE]
    for name in slow[:_TOOLS]:
        yield Proposal(ToolTime(name, factor=0.5), f"work on {name}")


def _share(which: Iterable[bool]) -> float:
    found = list(which)
    return sum(found) / len(found) if found else 0.0


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:_TOOLS]) + (f" and {len(names) - _TOOLS} more" if len(names) > _TOOLS else "")
