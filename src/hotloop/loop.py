"""The hot loop: perceive, think, act, until there is an answer."""

from __future__ import annotations

import msgspec

from hotloop.budget import Budget, Deadline
from hotloop.context.conversation import Conversation
from hotloop.errors import ConfigError, RepeatedFailure, TurnLimit
from hotloop.models.client import Client
from hotloop.models.reply import Call, Reply
from hotloop.models.transport import Emit
from hotloop.tools.executor import Executor, ToolResult
from hotloop.trace.ledger import Ledger

_SAME_FAILURES = 3
_TURN_LIMIT = (
    "After {} the model still calls tools instead of answering. "
    "Raise max_turns or budget.total, or tell it in the instructions when to stop."
)


class Program(msgspec.Struct, frozen=True):
    """What an agent was compiled to: nothing in it is looked up by name or validated again while it runs."""

    client: Client
    executor: Executor
    budget: Budget | None
    max_turns: int


async def run(program: Program, conversation: Conversation, prompt: str, ledger: Ledger, emit: Emit) -> Reply:
    """The reply that answers `prompt` at the end of this conversation, which gets every message of the run.

    Turns go on until the model answers without calls. At the last turn, and when the budget has only its answer
    reserve left, it is asked without tools for the best answer from what it has. Raises HotloopError.
    """
    if not isinstance(prompt, str) or not prompt.strip():
        raise ConfigError(f"The prompt is {prompt!r}; give the model some text.")
    deadline = Deadline(program.budget, ledger.start)
    conversation.user(prompt)
    failures: dict[tuple[str, str, str], int] = {}
    for turn in range(program.max_turns + 1):
        ledger.turn = turn
        last = turn == program.max_turns or (turn > 0 and deadline.answer_now(ledger.clock()))
        reply = await program.client.think(conversation.messages, ledger, emit, tools=not last, deadline=deadline)
        if last and reply.calls and not reply.text.strip():
            raise TurnLimit(_TURN_LIMIT.format("1 turn" if turn == 1 else f"{turn} turns"))
        if last or not reply.calls:
            conversation.answer(reply.text)
            return reply
        await _act(program, conversation, reply, ledger, emit, deadline, failures)
    raise AssertionError("the last turn returns")


async def _act(
    program: Program,
    conversation: Conversation,
    reply: Reply,
    ledger: Ledger,
    emit: Emit,
    deadline: Deadline,
    failures: dict[tuple[str, str, str], int],
) -> None:
    """Run the reply's calls and put calls and results into the conversation.

    Services refuse a history with arguments that are no JSON, so a call with such is kept without them.
    """
    dialect = program.client.request.dialect
    ids = conversation.calls(
        [(call.name, call.arguments if call.whole else "{}", call.extra) for call in reply.calls],
        text=reply.text,
        empty_content=dialect.empty_content,
        reasoning=reply.reasoning if dialect.echo_reasoning else "",
    )
    since = ledger.mark("overhead", "reply to calls")
    try:
        results = await program.executor.act(reply.calls, ids, ledger, emit, deadline)
    finally:
        ledger.turns[-1].tools_ns = ledger.at - since
    for call_id, result in zip(ids, results, strict=True):
        conversation.result(call_id, result.content)
    _stop_repeating(reply.calls, results, failures)


def _stop_repeating(calls: list[Call], results: list[ToolResult], failures: dict[tuple[str, str, str], int]) -> None:
    """Calls of one reply count once: the model could not know yet that they fail."""
    pairs = zip(calls, results, strict=True)
    failed = [(call.name, call.arguments, result.failed) for call, result in pairs if result.failed]
    for key in dict.fromkeys(failed):
        failures[key] = failures.get(key, 0) + 1
        if failures[key] == _SAME_FAILURES:
            name, _, reason = key
            raise RepeatedFailure(
                f"The model made the same call of {name} {_SAME_FAILURES} times and it failed each time: {reason}"
            )
