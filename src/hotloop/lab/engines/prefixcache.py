"""The prefixes of prompts that a service still knows, in whole blocks."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from itertools import takewhile
from typing import Any

import msgspec

from hotloop.units import ns

BYTES_PER_TOKEN = 4  # the usual rule of thumb


def blocks_of(request: dict[str, Any], block: int) -> tuple[int, ...]:
    """A key for each whole block of `block` tokens of the prompt: tools, then messages.

    The key of a block stands for all that comes before it, too; so does a changed `tool_choice`, as at Groq.
    """
    parts = [request.get("tool_choice"), request.get("tools"), *request["messages"]]
    text = b"".join(map(msgspec.json.encode, parts))
    size = block * BYTES_PER_TOKEN
    key, keys = 0, []
    for end in range(size, len(text) + 1, size):
        key = hash((key, text[end - size : end]))
        keys.append(key)
    return tuple(keys)


class PrefixCache:
    """Keeps blocks of `block` tokens for `expiry` seconds after their last use, and at most `tokens` in all.

    The least recently used go first, and of one prompt those at its end.
    """

    def __init__(self, block: int, expiry: float, tokens: int) -> None:
        self._block = block
        self._expiry = ns(expiry)
        self._most = tokens // block if block else 0
        self._used: OrderedDict[int, int] = OrderedDict()  # when each block was used last, the latest last

    def find(self, blocks: Sequence[int], now: int) -> int:
        """How many tokens of this prompt are known; those blocks are used now."""
        if not blocks:
            return 0
        while self._used and next(iter(self._used.values())) < now - self._expiry:
            self._used.popitem(last=False)
        known = list(takewhile(self._used.__contains__, blocks))
        self._use(known, now)
        return len(known) * self._block

    def add(self, blocks: Sequence[int], now: int) -> None:
        """A prompt was read: its blocks are known from now on."""
        self._use(blocks, now)
        while len(self._used) > self._most:
            self._used.popitem(last=False)

    def _use(self, blocks: Sequence[int], now: int) -> None:
        for block in reversed(blocks):
            self._used[block] = now
            self._used.move_to_end(block)
