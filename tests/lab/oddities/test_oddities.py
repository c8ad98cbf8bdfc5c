"""Each way to be odd, seen in what is sent: it does what its name says, and nothing else."""

import json

import pytest

from hotloop.lab.engines.work import Work, WorkPrompt
from hotloop.lab.oddities import calls, ends, framing
from hotloop.lab.oddities.talk import choices, talk_of
from hotloop.lab.profiles import Curve, Profile
from hotloop.lab.script import call, say
from hotloop.lab.service.misbehaving import Mix
from hotloop.lab.service.outgoing import outgoing

PROFILE = Profile(name="test", kind="lpu", base_ms=10.0, per_prompt_token_ms=0.0, tpot_ms=Curve(1.0))
REPLY = say("Look.", call("find", id="查询1"), call("ping"))
ARGUMENTS = ['{"id":"查询1"}', "{}"]
PIECES = ["", '{"id', '":"查', '询1"}', "", "{}"]  # of the arguments, in the items of both calls
IDS = ["call_0_0", *[None] * 3, "call_0_1", None]
NAMES = ["find", *[None] * 3, "ping", None]
DONE = b"data: [DONE]\n\n"


class Seen:
    """What is sent, by read and as a whole."""

    def __init__(self, reads):
        self.reads = reads
        self.raw = b"".join(reads)

    @property
    def events(self):
        return talk_of([self.raw])[0]

    @property
    def chunks(self):
        return [event for event in self.events if isinstance(event, dict)]

    @property
    def deltas(self):
        return [choice["delta"] for choice in choices([self.events])]

    @property
    def finishes(self):
        return [choice["finish_reason"] for choice in choices([self.events]) if choice["finish_reason"]]

    @property
    def items(self):
        """Of all calls."""
        return [item for delta in self.deltas for item in delta.get("tool_calls", ())]

    @property
    def items_by_chunk(self):
        return [len(items) for delta in self.deltas if (items := delta.get("tool_calls"))]

    def each(self, key, missing=None):
        """What the items, or their functions, have under this key."""
        return [item.get(key, item["function"].get(key, missing)) for item in self.items]


def _reads(reply):
    work = Work(reply.tokens, lambda _: None, reply.prompt)
    return [*reply.pieces, reply.tail(work) if reply.tail is not None else b""]


def seen(fault, reply=REPLY, **request):
    """A reply with this fault, and the same without."""
    request = {"messages": [{}], "stream": True, "stream_options": {"include_usage": True}} | request
    plain = outgoing(reply, request, WorkPrompt(7), PROFILE)
    return Seen(_reads(Mix(f"{fault}:100%").draw()(plain))), Seen(_reads(plain))


def without(events, event):
    """These events without those that are this one, and how many it was."""
    return [each for each in events if each != event], events.count(event)


def thoughts(key):
    said = [{key: piece} for piece in ("Let", " me", " think.")]
    return lambda odd, plain: (odd.deltas, [plain.deltas[0], *said, *plain.deltas[1:]])


