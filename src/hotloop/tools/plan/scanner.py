"""The steps of a plan whose text is still arriving."""

from __future__ import annotations

import re

from hotloop.tools.plan.references import value_of

_IN_TEXT = re.compile(r'"|\\.?', re.S)
_IN_ITEM = re.compile(r'["{}\[\]]')
_OUTSIDE = re.compile(r"\S")
_CLOSER = {"{": "}", "[": "]"}
_BETWEEN_STEPS = {"[{", "[]", "},", "}]", ",{"}  # a mark and the one before
_BEFORE, _IN_PLAN, _IN_STEPS, _OVER = range(4)


class StepScanner:
    """Finds the objects in the array `steps` of a JSON object that comes in fragments, each character read once.

    From where the text stops being such an object, it yields nothing.
    """

    __slots__ = ("_escaped", "_kept", "_key", "_last", "_open", "_place", "_quoted")

    def __init__(self) -> None:
        self._place = _BEFORE
        self._quoted = self._escaped = False
        self._open: list[str] = []  # what closes the objects and arrays of the item that is being read
        self._kept: list[str] = []  # fragments since that item began
        self._key: object = None  # the last text in the plan
        self._last = ""  # the last mark outside of items

    def feed(self, fragment: str) -> list[str]:
        """The JSON of each step that this fragment closes."""
        if not fragment or self._place == _OVER:
            return []
        steps: list[str] = []
        at, start, self._escaped = int(self._escaped), 0, False
        while mark := self._marks().search(fragment, at):
            at = mark.end()
            if not self._quoted and not self._open:
                self._outside(mark[0])
                self._kept, start = [], mark.start()
                continue
            self._inside(mark[0])
            if not self._quoted and not self._open:
                self._last = mark[0]
                steps += self._item("".join([*self._kept, fragment[start:at]]))
        self._kept.append(fragment[start:])
        return steps

    def _marks(self) -> re.Pattern[str]:
        if self._quoted:
            return _IN_TEXT
        return _IN_ITEM if self._open else _OUTSIDE

    def _outside(self, char: str) -> None:
        """Go on between items, or begin one."""
        if self._place == _BEFORE:
            self._place = _IN_PLAN if char == "{" else _OVER
        elif self._place == _IN_STEPS and self._last + char not in _BETWEEN_STEPS:
            self._place = _OVER
        elif self._place == _IN_PLAN and self._last + char == ":[" and self._key == "steps":
            self._place = _IN_STEPS
        elif char in _CLOSER:
            self._open.append(_CLOSER[char])
        elif char == '"':
            self._quoted = True
        elif char in "}]":
            self._place = _IN_PLAN if self._place == _IN_STEPS else _OVER
        self._last = char

    def _inside(self, char: str) -> None:
        if self._quoted:
            self._escaped = char == "\\"
            self._quoted = char != '"'
        elif char == '"':
            self._quoted = True
        elif char in _CLOSER:
            self._open.append(_CLOSER[char])
        elif self._open.pop() != char:
            self._open.clear()
            self._place = _OVER

    def _item(self, text: str) -> list[str]:
        """Take an item that has ended: a key, a value, or a step, which is given back."""
        value = value_of(text)
        if self._place == _IN_STEPS and isinstance(value, dict):
            return [text]
        if self._place == _IN_PLAN:
            self._key = value
        else:
            self._place = _OVER
        return []
