"""What is kept of a turn: the facts of its reply, of its calls, and of every request that was made for it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from hotloop.trace.importing.asked import Asked, is_cancelled
from hotloop.trace.importing.prefixes import sizes
from hotloop.trace.importing.turns import Turn
from hotloop.trace.ledger import AttemptFacts, CallFacts, TurnFacts, Why
from hotloop.trace.pace import is_buffered

_READS = 2  # of a reply at least, where nobody noted them


def turn_facts(turn: Turn, reply: Asked) -> TurnFacts:
    """The facts of a turn with its reply."""
    ttft, tpot, buffered = _pace(reply)
    begun, ended = [call.start for call in turn.calls], [call.end for call in turn.calls]
    return TurnFacts(
        turn.number,
        ttft,
        tpot,
        reply.usage,
        attempts=sum(max(len(each.tries), 1) for each in turn.attempts),
        buffered=buffered,
        finish_reason=reply.finish,
        model=reply.answered_by or reply.model or None,
        tools=[call.name for call in turn.calls],
        tools_ns=max(ended, default=0) - min(begun, default=0),
        calls=[
            CallFacts(each.call_id, each.name, each.outcome, head_start=max(reply.end - each.start, 0), lane=each.lane)
            for each in turn.calls
        ],
        server_ms=reply.server_ms,
        gap=_gap(reply),
    )


def attempt_facts(turn: Turn, text_before: str, start: int) -> Iterator[AttemptFacts]:
    """The HTTP requests of a turn where they are known, else its requests as the framework saw them.

    `text_before` are the messages of the agent's request before it, `start` is when the run began.
    """
    before: Asked | None = None
    for asked in turn.attempts:
        why = _why(asked, before)
        sent, known = sizes(asked.text, text_before)
        for each in asked.tries[:-1]:
            yield AttemptFacts(
                turn.number,
                asked.service,
                asked.model,
                why,
                each.start - start,
                each.end - start,
                "failed",
                reason=each.reason,
                prompt_bytes=sent,
                known_bytes=known,
                error=each.error,
            )
            why = "retry"
        yield AttemptFacts(
            turn.number,
            asked.service,
            asked.model,
            why,
            asked.sent - start,
            asked.end - start,
            _came_of(asked),
            first=0 if asked.first is None else asked.first - start,
            usage=asked.usage,
            prompt_bytes=sent,
            known_bytes=known,
            error=asked.error,
        )
        before = asked


def _why(asked: Asked, before: Asked | None) -> Why:
    if before is None:
        return "first"
    return "retry" if (before.service, before.model) == (asked.service, asked.model) else "fallback"


def _came_of(asked: Asked) -> str:
    return "ok" if not asked.error else "cancelled" if is_cancelled(asked.error) else "failed"


def _pace(reply: Asked) -> tuple[int | None, int | None, bool]:
    """The time to the first token and between tokens, and whether all came at once; None where nobody noted it."""
    if reply.first is None:
        return None, None, False
    several = len(reply.chunks) > 1
    spread = (reply.chunks[-1] if several else reply.end) - reply.first
    ttft, tokens = reply.first - reply.sent, reply.usage.output_tokens or 0
    if tokens < 2:
        return ttft, None, False
    buffered = is_buffered(tokens, len(reply.chunks) if several else _READS, spread)
    return ttft, None if buffered else spread // (tokens - 1), buffered


def _gap(reply: Asked) -> int:
    """The longest silence between parts of a reply."""
    return max((after - before for before, after in pairwise(reply.chunks)), default=0)
