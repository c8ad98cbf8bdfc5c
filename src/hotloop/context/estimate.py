"""How many tokens a prompt will have, learned from the usage that a service reports."""

from __future__ import annotations

from collections.abc import Callable


class TokenRates:
    def __init__(self, count_tokens: Callable[[str], int] | None = None) -> None:
        self.count_tokens = count_tokens

    def count(self, data: bytes | bytearray | memoryview) -> float:
        return len(data) / 4


class PromptSize:
    def __init__(self, rates: TokenRates) -> None:
        self._rates = rates
        self._length, self._tokens = 0, 0

    def tokens(self, messages: bytearray) -> int:
        return self._tokens + int(self._rates.count(messages[self._length :]))

    def reported(self, length: int, tokens: int) -> None:
        self._length, self._tokens = length, tokens

    def moved(self) -> None:
        self._length = self._tokens = 0
