"""The answer in a reply: where it is, what it is worth, and what is wrong with it."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from hotloop.errors import ArgumentsError
from hotloop.models.reply import Call, Reply
from hotloop.models.wire.frames import decode_json
from hotloop.output.output import FINAL_ANSWER, Output
from hotloop.tools.running.result import words_of

_CUT = "the token cap cut it off before it was complete; write less"
_EMPTY = "it is empty"
_NO_OBJECT = "there is no JSON object in it"

_whole = json.JSONDecoder().raw_decode


class Answer(msgspec.Struct, frozen=True):
    """What a run came to: the value, and its text as the model wrote it.

    `finish_reason` is "stop", or "length" for a text that the token cap cut; `found` tells that the text had to be
    looked for among other words.
    """

    value: Any
    text: str
    finish_reason: str = "stop"
    found: bool = False


class Wrong(msgspec.Struct, frozen=True):
    """An answer that is not what was asked for: `reason`, and its text."""

    reason: str
    text: str


def read_answer(output: Output, reply: Reply) -> Answer | Wrong | None:
    """The answer in a complete reply, or what is wrong with it; None for a reply that only calls other tools."""
    given = answers_in(reply.calls)
    if given:
        read = [_take(output, call.arguments) for call in given]
        return next((each for each in read if isinstance(each, Answer)), read[0])
    return None if reply.calls else _read_text(output, reply)


def answers_in(calls: list[Call]) -> list[Call]:
    """Those of the calls that give the answer."""
    return [call for call in calls if call.name == FINAL_ANSWER]


def whole_object(text: str) -> str:
    """The one JSON object that the text has among other words, such as a fence; "" if there is none, or another."""
    start = text.find("{")
    if start < 0:
        return ""
    try:
        _, end = _whole(text, start)
    except (ValueError, RecursionError):
        return ""
    return "" if "{" in text[end:] else text[start:end]


def _read_text(output: Output, reply: Reply) -> Answer | Wrong:
    text = reply.text.strip()
    if reply.finish_reason == "length":
        return Wrong(_CUT, text)
    if not text:
        return Wrong(_EMPTY, text)
    read = _take(output, text)
    if isinstance(read, Answer) or _is_json(text):
        return read
    if "{" not in text:
        return Wrong(_NO_OBJECT, text)
    inner = whole_object(text)
    return _take(output, inner, found=True) if inner else read


def _take(output: Output, text: str, *, found: bool = False) -> Answer | Wrong:
    try:
        (value,) = output.tool.bind(text).values()
    except ArgumentsError as error:
        return Wrong(_words(error.__cause__ or error), text)
    return Answer(value, text, found=found)


def _is_json(text: str) -> bool:
    try:
        decode_json(text)
    except msgspec.DecodeError:
        return False
    return True


def _words(error: BaseException) -> str:
    words = words_of(error)
    return words if isinstance(error, ValueError) else f"{type(error).__name__}: {words}"
