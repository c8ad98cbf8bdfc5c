"""How many tokens bytes of a prompt are, about."""

from __future__ import annotations

_ASCII = bytes(range(128))

PER_TOKEN = 12
"""The size of a token, in the unit of `text_size`."""
_PER_ASCII, _PER_OTHER = PER_TOKEN // 4, PER_TOKEN // 3


def estimated_tokens(data: bytes | bytearray) -> int:
    """About how many tokens this much of a body is: one for four bytes of ASCII, or for three of anything else."""
    others = len(data.translate(None, _ASCII))
    return (len(data) - others) // 4 + others // 3


def text_tokens(text: str) -> int:
    """The same of a text."""
    return len(text) // 4 if text.isascii() else estimated_tokens(_bytes(text))


def text_size(text: str) -> int:
    """The size of a text in twelfths of a token: what is not rounded can be added up.

    A text of n tokens and less than one more has at most n tokens by `estimated_tokens`.
    """
    if text.isascii():
        return _PER_ASCII * len(text)
    data = _bytes(text)
    return _PER_ASCII * len(data) + (_PER_OTHER - _PER_ASCII) * len(data.translate(None, _ASCII))


def sure_characters(tokens: int) -> int:
    """So many characters are never more than these tokens, whatever they are."""
    return tokens * 3 // 4


def most_characters(size: int) -> int:
    """No text of more characters has this size or less."""
    return size // _PER_ASCII


def _bytes(text: str) -> bytes:
    return text.encode(errors="surrogatepass")
