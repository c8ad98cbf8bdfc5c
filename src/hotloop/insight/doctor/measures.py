"""What is measured of a run before it is judged: its replies, its calls, and what each took on the critical path."""

from __future__ import annotations

import msgspec

from hotloop.trace.calls import calls_of
from hotloop.trace.ledger import AttemptFacts, Stage, TurnFacts
from hotloop.trace.path import steps_back
from hotloop.trace.record import Said, TraceRecord
from hotloop.units import NS_PER_MS

_OWN = frozenset(("overhead", "parse", "emit", "guard"))
_AT_ONCE = 4  # tokens, or fewer, may well come in one read
_SESSION = "session "  # loaded, committed
_PLACE, _RETRY = "a place at the service", "retry after "
_UNSAID = Said()


class Told(msgspec.Struct, frozen=True, gc=False):
    """What a service says of its own times for a reply, in nanoseconds; None where it does not say it.

    `queue` is what came before the prompt was read, `reading` that, `first` all from the request's arrival to the first
    token, `writing` from there to the last.
    """

    queue: int | None = None
    reading: int | None = None
    first: int | None = None
    writing: int | None = None


class Reply(msgspec.Struct, frozen=True, gc=False):
    """One reply of a model; times in nanoseconds, None is unknown.

    Of its prompt's `tokens` the service had `cached`, and had seen the first `known` in the same run. `waited` is from
    the request sent to the first token, None if that was not seen because the reply came whole (`buffered`, if it was
    to be a stream); `tpot` is the time between tokens, `gap` the longest silence.
    """

    turn: int
    where: str
    acts: bool
    tokens: int | None
    cached: int | None
    known: int
    out: int
    connect: int
    opened: bool
    waited: int | None
    tpot: int | None
    gap: int
    buffered: bool
    told: Told

    @property
    def read(self) -> int | None:
        """How many tokens of the prompt had to be read, as far as that is known."""
        if self.tokens is None:
            return None
        return max(self.tokens - (self.known if self.cached is None else self.cached), 0)


class Made(msgspec.Struct, frozen=True, gc=False):
    """One call. It `worked` for its result from `start` to `end`, of which `critical` counted.

    `said` are digests, "" of what is unknown, which is like nothing else.
    """

    call_id: str
    name: str
    turn: int
    outcome: str
    worked: bool
    start: int
    end: int
    critical: int
    waited: int
    said: Said

    @property
    def known(self) -> bool:
        """Whether both its arguments and its result are known."""
        return bool(self.said.digest and self.said.result_digest)

    @property
    def took(self) -> int:
        """How long it was at work, or what else ended it."""
        return self.end - self.start


class Run(msgspec.Struct):
    """One recorded run, measured. Times are nanoseconds; all but `wall` count what is on the critical path.

    `thought` is what each turn took apart from its tools, `own` what code took that is neither a tool's nor a model's.
    `places` is the wait for a place in front of a service, `limits` and `holds` that for its rate limits and for a time
    that it had asked for, `retries` what came before another request, by the error before it.
    """

    record: TraceRecord
    wall: int
    replies: list[Reply]
    calls: list[Made]
    tools: int = 0
    own: int = 0
    places: int = 0
    limits: int = 0
    holds: int = 0
    thought: dict[int, int] = {}
    retries: dict[str, int] = {}

    @property
    def held(self) -> int:
        """What it waited before it could ask a service, or ask it again."""
        return self.places + self.limits + self.holds + sum(self.retries.values())

    @property
    def ours(self) -> bool:
        """Whether hotloop ran it."""
        return self.record.source == "hotloop"

    @property
    def acting(self) -> int:
        """How many of its turns had calls."""
        return sum(reply.acts for reply in self.replies)

    @property
    def body(self) -> int:
        """The bytes of its first request, 0 if that is not known."""
        return next((each.prompt_bytes for each in self.record.attempts if each.prompt_bytes), 0)


def measure(record: TraceRecord) -> Run:
    """What there is to judge of a run."""
    run = Run(record, max(record.end - record.start, 1), [], [])
    at_work = _follow_path(run, record)
    run.calls = _calls(record, at_work)
    run.replies = _replies(record)
    return run


