"""Which turns of a conversation the model sees."""

from __future__ import annotations

import math
import re
from array import array
from collections import Counter
from collections.abc import Container, Sequence
from functools import lru_cache
from itertools import takewhile

from hotloop.context.conversation import Conversation, Turn
from hotloop.context.messages import read
from hotloop.context.settings import Window
from hotloop.context.terms import terms

_CUT_TO = 0.75  # of what the window may hold, so that for some turns the beginning of the prompt stays
_MOST_TERMS = 32  # of a request, the rarest
_ENOUGH = 0.3  # of the score of the turn that fits best: less is chance
_READ = 2000  # characters of a turn
_WORD = re.compile(r"\w+")


def left_out(turns: Sequence[Turn], window: Window, now: float) -> int:
    """How many of the earliest turns are not to be seen.

    What is over the window is cut back to about three quarters of it at once, by number as by age, and at the same
    places whoever has just read the conversation. `now` is Unix seconds.
    """
    if not turns:
        return 0
    first, oldest = turns[0].number, 0.0
    if window.turns is not None:
        step = window.turns - max(int(window.turns * _CUT_TO), 1) + 1
        over = turns[-1].number - window.turns
        first = max(first, 1 + step * math.ceil(over / step))
    if window.age is not None:
        step_age = window.age * (1 - _CUT_TO)
        oldest = math.ceil((now - window.age) / step_age) * step_age
    return sum(1 for _ in takewhile(lambda turn: turn.number < first or 0 < turn.at < oldest, turns))


class Relevance:
    """Which earlier turns of one conversation fit a request by the words of the user and the model.

    Of each turn these are read once; the longer the conversation, the more of them are kept.
    """

    def __init__(self) -> None:
        self._turns: dict[str, array[int]] = {}  # by term, the numbers of those that have it
        self._read_to = 0  # the number of the newest turn that was read

    def places(self, conversation: Conversation, window: Window, prompt: str, now: float) -> list[int]:
        """The places of the turns that the model is to see, in their order.

        They are the newest `window.turns`, and as many earlier ones as `window.relevant` that fit the request; none
        that is older than `window.age`.
        """
        self.read(conversation)
        turns = conversation.turns
        first = _too_old(turns, window.age, now)
        newest = max(first, len(turns) - (window.turns or 0))
        earlier = {turns[place].number: place for place in range(first, newest)}
        fit = sorted(earlier[number] for number in self._best(prompt, earlier, window.relevant))
        return [*fit, *range(newest, len(turns))]

    def _best(self, prompt: str, earlier: Container[int], most: int) -> list[int]:
        """The numbers of those earlier turns that fit best; of equal ones the newer."""
        asked = sorted(self._turns.keys() & set(terms(prompt)), key=lambda term: (len(self._turns[term]), term))
        scores: Counter[int] = Counter()
        for term in asked[:_MOST_TERMS]:
            having = self._turns[term]
            worth = math.log1p(self._read_to / len(having))
            scores.update({number: worth for number in having if number in earlier})
        best = sorted(scores, key=lambda number: (-scores[number], -number))[:most]
        return [number for number in best if scores[number] >= _ENOUGH * scores[best[0]]]

    def read(self, conversation: Conversation) -> None:
        """Read the turns that were not read yet: 180 ms for 5,000 of them."""
        turns = conversation.turns
        new = sum(1 for _ in takewhile(lambda turn: turn.number > self._read_to, reversed(turns)))
        ends = [*(turn.start - 1 for turn in turns[len(turns) - new + 1 :]), len(conversation.messages)]
        for turn, end in zip(turns[len(turns) - new :], ends, strict=True) if new else ():
            for term in _terms_of(conversation.messages[turn.start : end]):
                self._turns.setdefault(term, array("I")).append(turn.number)
            self._read_to = turn.number


def _terms_of(turn: bytearray) -> set[str]:
    """The terms of what was said in a turn; not those of results, which say much beside the matter."""
    said = "\n".join(message.content or "" for message in read(turn) if message.role != "tool")[:_READ]
    return {term for word in set(_WORD.findall(said.lower())) for term in _terms_of_word(word)}


@lru_cache(maxsize=1 << 14)
def _terms_of_word(word: str) -> tuple[str, ...]:
    return tuple(terms(word))


def _too_old(turns: Sequence[Turn], age: float | None, now: float) -> int:
    """How many turns, from the first on, are older than this age; one of unknown age is not."""
    if age is None:
        return 0
    return sum(1 for _ in takewhile(lambda turn: 0 < turn.at < now - age, turns))
