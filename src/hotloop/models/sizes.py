"""How many tokens bytes of a prompt are, about."""

from __future__ import annotations

_ASCII = bytes(range(128))


def estimated_tokens(data: bytes | bytearray) -> int:
    """About how many tokens this much of a body is: one for four bytes of ASCII, or for three of anything else."""
    others = len(data.translate(None, _ASCII))
    return (len(data) - others) // 4 + others // 3
