"""Notices at run time when consecutive prompts of an agent no longer begin alike, and says why, once for each cause.

An agent's own front is frozen. What changes it is an agent made anew for each request, with a clock in its
instructions or tools that a server lists in another order; or a session whose history somebody rewrote.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

import msgspec

from hotloop.models.dialects import Dialect
from hotloop.models.prefix.parts import HEAD_ROLES, children, common, field_of
from hotloop.trace.ledger import Usage

if TYPE_CHECKING:
    from hotloop.models.prefix.causes import Cause

_log = logging.getLogger("hotloop.prefix")

_AGENTS, _HEADS, _HASHES, _SESSIONS = 64, 4, 64, 64  # that are remembered
_HISTORY = 2 << 20  # bytes of the sessions' histories together
_WORTH = 128  # tokens: what less costs nobody would notice
_LOOKS = 32  # at so many new beginnings of an agent, then at every one whose number is a power of two

_NO_INSTRUCTIONS = b'{"role":"user"'

_ENOUGH: dict[Cause, int] = {"clock": 1, "order": 1, "address": 1, "tool order": 1, "key order": 1}
_ENOUGH |= {"id": 2, "whitespace": 2, "text": _LOOKS, "counter": _LOOKS, "tool": _LOOKS}
"""After how many divergences it is no coincidence: two agents may differ by design, but not by a clock."""


class _Head(msgspec.Struct, frozen=True):
    """What prompts begin with: options and tools, then the instructions, or what shows that there are none."""

    front: bytes
    start: bytes

    @property
    def whole(self) -> bytes:
        return self.front + self.start

    def begins(self, front: bytes, messages: bytearray) -> bool:
        return (self.front is front or self.front == front) and messages.startswith(self.start)


class _Agent(msgspec.Struct):
    """What is remembered of the agents that go by one name: their newest heads, and hashes of more."""

    heads: list[_Head]
    hashes: dict[int, None]
    causes: dict[Cause, int] = {}
    told: set[Cause] = set()
    new: int = 0
    repeats: int = 0


class PrefixWatch:
    """Watches the prompts for one model of one service, whichever agents send them, from whichever threads."""

    def __init__(self, dialect: Dialect, where: str = "") -> None:
        self._least = max(dialect.least_cached, _WORTH)
        self._where = f" of {where}" if where else ""
        self._agents: dict[str, _Agent] = {}
        self._sessions: dict[tuple[str, str], bytearray] = {}
        self._caches = self._missed = False
        self._noting = threading.Lock()

    def seen(
        self, agent: str, front: bytes, messages: bytearray, session: str = "", *, rearranged: bool = False
    ) -> str:
        """Take note of a prompt; what is wrong with how it begins, "" nearly always. What is wrong is logged, too.

        `agent` is the agent's name and `session` that of its conversation, "" for none. `messages` are the
        conversation's own bytes, which only grow while it runs; they may be `rearranged` on purpose.
        """
        known = self._agents.get(agent)
        begins = known is not None and known.heads[0].begins(front, messages)
        if begins and (not session or self._sessions.get((agent, session)) is messages):
            return ""
        with self._noting:
            if rearranged:
                self._sessions.pop((agent, session), None)
            told = self._noted(agent, front, messages, session)
        if told:
            name = f"the agent {agent}" if agent else "an agent without a name"
            _log.warning("Prompts of %s%s: %s", name, self._where, told)
        return told

    def reported(self, before: Usage | None, usage: Usage) -> str:
        """Take note of what the service says of a prompt, `before` of the one that it went on from; what is odd, or "".

        Logged the first time.
        """
        if usage.cached_tokens:
            self._caches = True
        if usage.cached_tokens != 0 or not self._caches or before is None or (before.input_tokens or 0) < self._least:
            return ""
        told = (
            f"None of the prompt's tokens came from the cache, though its first {before.input_tokens:,} had just been "
            "sent, and the service has used its cache before. Its replicas may not share one, or it was full."
        )
        with self._noting:
            first, self._missed = not self._missed, True
        if first:
            _log.warning("A prompt%s: %s", self._where, told)
        return told

    def _noted(self, agent: str, front: bytes, messages: bytearray, session: str) -> str:
        """A prompt that needs a closer look."""
        known = self._agents.get(agent)
        if known is None:
            known = self._first(agent, front, messages)
        elif not known.heads[0].begins(front, messages) and (told := self._changed(agent, known, front, messages)):
            return told
        return self._continued(agent, known, front, session, messages) if session else ""

    def _first(self, agent: str, front: bytes, messages: bytearray) -> _Agent:
        if len(self._agents) >= _AGENTS:
            self._agents.pop(next(iter(self._agents)))
        head = _Head(front, instructions_of(messages) or _NO_INSTRUCTIONS)
        known = self._agents[agent] = _Agent([head], {hash(head.whole): None})
        return known

    def _changed(self, agent: str, known: _Agent, front: bytes, messages: bytearray) -> str:
        """A prompt that does not begin as the last one did."""
        for place, head in enumerate(known.heads):
            if head.begins(front, messages):
                known.heads = [head, *known.heads[:place], *known.heads[place + 1 :]]
                known.repeats += 1
                return ""
        head = _Head(front, instructions_of(messages) or _NO_INSTRUCTIONS)
        whole = head.whole
        before, known.heads = known.heads, [head, *known.heads[: _HEADS - 1]]
        if hash(whole) in known.hashes:
            known.repeats += 1
            return ""
        _remember(known.hashes, hash(whole))
        known.new += 1
        if known.new > _LOOKS and known.new & (known.new - 1):
            return ""
        nearest = max((each.whole for each in before), key=lambda other: common(other, whole))
        return self._told(known, nearest, whole)

    def _continued(self, agent: str, known: _Agent, front: bytes, session: str, messages: bytearray) -> str:
        """The next run of a session: its history has to be what was sent, and more."""
        sessions = self._sessions
        before = sessions.pop((agent, session), None)
        sessions[agent, session] = messages
        while len(sessions) > 1 and (len(sessions) > _SESSIONS or sum(map(len, sessions.values())) > _HISTORY):
            sessions.pop(next(iter(sessions)))
        if before is None or messages.startswith(before):
            return ""
        return self._told(known, front + before, front + messages, enough=1)

    def _told(self, known: _Agent, before: bytes, now: bytes, enough: int | None = None) -> str:
        """Where these prompts diverge, in words, unless it may be meant, costs little or was told before."""
        from hotloop.models.prefix.divergence import divergence  # few processes ever need it

        found = divergence(before, now)
        if found is None or not found.costs or found.again < self._least or found.cause in known.told:
            return ""
        known.causes[found.cause] = times = known.causes.get(found.cause, 0) + 1
        needed = enough or _ENOUGH.get(found.cause)
        if needed is None or times < needed or (needed > 2 and known.repeats):
            return ""
        known.told.add(found.cause)
        return str(found)


def instructions_of(messages: bytes | bytearray) -> bytes:
    """The messages before the first one that is not of the system."""
    end = 0
    for part in children(b"[" + bytes(messages), 0):
        if field_of(messages[part.start - 1 : part.end - 1], "role") not in HEAD_ROLES:
            break
        end = part.end - 1
    return bytes(messages[:end])


def _remember(hashes: dict[int, None], new: int) -> None:
    if len(hashes) >= _HASHES:
        hashes.pop(next(iter(hashes)))
    hashes[new] = None
