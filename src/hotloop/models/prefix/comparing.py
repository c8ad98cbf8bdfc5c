"""The first difference between two values of request bodies, as the model reads them."""

from __future__ import annotations

from itertools import zip_longest
from typing import NamedTuple

from hotloop.models.prefix.parts import Body, Part, common, decoded, tokens

_MARKS = (b"{", b"}", b"[", b"]", b",", b":")
_SHOWN = 64  # bytes after one of them


class Spot(NamedTuple):
    """A difference: where it is in either body, and the texts that differ from character `first` on."""

    was_at: int
    at: int
    was: str = ""
    now: str = ""
    first: int = 0


def between(old: Body, then: Part | None, new: Body, now: Part | None) -> Spot | None:
    """The first difference of two values; one that is null is as good as one that is not there."""
    if then is not None and now is not None:
        return None if old.text(then) == new.text(now) else _inside(old, then, new, now)
    text, other = _whole(old, then), _whole(new, now)
    if text in ("", "null") and other in ("", "null"):
        return None
    return Spot(then.start if then else len(old.data), now.start if now else len(new.data), text, other)


def between_messages(old: Body, then: Part, new: Body, now: Part) -> Spot | None:
    """The first difference of two messages, field by field: a chat template has an order of its own."""
    if old.text(then) == new.text(now):
        return None
    before, after = old.fields(then), new.fields(now)
    for name in dict.fromkeys([*after, *before]):
        spot = between(old, before.get(name), new, after.get(name))
        if spot is not None:
            return spot if name in after else spot._replace(at=now.start)
    return None


def _whole(body: Body, part: Part | None) -> str:
    return "" if part is None else decoded(body.text(part))


def _inside(old: Body, then: Part, new: Body, now: Part) -> Spot | None:
    for one, other in zip_longest(tokens(old.data, then), tokens(new.data, now)):
        if one is None or other is None:
            return Spot(then.end, now.end)
        if not _same(one[0], other[0]):
            spot = Spot(
                one.start(), other.start(), _text(old, one[0], one.start()), _text(new, other[0], other.start())
            )
            same = common(one[0], other[0])
            return spot._replace(was_at=spot.was_at + same, at=spot.at + same, first=_first(spot.was, spot.now))
    return None


def _same(one: bytes, other: bytes) -> bool:
    """Whether two JSON tokens are the same text, however it is escaped, or the same anything else."""
    return one == other or (one[:1] == other[:1] == b'"' and decoded(one) == decoded(other))


def _text(body: Body, token: bytes, start: int) -> str:
    return body.data[start : start + _SHOWN].decode(errors="replace") if token in _MARKS else decoded(token)


def _first(one: str, other: str) -> int:
    pairs = zip(one, other, strict=False)
    return next((at for at, (mine, yours) in enumerate(pairs) if mine != yours), min(len(one), len(other)))
