"""Results of read-only tools, kept for a while."""

from __future__ import annotations

from collections import OrderedDict

from hotloop.units import Clock, ns

_ENTRIES = 1024


class ResultCache:
    """At most 1,024 results, the least recently used dropped first; `hits` and `misses` count look-ups."""

    __slots__ = ("_entries", "hits", "misses")

    def __init__(self) -> None:
        self._entries: OrderedDict[tuple[str, bytes], tuple[int, str]] = OrderedDict()
        self.hits = self.misses = 0

    def get(self, key: tuple[str, bytes], clock: Clock) -> str | None:
        """The content kept under this key, unless its time is over."""
        entry = self._entries.get(key)
        if entry is None or entry[0] <= clock():
            self._entries.pop(key, None)
            self.misses += 1
            return None
        self._touch(key, entry)
        self.hits += 1
        return entry[1]

    def put(self, key: tuple[str, bytes], content: str, ttl: float, clock: Clock) -> None:
        """Keep this content for `ttl` seconds."""
        self._touch(key, (clock() + ns(ttl), content))
        if len(self._entries) > _ENTRIES:
            self._entries.popitem(last=False)

    def _touch(self, key: tuple[str, bytes], entry: tuple[int, str]) -> None:
        """Make it the last used; move_to_end would fail if another thread had dropped it just now."""
        self._entries.pop(key, None)
        self._entries[key] = entry
