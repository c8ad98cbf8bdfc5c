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
from hotloop.models.wire.frames import decode_json, encode_json

_MARK = re.compile(r'["\\{}\[\]]')
_OURS = frozenset({"index", "id", "type", "function"})
_MIXED = "its fragments cannot be told apart"


class _Fragment(msgspec.Struct, frozen=True, gc=False):
    """What one item says, "" and None where it says nothing; `is_value` if `text` is the whole JSON of a value."""

    id: str
    index: int | None
    name: str
    text: str
    is_value: bool


class _Slot:
    """One call being written. `id` and `index` are those that its last arguments came with."""

    __slots__ = (
        "_depth",
        "_marked",
        "_quoted",
        "_scanned",
        "_skip",
        "doubtful",
        "extra",
        "full",
        "id",
        "index",
        "name",
        "number",
        "parts",
        "renamed",
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
        self.whole = self.renamed = self.doubtful = False
        self._scanned = self._depth = 0
        self._marked = self._quoted = self._skip = False

    @property
    def begun(self) -> bool:
        """True once arguments have come."""
        return bool(self.parts) or self.full is not None

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

    def written(self) -> str:
        """The arguments so far, as they came."""
        return "".join(self.parts) if self.full is None else self.full

    def arguments(self) -> str:
        """The arguments as JSON text, or as the model wrote them; `whole` tells then if they are a JSON object."""
        if self.sealed is not None:
            return self.sealed
        text = self.written()
        value, fault = _decode(text)
        self.whole = True
        if isinstance(value, dict):
            return text
        if isinstance(value, str) and _is_object(value):
            return value
        if not text.strip() or (value is None and not fault):
            return "{}"
        if "truncated" not in fault and self.full is None and (last := _repeated(self.parts)):
            return last
        self.whole = False
        return text


class CallAssembler:
    """Folds the `tool_calls` items of one reply into calls.

    `sealed` are those that can no longer change while others are still written; `fault` says why the calls cannot be
    trusted, if so.
    """

    __slots__ = ("_places", "_slots", "fault", "sealed")

    def __init__(self) -> None:
        self._slots: list[_Slot] = []
        self._places: dict[tuple[str, int | None], _Slot] = {}  # by id and index, by id alone, by index alone
        self.fault: str | None = None
        self.sealed: list[Call] = []

    def __bool__(self) -> bool:
        """True once there is a call."""
        return any(not self._is_phantom(slot) for slot in self._slots)

    def feed(self, item: dict[str, Any], events: list[Event]) -> None:
        """Take one item of a delta's `tool_calls`; append what it opens and seals to `events`.

        Raises msgspec.DecodeError for arguments that came as an object and are nested too deeply to be written.
        """
        function: Any = item.get("function")
        if function.__class__ is not dict:
            function = {}
        name, arguments = function.get("name"), function.get("arguments")
        if self._slots and not name and not item.get("id") and isinstance(arguments, str):
            current = self._slots[-1]  # nearly every fragment goes on with the open call
            if item.get("index") == current.index and current.full is None and (len(item) == 2 or item.keys() <= _OURS):
                if arguments:
                    current.parts.append(arguments)
                return
        fragment = _fragment(item.get("id"), item.get("index"), name, arguments)
        slot = self._route(fragment, events)
        if fragment.name and not slot.name:
            slot.name = fragment.name
            events.append(CallOpened(slot.number, slot.name))
        if fragment.text:
            self._append(slot, fragment)
        if len(item) > 2:
            slot.extra.update({key: value for key, value in item.items() if key not in _OURS and value is not None})

    def seal(self, events: list[Event]) -> list[Call]:
        """The calls of a reply that has ended safely, in the order they were opened."""
        calls = []
        for slot in self._slots:
            if self._is_phantom(slot):
                continue
            if not slot.name:
                self.fault = self.fault or "it has arguments for a call that was never named"
                continue
            if slot.doubtful and not slot.begun:
                self.fault = _MIXED
            arguments = slot.arguments()
            if slot.sealed is None:
                events.append(CallSealed(slot.number, slot.name, arguments))
            calls.append(Call(slot.name, arguments, slot.extra, slot.whole, slot.number))
        return calls

    def writing(self, name: str) -> tuple[int, list[str]] | None:
        """The slot and the fragments so far of the call that is being written, if it is one of this tool."""
        slot = self._slots[-1] if self._slots else None
        return (slot.number, slot.parts) if slot is not None and slot.name == name and slot.full is None else None

    def _append(self, slot: _Slot, new: _Fragment) -> None:
        if slot.sealed is not None:
            if new.text.strip() and not _same(slot.arguments(), new.text):
                self.fault = f"it changed the arguments of {slot.name} after they were complete"
            return
        if not slot.begun:
            self._settle(slot, new.index)
        elif not new.id and not _agree(new.index, slot.index):
            self.fault = _MIXED
        if slot.full is None and not new.is_value:
            slot.parts.append(new.text)
        else:
            slot.full = new.text  # a whole value replaces

    def _settle(self, slot: _Slot, index: int | None) -> None:
        """The index of a call's first arguments is that of the rest: some servers give its head another."""
        if index is None:
            return
        if index != slot.index and slot.index is not None and self._places.get(("", slot.index)) is slot:
            del self._places["", slot.index]
        slot.index = index
        self._places["", index] = slot

    def _route(self, new: _Fragment, events: list[Event]) -> _Slot:
        slot = self._by_id(new) if new.id else self._by_index(new)
        if slot is None or _is_another(slot, new):
            return self._open(new, events)
        return slot

    def _by_id(self, new: _Fragment) -> _Slot | None:
        slot = self._places.get((new.id, new.index)) or self._places.get((new.id, None))
        if slot is None:
            current = self._slots[-1] if self._slots else None
            if current is None or not _goes_on(current, new):
                return None
            current.renamed = bool(current.id)
            current.id = new.id
            self._places[new.id, None] = current
            return current
        if slot.id != new.id or (slot.renamed and new.name):
            self.fault = _MIXED  # an id was taken for one more name of the open call, and was none
        return slot

    def _by_index(self, new: _Fragment) -> _Slot | None:
        current = self._slots[-1] if self._slots else None
        if new.index is None or current is None:
            return current
        slot = self._places.get(("", new.index))
        if slot is None:
            return None if new.name or current.closed() else current
        if not (new.text.strip() and _awaits(current, new) and slot.closed()):
            return slot
        if _same(slot.arguments(), new.text):  # the same once more, or the same for another call
            current.doubtful = True
            return slot
        return current  # some servers give the arguments of all calls one index

    def _open(self, new: _Fragment, events: list[Event]) -> _Slot:
        if self._slots:
            last = self._slots[-1]
            if last.name and last.sealed is None and last.begun:
                arguments = last.arguments()
                if last.whole:
                    last.sealed = arguments
                    events.append(CallSealed(last.number, last.name, arguments))
                    self.sealed.append(Call(last.name, arguments, last.extra, True, last.number))
        slot = _Slot(len(self._slots), new.id, new.index)
        self._slots.append(slot)
        if new.id:
            self._places[new.id, None] = self._places[new.id, new.index] = slot
        if new.index is not None:
            self._places["", new.index] = slot
        return slot

    def _is_phantom(self, slot: _Slot) -> bool:
        """A slot without arguments that is no call of its own: nameless, or the name of a neighbour once more."""
        if slot.written().strip():
            return False
        before, after = self._slots[max(slot.number - 1, 0)], self._places.get((slot.id, None), slot)
        again = slot.id in ("", before.id) and _agree(slot.index, before.index)
        twins = [twin for twin in (before if again else slot, after) if twin is not slot]
        return not slot.name or any(twin.begun and twin.name == slot.name for twin in twins)


def _fragment(call_id: Any, index: Any, name: Any, arguments: Any) -> _Fragment:
    is_value = bool(arguments) and not isinstance(arguments, str)
    return _Fragment(
        call_id if isinstance(call_id, str) else "",
        index if isinstance(index, int) else None,
        name if isinstance(name, str) else "",
        encode_json(arguments).decode() if is_value else arguments or "",
        is_value,
    )


def _goes_on(current: _Slot, new: _Fragment) -> bool:
    """True if a fragment with a new id still belongs to the open call: some servers make up an id per delta."""
    unnamed = not new.name or (new.name == current.name and not current.id)
    return unnamed and _agree(new.index, current.index) and not current.closed()


def _awaits(current: _Slot, new: _Fragment) -> bool:
    return bool(current.name) and not current.begun and new.name in ("", current.name)


def _is_another(slot: _Slot, new: _Fragment) -> bool:
    """True if a fragment that points at a slot must begin another call, because it names one again."""
    if not new.name or not slot.name:
        return False
    if new.name != slot.name or not _agree(new.index, slot.index):
        return True
    if not slot.closed():
        return False
    return not _same(slot.arguments(), new.text) if new.text.strip() else not new.id


def _agree(left: int | None, right: int | None) -> bool:
    return left is None or right is None or left == right


def _repeated(parts: list[str]) -> str:
    """The last part if it is the whole of what the others wrote or began to write, else ""."""
    at = len(parts) - 1
    while at and parts[at].isspace():
        at -= 1
    begun, last = "".join(parts[:at]), parts[at]
    is_whole = _is_object(last) and (_same(begun, last) or ('"' in begun and last.startswith(begun)))
    return last if is_whole else ""


def _decode(text: str) -> tuple[Any, str]:
    try:
        return decode_json(text), ""
    except msgspec.DecodeError as error:
        return None, str(error)


def _is_object(text: str) -> bool:
    return text.lstrip().startswith("{") and isinstance(_decode(text)[0], dict)


def _same(left: str, right: str) -> bool:
    return left == right or ((value := _canonical(left)) is not None and value == _canonical(right))


def _canonical(text: str) -> bytes | None:
    value, fault = _decode(text)
    if isinstance(value, str):
        value, fault = _decode(value)
    try:
        return None if fault else msgspec.json.encode(value, order="sorted")
    except RecursionError:
        return None
