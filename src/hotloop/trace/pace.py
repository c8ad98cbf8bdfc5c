"""How fast a reply was written, told from when it came."""

from __future__ import annotations

_FEW = 4  # fewer tokens than this may well arrive in one read
_FASTEST = 1000  # nanoseconds a token: no service writes faster than that


def is_buffered(tokens: int, reads: int, spread: int) -> bool:
    """Whether a streamed reply came all at once, held back on the way.

    `reads` of it had tokens, the last of them `spread` nanoseconds after the first.
    """
    return tokens > _FEW and (reads <= 1 or spread < tokens * _FASTEST)


def time_per_token(tokens: int, reads: int, spread: int) -> int | None:
    """TPOT of a streamed reply in nanoseconds, (last - first token) / (tokens - 1); None if it cannot be told."""
    if tokens <= 1 or reads <= 1 or is_buffered(tokens, reads, spread):
        return None
    return spread // (tokens - 1)
