"""Whether an answer is what a case says is right, and if not, why."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from hotloop.answers.normal import ENDING, plain_forms
from hotloop.lab.evaluation.cases import Case, ExpectedCall
from hotloop.words import short

_FENCED = re.compile(r"```(?:json)?\s*\n(.*?)```", re.DOTALL)

_LETTER = (
    r"[^\W\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u2e80-\ud7ff\uf900-\ufaff]"  # of scripts with blanks between words
)

Made = tuple[str, str]
"""A call that was made: the tool's name and its arguments as JSON."""


def fault(case: Case, answer: str, calls: Sequence[Made]) -> str:
    """What is not right about an answer and the calls on its way, "" if nothing is."""
    return next(_faults(case, answer, calls), "")


def _faults(case: Case, answer: str, calls: Sequence[Made]) -> Iterator[str]:
    if case.equals is not None and _plain(answer) != _plain(case.equals):
        yield f"it is {short(answer)!r}, not {case.equals!r}"
    for text in case.contains:
        if not _says(answer, text):
            yield f"{text!r} is not in {short(answer)!r}"
    if case.contains_any and not any(_says(answer, text) for text in case.contains_any):
        yield f"none of {', '.join(map(repr, case.contains_any))} is in {short(answer)!r}"
    if case.matches is not None and not re.search(case.matches, answer):
        yield f"{case.matches!r} does not match {short(answer)!r}"
    if case.json is not None and (wrong := _json_fault(case.json, answer)):
        yield wrong
    for call in case.calls:
        if not any(_is_made(call, made) for made in calls):
            yield f"{_shown(call)} was not called; called was {', '.join(_told(calls)) or 'nothing'}"


def _plain(text: str) -> str:
    """The text without what makes no difference in an answer."""
    plain = " ".join(plain_forms(text).casefold().split())
    return plain.rstrip(ENDING + "!") or plain


def _says(answer: str, text: str) -> bool:
    """Whether the text stands in the answer, as whole words and numbers: "no" is not in "know", nor 4 in 4.5."""
    wanted, found = (" ".join(plain_forms(each).casefold().split()) for each in (text, answer))
    before = rf"(?<!{_LETTER})(?<!\d[.,])" if re.match(_LETTER, wanted) else ""
    after = rf"(?!{_LETTER})(?!['’]t\b)" if re.search(rf"{_LETTER}\Z", wanted) else ""
    number = r"(?![.,]\d)" if wanted[-1:].isdigit() else ""
    return re.search(before + re.escape(wanted) + after + number, found) is not None


def _json_fault(wanted: dict[str, Any], answer: str) -> str:
    fenced = _FENCED.search(answer)
    try:
        given = msgspec.json.decode(fenced[1] if fenced else answer)
    except msgspec.DecodeError:
        return f"it is no JSON: {short(answer)!r}"
    return "" if _has(given, wanted) else f"{short(answer)!r} has not all of {wanted!r}"


def _is_made(call: ExpectedCall, made: Made) -> bool:
    name, arguments = made
    try:
        return name == call.name and _has(msgspec.json.decode(arguments), call.arguments)
    except msgspec.DecodeError:
        return False


def _has(given: Any, wanted: Any) -> bool:
    """Whether all of `wanted` is there: objects may have more fields, and everything else is the same."""
    if isinstance(wanted, dict):
        return isinstance(given, dict) and all(key in given and _has(given[key], wanted[key]) for key in wanted)
    if isinstance(wanted, list):
        return (
            isinstance(given, list)
            and len(given) == len(wanted)
            and all(_has(one, other) for one, other in zip(given, wanted, strict=True))
        )
    return type(given) is type(wanted) and given == wanted if isinstance(wanted, bool) else bool(given == wanted)


def _shown(call: ExpectedCall) -> str:
    arguments = msgspec.json.encode(call.arguments).decode() if call.arguments else ""
    return f"{call.name} {arguments}".strip()


def _told(calls: Sequence[Made]) -> list[str]:
    return list(dict.fromkeys(short(f"{name} {arguments}") for name, arguments in calls))
