"""A record as bytes and back. What there is much of is written without the names of its fields, by their order.

So a field may be added at the end of a Struct, with a default, and nothing else be changed: of bytes of a later version
what is not known is passed over, and what earlier ones have not is the default.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import asdict, astuple

from hotloop.trace.ledger import AttemptFacts, CallFacts, Stage, ToolFacts, TurnFacts, Usage
from hotloop.trace.record import Said, TraceRecord

BESIDE = ("trace_id", "name", "version", "session", "source", "started", "outcome", "error")
"""The fields that are not in the bytes of a record, for they are kept beside them."""

_TIMES = ("start", "end")
_SEVERAL = ("stages", "turns", "attempts", "said")
_DECLARED = ("tools", "declared")
_ALONE = tuple(name for name in TraceRecord.__struct_fields__ if name not in (*BESIDE, *_TIMES, *_SEVERAL, *_DECLARED))
_TURN_USAGE, _TURN_CALLS = map(TurnFacts.__struct_fields__.index, ("usage", "calls"))
_ATTEMPT_USAGE = AttemptFacts.__struct_fields__.index("usage")
_REMEMBERED = 256  # declarations

_encode = msgspec.msgpack.Encoder(enc_hook=str).encode

NOTHING = _encode({})
"""What an agent declares of which nothing is known."""


class Declaration(NamedTuple):
    """What records of one agent have in common, as bytes that are kept once; `key` tells them from others."""

    key: int
    data: bytes


def pack(record: TraceRecord) -> tuple[bytes, Declaration]:
    """The bytes of a record, and of what its agent declares."""
    packed = {name: value for name in _ALONE if (value := getattr(record, name))}
    packed["start"], packed["end"] = record.start, record.end
    packed["stages"] = [*map(astuple, record.stages)]
    packed["turns"] = [*map(_turn, record.turns)]
    packed["attempts"] = [*map(_attempt, record.attempts)]
    if record.said:
        packed["said"] = {call_id: astuple(said) for call_id, said in record.said.items()}
    return _encode(packed), _declaration(record)


def unpack(data: bytes, declaration: bytes, beside: Mapping[str, Any]) -> TraceRecord:
    """The record of these bytes and of what is kept `beside` them.

    Raises msgspec.MsgspecError for bytes that hold none.
    """
    record, declared = _readers()
    fields = {**asdict(record.decode(data)), **asdict(declared.decode(declaration)), **beside}
    return msgspec.convert(fields, TraceRecord, from_attributes=True)


_remembered: dict[tuple[int, int], tuple[tuple[object, object], Declaration]] = {}


def _declaration(record: TraceRecord) -> Declaration:
    """Made once for all records that share the very same objects, as those of an agent do."""
    objects = record.tools, record.declared
    found = _remembered.get((id(objects[0]), id(objects[1])))
    if found is not None:
        return found[1]
    tools = {name: astuple(facts) for name, facts in record.tools.items()}
    data = _encode({"tools": tools, "declared": record.declared})
    key = int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "big", signed=True)
    if len(_remembered) >= _REMEMBERED:
        _remembered.clear()
    made = Declaration(key, data)
    _remembered[id(objects[0]), id(objects[1])] = objects, made  # which keeps the ids from being others'
    return made


def _turn(facts: TurnFacts) -> list[Any]:
    row = [*astuple(facts)]
    row[_TURN_USAGE] = astuple(facts.usage)
    row[_TURN_CALLS] = [*map(astuple, facts.calls)]
    return row


def _attempt(facts: AttemptFacts) -> list[Any]:
    row = [*astuple(facts)]
    row[_ATTEMPT_USAGE] = astuple(facts.usage)
    return row


@cache
def _readers() -> tuple[msgspec.msgpack.Decoder[Any], msgspec.msgpack.Decoder[Any]]:
    """They read what `pack` has written into Structs that are like ours, but read by order what was written so."""
    usage, call = _by_order(Usage), _by_order(CallFacts)
    kinds = {
        "stages": list[_by_order(Stage)],  # type: ignore[misc]
        "turns": list[_by_order(TurnFacts, usage=usage, calls=list[call])],  # type: ignore[misc, valid-type]
        "attempts": list[_by_order(AttemptFacts, usage=usage)],  # type: ignore[misc]
        "tools": dict[str, _by_order(ToolFacts)],  # type: ignore[misc]
        "said": dict[str, _by_order(Said)],  # type: ignore[misc]
    }
    fields = _fields(TraceRecord, kinds)
    record = [each for each in fields if each[0] not in (*BESIDE, *_DECLARED)]
    return _decoder(record), _decoder([each for each in fields if each[0] in _DECLARED])


def _decoder(fields: list[tuple[Any, ...]]) -> msgspec.msgpack.Decoder[Any]:
    return msgspec.msgpack.Decoder(msgspec.defstruct("Packed", fields, kw_only=True))


def _by_order(kind: type[msgspec.Struct], **kinds: Any) -> Any:
    return msgspec.defstruct(kind.__name__, _fields(kind, kinds), array_like=True, gc=False)


def _fields(kind: type[msgspec.Struct], kinds: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """The fields of a Struct as `defstruct` takes them, some of them of other `kinds`."""
    fields: list[tuple[Any, ...]] = []
    for field in msgspec.structs.fields(kind):
        named = field.name, kinds.get(field.name, field.type)
        if field.required:
            fields.append(named)
        elif field.default_factory is msgspec.NODEFAULT:
            fields.append((*named, field.default))
        else:
            fields.append((*named, msgspec.field(default_factory=field.default_factory)))
    return fields
