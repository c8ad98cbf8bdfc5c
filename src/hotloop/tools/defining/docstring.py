"""What a docstring says: its first paragraph, and its words on each parameter, in Google, NumPy or Sphinx style."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

_TITLES = (
    "args|arguments|params|parameters|keyword args|keyword arguments|other parameters|attributes|参数|参数说明|属性"
)
_OTHER_TITLES = (
    "returns?|yields?|raises|examples?|notes?|warnings?|see also|references|返回值?|异常|抛出|示例|例子|注意?"
)
_UNDERLINE = re.compile(r"-{3,}|={3,}")
_GOOGLE_ENTRY = re.compile(r"(\w+)\s*(?:[(（].*?[)）])?\s*[:：]\s*(.*)")
_NUMPY_ENTRY = re.compile(r"(\w+(?:\s*,\s*\w+)*)\s*(?::.*)?()")
_SPHINX_FIELD = re.compile(r":(\w+)(?:\s+([^:]*?))?\s*:\s*(.*)")
_SPHINX_PARAMETERS = {"param", "parameter", "arg", "argument", "key", "keyword"}
_WIDE = re.compile(r"[\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\uff00-\uffef]")


@cache
def _google_title() -> re.Pattern[str]:
    """Compiled when the first tool is made: that takes as long as many an import."""
    return re.compile(rf"({_TITLES}|{_OTHER_TITLES})\s*[:：]\s*", re.IGNORECASE)


@cache
def _parameters() -> re.Pattern[str]:
    return re.compile(rf"({_TITLES})\s*[:：]?\s*", re.IGNORECASE)


class Docs(NamedTuple):
    """A docstring, taken apart."""

    summary: str
    parameters: dict[str, str]


def parse(text: str | None) -> Docs:
    """Take a docstring apart; what it does not say is ""."""
    lines = inspect.cleandoc(text or "").splitlines()
    return Docs(_first_paragraph(lines), dict([*_sphinx(lines), *_google(lines), *_numpy(lines)]))


def _first_paragraph(lines: list[str]) -> str:
    paragraph: list[str] = []
    for number, line in enumerate(lines):
        if not line.strip() or _is_title(lines, number) or _SPHINX_FIELD.match(line):
            break
        paragraph.append(line)
    return _join(paragraph)


def _is_title(lines: list[str], number: int) -> bool:
    return bool(_google_title().fullmatch(lines[number])) or _is_numpy_title(lines, number)


def _is_numpy_title(lines: list[str], number: int) -> bool:
    return number + 1 < len(lines) and bool(_UNDERLINE.fullmatch(lines[number + 1].strip()))


def _sphinx(lines: list[str]) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(lines):
        field = _SPHINX_FIELD.match(line)
        if field and field[1] in _SPHINX_PARAMETERS and field[2]:
            yield field[2].split()[-1], _join([field[3], *_until(lines[number + 1 :], r"\s*$|\S")])


def _google(lines: list[str]) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(lines):
        title = _google_title().fullmatch(line)
        if title and _parameters().fullmatch(title[1]):
            section = inspect.cleandoc("\n" + "\n".join(_until(lines[number + 1 :], r"\S"))).splitlines()
            yield from _entries(section, _GOOGLE_ENTRY)


def _numpy(lines: list[str]) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(lines):
        if _is_numpy_title(lines, number) and _parameters().fullmatch(line):
            section = lines[number + 2 :]
            end = next((at for at in range(len(section)) if _is_numpy_title(section, at)), len(section))
            yield from _entries(section[:end], _NUMPY_ENTRY)


def _entries(section: list[str], entry: re.Pattern[str]) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(section):
        found = entry.fullmatch(line)
        if found:
            text = _join([found[2], *_until(section[number + 1 :], r"\S")])
            for name in found[1].split(","):
                yield name.strip(), text


def _until(lines: list[str], stop: str) -> Iterator[str]:
    for line in lines:
        if re.match(stop, line):
            return
        yield line


def _join(lines: list[str]) -> str:
    """Lines as one; no space between two characters of a script that is written without."""
    text = ""
    for line in filter(None, map(str.strip, lines)):
        tight = text and _WIDE.match(text[-1]) and _WIDE.match(line)
        text += line if tight or not text else f" {line}"
    return text
