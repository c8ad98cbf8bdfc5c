"""When two questions are the same but for how they are written."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

ENDING = " .?,;:…。"
"""Punctuation that says nothing where a sentence ends; "!" may be a factorial."""

_WIDE = re.compile(r"[^\x00-\x7f]")
_MEANT = ("<super>", "<sub>", "<fraction>", "<circle>")  # x² is not x2
_AS_WRITTEN = re.compile(r'[\r\n\t"`“”«»「『《]')
_APOSTROPHES = str.maketrans("", "", "'’")


def normalized(question: str) -> str:
    """The question without what makes no difference: blanks, full-width forms, capitals, punctuation at its end.

    Only a capital that begins a word is none: "IT" is not "it", MB are not Mb, and aB12 is not Ab12. What has several
    lines, or quotes something, counts as it is written.
    """
    if _AS_WRITTEN.search(question.strip()):
        return question.rstrip().lstrip("\r\n")
    text = " ".join(_word(*each) for each in enumerate(plain_forms(question).split()))
    plain = text.rstrip(ENDING + "!")
    if plain[-1:].isdigit() and text[len(plain) :].startswith("!"):
        return plain + "!"  # 5! is not 5
    return plain or text


def plain_forms(text: str) -> str:
    """The text with full-width forms, ligatures and composed characters in the one way that is usual."""
    if text.isascii():
        return text
    return unicodedata.normalize("NFC", _WIDE.sub(lambda found: _plain(found[0]), text))


def _word(place: int, word: str) -> str:
    """A word without the capital that it begins with; letters that may be a unit or a name keep theirs."""
    letters = word.rstrip(ENDING + "!").translate(_APOSTROPHES)
    least = 2 if place == 0 else 3
    return word.lower() if len(letters) >= least and letters.isalpha() and letters[1:].islower() else word


@lru_cache(maxsize=8192)
def _plain(character: str) -> str:
    if unicodedata.decomposition(character).startswith(_MEANT):
        return character
    return unicodedata.normalize("NFKC", character)
