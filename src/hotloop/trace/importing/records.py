"""Records of the runs in a trace that another framework has recorded."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from hotloop.trace.importing import names
from hotloop.trace.importing.asked import error_of, is_cancelled, usage_of
from hotloop.trace.importing.definitions import Definitions
from hotloop.trace.importing.facts import attempt_facts, turn_facts
from hotloop.trace.importing.messages import last_text, request_messages
from hotloop.trace.importing.names import told_text
from hotloop.trace.importing.parts import parts_of
from hotloop.trace.importing.runs import runs_of
from hotloop.trace.importing.span import Span
from hotloop.trace.importing.stages import Stages
from hotloop.trace.importing.tree import Forest, Node, below
from hotloop.trace.importing.turns import Turns
from hotloop.trace.ledger import AttemptFacts, Spoken, ToolFacts, Usage, Words
from hotloop.trace.record import Outcome, Said, TraceRecord
from hotloop.trace.recording.digests import said_in
from hotloop.units import NS_PER_S

_UNKNOWN = Usage()
_FRAMEWORK = re.compile(r"(?:@?(?:openinference|opentelemetry)[./])?(?:instrumentation[.-])?(?:genai[.-])?([\w-]+)")
_ANY = "otlp"
_NO_REQUESTS = "no requests to models are in the trace: their time is in overhead"
_NAMES = {
    "hotloop": "hotloop-otlp",  # which knows less than a record of our own, and must not take its place
    "ai": "vercel-ai",
}


def records_of_spans(spans: Iterable[Span], content: bool = False) -> Iterator[TraceRecord]:
    """The runs in these spans, trace by trace; a trace has none if no agent, model or tool is in it.

    What was said becomes digests; with `content` the texts are there, too, without secrets.
    """
    traces: dict[str, list[Span]] = {}
    for span in spans:
        traces.setdefault(span.trace_id, []).append(span)
    for trace_id, of_it in traces.items():
        yield from records_of_trace(trace_id, of_it, content)


def records_of_trace(trace_id: str, spans: Sequence[Span], content: bool = False) -> Iterator[TraceRecord]:
    """The runs in the spans of one trace. If there are several, each has the id of its highest span in its own."""
    forest = Forest(spans)
    runs = runs_of(forest.tops)
    for run in runs:
        own = told_text(run.span.attributes, (names.RUN,))
        run_id = own or (trace_id if len(runs) == 1 else f"{trace_id}-{run.span.span_id}")
        yield _Run(run, run_id, forest.warnings, content).record()


class _Run:
    """One run, read."""

    def __init__(self, run: Node, run_id: str, warnings: list[str], content: bool) -> None:
        self._run = run
        self._id = run_id
        self._warnings = warnings
        self._content = content
        self._parts = parts_of(run)
        self._turns = Turns(self._parts)

    def record(self) -> TraceRecord:
        run, turns = self._run, self._turns.all
        outcome, error = _outcome(run)
        name = self._told(names.AGENT) or run.span.name
        words = self._words()
        prompt, answer, said = said_in(words, self._content)
        return TraceRecord(
            trace_id=self._id,
            name=name,
            version=self._told(names.VERSION) or told_text(run.span.resource, names.VERSION),
            session=self._told(names.SESSION),
            source=_source(run),
            started=run.start / NS_PER_S,
            start=0,
            end=run.end - run.start,
            outcome=outcome,
            error=error,
            stages=Stages(self._parts, self._turns, name).all(),
            turns=[turn_facts(turn, turn.reply) for turn in turns if turn.reply is not None],
            attempts=self._attempts(),
            facts=self._facts(),
            tools=self._tools(),
            prompt=prompt,
            answer=answer,
            said={each.call_id: _as_recorded(each, said[each.call_id]) for each in words.calls},
        )

    def _told(self, which: tuple[str, ...]) -> str:
        """What the run's span says, or else the first one of its own parts that says it."""
        own = (part.node.span.attributes for part in self._parts if part.within is None)
        return next(filter(None, (told_text(attributes, which) for attributes in own)), "")

    def _words(self) -> Words:
        said = [
            Spoken(call.call_id, _arguments(call.arguments), call.called.result if call.called else "")
            for turn in self._turns.all
            for call in turn.calls
        ]
        outer = [turn for turn in self._turns.all if turn.within is None]
        prompt = last_text(request_messages(outer[0].attempts[0].span), "user") if outer else ""
        last = outer[-1].reply if outer else None
        answer = last_text(last.reply, "assistant") if last is not None else ""
        return Words(prompt, said, answer or told_text(self._run.span.attributes, names.ANSWER))

    def _attempts(self) -> list[AttemptFacts]:
        before: dict[int, str] = {}  # the last messages of each agent
        found: list[AttemptFacts] = []
        for turn in self._turns.all:
            found += attempt_facts(turn, before.get(id(turn.within), ""), self._run.start)
            before[id(turn.within)] = turn.attempts[-1].text
        return found

    def _tools(self) -> dict[str, ToolFacts]:
        offered = Definitions()
        for turn in self._turns.all:
            for each in turn.attempts:
                offered.add(each.span.attributes)
        return offered.tools

    def _facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = {}
        warnings = self._warnings if self._turns.all else [*self._warnings, _NO_REQUESTS]
        if warnings:
            facts["warnings"] = list(warnings)
        whole = usage_of(self._run.span.attributes)
        if whole != _UNKNOWN and all(each.usage == _UNKNOWN for turn in self._turns.all for each in turn.attempts):
            facts["usage"] = {name: count for name, count in msgspec.structs.asdict(whole).items() if count is not None}
        return facts


def _outcome(run: Node) -> tuple[Outcome, str]:
    error = error_of(run.span)
    if is_cancelled(error):
        return "cancelled", ""
    return ("failed", error) if error else ("ok", "")


def _source(run: Node) -> str:
    """The framework that ran it: the one whose library recorded the run, or the first part of it that is any."""
    told = [node for node in below(run) if node.span.scope and node.role in ("agent", "chain", "model", "tool")]
    for node in told:
        if any("langgraph" in str(node.span.attributes.get(key, "")) for key in ("metadata", "gen_ai.framework")):
            return "langgraph"
    found = _FRAMEWORK.match(told[0].span.scope) if told else None
    name = found[1].replace("_", "-") if found else _ANY
    return _NAMES.get(name, name)


def _as_recorded(spoken: Spoken, said: Said) -> Said:
    """Without digests of what nobody recorded, which would be equal for any two calls."""
    if spoken.arguments == "":
        said = replace(said, digest="", text=None, sources=None)
    return said if spoken.result else replace(said, result_digest="", result=None)


def _arguments(text: str) -> str | dict[str, Any]:
    """Arguments as their members, so that the same ones are equal however they were written."""
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text
    return value if isinstance(value, dict) else text
