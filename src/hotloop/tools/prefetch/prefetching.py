"""Prefetch at work in a run: expected calls are begun when the model begins to think, and found by those that ask.

A call of the model finds the very same call among those that were begun, or is worked for as ever.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

import msgspec

from hotloop.errors import ArgumentsError, ToolRefused
from hotloop.limit import stop
from hotloop.tools.defining.tool import Tool, arguments_key
from hotloop.tools.prefetch.begun import Begun
from hotloop.tools.prefetch.history import PREFETCH, known_name
from hotloop.tools.prefetch.kept import Expected
from hotloop.tools.prefetch.past import Past, Seen
from hotloop.tools.running import guard
from hotloop.tools.running.cache import Flight, Kept, Key
from hotloop.tools.running.graph import Resource, resources

if TYPE_CHECKING:
    from hotloop.tools.prefetch.prefetcher import Prefetcher
    from hotloop.tools.running.job import Job, RunContext

_runs = count()


class Prefetching:
    """What is begun ahead in one run."""

    def __init__(self, prefetcher: Prefetcher, run: RunContext) -> None:
        self._prefetcher = prefetcher
        self._executor = prefetcher.executor
        self._run = run
        self._past = Past(run.prompt, [])
        self._begun: list[Begun] = []
        self._ahead: bool | None = None  # None: nothing was expected in this turn
        self._written: list[Resource] = []
        self._changed = False  # by a tool that does not say what it changes
        self._thinking = False  # the model is, and has started no call
        self._number = next(_runs)

    def think(self) -> None:
        """The model begins to think: end what is no longer expected of its reply, and begin what is."""
        self._thinking = True
        expected = self._expected(self._past, 1.0, None)
        self._ahead = self._prefetcher.choose() if expected else None
        self._end_turn(expected if self._ahead else {})
        if self._ahead:
            self._begin(expected.values())

    def find(self, tool: Tool, arguments: dict[str, Any]) -> tuple[Begun, Kept | Flight] | None:
        """The call that the model makes now, if just that one was begun, and its result or its flight."""
        key = arguments_key(arguments)
        for begun in self._begun:
            if begun.key.tool is tool and begun.key.arguments == key:
                found = begun.find(self._run.ledger.clock())
                if found is not None:
                    return begun, found
        return None

    def make_way(self, tool: Tool, arguments: dict[str, Any], free: int) -> None:
        """A call of the model starts, of which `free` more may: what was begun ahead must not be in its way.

        Nor may it tell of what the call changes as it was before.
        """
        self._thinking = False
        if not tool.read_only:
            self._wrote(tool, arguments)
        idle = [each for each in self._begun if each.idle]
        for begun in idle[0 if tool.sequential else free :]:
            begun.stop()

    def acted(self, jobs: Sequence[Job], took: int) -> None:
        """The calls of a turn have their results, the last so many nanoseconds after the reply."""
        self._past.turns.append([self._seen(job, job.result.content) for job in jobs if job.result is not None])
        if self._ahead is not None:
            self._prefetcher.payoff.took(self._ahead, took)

    async def end(self) -> None:
        """The run is over: stop what nobody asked for, and put all of it into the ledger."""
        await stop([each.task for each in self._begun if each.task is not None])
        for begun in self._begun:
            if begun.own:
                begun.spoil()
        if calls := [each.facts(self._run.ledger.start) for each in self._begun if each.start]:
            self._run.ledger.facts[PREFETCH] = {
                "started": len(calls),
                "used": sum(call.used for call in calls),
                "won_ms": sum(call.won_ms for call in calls),
                "wasted_ms": sum(call.wasted_ms for call in calls),
                "calls": calls,
            }

    def _further(self, begun: Begun) -> None:
        """Begin what tends to come after a call that the model has not made yet, as far as it is known with what."""
        if self._has_room():
            past = Past(self._past.prompt, [*begun.past.turns, [begun.seen]])
            self._begin(self._expected(past, begun.sure, begun).values())

    def _begin(self, calls: Iterable[Begun]) -> None:
        """Begin as many of these as may be under way, and then what comes after them."""
        new = []
        for call in calls:
            call.call_id = f"ahead{len(self._begun)}"
            if self._has_room() and call.begin(self._run, self._executor.audit, self._further):
                self._begun.append(call)
                new.append(call)
        for call in new:
            self._further(call)

    def _has_room(self) -> bool:
        """Whether one more may be begun; not once calls of the model are at work, which take what room there is."""
        most = min(self._prefetcher.settings.max_inflight, self._executor.policy.max_parallel)
        return self._thinking and sum(each.idle for each in self._begun) < most

    def _expected(self, past: Past, sure: float, parent: Begun | None) -> dict[Key, Begun]:
        """The calls that may be begun of those that are expected after this past, which is so `sure`."""
        found: dict[Key, Begun] = {}
        for each in () if self._changed else self._prefetcher.expected(past, sure):
            if (call := self._call(each, past, sure, parent)) is not None:
                found.setdefault(call.key, call)
        return found

    def _call(self, expected: Expected, past: Past, sure: float, parent: Begun | None) -> Begun | None:
        """The call that is expected, if it may be begun ahead."""
        known, run = expected.known, self._run
        prepared = self._executor.prepared.get(known.pattern.tool)
        if prepared is None or prepared.tool.name not in run.ledger.tools or not _is_harmless(prepared.tool):
            return None
        try:
            arguments = prepared.tool.bind(msgspec.json.encode(expected.arguments).decode())
            guard.check(prepared.tool, arguments, run.caller.grants)
        except (ArgumentsError, ToolRefused):
            return None
        if not self._is_unchanged(prepared.tool, arguments):
            return None
        cache, key = self._executor.place(prepared, arguments, run)
        if not prepared.ttl:  # its result is for one turn of this run alone
            cache, key = self._executor.cache, key._replace(whose=f"ahead:{self._number}")
        turn = run.ledger.turn if parent is None else parent.turn + 1
        return Begun(known, past, sure * expected.confidence, parent, prepared, arguments, cache, key, turn)

    def _end_turn(self, expected: Collection[Key]) -> None:
        """A turn is over: forget results that were for that one, and stop what goes on in vain."""
        now = self._run.ledger.turn
        for begun in self._begun:
            in_vain = begun.key not in expected if begun.turn <= now else begun.parent is None or begun.parent.stale
            if begun.own and not begun.stale and (in_vain or begun.turn < now):
                begun.spoil()
            elif begun.idle and in_vain:
                begun.stop()

    def _wrote(self, tool: Tool, arguments: dict[str, Any]) -> None:
        """A call that may change something starts."""
        names = resources((*tool.writes, *tool.invalidates), arguments)
        self._written += names
        self._changed |= not names
        for begun in self._begun:
            if not self._is_unchanged(begun.prepared.tool, begun.arguments):
                begun.spoil()

    def _is_unchanged(self, tool: Tool, arguments: dict[str, Any]) -> bool:
        """Whether nothing in this run can have changed what this call reads."""
        if self._changed or (self._written and not tool.reads):
            return False
        return not any(name.meets(other) for name in resources(tool.reads, arguments) for other in self._written)

    def _seen(self, job: Job, content: str) -> Seen:
        arguments = msgspec.json.decode(arguments_key(job.arguments or {}))
        read_only = job.prepared is not None and job.prepared.tool.read_only
        failed = job.result is not None and bool(job.result.failed)
        return Seen(known_name(job.name, self._run.ledger.tools), arguments, content, failed, read_only)


def _is_harmless(tool: Tool) -> bool:
    """Whether a call of it changes nothing, waits for no other call, and needs no person."""
    return tool.read_only and not tool.after and not tool.sequential and tool.approval == "never"
