"""What a fact is, and when two are the same."""

from __future__ import annotations

import hashlib
import time
import unicodedata

import msgspec

from hotloop.context.terms import characters, terms
from hotloop.fields import Text, check_fields, require

LONGEST = 1000
"""Characters of a fact."""

_ENDING = " .!?,;:…。！？，；："
_TOO_LONG = f"The fact has {{:,}} characters, more than {LONGEST:,}; tell it in a sentence or two."


class Fact(msgspec.Struct, frozen=True, gc=False):
    """What is known of a user, on one line: in all of their sessions, or, with a `session`, in that one.

    `at` is when it was told last, in Unix seconds.
    """

    id: str
    text: str
    user: str
    session: str = ""
    at: float = 0.0


class _Whose(msgspec.Struct):
    user: Text
    session: str


class _Told(msgspec.Struct):
    text: Text


def check_whose(user: str, session: str = "") -> None:
    """Raise ConfigError for a user who has no name, and what is no text."""
    check_fields(_Whose, {"user": user, "session": session}, "Memory")


def new_fact(text: str, user: str, session: str) -> Fact:
    """The fact that is told now. Its id is the same for the same words, whatever their capitals, blanks and ending.

    Raises ConfigError for what is no text, too long a text, and nobody's facts.
    """
    check_whose(user, session)
    check_fields(_Told, {"text": text}, "Memory")
    text = " ".join(text.split())
    require(bool(text), "Memory(text=...): expected some text.")
    require(len(text) <= LONGEST, _TOO_LONG.format(len(text)))
    return Fact(fact_id(text, user, session), text, user, session, time.time())


def fact_id(text: str, user: str, session: str) -> str:
    """What the fact of this user in these words is known by."""
    words = " ".join(unicodedata.normalize("NFKC", text).casefold().split()).rstrip(_ENDING) or text
    return hashlib.blake2b(msgspec.json.encode((user, session, words)), digest_size=8).hexdigest()


def fact_terms(text: str) -> frozenset[str]:
    """By what a fact is found, and what a request asks for: terms, and each Chinese character by itself.

    Facts and requests are short, so that they often have but one character in common: 猫 is in 养了一只猫, no pair is.
    """
    return frozenset((*terms(text), *characters(text)))
