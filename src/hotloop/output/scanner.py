"""A JSON object that is still being written: its value so far."""

from __future__ import annotations

import re
from typing import Any

import msgspec

_IN_TEXT = re.compile(r'"|\\.?', re.S)
_OUTSIDE = re.compile(r'([^\s,:{}\[\]"]*)[\s,:]*([{}\[\]"]?)')  # a word, what parts it from the next, a mark
_SHARE = 32  # the part of it that a value has to have grown by


class PartialScanner:
    """Reads an object that comes in fragments, each character once, and whatever words come before it.

    Only what is complete is in its value: texts that are closed, other scalars that something follows. Where the text
    stops being JSON, the value stays as it is.
    """

    __slots__ = ("_escaped", "_keys", "_open", "_over", "_parts", "_quoted", "_root", "_taken", "_token")

    def __init__(self) -> None:
        self._root: dict[str, Any] = {}
        self._open: list[Any] = []  # the objects and arrays that are open, the innermost last
        self._keys: list[str | None] = []  # for each of them, the key whose value is being written
        self._token: list[str] = []  # pieces of the text or the word that is being written
        self._quoted = self._escaped = self._over = False
        self._parts = self._taken = 0

    def feed(self, fragment: str) -> None:
        """Read on."""
        at, size = 0, len(fragment)
        if not self._open and not self._over:
            at = fragment.find("{") + 1
            if not at:
                return
            self._begin(self._root)
        try:
            while at < size and not self._over:
                at = self._text(fragment, at) if self._quoted else self._outside(fragment, at)
        except (msgspec.DecodeError, TypeError):
            self._over = True

    def take(self) -> Any:
        """The value so far, if it is to be told, else UNSET.

        Each new part of it is, but of a value with many parts only when it has grown by a share of them, so that to
        tell it costs no more than to read it.
        """
        new = self._parts - self._taken
        if new == 0 or (new * _SHARE < self._taken and self._open):
            return msgspec.UNSET
        self._taken = self._parts
        return self._copy()

    def _text(self, fragment: str, start: int) -> int:
        """Go on in a text; where it ends, or the fragment does."""
        at = start + self._escaped
        self._escaped = False
        while mark := _IN_TEXT.search(fragment, at):
            at = mark.end()
            if mark[0] == '"':
                self._quoted = False
                self._complete(fragment[start:at])
                return at
            self._escaped = mark[0] == "\\"
        self._token.append(fragment[start:])
        return len(fragment)

    def _outside(self, fragment: str, start: int) -> int:
        """Read a word and a mark, each of which may be missing; the place after them."""
        found = _OUTSIDE.match(fragment, start)
        assert found is not None
        word, mark = found.groups()
        if word:
            self._token.append(word)
        if found.end(1) == len(fragment):  # the word may go on
            return len(fragment)
        if self._token:
            self._complete("")
        if mark:
            self._mark(mark)
        return found.end()

    def _mark(self, char: str) -> None:
        if char == '"':
            self._quoted = True
            self._token.append(char)
        elif char in "{[":
            new: Any = {} if char == "{" else []
            self._put(new)
            self._begin(new)
        elif isinstance(self._open.pop(), dict) is (char == "}"):
            self._keys.pop()
            self._over = not self._open
            if not self._over:
                self._keys[-1] = None
        else:
            self._over = True

    def _begin(self, new: Any) -> None:
        self._open.append(new)
        self._keys.append(None)
        self._parts += 1

    def _complete(self, last: str) -> None:
        """A scalar is complete: it is a key or a value."""
        scalar = msgspec.json.decode("".join(self._token) + last)
        self._token.clear()
        if isinstance(self._open[-1], dict) and self._keys[-1] is None:
            if not isinstance(scalar, str):
                raise TypeError
            self._keys[-1] = scalar
            return
        self._put(scalar)
        self._keys[-1] = None
        self._parts += 1

    def _put(self, value: Any) -> None:
        inside, key = self._open[-1], self._keys[-1]
        if isinstance(inside, list):
            inside.append(value)
        elif key is None:
            raise TypeError
        else:
            inside[key] = value

    def _copy(self) -> dict[str, Any]:
        """The value as it stays: what is open is copied, what is closed does not change any more."""
        root = inside = self._root.copy()
        for outer, key in zip(self._open[1:], self._keys, strict=False):
            copy = outer.copy()
            inside[-1 if key is None else key] = copy  # type: ignore[index]
            inside = copy
        return root
