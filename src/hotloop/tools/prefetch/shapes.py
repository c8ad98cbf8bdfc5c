"""Words of a text by what they look like, so that one can be found again where another text has another word."""

from __future__ import annotations

import re
from functools import lru_cache

_LONGEST = 16 * 1024  # characters of a text in which words are looked for
_CJK = r"\u2e80-\u9fff\uac00-\ud7ff\uff00-\uffef"  # written without blanks between words
_WORD = re.compile(rf"(?![{_CJK}])[\w#$@](?:(?![{_CJK}])[\w@.%+\-/:])*")
_RUN = re.compile(r"\d+(?![^\W_])|[^\W\d_]+(?![^\W_])|[^\W_]+|.", re.S)


@lru_cache(maxsize=64)
def words(text: str) -> tuple[str, ...]:
    """The different words of a text, in their order, without the marks around them."""
    return tuple(dict.fromkeys(each.rstrip(".:-/+%@") for each in _WORD.findall(text[:_LONGEST])))


def words_like(text: str, shape: str) -> list[str]:
    """Those of one shape."""
    return [word for word in words(text) if shape_of(word) == shape]


@lru_cache(maxsize=4096)
def shape_of(word: str) -> str:
    """What a word looks like: "#W2378156" is #X{8}, "ann_lee_12" a_a_9{2}, "2024-05-20" 9{4}-9{2}-9{2}, "Ann" Aa."""
    return "".join(map(_shape_of_run, _RUN.findall(word)))


def _shape_of_run(run: str) -> str:
    if run.isdecimal():
        return f"9{{{len(run)}}}"
    if not run.isalnum():
        return run
    if run.upper() == run:
        return f"X{{{len(run)}}}"
    if run.isalpha():
        return "Aa" if run[0].isupper() else "a"
    return f"x{{{len(run)}}}"
