"""How many tokens a prompt will have, learned from the usage that a service reports.

Tokenisers differ, but all of them go by much the same marks of a text: words, numbers, runs of punctuation, Chinese
characters. How many tokens each is worth to a model is learned from how its prompts grow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import add, mul, sub
from typing import NamedTuple

from hotloop.context.messages import read
from hotloop.errors import ConfigError

Marks = list[float]
"""How many there are of each mark that tokens go by, in the order of their rates."""


class _Rate(NamedTuple):
    """How many tokens one mark is worth: what is likely, and by how much it differs between tokenisers."""

    likely: float
    spread: float


_OF_MESSAGES = {"messages": _Rate(4.0, 2.0), "calls": _Rate(12.0, 6.0)}
_OF_TEXTS = {
    "words": _Rate(1.0, 0.1),
    "capitals": _Rate(0.3, 0.1),
    "numbers": _Rate(1.2, 0.3),
    "digits": _Rate(0.35, 0.35),
    "runs of punctuation": _Rate(0.8, 0.2),
    "punctuation": _Rate(0.12, 0.05),
    "lines": _Rate(0.8, 0.3),
    "spaces": _Rate(0.05, 0.03),
    "Chinese characters": _Rate(0.85, 0.4),
    "other letters of two bytes": _Rate(0.5, 0.3),
    "all other characters": _Rate(1.1, 0.5),
}
_COUNTED = {"tokens of the texts": _Rate(1.0, 0.05)}
_FARTHEST = 4.0  # times what is likely, or part of it: no rate and no report that is learned from is farther off
_MISFIT = 0.05  # of the tokens of some messages: what no rates explain
_GRAIN = 4.0  # tokens that a template may add or not
_SURPRISE = 3.0  # deviations: what is beyond them counts no more than that
_LEAST_SPREAD = 0.1  # of the first spread: so much is learned for ever

_LOWER, _UPPER, _DIGITS = b"abcdefghijklmnopqrstuvwxyz", b"ABCDEFGHIJKLMNOPQRSTUVWXYZ", b"0123456789"
_PUNCTUATION = b"!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
_LETTERS_OF_TWO, _CHINESE = bytes(range(0xC2, 0xE0)), bytes(range(0xE3, 0xEA))  # the bytes that these begin with
_OTHERS = bytes((*range(0xE0, 0xE3), *range(0xEA, 0xF5)))


class TokenRates:
    """What the marks of a text are worth to one model, in tokens; for all of its conversations.

    With `count_tokens`, which gives the tokens of a text, only what is around the texts is learned. `front` is about
    how many tokens the newest conversation begins with: its tools, and what the service adds. `limit` is how many a
    prompt may have, once a service has said so.
    """

    def __init__(self, count_tokens: Callable[[str], int] | None = None) -> None:
        rates = (_OF_TEXTS if count_tokens is None else _COUNTED) | _OF_MESSAGES
        self.front = 0.0
        self.limit: int | None = None
        self._of_texts = _marks if count_tokens is None else _counted_by(count_tokens)
        self._rates = [rate.likely for rate in rates.values()]
        self._likely = tuple(self._rates)
        self._variances = [rate.spread**2 for rate in rates.values()]
        self._least = [variance * _LEAST_SPREAD**2 for variance in self._variances]

    def count(self, data: bytes | bytearray | memoryview) -> float:
        """About how many tokens these messages are, as JSON objects parted by commas. Raises what `marks` does."""
        return self.worth(self.marks(data))

    def learn(self, data: bytes | bytearray | memoryview, tokens: int) -> None:
        """These messages were so many tokens of a prompt. Raises what `marks` does."""
        self.adapt(self.marks(data), tokens)

    def marks(self, data: bytes | bytearray | memoryview) -> Marks:
        """The marks of messages. Raises ConfigError if `count_tokens` gives no number, and what it raises."""
        texts: list[str] = []
        calls = 0
        messages = read(data)
        for message in messages:
            texts += (message.reasoning_content, message.content or "")
            for call in message.tool_calls:
                texts += (call.function.name, call.function.arguments)
            calls += len(message.tool_calls)
        return [*self._of_texts(texts), len(messages), calls]

    def marks_of_text(self, text: str) -> Marks:
        """The marks of what is said within a message. Raises what `marks` does."""
        return [*self._of_texts([text]), 0, 0]

    def worth(self, marks: Iterable[float]) -> float:
        """How many tokens these marks are worth by what is known."""
        return sum(map(mul, self._rates, marks), 0.0)

    def adapt(self, marks: Marks, tokens: int) -> None:
        """What has these marks was so many tokens; what cannot be true, or says nothing of the rates, is ignored.

        A Kalman filter that takes the rates for independent of each other: no worse here than the full one, and much
        cheaper.
        """
        expected = self.worth(marks)
        if expected <= 0 or not expected / _FARTHEST <= tokens <= expected * _FARTHEST:
            return
        gains = list(map(mul, self._variances, marks))
        variance = sum(map(mul, gains, marks)) + (_MISFIT * max(tokens, expected)) ** 2 + _GRAIN**2
        limit = _SURPRISE * variance**0.5
        step = min(max(tokens - expected, -limit), limit) / variance
        moved = [rate + gain * step for rate, gain in zip(self._rates, gains, strict=True)]
        self._rates = list(map(_within, moved, self._likely))
        left = [old - gain * gain / variance for old, gain in zip(self._variances, gains, strict=True)]
        self._variances = list(map(max, left, self._least))


class _Report(NamedTuple):
    """What a service counted of a prompt with these marks."""

    tokens: int
    marks: Marks


class PromptSize:
    """How many tokens the next prompt of one conversation has: what was last reported, and what has come since.

    Ask for `tokens` before each prompt, and say after its reply what was `reported`; of the messages only what is new
    is read.
    """

    def __init__(self, rates: TokenRates) -> None:
        self._rates = rates
        self._length = 0  # bytes of the messages that were read
        self._read = self._asked = rates.marks(b"")  # the marks of these, and of the prompt that was last asked about
        self._newest: _Report | None = None
        self._smallest: _Report | None = None
        self._grows = False  # whether the conversation goes on from the newest report

    def tokens(self, messages: bytearray, aside: str = "") -> int:
        """About how many tokens a prompt of these messages has, with `aside` said in this one only.

        Raises what `TokenRates.marks` does.
        """
        self._read_on(messages)
        self._asked = asked = _added(self._read, self._rates.marks_of_text(aside)) if aside else self._read
        if self._newest is None or self._smallest is None:
            return round(self._rates.front + self._rates.worth(asked))
        near = self._newest if self._grows else min(self._newest, self._smallest, key=self._far)
        return max(0, round(near.tokens + self._rates.worth(map(sub, asked, near.marks))))

    def reported(self, length: int, tokens: int) -> None:
        """The prompt that was last asked about, of so many bytes of messages, had so many tokens.

        Ignored if another one was asked about, or if no prompt of these messages can have so few.
        """
        worth = self._rates.worth(self._asked)
        if length != self._length or tokens * _FARTHEST < worth:
            return
        if self._newest is not None and self._grows:
            self._rates.adapt(list(map(sub, self._asked, self._newest.marks)), tokens - self._newest.tokens)
        self._newest, self._grows = _Report(tokens, self._asked), True
        if self._smallest is None or worth < self._rates.worth(self._smallest.marks):
            self._smallest = self._newest
        self._rates.front = max(0.0, self._smallest.tokens - self._rates.worth(self._smallest.marks))

    def moved(self) -> None:
        """The messages were changed elsewhere than at their end; they are read again."""
        self._length, self._read, self._grows = 0, self._rates.marks(b""), False

    def _read_on(self, messages: bytearray) -> None:
        if len(messages) != self._length:
            new = messages[self._length + bool(self._length) :]
            self._read = _added(self._read, self._rates.marks(new))
            self._length = len(messages)

    def _far(self, report: _Report) -> float:
        return self._rates.worth(map(abs, map(sub, self._asked, report.marks)))


def _others_are_gaps(kept: bytes) -> bytes:
    """A table for `bytes.translate` that leaves the runs of these bytes, as x, and makes gaps of all else."""
    return bytes(0x78 if byte in kept else 0x20 for byte in range(256))


_RUNS = tuple(map(_others_are_gaps, (_LOWER, _DIGITS, _PUNCTUATION)))


def _marks(texts: Sequence[str]) -> Marks:
    """The marks of some texts, as `_OF_TEXTS` names them: each pass is one call that reads them at the speed of C."""
    data = "\0".join(texts).encode(errors="surrogatepass")
    words, numbers, pieces = ((data + b" ").translate(table).count(b"x ") for table in _RUNS)
    rest = data.translate(None, _LOWER)
    marks = [
        words,
        _count(rest, _UPPER),
        numbers,
        _count(rest, _DIGITS),
        pieces,
        _count(rest, _PUNCTUATION),
        rest.count(b"\n"),
        rest.count(b" "),
    ]
    if data.isascii():
        return [*marks, 0, 0, 0]
    return [*marks, _count(rest, _CHINESE), _count(rest, _LETTERS_OF_TWO), _count(rest, _OTHERS)]


def _count(data: bytes, of: bytes) -> int:
    return len(data) - len(data.translate(None, of))


def _counted_by(count_tokens: Callable[[str], int]) -> Callable[[Sequence[str]], Marks]:
    def count(text: str) -> int:
        try:
            tokens = count_tokens(text)
        except Exception as error:
            raise ConfigError(f"Context(count_tokens=...) failed: {type(error).__name__}: {error}") from error
        if not isinstance(tokens, int) or tokens < 0:
            raise ConfigError(f"Context(count_tokens=...) gave {tokens!r}; let it give how many tokens a text has.")
        return tokens

    return lambda texts: [sum(map(count, filter(None, texts)))]


def _added(marks: Marks, more: Marks) -> Marks:
    return list(map(add, marks, more))


def _within(rate: float, likely: float) -> float:
    return min(max(rate, likely / _FARTHEST), likely * _FARTHEST)
