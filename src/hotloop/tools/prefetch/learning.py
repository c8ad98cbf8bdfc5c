"""How runs teach: each turn is a chance for what is known of its context, and its calls propose what may come again."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from hotloop.tools.prefetch.history import History
from hotloop.tools.prefetch.past import Past, Seen
from hotloop.tools.prefetch.patterns import Counts, Pattern, patterns_of

PROVEN = 3
"""Runs that a pattern must have been seen in before it is written down; one with a value in it, of different people."""

_PER_CONTEXT = 64
_encode = msgspec.json.Encoder(order="deterministic").encode


class Row(msgspec.Struct):
    """What is known of a pattern in a context: its `counts`, and digests of the runs or people that it was `seen` with.

    The `pattern` itself is None while it is not proven and another process has seen it.
    """

    pattern: Pattern | None
    counts: Counts
    seen: tuple[bytes, ...] = ()

    @property
    def proven(self) -> bool:
        """Whether it may be written down, and acted upon."""
        return len(self.seen) >= PROVEN


Rows = dict[str, Row]
"""By the digest of the pattern."""


class Digests:
    """Digests that mean nothing without the `secret` of the file they are kept in."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def of(self, text: bytes) -> bytes:
        """Eight bytes that stand for this text."""
        return hashlib.blake2b(text, digest_size=8, key=self._secret).digest()

    def of_pattern(self, pattern: Pattern) -> str:
        """The name of a pattern."""
        return self.of(msgspec.json.encode(pattern)).hex()


def learn(history: History, rows_of: Callable[[str], Rows], digests: Digests) -> None:
    """Let a run change what is known; `rows_of` gives the rows of a context, to be changed in place."""
    past = Past(history.prompt)
    for turn in history.turns:
        for context in past.contexts():
            rows = rows_of(context)
            _score(rows, turn, past, history.at)
            for pattern in _proposed(turn, past):
                _note(rows, pattern, history, digests)
        past.turns.append(turn)
    for ahead in history.ahead:
        row = rows_of(ahead.context).get(ahead.pattern)
        if row is not None:
            row.counts.tried(ahead.used, ahead.won_ms, ahead.wasted_ms)


def call_key(tool: str, arguments: Mapping[str, Any]) -> tuple[str, bytes]:
    """A call as it is told apart from others."""
    return tool, _encode(arguments)


def _score(rows: Rows, turn: Sequence[Seen], past: Past, at: float) -> None:
    made = {call_key(each.tool, each.arguments) for each in turn if each.read_only}
    for row in rows.values():
        if row.pattern is not None and (arguments := row.pattern.fill(past)) is not None:
            row.counts.chance(call_key(row.pattern.tool, arguments) in made, at)


def _proposed(turn: Sequence[Seen], past: Past) -> Iterator[Pattern]:
    return (pattern for call in turn if call.read_only for pattern in patterns_of(call, past))


def _note(rows: Rows, pattern: Pattern, history: History, digests: Digests) -> None:
    """This pattern would have told what was called. The run that shows it first is no evidence for it."""
    name = digests.of_pattern(pattern)
    row = rows.get(name)
    if row is None:
        _make_room(rows)
        row = rows[name] = Row(pattern, Counts(at=history.at))
    row.pattern = pattern
    if not row.proven:
        who = digests.of((history.whose if pattern.tells else history.run).encode())
        row.seen = (*row.seen, who) if who not in row.seen else row.seen


def _make_room(rows: Rows) -> None:
    """Forget what has told least, and longest ago."""
    if len(rows) >= _PER_CONTEXT:
        del rows[min(rows, key=lambda name: (rows[name].proven, rows[name].counts.hits, rows[name].counts.at))]
