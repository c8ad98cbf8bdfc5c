"""Where text can end early and still read well."""

from __future__ import annotations

import re
import unicodedata
from functools import cache

_LAST = (
    r".*\n[ \t\r]*\n",  # paragraph
    r".*\n",
    r""".*(?:[.!?…]["'”’)\]]*\s|[。！？]["'”’」』）】]*)""",
    r".*(?:\s|[,;](?=\D)|[，、；：\u3040-\u30ff\u3400-\u9fff\U00020000-\U0003ffff])",  # word
)
_LAST_STOP = r""".*[.!?…:]["'”’)\]]*(?=\D)"""  # ends a sentence, if what follows at once is no word
_JOINER = "\u200d"
_TAILS = re.compile("[\u200d\udc00-\udfff\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f]")  # besides combining marks


@cache
def _last(kind: str) -> re.Pattern[str]:
    """Compiled when the first text is cut: that takes as long as many an import."""
    return re.compile(kind, re.DOTALL)


def last_boundary(text: str, start: int, stop: int) -> int:
    """Where to end text from `start` that has to end by `stop`: after a paragraph, else a line, a sentence, a word.

    These are looked for in the second half of what fits. A word that is longer than that is none: then it ends before
    it, after whatever came last, or between two characters if nothing did.
    """
    if stop >= len(text):
        return len(text)
    for kind in _LAST:
        if found := _last(kind).match(text, (start + stop) // 2, stop):
            return last_character(text, start, found.end())
    ends = [found.end() for kind in (*_LAST, _LAST_STOP) if (found := _last(kind).match(text, start, stop))]
    return last_character(text, start, max(ends, default=stop))


def last_character(text: str, start: int, stop: int) -> int:
    """Where text from `start` ends by `stop` with a whole character: base and marks, emoji sequences and flags."""
    at = stop
    while start < at < len(text) and _goes_on(text, at):
        at -= 1
    return stop if at == start else at


def _goes_on(text: str, at: int) -> bool:
    """True if the character at `at` belongs to the one before."""
    before, char = text[at - 1], text[at]
    if char.isascii():
        return char == "\n" and before == "\r"
    if _is_flag_letter(char):
        return _flag_letters_before(text, at) % 2 == 1
    return before == _JOINER or _TAILS.match(char) is not None or unicodedata.category(char)[0] == "M"


def _is_flag_letter(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"


def _flag_letters_before(text: str, at: int) -> int:
    first = at
    while first and _is_flag_letter(text[first - 1]):
        first -= 1
    return at - first