# What is found, and what it is to be.
SEEN = {
    "missing-index": lambda odd, _: (odd.each("index", "none"), ["none"] * 6),
    "zero-index": lambda odd, _: (odd.each("index"), [0] * 6),
    "shifted-index": lambda odd, _: (odd.each("index"), [0, 1, 1, 1, 1, 2]),
    "null-ids": lambda odd, _: (odd.each("id", "none"), [None] * 6),
    "empty-ids": lambda odd, _: (odd.each("id"), [""] * 6),
    "equal-ids": lambda odd, _: (odd.each("id"), ["call_x", *[None] * 3, "call_x", None]),
    "reused-ids": lambda odd, _: (odd.each("id"), ["call_0", *[None] * 3, "call_1", None]),
    "repeated-ids": lambda odd, _: (odd.each("id"), ["call_0_0"] * 4 + ["call_0_1"] * 2),
    "repeated-names": lambda odd, _: (odd.each("name"), ["find"] * 4 + ["ping"] * 2),
    "late-names": lambda odd, _: (odd.each("name"), ["", "find", None, None, "", "ping"]),
    "object-arguments": lambda odd, _: (odd.each("arguments"), [json.loads(each) for each in ARGUMENTS]),
    "quoted-arguments": lambda odd, _: ([json.loads(each) for each in odd.each("arguments")], ARGUMENTS),
    "absent-arguments": lambda odd, _: (odd.each("arguments", "none"), [*PIECES[:4], "none"]),
    "repeated-arguments": lambda odd, _: (
        odd.each("arguments"),
        [*PIECES[:4], ARGUMENTS[0], *PIECES[4:], ARGUMENTS[1]],
    ),
    "empty-items": lambda odd, _: (
        (odd.each("arguments")[::2], odd.each("arguments")[1::2], odd.each("index")),
        (PIECES, [""] * 6, [0] * 8 + [1] * 4),
    ),
    "whole-calls": lambda odd, _: ((odd.each("arguments"), odd.items_by_chunk), (ARGUMENTS, [1, 1])),
    "burst": lambda odd, _: ((odd.each("arguments"), odd.items_by_chunk), (ARGUMENTS, [2])),
    "signed-calls": lambda odd, _: (
        odd.each("extra_content"),
        [signed := {"google": {"thought_signature": "c2lnbmVk"}}, *[None] * 3, signed, None],
    ),
    "blank-first": lambda odd, plain: (odd.deltas, [plain.deltas[0], {"content": "\n\n"}, *plain.deltas[1:]]),
    "no-finish": lambda odd, plain: (odd.events, plain.events[:-3]),
    "no-done": lambda odd, plain: ([*odd.events, DONE], plain.events),
    "finish-stop": lambda odd, plain: ((odd.finishes, odd.items), (["stop"], plain.items)),
    "filtered": lambda odd, plain: ((odd.finishes, odd.deltas), (["content_filter"], [*plain.deltas[:5], {}])),
    "error-in-stream": lambda odd, plain: (
        (odd.events[:-1], odd.events[-1].keys(), odd.events[-1]["error"]["code"]),
        (plain.events[:5], {"error"}, 503),
    ),
    "error-beside-choices": lambda odd, plain: (
        (odd.events[:-1], odd.events[-1]["choices"], odd.events[-1]["error"]["code"]),
        (plain.events[:5], [], "rate_limit_exceeded"),
    ),
    "not-json": lambda odd, plain: (odd.raw.replace(b'data: {"choices": [{"delta": {"content": "\n\n', b""), plain.raw),
    "filter-first": lambda odd, plain: (
        (odd.events[1:], odd.events[0]["choices"], "prompt_filter_results" in odd.events[0]),
        (plain.events, [], True),
    ),
    "nulls": lambda odd, plain: (without(odd.events, b"data: null\n\n"), (plain.events, len(plain.reads))),
    "pings": lambda odd, plain: (without(odd.events, b": ping\n\n"), (plain.events, len(plain.reads))),
    "usage-null": lambda odd, plain: (
        [chunk["usage"] for chunk in odd.chunks],
        [*[None] * 9, plain.chunks[-1]["usage"]],
    ),
    "usage-first": lambda odd, plain: (
        [chunk.get("usage") for chunk in odd.chunks],
        [plain.chunks[-1]["usage"], *[None] * 9],
    ),
    "usage-everywhere": lambda odd, _: (
        [chunk["usage"]["completion_tokens"] for chunk in odd.chunks],
        [1, 1, 2, 3, 4, 5, 6, 7, 7, 7],
    ),
    "reasoning": thoughts("reasoning"),
    "reasoning-content": thoughts("reasoning_content"),
    "no-space": lambda odd, plain: (odd.raw, plain.raw.replace(b"data: ", b"data:")),
    "crlf": lambda odd, plain: (odd.raw, plain.raw.replace(b"\n", b"\r\n")),
    "bom": lambda odd, plain: (odd.raw, b"\xef\xbb\xbf" + plain.raw),
    "many-lines": lambda odd, plain: (
        (odd.raw.replace(b",\ndata: ", b","), odd.raw.count(b",\ndata: ")),
        (plain.raw, len(plain.chunks)),
    ),
    "split-reads": lambda odd, plain: (
        (odd.raw, [read.endswith(b"\n") for read in odd.reads if read]),
        (plain.raw, [*[False] * 6, True]),
    ),
    "buffered": lambda odd, plain: ([read for read in odd.reads if read], [plain.raw]),
}
CAPPED = "finish-despite-cap"
LONE = "function-call"


@pytest.mark.parametrize("fault", SEEN)
def test_what_is_sent(fault):
    odd, plain = seen(fault)
    assert (plain.each("arguments"), plain.each("id"), plain.each("name")) == (PIECES, IDS, NAMES)
    found, expected = SEEN[fault](odd, plain)
    assert found == expected


def test_a_lone_call_in_the_form_of_old_servers():
    odd, _ = seen(LONE, say("Look.", call("ping")))
    assert odd.deltas[2:] == [
        {"function_call": {"name": "ping", "arguments": ""}},
        {"function_call": {"arguments": "{}"}},
        {},
    ]
    assert odd.finishes == ["function_call"]


def test_a_finish_reason_that_hides_the_cap():
    odd, plain = seen(CAPPED, max_tokens=2)
    assert (odd.finishes, plain.finishes) == (["tool_calls"], ["length"])
    assert odd.items == plain.items


def test_a_character_may_be_cut_in_two():
    odd, _ = seen("split-reads")
    assert any(_is_cut(read) for read in odd.reads)


def test_all_of_them_are_seen():
    assert {*SEEN, CAPPED, LONE} == {*calls.ODDITIES, *ends.ODDITIES, *framing.FRAMINGS}


def _is_cut(read):
    try:
        read.decode()
    except UnicodeDecodeError:
        return True
    return False
