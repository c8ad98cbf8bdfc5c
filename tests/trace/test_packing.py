from __future__ import annotations

import msgspec
import pytest
from endings import full_record, record

from hotloop.trace.ledger import AttemptFacts, CallFacts, Stage, ToolFacts, TurnFacts, Usage
from hotloop.trace.packing import BESIDE, NOTHING, pack, unpack
from hotloop.trace.record import Said, TraceRecord

ORDER = {
    Stage: "kind start end turn lane name note",
    Usage: "input_tokens output_tokens cached_tokens reasoning_tokens",
    CallFacts: "call_id name outcome head_start waited_for waited saved missed sealed needs",
    AttemptFacts: "turn service model why start end outcome first reason usage prompt_bytes known_bytes error",
    TurnFacts: "turn ttft tpot usage attempts buffered salvaged finish_reason model tools tools_ns calls burst"
    " discarded server_ms gap",
    ToolFacts: "read_only timeout ttl retries after size",
    Said: "digest size result_digest text result",
}


def beside(given: TraceRecord) -> dict[str, object]:
    return {name: getattr(given, name) for name in BESIDE}


def changed(data: bytes, change) -> bytes:
    """The bytes after a change of what is in them."""
    packed = msgspec.msgpack.decode(data)
    change(packed)
    return msgspec.msgpack.encode(packed)


@pytest.mark.parametrize("given", [full_record(), record()])
def test_what_was_packed_comes_out(given):
    data, declaration = pack(given)
    assert unpack(data, declaration.data, beside(given)) == given


def test_what_an_agent_declares_is_packed_once():
    one, other = full_record(), full_record()
    assert pack(one)[1] == pack(other)[1] != pack(record())[1]
    other.tools, other.declared = one.tools, one.declared
    assert pack(one)[1] is pack(other)[1]
    assert b"look" not in pack(record(tools=one.tools))[0]


def test_the_full_record_is_full():
    plain = record()
    same = [name for name in TraceRecord.__struct_fields__ if getattr(full_record(), name) == getattr(plain, name)]
    assert same == ["trace_id", "started"]


@pytest.mark.parametrize("kind", ORDER)
def test_fields_are_only_added_at_the_end(kind):
    """Files have them in this order: another one would read them wrong."""
    assert " ".join(kind.__struct_fields__).startswith(ORDER[kind])


def test_an_earlier_version_had_fewer_fields():
    given = full_record()

    def cut(packed):
        packed["stages"][0] = packed["stages"][0][:4]
        packed["turns"][0] = packed["turns"][0][:12]
        del packed["limits"]

    found = unpack(changed(pack(given)[0], cut), NOTHING, beside(given))
    assert found.tools == {}
    assert found.stages == [Stage("tool", 7, 9, 1)]
    assert (found.turns[0].calls, found.turns[0].burst, found.limits) == (given.turns[0].calls, False, {})


def test_a_later_version_has_more_fields():
    given = full_record()
    data, declaration = pack(given)

    def add(packed):
        packed["stages"][0].append("more")
        packed["turns"][0][11][0].append(1)
        packed["more"] = 1

    assert unpack(changed(data, add), declaration.data, beside(given)) == given


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\x80", pack(full_record())[0][:-9]])
def test_what_is_no_record(data):
    with pytest.raises(msgspec.MsgspecError):
        unpack(data, NOTHING, beside(record()))


def test_a_record_is_small():
    """A third of what it takes with the names of all fields."""
    given = full_record()
    for name in ("stages", "turns", "attempts"):
        setattr(given, name, getattr(given, name) * 20)
    assert len(pack(given)[0]) < len(msgspec.msgpack.encode(given)) * 0.45
