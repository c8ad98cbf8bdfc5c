"""The hot loop: perceive, think, act, until there is an answer."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from itertools import count
from typing import TYPE_CHECKING, Any

import msgspec

from hotloop.budget import Budget
from hotloop.context.conversation import Conversation
from hotloop.context.zones import also_aside
from hotloop.errors import ConfigError, ContextOverflow, OutputInvalid, RepeatedFailure, TurnLimit
from hotloop.events import Reset
from hotloop.models.ahead.speculation import Speculation, Speculator, Work
from hotloop.models.ask import Ask, Thinker
from hotloop.models.dialects import Dialect
from hotloop.models.reply import Call, Reply
from hotloop.models.routing.routed import RouteFacts
from hotloop.models.transport import nobody
from hotloop.output.output import Output
from hotloop.output.partials import Partials
from hotloop.output.reading import Answer, Wrong, answers_in, read_answer
from hotloop.tools.defining.tool import canonical
from hotloop.tools.running.caller import Caller
from hotloop.tools.running.calls import ReplyCalls
from hotloop.tools.running.executor import Executor
from hotloop.tools.running.job import RunContext
from hotloop.tools.running.result import ToolResult, encodable
from hotloop.trace.ledger import Ledger, ToolFacts, TurnFacts, Why

if TYPE_CHECKING:
    from hotloop.budget.degrading import Degrading
    from hotloop.context.compaction import Compactor
    from hotloop.tools.approvals.store import PendingCall
    from hotloop.tools.prefetch.prefetcher import Prefetcher
    from hotloop.tools.prefetch.prefetching import Prefetching

_SAME_FAILURES = 3
_TURN_LIMIT = (
    "After {} the model still calls tools instead of answering. "
    "Raise max_turns or budget.total, or tell it in the instructions when to stop."
)
_REPEATED = "The model made the same call of {} {} times and it failed each time: {}"
_AGAIN = (
    "That is not the answer that was asked for: {}. Give it again in the form that was asked for, and nothing else."
)
_INVALID = "The answer is not what was asked for, also after it was asked for again: {}."
_BRIEFLY = "There is little time left: answer in at most {} words, with what matters most."
_WORDS_PER_TOKEN = 0.6
_OTHER_MODEL = ("fallback", "escalation")  # which counts tokens otherwise
_Failures = dict[tuple[str, str, str], int]


class Program(msgspec.Struct, frozen=True, eq=False, weakref=True):
    """What an agent was compiled to: nothing in it is looked up by name or validated again while it runs."""

    thinker: Thinker
    executor: Executor
    budget: Budget | None
    max_turns: int
    tools: Mapping[str, ToolFacts]
    output: Output | None = None
    speculator: Speculator | None = None
    prefetcher: Prefetcher | None = None

    def check(self, reply: Reply) -> str:
        """What is wrong with a reply before anything of it is run or taken, in words; "" if nothing is."""
        faults = (self.executor.fault(call) for call in reply.calls)
        if (fault := next(filter(None, faults), "")) or self.output is None:
            return fault
        found = read_answer(self.output, reply)
        return found.reason if isinstance(found, Wrong) else ""


class Checkpoint(msgspec.Struct, frozen=True):
    """A run in the middle of acting: the conversation before the reply, the reply, and what came of its calls.

    `routes` are what a router had decided, so that the run stays with the model that it is with.
    """

    conversation: Conversation
    turns: list[TurnFacts]
    turn: int
    reply: Reply
    ids: list[str]
    results: dict[str, ToolResult]
    failures: list[tuple[tuple[str, str, str], int]]
    tools: tuple[str, ...]
    caller: Caller
    prompt: str = ""
    background: bool = False
    routes: list[RouteFacts] = []


class Paused(Exception):
    """A person must decide about `calls` before the run can go on from `state`, a Checkpoint as JSON."""

    def __init__(self, calls: list[PendingCall], state: bytes) -> None:
        super().__init__(calls)
        self.calls = calls
        self.state = state


class _Course(msgspec.Struct):
    """What a run has seen that bears on its next turn: why calls have to end, and whether its answer was wrong."""

    failures: _Failures
    stopped: str = ""
    asked_again: bool = False


def run(program: Program, run: RunContext) -> Coroutine[Any, Any, Answer]:
    """The answer to the prompt at the end of the run's conversation, which gets every message of the run.

    Turns go on until the model answers without calls, or by the call that gives the answer. At the last turn, when the
    same call has failed three times, and when the budget has only its answer reserve left, it is asked without tools
    for the best answer from what it has; an answer of the wrong form is asked for once more.
    It is to be awaited. Raises HotloopError, and Paused when a person must decide first.
    """
    require_prompt(run.prompt)
    run.conversation.begin(run.prompt, run.ledger.started, run.tasks)
    ahead = None if program.prefetcher is None else program.prefetcher.begin(run)
    return _turns(program, run, 0, _Course({})) if ahead is None else _turns_with(ahead, program, run)


async def _turns_with(ahead: Prefetching, program: Program, run: RunContext) -> Answer:
    """The answer of a run in which calls are begun before they are made."""
    try:
        return await _turns(program, msgspec.structs.replace(run, ahead=ahead), 0, _Course({}))
    finally:
        await ahead.end()


def require_prompt(prompt: object) -> None:
    """Raises ConfigError for a prompt that no model can answer."""
    if not isinstance(prompt, str) or not prompt.strip():
        raise ConfigError(f"The prompt is {prompt!r}; give the model some text.")
    if not prompt.isascii() and encodable(prompt) != prompt:
        raise ConfigError("The prompt has half of a character; decode its bytes in their encoding.")


async def resume(program: Program, run: RunContext, saved: Checkpoint, known: dict[str, ToolResult]) -> Answer:
    """Go on with a run that was saved; `known` are results by call id, which are not worked for again."""
    course = _Course(dict(saved.failures))
    reply = saved.reply
    run.ledger.turn = saved.turn
    run.ledger.turns += saved.turns
    if saved.routes:
        run.ledger.facts["routes"] = saved.routes
    calls = program.executor.begin(run)
    calls.complete(reply.calls, saved.ids, saved.results | known)
    await _act(program, run, reply, calls, course)
    return _answer(program, run, reply, course) or await _turns(program, run, saved.turn + 1, course)


async def _turns(program: Program, run: RunContext, first: int, course: _Course) -> Answer:
    ledger, executor = run.ledger, program.executor
    for turn in count(first):
        ledger.turn = turn
        late = _late(program, run, turn)
        if late:
            ledger.facts.setdefault("stopped", late)
        last = course.asked_again or bool(late or course.stopped)
        calls = None if last else executor.begin(run)
        if run.ahead is not None and not last:
            run.ahead.think()
        try:
            reply = await _think_in_room(program, run, calls, course)
            if calls is not None and reply.calls:
                calls.complete(reply.calls)
                if run.journal is not None:
                    await run.journal.checkpoint(_save(program, run, reply, calls, course.failures))
        except BaseException:
            if calls is not None:
                await calls.discard()
            raise
        ledger.turns[-1].discarded = calls.discarded if calls is not None else 0
        if last and reply.calls:
            reply = _last_words(program, reply, course, turn)
            calls = executor.begin(run)
            calls.complete(reply.calls)
        if calls is None or not reply.calls:
            run.conversation.answer(reply.text)
        else:
            await _act(program, run, reply, calls, course)
        if (answer := _answer(program, run, reply, course)) is not None:
            return answer
    raise AssertionError("the last turn returns")


def _late(program: Program, run: RunContext, turn: int) -> str:
    """Why the answer is due in this turn, "" if it is not."""
    if turn >= program.max_turns:
        return f"No more than {program.max_turns} turns may have calls."
    if turn > 0 and run.deadline.answer_now(run.ledger.clock()):
        return "Only the budget's answer reserve was left."
    return ""


async def _think_in_room(program: Program, run: RunContext, calls: ReplyCalls | None, course: _Course) -> Reply:
    """The next reply, to a prompt within its limit; if the service finds it too long all the same, once to less."""
    compactor = run.compactor
    why: Why = "repair" if course.asked_again else "first"
    if compactor is not None and compactor.full:
        await _make_room(run, compactor)
    length = len(run.conversation.messages)
    try:
        reply = await _think(program, run, calls, why)
    except ContextOverflow as overflow:
        if compactor is None and run.new_compactor is not None:
            compactor = run.new_compactor(run.conversation)
        if compactor is None or not await _make_room(run, compactor, overflow.limit):
            raise
        length = len(run.conversation.messages)
        reply = await _think(program, run, calls, "correction")
    if compactor is not None and calls is not None and _is_usual(run):
        compactor.reported(length, reply.usage)
    return reply


async def _make_room(run: RunContext, compactor: Compactor, told: int | None = None) -> bool:
    if run.watch is not None:
        run.watch.doing("other")
    return await compactor.make_room(run.ledger, run.deadline, told)


def _is_usual(run: RunContext) -> bool:
    """Whether the newest reply came from the model that is asked as a rule."""
    less = None if run.watch is None else run.watch.degrading
    return run.ledger.attempts[-1].why not in _OTHER_MODEL and (less is None or less.model is None)


def _think(program: Program, run: RunContext, calls: ReplyCalls | None, why: Why) -> Coroutine[Any, Any, Reply]:
    """The next reply, to be awaited; without `calls` to hear of its calls, it is to have none but the answer."""
    if run.watch is not None:
        run.watch.before_reply()
    told = None
    if program.output is not None and run.emit is not nobody:
        told = Partials(run.emit, calls, program.output.wrapped)
    ask = Ask(
        messages=run.conversation.messages,
        ledger=run.ledger,
        emit=run.emit if told is None else told.emit,
        dialect=program.thinker.dialect,
        tools=calls is not None,
        deadline=run.deadline,
        listener=calls if told is None else told,
        session=run.caller.session,
        background=run.background,
        prompt=run.prompt,
        aside=run.aside,
        rearranged=run.conversation.fresh,
        check=program.check,
    )
    if run.watch is not None and (less := run.watch.degrading) is not None and less.taken:
        _with_less(ask, less, cuts=program.output is None)
    return program.thinker.think(ask, why)


def _with_less(ask: Ask, less: Degrading, *, cuts: bool) -> None:
    """Ask as the steps say that the run has taken; what would be of no use when it is cut is only to be short."""
    ask.step = less.model
    if less.max_tokens is not None:
        words = max(int(less.max_tokens * _WORDS_PER_TOKEN), 1)
        ask.aside = also_aside(ask.aside, _BRIEFLY.format(words))
        ask.max_tokens = less.max_tokens if cuts else None


def _last_words(program: Program, reply: Reply, course: _Course, turn: int) -> Reply:
    """What counts of a reply that was to have no calls: its text, and the call that gives the answer."""
    answers = answers_in(reply.calls) if program.output is not None else []
    if not answers and not reply.text.strip() and not course.asked_again:
        if course.stopped:
            raise RepeatedFailure(course.stopped)
        raise TurnLimit(_TURN_LIMIT.format("1 turn" if turn == 1 else f"{turn} turns"))
    return msgspec.structs.replace(reply, calls=answers)


def _answer(program: Program, run: RunContext, reply: Reply, course: _Course) -> Answer | None:
    """The answer in a reply whose calls were run, None if it has none; a wrong one is asked for again once."""
    if program.output is None:
        return None if reply.calls else Answer(reply.text, reply.text, reply.finish_reason)
    found = read_answer(program.output, reply)
    _count(run.ledger, found, course.asked_again)
    if not isinstance(found, Wrong):
        return found
    if course.asked_again:
        raise OutputInvalid(_INVALID.format(found.reason), text=found.text)
    course.asked_again = True
    if not reply.calls:
        run.emit([Reset(found.reason)])
        run.conversation.user(_AGAIN.format(found.reason))
    return None


def _count(ledger: Ledger, found: Answer | Wrong | None, asked_again: bool) -> None:
    facts = ledger.facts.setdefault("output", {"parse_failures": 0, "repairs": 0, "turns_saved": 0})
    facts["parse_failures"] += isinstance(found, Wrong)
    facts["repairs"] += isinstance(found, Wrong) and not asked_again
    facts["turns_saved"] += isinstance(found, Answer) and found.found


async def _act(program: Program, run: RunContext, reply: Reply, calls: ReplyCalls, course: _Course) -> None:
    """Run the reply's calls and put them into the conversation. Raises Paused."""
    ledger = run.ledger
    since = ledger.mark("overhead", "reply to calls")
    if run.watch is not None:
        run.watch.doing("tools", calls.running)
    ahead = _read_ahead(program, run, reply, calls)
    try:
        results = await calls.run()
    finally:
        if ahead is not None:
            await ahead.end()
        facts = ledger.turns[-1]
        facts.tools_ns = ledger.at - since
        facts.calls, facts.burst = calls.facts(since), calls.burst(since)
    if calls.pending:
        raise Paused(calls.pending, _save(program, run, reply, calls, course.failures))
    if ledger.words is not None:
        ledger.words.calls += calls.spoken()
    if run.ahead is not None:
        run.ahead.acted(calls.jobs, facts.tools_ns)
    done = [result for result in results if result is not None]
    _remember_calls(run.conversation, program.thinker.dialect, reply, calls.ids)
    _remember_results(run.conversation, calls.ids, done)
    course.stopped = _stop_repeating(reply.calls, done, course.failures)
    if course.stopped:
        ledger.facts["stopped"] = course.stopped