def _follow_path(run: Run, record: TraceRecord) -> dict[tuple[int, int], int]:
    """Put what is on the critical path where it belongs; what counts of the tools at work, by turn and lane."""
    at_work: dict[tuple[int, int], int] = {}
    thought, spent = run.thought, 0
    for stage, start, end in steps_back(record.stages, record.end):
        took = end - start
        spent += took
        kind = stage.kind
        if kind == "tool":
            run.tools += took
            at_work[stage.turn, stage.lane] = at_work.get((stage.turn, stage.lane), 0) + took
            continue
        if stage.lane == 0:
            thought[stage.turn] = thought.get(stage.turn, 0) + took
        if kind in _OWN or (kind == "context" and (not stage.note or stage.note.startswith(_SESSION))):
            run.own += took
        elif kind == "queue":
            _wait(run, stage.note, took)
    run.own += max(run.wall - spent, 0)
    return at_work


def _wait(run: Run, note: str, took: int) -> None:
    if note.startswith(_RETRY):
        error = note.removeprefix(_RETRY)
        run.retries[error] = run.retries.get(error, 0) + took
    elif note == _PLACE:
        run.places += took
    elif "rate limit" in note:
        run.limits += took
    elif note.startswith(_PLACE):
        run.holds += took


def _calls(record: TraceRecord, at_work: dict[tuple[int, int], int]) -> list[Made]:
    found = []
    for facts, _, last in calls_of(record):
        name, turn, said = last.name, last.turn, _UNSAID
        call_id, outcome, waited = "", "discarded", 0
        if facts is not None:
            call_id, outcome, waited = facts.call_id, facts.outcome, facts.waited
            said = record.said.get(call_id, _UNSAID)
        critical = at_work.get((turn, last.lane), 0)
        worked = last.kind == "tool"
        found.append(Made(call_id, name, turn, outcome, worked, last.start, last.end, critical, waited, said))
    return found


def _replies(record: TraceRecord) -> list[Reply]:
    answered = {each.turn: each for each in record.attempts if each.outcome == "ok" and each.why != "prefill"}
    broken = {each.turn for each in record.attempts if each.outcome == "failed" and each.first}
    stages: dict[tuple[int, str], Stage] = {}
    for stage in record.stages:  # of a turn with several requests the last is the one that counts
        if stage.lane == 0 and stage.kind in ("connect", "prefill"):
            stages[stage.turn, stage.kind] = stage
    return [_reply(facts, answered.get(facts.turn), stages, facts.turn in broken) for facts in record.turns]


def _reply(
    facts: TurnFacts, attempt: AttemptFacts | None, stages: dict[tuple[int, str], Stage], read_before: bool
) -> Reply:
    """The reply of a turn; its prompt may have been `read_before`, for a reply that broke off."""
    usage = facts.usage
    tokens, where, known = usage.input_tokens, facts.model or "the model", 0
    if attempt is not None:
        where = f"{attempt.service} {attempt.model}"
        if tokens and attempt.prompt_bytes:
            known = tokens if read_before else tokens * attempt.known_bytes // attempt.prompt_bytes
    connect, prefill = stages.get((facts.turn, "connect")), stages.get((facts.turn, "prefill"))
    told = _told(facts.server_ms) if facts.server_ms else _NOTHING
    out, tpot, waited = usage.output_tokens or 0, facts.tpot, facts.ttft
    if tpot is None and out > _AT_ONCE:
        waited = None
        tpot = told.writing // (out - 1) if told.writing else None
    elif prefill is not None:
        waited = prefill.end - prefill.start
    return Reply(
        facts.turn,
        where,
        bool(facts.calls or facts.tools),
        tokens,
        usage.cached_tokens,
        known,
        out,
        0 if connect is None else connect.end - connect.start,
        connect is not None and connect.note == "opened",
        waited,
        tpot,
        facts.gap,
        facts.buffered,
        told,
    )


_NOTHING = Told()


def _told(told: dict[str, float]) -> Told:
    """The times of a reply in the words of Groq, llama.cpp, vLLM or Dynamo."""
    times = {name: round(value * NS_PER_MS) for name, value in told.items()}
    if "completion_ms" in times:
        queue, reading = times.get("queue_ms"), times.get("prompt_ms")
        return Told(queue, reading, _sum(queue, reading), times["completion_ms"])
    if "predicted_ms" in times:
        return Told(reading=times.get("prompt_ms"), writing=times["predicted_ms"])
    if "time_to_first_token_ms" in times:
        queue = times.get("queue_time_ms")
        first = _sum(queue, times["time_to_first_token_ms"])
        return Told(queue, None, first, times.get("generation_time_ms"))
    return Told(first=times.get("ttft_ms"))


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other
