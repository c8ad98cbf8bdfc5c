"""Words of messages: which name was meant, which there are and how many, a long text cut short; and a free name."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Container, Iterable

_LISTED = 20  # names that a message lists
_COMPARED = 200  # names of a list among which the one that was meant is looked for
_COMPARABLE = 100  # characters of a name worth comparing: models invent some that are pages long
_LONGEST_NAME = 64  # characters, as services take them for a name


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a sentence that proposes what is spelled most like `name`: "; did you mean user_id?"; "" for none."""
    near = _nearest(name, known)
    return f"; did you mean {near}?" if near else ""


def listed(name: str, names: Iterable[str]) -> str:
    """The names that there are in place of an unknown one: "user_id, name (did you mean user_id?)"."""
    known = list(names)
    near = _nearest(name, known[:_COMPARED])
    more = f" and {len(known) - _LISTED:,} more" if len(known) > _LISTED else ""
    meant = f" (did you mean {near}?)" if near else ""
    return f"{', '.join(map(short, known[:_LISTED])) or 'nothing'}{more}{meant}"


def counted(number: int, noun: str) -> str:
    """How many there are of what a noun with a regular plural names: "1 prompt", "1,204 prompts"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def short(text: str, most: int = 60) -> str:
    """The text, or its first `most` characters, for a message."""
    return text if len(text) <= most else f"{text[:most]}…"


def free_name(wanted: str, taken: Container[str]) -> str:
    """The name, of at most 64 characters, or with the first number that makes it another: "order_2"."""
    numbered = (f"{wanted[: _LONGEST_NAME - 4]}_{number}" for number in itertools.count(2))
    return next(name for name in itertools.chain([wanted[:_LONGEST_NAME]], numbered) if name not in taken)


def _nearest(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name[:_COMPARABLE], [each for each in known if len(each) <= _COMPARABLE], 1)
    return near[0] if near else ""
