"""When two questions are the same but for how they are written."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

_WIDE = re.compile(r"[^\x00-\x7f]")
_ENDING = " .?,;:…。"
_MEANT = ("<super>", "<sub>", "<fraction>", "<circle>")  # x² is not x2


def normalized(question: str) -> str:
    """The question without what makes no difference: case, blanks, full-width forms, and punctuation at its end."""
    text = question
    if not text.isascii():
        text = unicodedata.normalize("NFC", _WIDE.sub(lambda found: _plain(found[0]), text))
    text = " ".join(text.casefold().split())
    plain = text.rstrip(_ENDING + "!")
    if plain[-1:].isdigit() and text[len(plain) :].startswith("!"):
        return plain + "!"  # 5! is not 5
    return plain or text


@lru_cache(maxsize=8192)
def _plain(character: str) -> str:
    if unicodedata.decomposition(character).startswith(_MEANT):
        return character
    return unicodedata.normalize("NFKC", character)