def _read_ahead(program: Program, run: RunContext, reply: Reply, calls: ReplyCalls) -> Speculation | None:
    """What reads the reply's results ahead, while later ones are worked for; None if nothing is to."""
    if program.speculator is None or run.journal is not None:
        return None

    def so_far() -> bytearray:
        new, done = Conversation(), calls.first_results()
        _remember_calls(new, program.thinker.dialect, reply, calls.ids)
        _remember_results(new, calls.ids[: len(done)], done)
        return new.messages

    work = Work(run.ledger, run.conversation.messages, so_far, calls.running, run.caller.session)
    ahead = program.speculator.begin(work)
    if ahead is not None:
        calls.runner.ended = ahead.finished
    return ahead


def _remember_calls(conversation: Conversation, dialect: Dialect, reply: Reply, ids: list[str]) -> None:
    """Put the reply's calls into the conversation.

    Services refuse a history with arguments that are no JSON, so a call with such is kept without them.
    """
    conversation.calls(
        [
            (call_id, call.name, call.arguments if call.whole else "{}", call.extra)
            for call_id, call in zip(ids, reply.calls, strict=True)
        ],
        text=reply.text,
        empty_content=dialect.empty_content,
        reasoning=reply.reasoning if dialect.echo_reasoning else "",
    )


