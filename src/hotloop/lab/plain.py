"""What is wrong with a value, as msgspec says it, in the words of this house."""

from __future__ import annotations

_WORDS = {
    "Object contains unknown field": "unknown key",
    "Object missing required field": "missing key",
    "Expected": "expected",
    "Only": "only",
}


def in_plain_words(error: Exception) -> tuple[str, str]:
    """What is wrong, and where in the value: `calls[0].name`, or "" for the whole of it."""
    what, _, where = str(error).replace("`", "").partition(" - at $")
    for theirs, ours in _WORDS.items():
        what = what.replace(theirs, ours)
    return what, where.removeprefix(".")
