"""The hot loop: perceive, think, act, until there is an answer."""

from __future__ import annotations

import msgspec

from hotloop.budget import Budget
from hotloop.errors import ApprovalRequired, ConfigError, RepeatedFailure, TurnLimit
from hotloop.models.client import Client
from hotloop.models.reply import Call, Reply
from hotloop.tools.batch import Batch
from hotloop.tools.caller import Caller
from hotloop.tools.executor import Executor
from hotloop.tools.job import Run
from hotloop.tools.result import ToolResult
from hotloop.trace.ledger import TurnFacts

_SAME_FAILURES = 3
_TURN_LIMIT = (
    "After {} the model still calls tools instead of answering. "
    "Raise max_turns or budget.total, or tell it in the instructions when to stop."
)
_REPEATED = "The model made the same call of {} {} times and it failed each time: {}"
_Failures = dict[tuple[str, str, str], int]


class Program(msgspec.Struct, frozen=True):
    """What an agent was compiled to: nothing in it is looked up by name or validated again while it runs."""

    client: Client
    executor: Executor
    budget: Budget | None
    max_turns: int
    tools: tuple[str, ...]


class Saved(msgspec.Struct, frozen=True):
    """A run in the middle of acting: the conversation before the reply, the reply, and what came of its calls."""

    messages: bytes
    kept: dict[str, str]
    ids_given: int
    turn: int
    reply: Reply
    ids: list[str]
    results: dict[str, ToolResult]
    failures: list[tuple[str, str, str, int]]
    tools: tuple[str, ...]
    caller: Caller


async def run(program: Program, run: Run, prompt: str) -> Reply:
    """The reply that answers `prompt` at the end of the run's conversation, which gets every message of the run.

    Turns go on until the model answers without calls. At the last turn, when the same call has failed three times, and
    when the budget has only its answer reserve left, it is asked without tools for the best answer from what it has.
    Raises HotloopError; of these ApprovalRequired when a person must decide first.
    """
    if not isinstance(prompt, str) or not prompt.strip():
        raise ConfigError(f"The prompt is {prompt!r}; give the model some text.")
    run.conversation.user(prompt)
    return await _turns(program, run, 0, {})


async def resume(program: Program, run: Run, saved: Saved, known: dict[str, ToolResult]) -> Reply:
    """Go on with a run that was saved; `known` are results by call id, which are not worked for again."""
    failures: _Failures = {(name, arguments, reason): count for name, arguments, reason, count in saved.failures}
    reply = saved.reply
    run.ledger.turn = saved.turn
    run.ledger.turns.append(
        TurnFacts(saved.turn, finish_reason=reply.finish_reason, tools=[call.name for call in reply.calls])
    )
    batch = program.executor.batch(run)
    batch.complete(reply.calls, saved.ids, saved.results | known)
    stopped = await _act(program, run, reply, batch, failures)
    return await _turns(program, run, saved.turn + 1, failures, stopped)


async def _turns(program: Program, run: Run, first: int, failures: _Failures, stopped: str = "") -> Reply:
    ledger, deadline, conversation = run.ledger, run.deadline, run.conversation
    for turn in range(first, program.max_turns + 1):
        ledger.turn = turn
        last = bool(stopped) or turn == program.max_turns or (turn > 0 and deadline.answer_now(ledger.clock()))
        batch = None if last else program.executor.batch(run)
        try:
            reply = await program.client.think(
                conversation.messages, ledger, run.emit, tools=not last, deadline=deadline, listener=batch
            )
            if batch is not None and reply.calls:
                batch.complete(reply.calls)
                if run.permits is not None:
                    await run.permits.checkpoint(_save(program, run, reply, batch, failures))
        except BaseException:
            if batch is not None:
                await batch.discard()
            raise
        if last and reply.calls and not reply.text.strip():
            if stopped:
                raise RepeatedFailure(stopped)
            raise TurnLimit(_TURN_LIMIT.format("1 turn" if turn == 1 else f"{turn} turns"))
        if batch is None or not reply.calls:
            conversation.answer(reply.text)
            return reply
        stopped = await _act(program, run, reply, batch, failures)
    raise AssertionError("the last turn returns")


async def _act(program: Program, run: Run, reply: Reply, batch: Batch, failures: _Failures) -> str:
    """Run the reply's calls and put calls and results into the conversation; why to stop calling, "" to go on.

    Services refuse a history with arguments that are no JSON, so a call with such is kept without them.
    """
    ledger, conversation, dialect = run.ledger, run.conversation, program.client.request.dialect
    since = ledger.mark("overhead", "reply to calls")
    try:
        results = await batch.run()
    finally:
        facts = ledger.turns[-1]
        facts.tools_ns = ledger.at - since
        facts.calls, facts.burst, facts.discarded = batch.facts(since), batch.burst(since), batch.discarded
    if batch.pending:
        raise _pause(program, run, reply, batch, failures)
    done = [result for result in results if result is not None]
    stopped = _stop_repeating(reply.calls, done, failures)
    if stopped:
        ledger.facts["stopped"] = stopped
    conversation.calls(
        [
            (call_id, call.name, call.arguments if call.whole else "{}", call.extra)
            for call_id, call in zip(batch.ids, reply.calls, strict=True)
        ],
        text=reply.text,
        empty_content=dialect.empty_content,
        reasoning=reply.reasoning if dialect.echo_reasoning else "",
    )
    for call_id, result in zip(batch.ids, done, strict=True):
        conversation.result(call_id, result.content)
    return stopped


def _pause(program: Program, run: Run, reply: Reply, batch: Batch, failures: _Failures) -> ApprovalRequired:
    names = ", ".join(dict.fromkeys(call.name for call in batch.pending))
    return ApprovalRequired(
        f"A person must decide about {names} before run {run.caller.run} can go on.",
        run_id=run.caller.run,
        calls=batch.pending,
        state=_save(program, run, reply, batch, failures),
    )


def _save(program: Program, run: Run, reply: Reply, batch: Batch, failures: _Failures) -> bytes:
    messages, kept, ids_given = run.conversation.save()
    counts = [(*key, count) for key, count in failures.items()]
    results, turn = batch.results(), run.ledger.turn
    return msgspec.json.encode(
        Saved(messages, kept, ids_given, turn, reply, batch.ids, results, counts, program.tools, run.caller)
    )


def _stop_repeating(calls: list[Call], results: list[ToolResult], failures: _Failures) -> str:
    """Why no more calls are to be made, "" if they may; calls of one reply count once: the model could not know yet."""
    pairs = zip(calls, results, strict=True)
    keys = [(call.name, call.arguments, result.failed) for call, result in pairs if result.failed]
    for key in dict.fromkeys(keys):
        failures[key] = failures.get(key, 0) + 1
        if failures[key] == _SAME_FAILURES:
            name, _, reason = key
            return _REPEATED.format(name, _SAME_FAILURES, reason)
    return ""