def _remember_results(conversation: Conversation, ids: list[str], results: list[ToolResult]) -> None:
    for call_id, result in zip(ids, results, strict=True):
        conversation.result(call_id, result.content)


def _save(program: Program, run: RunContext, reply: Reply, calls: ReplyCalls, failures: _Failures) -> bytes:
    ledger = run.ledger
    saved = Checkpoint(
        conversation=run.conversation,
        turns=ledger.turns,
        turn=ledger.turn,
        reply=reply,
        ids=calls.ids,
        results=calls.results(),
        failures=list(failures.items()),
        tools=tuple(program.tools),
        caller=run.caller,
        prompt=run.prompt,
        background=run.background,
        routes=ledger.facts.get("routes", []),
    )
    return msgspec.json.encode(saved)


def _same(call: Call) -> str:
    """The arguments, the same for the same call however it is written."""
    return canonical(call.arguments) if call.whole else call.arguments


def _stop_repeating(calls: list[Call], results: list[ToolResult], failures: _Failures) -> str:
    """Why no more calls are to be made, "" if they may; calls of one reply count once: the model could not know yet."""
    pairs = zip(calls, results, strict=True)
    keys = [(call.name, _same(call), result.failed) for call, result in pairs if result.failed]
    for key in dict.fromkeys(keys):
        failures[key] = failures.get(key, 0) + 1
        if failures[key] == _SAME_FAILURES:
            name, _, reason = key
            return _REPEATED.format(name, _SAME_FAILURES, reason)
    return ""
