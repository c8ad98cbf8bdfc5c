"""What models, tools and services write, made fit to be shown: nothing in it hides, or acts on the terminal."""

from __future__ import annotations

import re
from typing import TextIO

_BLANK = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0"  # no letters, though Unicode says so
    + "".join(map(chr, (*range(0xFE00, 0xFE0E), *range(0xE0100, 0xE01F0))))  # choose among glyphs, or carry hidden data
)
_WIDE_SPACE = "\u3000"  # that of Chinese text
_ACTING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")  # control characters, bidi overrides


def visible(text: str, keep: str = "") -> str:
    """The text with an escape like \\u001b for each character that cannot be seen, or turns what follows around.

    Those in `keep` stay as they are.
    """
    return "".join(each if _is_seen(each) or each in keep else _escape(each) for each in text)


def one_line(text: str) -> str:
    """`visible` for a message of one line: its line breaks are shown as ⏎."""
    return visible(" ⏎ ".join(text.strip().splitlines()).replace("\t", " "))


def indented(text: str) -> str:
    """`visible` for several lines, of which only the first begins where messages do."""
    return visible(text, keep="\n\t").replace("\n", "\n  ")


def answer_for(stream: TextIO, text: str) -> str:
    """What of the model's answer is written to this stream: on a terminal with escapes for what would act on it.

    Line breaks, tabs and the joiners of many scripts are part of an answer.
    """
    return _ACTING.sub(lambda found: _escape(found[0]), text) if stream.isatty() else text


def _is_seen(character: str) -> bool:
    return (character.isprintable() and character not in _BLANK) or character == _WIDE_SPACE


def _escape(character: str) -> str:
    return "\\u" + character.encode("utf-16-be", "surrogatepass").hex(" ", 2).replace(" ", "\\u")
