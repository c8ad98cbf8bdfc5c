"""How many tokens bytes of a prompt are, about, and from how many on services cache them."""

from __future__ import annotations

from hotloop.models.dialects import Dialect

_ASCII = bytes(range(128))
_LEAST = {"openai": 1024, "gemini": 1024, "groq": 128, "deepseek": 64, "vllm": 16, "dynamo": 16}


def estimated_tokens(data: bytes | bytearray) -> int:
    """About how many tokens this much of a body is: one for four bytes of ASCII, or for three of anything else."""
    others = len(data.translate(None, _ASCII))
    return (len(data) - others) // 4 + others // 3


def least_cached(dialect: Dialect) -> int:
    """The shortest prefix, in tokens, that such a service keeps; 0 if it keeps any.

    Where that differs from model to model, as at Groq (128 to 1,024), it is that of the model with the shortest.
    """
    return _LEAST.get(dialect.name, 0)
