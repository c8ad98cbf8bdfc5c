"""The hot loop: perceive, think, act, until there is an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from hotloop.budget import Budget
from hotloop.context.conversation import Conversation
from hotloop.errors import ConfigError, RepeatedFailure, TurnLimit
from hotloop.models.ask import Ask, Thinker
from hotloop.models.dialects import Dialect
from hotloop.models.reply import Call, Reply
from hotloop.tools.defining.tool import canonical
from hotloop.tools.running.caller import Caller
from hotloop.tools.running.calls import ReplyCalls
from hotloop.tools.running.executor import Executor
from hotloop.tools.running.job import RunContext
from hotloop.tools.running.result import ToolResult
from hotloop.trace.ledger import TurnFacts

if TYPE_CHECKING:
    from hotloop.tools.approvals.store import PendingCall

_SAME_FAILURES = 3
_TURN_LIMIT = (
    "After {} the model still calls tools instead of answering. "
    "Raise max_turns or budget.total, or tell it in the instructions when to stop."
)
_REPEATED = "The model made the same call of {} {} times and it failed each time: {}"
_Failures = dict[tuple[str, str, str], int]


class Program(msgspec.Struct, frozen=True):
    """What an agent was compiled to: nothing in it is looked up by name or validated again while it runs."""

    thinker: Thinker
    executor: Executor
    budget: Budget | None
    max_turns: int
    tools: tuple[str, ...]


class Checkpoint(msgspec.Struct, frozen=True):
    """A run in the middle of acting: the conversation before the reply, the reply, and what came of its calls."""

    messages: bytes
    kept: dict[str, str]
    ids_given: int
    turns: list[TurnFacts]
    turn: int
    reply: Reply
    ids: list[str]
    results: dict[str, ToolResult]
    failures: list[tuple[tuple[str, str, str], int]]
    tools: tuple[str, ...]
    caller: Caller


class Paused(Exception):
    """A person must decide about `calls` before the run can go on from `state`, a Checkpoint as JSON."""

    def __init__(self, calls: list[PendingCall], state: bytes) -> None:
        super().__init__(calls)
        self.calls = calls
        self.state = state


async def run(program: Program, run: RunContext) -> Reply:
    """The reply that answers the prompt at the end of the run's conversation, which gets every message of the run.

    Turns go on until the model answers without calls. At the last turn, when the same call has failed three times, and
    when the budget has only its answer reserve left, it is asked without tools for the best answer from what it has.
    Raises HotloopError, and Paused when a person must decide first.
    """
    if not isinstance(run.prompt, str) or not run.prompt.strip():
        raise ConfigError(f"The prompt is {run.prompt!r}; give the model some text.")
    run.conversation.user(run.prompt)
    return await _turns(program, run, 0, {})


async def resume(program: Program, run: RunContext, saved: Checkpoint, known: dict[str, ToolResult]) -> Reply:
    """Go on with a run that was saved; `known` are results by call id, which are not worked for again."""
    failures = dict(saved.failures)
    reply = saved.reply
    run.ledger.turn = saved.turn
    run.ledger.turns += saved.turns
    calls = program.executor.begin(run)
    calls.complete(reply.calls, saved.ids, saved.results | known)
    stopped = await _act(program, run, reply, calls, failures)
    return await _turns(program, run, saved.turn + 1, failures, stopped)


async def _turns(program: Program, run: RunContext, first: int, failures: _Failures, stopped: str = "") -> Reply:
    ledger, deadline, conversation = run.ledger, run.deadline, run.conversation
    for turn in range(first, program.max_turns + 1):
        ledger.turn = turn
        last = bool(stopped) or turn == program.max_turns or (turn > 0 and deadline.answer_now(ledger.clock()))
        calls = None if last else program.executor.begin(run)
        try:
            reply = await program.thinker.think(_ask(program, run, calls, tools=not last))
            if calls is not None and reply.calls:
                calls.complete(reply.calls)
                if run.journal is not None:
                    await run.journal.checkpoint(_save(program, run, reply, calls, failures))
        except BaseException:
            if calls is not None:
                await calls.discard()
            raise
        ledger.turns[-1].discarded = calls.discarded if calls is not None else 0
        if last and reply.calls and not reply.text.strip():
            if stopped:
                raise RepeatedFailure(stopped)
            raise TurnLimit(_TURN_LIMIT.format("1 turn" if turn == 1 else f"{turn} turns"))
        if calls is None or not reply.calls:
            conversation.answer(reply.text)
            return reply
        stopped = await _act(program, run, reply, calls, failures)
    raise AssertionError("the last turn returns")


def _ask(program: Program, run: RunContext, calls: ReplyCalls | None, *, tools: bool) -> Ask:
    return Ask(
        messages=run.conversation.messages,
        ledger=run.ledger,
        emit=run.emit,
        dialect=program.thinker.dialect,
        tools=tools,
        deadline=run.deadline,
        listener=calls,
        session=run.caller.session,
        background=run.background,
        prompt=run.prompt,
    )


async def _act(program: Program, run: RunContext, reply: Reply, calls: ReplyCalls, failures: _Failures) -> str:
    """Run the reply's calls and put them into the conversation; why to stop calling, "" to go on. Raises Paused."""
    ledger = run.ledger
    since = ledger.mark("overhead", "reply to calls")
    try:
        results = await calls.run()
    finally:
        facts = ledger.turns[-1]
        facts.tools_ns = ledger.at - since
        facts.calls, facts.burst = calls.facts(since), calls.burst(since)
    if calls.pending:
        raise Paused(calls.pending, _save(program, run, reply, calls, failures))
    done = [result for result in results if result is not None]
    _remember(run.conversation, program.thinker.dialect, reply, calls.ids, done)
    stopped = _stop_repeating(reply.calls, done, failures)
    if stopped:
        ledger.facts["stopped"] = stopped
    return stopped


def _remember(
    conversation: Conversation, dialect: Dialect, reply: Reply, ids: list[str], results: list[ToolResult]
) -> None:
    """Put calls and results into the conversation.

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
    for call_id, result in zip(ids, results, strict=True):
        conversation.result(call_id, result.content)


def _save(program: Program, run: RunContext, reply: Reply, calls: ReplyCalls, failures: _Failures) -> bytes:
    messages, kept, ids_given = run.conversation.save()
    results, counts = calls.results(), list(failures.items())
    turns, turn = run.ledger.turns, run.ledger.turn
    return msgspec.json.encode(
        Checkpoint(messages, kept, ids_given, turns, turn, reply, calls.ids, results, counts, program.tools, run.caller)
    )


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
