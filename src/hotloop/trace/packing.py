"""A record as bytes and back. What there is much of is written without the names of its fields, by their order.

So a field may be added at the end of a Struct, with a default, and nothing else be changed: of bytes of a later version
what is not known is passed over, and what earlier ones have not is the default.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import msgspec
from msgspec.structs import asdict, astuple

from hotloop.trace.ledger import AttemptFacts, CallFacts, Stage, ToolFacts, TurnFacts, Usage
from hotloop.trace.record import Said, TraceRecord

BESIDE = ("trace_id", "name", "version", "session", "source", "started", "outcome", "error")
"""The fields that are not in the bytes of a record, for they are kept beside them."""

_SEVERAL = ("stages", "turns", "attempts", "tools", "said")
_TIMES = ("start", "end")
_ALONE = tuple(name for name in TraceRecord.__struct_fields__ if name not in (*BESIDE, *_TIMES, *_SEVERAL))
_TURN_USAGE, _TURN_CALLS = map(TurnFacts.__struct_fields__.index, ("usage", "calls"))
_ATTEMPT_USAGE = AttemptFacts.__struct_fields__.index("usage")

_encode = msgspec.msgpack.Encoder(enc_hook=str).encode


def pack(record: TraceRecord) -> bytes:
    """The bytes of a record."""
    packed = {name: value for name in _ALONE if (value := getattr(record, name))}
    packed["start"], packed["end"] = record.start, record.end
    packed["stages"] = [*map(astuple, record.stages)]
    packed["turns"] = [*map(_turn, record.turns)]
    packed["attempts"] = [*map(_attempt, record.attempts)]
    packed["tools"] = {name: astuple(facts) for name, facts in record.tools.items()}
    packed["said"] = {call_id: astuple(said) for call_id, said in record.said.items()}
    return _encode(packed)


def unpack(data: bytes, beside: Mapping[str, Any]) -> TraceRecord:
    """The record of these bytes and of what is kept `beside` them.

    Raises msgspec.MsgspecError for bytes that hold none.
    """
    packed = asdict(_reader().decode(data))
    return msgspec.convert({**packed, **beside}, TraceRecord, from_attributes=True)


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
def _reader() -> msgspec.msgpack.Decoder[Any]:
    """Reads what `pack` has written into Structs that are like ours, but read by order what was written so."""
    usage, call = _by_order(Usage), _by_order(CallFacts)
    kinds = {
        "stages": list[_by_order(Stage)],  # type: ignore[misc]
        "turns": list[_by_order(TurnFacts, usage=usage, calls=list[call])],  # type: ignore[misc, valid-type]
        "attempts": list[_by_order(AttemptFacts, usage=usage)],  # type: ignore[misc]
        "tools": dict[str, _by_order(ToolFacts)],  # type: ignore[misc]
        "said": dict[str, _by_order(Said)],  # type: ignore[misc]
    }
    fields = [each for each in _fields(TraceRecord, kinds) if each[0] not in BESIDE]
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
