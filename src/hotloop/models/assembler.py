"""Tool calls from stream deltas: which fragment belongs to which call, and when a call can no longer change.

A call's identity is a slot of ours. Servers leave out, repeat, share and change ids, indices and names, so a fragment
is routed by what can be trusted in it: a known id, a new id, an index, and at last the call that is open. What no
routing can tell apart is not run.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from hotloop.events import CallOpened, CallSealed, Event
from hotloop.models.reply import Call

_MARK = re.compile(r'["\\{}\[\]]')
_OURS = frozenset({"index", "id", "type", "function"})


class _Slot:
    """One call being written."""

    __slots__ = (
        "_depth",
        "_marked",
        "_quoted",
        "_scanned",
        "_skip",
        "extra",
        "full",
        "id",
        "index",
        "name",
        "number",
        "parts",
        "sealed",
        "whole",
    )

    def __init__(self, number: int, call_id: str, index: int | None) -> None:
        self.number, self.id, self.index = number, call_id, index
        self.name = ""
        self.parts: list[str] = []
        self.full: str | None = None
        self.extra: dict[str, Any] = {}
        self.sealed: str | None = None
        self.whole = False
        self._scanned = self._depth = 0
        self._marked = self._quoted = self._skip = False

    def closed(self) -> bool:
        """True once the arguments so far are one closed JSON value; each fragment is scanned once."""
        if self.full is not None:
            return True
        while self._scanned < len(self.parts):
            self._scan(self.parts[self._scanned])
            self._scanned += 1
        return self._marked and self._depth == 0 and not self._quoted

    def _scan(self, text: str) -> None:
        skip = 0 if self._skip else -1
        self._skip = False
        for mark in _MARK.finditer(text):
            at, char = mark.start(), mark[0]
            if at == skip:
                continue
            self._marked = True
            if char == "\\":
                skip = at + 1
                self._skip = skip == len(text)
            elif char == '"':
                self._quoted = not self._quoted
            elif not self._quoted:
                self._depth += 1 if char in "{[" else -1

    def arguments(self) -> str:
        """The arguments as JSON text, or as the model wrote them; `whole` tells then if they are a JSON object."""
        if self.sealed is not None:
            return self.sealed
        text = "".join(self.parts) if self.full is None else self.full
        if not text or text.isspace():
            self.whole = True
            return "{}"
        value, fault = _decode(text)
        if fault and "truncated" not in fault and len(self.parts) > 1 and _is_object(self.parts[-1]):
            value, text = {}, self.parts[-1]  # a last item that repeats the whole value
        elif isinstance(value, str) and _is_object(value):
            value, text = {}, value
        elif value is None and not fault:
            value, text = {}, "{}"
        self.whole = isinstance(value, dict)
        return text


class CallAssembler:
    """Folds the `tool_calls` items of one reply into calls. `fault` says why the calls cannot be trusted, if so."""

    __slots__ = ("_by_id", "_by_index", "_slots", "fault")

    def __init__(self) -> None:
        self._slots: list[_Slot] = []
        self._by_id: dict[str, _Slot] = {}
        self._by_index: dict[int, _Slot] = {}
        self.fault: str | None = None

    def __len__(self) -> int:
        return len(self._slots)

    def feed(self, item: dict[str, Any], events: list[Event]) -> None:
        """Take one item of a delta's `tool_calls`; append what it opens and seals to `events`."""
        function = item.get("function") or {}
        name, arguments = function.get("name") or "", function.get("arguments")
        if self._slots and not name and not item.get("id") and isinstance(arguments, str):
            current = self._slots[-1]  # nearly every fragment goes on with the open call
            if item.get("index") == current.index and current.full is None and len(item) <= 3:
                current.parts.append(arguments)
                return
        slot = self._route(item.get("id") or "", item.get("index"), name, arguments, events)
        if name and not slot.name:
            slot.name = name
            events.append(CallOpened(slot.number, name))
        if arguments:
            self._append(slot, arguments)
        if len(item) > 2:
            slot.extra.update({key: value for key, value in item.items() if key not in _OURS})

    def seal(self, events: list[Event]) -> list[Call]:
        """The calls of a reply that has ended safely, in the order they were opened."""
        calls = []
        for slot in self._slots:
            if self._is_phantom(slot):
                continue
            if not slot.name:
                self.fault = self.fault or "it has arguments for a call that was never named"
                continue
            arguments = slot.arguments()
            if slot.sealed is None:
                events.append(CallSealed(slot.number, slot.name, arguments))
            calls.append(Call(slot.name, arguments, slot.extra, slot.whole))
        return calls

    def _append(self, slot: _Slot, arguments: Any) -> None:
        text = arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()
        if slot.sealed is not None:
            if text.strip() and not _same(slot.arguments(), text):
                self.fault = f"it changed the arguments of {slot.name} after they were complete"
        elif slot.full is None and text is arguments:
            slot.parts.append(text)
        else:
            slot.full = text  # a whole value replaces

    def _route(self, call_id: str, index: int | None, name: str, arguments: Any, events: list[Event]) -> _Slot:
        current = self._slots[-1] if self._slots else None
        if call_id:
            known = self._by_id.get(call_id)
            fresh = known is None and not (current and _goes_on(current, index, name))
            known = known or current
        elif index is not None and index in self._by_index:
            known, fresh = self._by_index[index], False
        else:
            known = current
            fresh = index is not None and bool(name or (current and current.closed()))
        if known is None or fresh or _is_another(known, call_id, index, name, arguments):
            return self._open(call_id, index, events)
        return known

    def _open(self, call_id: str, index: int | None, events: list[Event]) -> _Slot:
        if self._slots:
            last = self._slots[-1]
            if last.name and last.sealed is None and (last.parts or last.full is not None):
                arguments = last.arguments()
                if last.whole:
                    last.sealed = arguments
                    events.append(CallSealed(last.number, last.name, arguments))
        slot = _Slot(len(self._slots), call_id, index)
        self._slots.append(slot)
        if call_id:
            self._by_id[call_id] = slot
        if index is not None:
            self._by_index[index] = slot
        return slot

    def _is_phantom(self, slot: _Slot) -> bool:
        """A slot that was opened only because a closed call's name came once more."""
        if slot.parts or slot.full is not None:
            return False
        before = self._slots[slot.number - 1] if slot.number else None
        repeated = before is not None and slot.name == before.name and slot.id in ("", before.id)
        return not slot.name or (repeated and before is not None and bool(before.parts))


def _goes_on(current: _Slot, index: int | None, name: str) -> bool:
    """True if a fragment with a new id still belongs to the open call: some servers make up an id per delta."""
    return not name and index in (None, current.index) and bool(current.parts) and not current.closed()


def _is_another(slot: _Slot, call_id: str, index: int | None, name: str, arguments: Any) -> bool:
    """True if a fragment that points at a slot must begin another call, because it names one again."""
    if not name or not slot.name:
        return False
    if name != slot.name:
        return True
    if not slot.closed():
        return False
    same_place = index in (None, slot.index) and call_id == slot.id
    if not arguments:
        return not (same_place and call_id)
    text = arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()
    return not (same_place and _same(slot.arguments(), text))


def _decode(text: str) -> tuple[Any, str]:
    try:
        return msgspec.json.decode(text), ""
    except msgspec.DecodeError as error:
        return None, str(error)


def _is_object(text: str) -> bool:
    return text.lstrip().startswith("{") and isinstance(_decode(text)[0], dict)


def _same(left: str, right: str) -> bool:
    if left == right:
        return True
    (one, fault), (other, other_fault) = _decode(left), _decode(right)
    return not fault and not other_fault and bool(one == other)
