"""What holds for every stream: reads make no difference, nothing raises, no call gets arguments that were not sent."""

from __future__ import annotations

import itertools
import json
import sys

from hypothesis import given, settings
from hypothesis import strategies as st
from wire_frames import DONE, call_events, calls, chunk, data, end, item, parse, text

from hotloop.events import CallOpened, CallSealed, ReplyFinished
from hotloop.models.reply import Reply
from hotloop.models.wire.chatstream import ChatStream

# Reads make no difference

ODD = [
    text("Hi "),
    text("日本語 👍"),
    text('quo"te \\'),
    text(""),
    text(None),
    text([{"type": "text", "text": "part"}, {"type": "thinking", "thinking": "hm"}]),
    text(5),
    chunk({"role": "assistant"}),
    chunk({"reasoning_content": "hm"}),
    chunk({"content": "x", "reasoning": "y", "tool_calls": []}),
    chunk({"function_call": {"name": "f", "arguments": "{}"}}),
    calls(item('{"a": 1}', "f", id="a", index=0)),
    calls(item("", "g", id="b", index=1), item("{", index=1), item("}", index=1)),
    calls(item({"a": 1}, "f"), item(None, "g")),
    calls({}, {"function": 7}, {"id": [], "index": {}}),
    data({"choices": [{"message": {"content": "whole"}}]}),
    data({"choices": [{"message": {"content": "whole message"}}]}),
    data({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": None}}),
    data({"usage": {"completion_tokens": 4}, "x_groq": {"usage": {"queue_time": 0.1, "completion_time": None}}}),
    data({"error": {"message": "busy", "code": 503}}),
    data({"object": "error", "message": "bad"}),
    data(None),
    data([]),
    b"data: oops\n\n",
    b"data: \n\n",
    b": ping\n\n",
    b"\n",
    b"event: x\ndata: {\ndata: }\n\n",
    b'data: {"choices": []}\ndata: {"choices": []}\n\n',
    b"\xef\xbb\xbf",
    b"<p>",
    b'{"choices": [',
    end("stop"),
    end("tool_calls"),
    end("length"),
    end(""),
    DONE,
]
runs = st.builds(
    lambda count, content: [text(f"{content}{n}") for n in range(count)], st.integers(20, 40), st.sampled_from("aé👍")
)
blocks = st.lists(st.one_of(st.sampled_from(ODD).map(lambda block: [block]), runs), max_size=10)
streams = st.tuples(blocks, st.sampled_from([b"\n", b"\r\n", b"\r"])).map(
    lambda parts: b"".join(itertools.chain(*parts[0])).replace(b"\n", parts[1])
)


@st.composite
def cut(draw, of):
    body = draw(of)
    at = sorted(draw(st.lists(st.integers(0, len(body)), max_size=12)))
    return body, [body[start:stop] for start, stop in itertools.pairwise([0, *at, len(body)])]


@st.composite
def damaged(draw):
    body = bytearray(draw(streams))
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(body)))
        body[at : at + draw(st.integers(0, 3))] = draw(st.binary(max_size=3))
    return bytes(body)


def outcome(*reads):
    events, result = parse(*reads)
    return events, result if isinstance(result, Reply) else type(result)


@given(cut(st.one_of(streams, damaged(), st.binary(max_size=300))))
@settings(max_examples=200)
def test_reads_make_no_difference(example):
    body, reads = example
    assert outcome(*reads) == outcome(body)


@given(st.one_of(streams, damaged()))
def test_not_even_reads_of_one_byte(body):
    assert outcome(*(body[at : at + 1] for at in range(len(body)))) == outcome(body)


FIELDS = [
    *("choices", "delta", "message", "content", "tool_calls", "function", "name", "arguments", "id", "index", "error"),
    *("usage", "x_groq", "timings", "finish_reason", "prompt_ms", "queue_time", "completion_time", "function_call"),
    *(
        "code",
        "type",
        "status",
        "refusal",
        "reasoning",
        "text",
        "thinking",
        "object",
        "detail",
        "model",
        "prompt_tokens",
    ),
]
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS) | st.text(max_size=3), inner, max_size=4)
    ),
    max_leaves=20,
)


def nested(value):
    """A chunk with this value at every place that is looked into."""
    places = [
        value,
        {"choices": value},
        {"choices": [value]},
        {"choices": [{"delta": value}]},
        {"choices": [{"message": value}]},
        {"choices": [{"delta": {"content": value}}]},
        {"choices": [{"delta": {"content": [value]}}]},
        {"choices": [{"delta": {"tool_calls": value}}]},
        {"choices": [{"delta": {"tool_calls": [value]}}]},
        {"choices": [{"delta": {"tool_calls": [{"function": value}]}}]},
        {"choices": [{"delta": {"tool_calls": [{"id": value, "function": {"name": "f"}}]}}]},
        {"choices": [{"delta": {"tool_calls": [{"index": value, "function": {"name": "f"}}]}}]},
        {"choices": [{"delta": {"tool_calls": [{"function": {"name": value, "arguments": value}}]}}]},
        {"choices": [{"delta": {"function_call": value}}]},
        {"choices": [{"finish_reason": value}]},
        {"error": value},
        {"error": {"code": value, "status": value, "message": value}},
        {"usage": value},
        {"usage": {"prompt_tokens": value, "prompt_tokens_details": value}},
        {"x_groq": value},
        {"x_groq": {"usage": value}},
        {"timings": value},
        {"timings": {"prompt_ms": value}},
        {"model": value},
    ]
    return st.sampled_from(places)


def survive(*reads):
    """Feed and close, however it ends; every reply is one that can be told and encoded."""
    events, result = parse(*reads)
    if isinstance(result, Reply):
        assert isinstance(events[-1], ReplyFinished)
        assert all(
            isinstance(call.name, str) and call.name and isinstance(call.arguments, str) for call in result.calls
        )
        assert all(isinstance(value, int | float) for value in result.server_ms.values())


@given(st.lists(st.binary(max_size=100), max_size=5))
def test_random_bytes_never_raise(reads):
    survive(*reads)
    survive(b"data: ", *reads, b"\n\n", end("stop"))


@given(st.lists(json_values.flatmap(nested), min_size=1, max_size=4))
@settings(max_examples=200)
def test_random_values_never_raise(frames):
    survive(*map(data, frames), end("stop"))
    survive(*map(data, frames), end("tool_calls"), DONE)
    survive(json.dumps(frames[0]).encode())


@given(
    st.integers(1, 1500),
    st.sampled_from(
        [
            '{"choices":[{"delta":{"tool_calls":[{"function":{"name":"f","arguments":%s}}]}}]}',
            '{"error":%s}',
            '{"choices":[{"delta":{"content":5,"x":%s}}]}',
            '{"usage":{"x":%s}}',
        ]
    ),
)
def test_nesting_never_raises(depth, frame):
    for opening, closing in ("[", "]"), ('{"a":', "}"):
        body = (frame % (opening * depth + "1" + closing * depth)).encode()
        survive(b"data: " + body + b"\n\n", end("tool_calls"))
        survive(body)


def test_nor_does_nesting_that_can_just_be_read():
    """Deep in a stack, what can be decoded may not be encoded again, nor read as another type."""
    limit = sys.getrecursionlimit()
    for depth in range(limit - 150, limit + 10):
        value = '{"a":' * depth + "1" + "}" * depth
        for frame in (
            '{"choices":[{"delta":{"tool_calls":[{"function":{"name":"f","arguments":%s}}]}}]}',
            '{"choices":[{"delta":{"content":5}}],"usage":{"x":%s}}',
            '{"choices":[{"delta":{"content":5}}],"error":%s}',
        ):
            body = frame.replace("%s", value).encode()
            survive(b"data: " + body + b"\n\n", end("tool_calls"))
            survive(body)


# No call gets arguments that were not sent

names = st.sampled_from(["f", "g"])
strings = st.text(alphabet=st.sampled_from('a"\\{}[]:, é👍\n'), max_size=6)
arguments = st.dictionaries(
    strings,
    st.recursive(
        st.integers(0, 9) | st.none() | strings,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(strings, inner, max_size=2),
        max_leaves=4,
    ),
    max_size=3,
)


@st.composite
def written(draw, empty=True):
    """A call that a model means, as (name, arguments, the pieces it writes them in)."""
    name, meant = draw(names), draw(arguments if empty else arguments.filter(bool))
    as_text = json.dumps(meant, ensure_ascii=draw(st.booleans()), indent=draw(st.sampled_from([None, 1])))
    if draw(st.integers(0, 4)) == 0:
        as_text = json.dumps(as_text)
    at = sorted(set(draw(st.lists(st.integers(1, max(len(as_text) - 1, 1)), max_size=6))))
    return (
        name,
        meant,
        [as_text[start:stop] for start, stop in itertools.pairwise([0, *at, len(as_text)]) if start < stop],
    )


def sequential(*of):
    return [fragment for fragments in of for fragment in fragments]


HABITS = {
    "as it should be": lambda n, head: {"id": f"i{n}", "index": n} if head else {"index": n},
    "ids in every delta": lambda n, head: {"id": f"i{n}", "index": n},
    "only ids": lambda n, head: {"id": f"i{n}"},
    "ids on heads": lambda n, head: {"id": f"i{n}"} if head else {},
    "no ids": lambda n, head: {"index": n},
    "null ids": lambda n, head: {"id": None, "index": n},
    "empty ids": lambda n, head: {"id": "", "index": n},
    "index 0 for all": lambda n, head: {"id": f"i{n}", "index": 0} if head else {"index": 0},
    "index 0 for all, ids in every delta": lambda n, head: {"id": f"i{n}", "index": 0},
    "index 0 for all tails": lambda n, head: {"id": f"i{n}", "index": n} if head else {"index": 0},
    "index only on tails": lambda n, head: {"id": f"i{n}"} if head else {"index": n},
    "heads from 1, tails from 0": lambda n, head: {"id": f"i{n}", "index": n + 1} if head else {"index": n},
    "heads from 0, tails from 1": lambda n, head: {"id": f"i{n}", "index": n} if head else {"index": n + 1},
    "index differs, ids in every delta": lambda n, head: {"id": f"i{n}", "index": n if head else 7},
    "ids once more in the next reply": lambda n, head: {"id": f"i{n % 2}", "index": n} if head else {"index": n},
    "equal ids": lambda n, head: {"id": "same", "index": n} if head else {"index": n},
}
MADE_UP = itertools.count()


def fragments_of(number, call, habit, name_first, named_often):
    name, _, pieces = call
    head = item("" if not name_first else ..., name, **HABITS[habit](number, True))
    label = HABITS[habit](number, False)
    tails = [item(piece, name if named_often else ..., **label) for piece in pieces]
    if not name_first:
        return [head, *tails]
    return [item("", "", **HABITS[habit](number, True)), head, *tails]


def meant_calls(of):
    return [(name, meant) for name, meant, _ in of]


def got(*reads):
    """The calls that would be run, or None if the reply is refused."""
    events, result = parse(*reads)
    if not isinstance(result, Reply):
        return None
    sealed = {each.slot: (each.name, each.arguments) for each in events if isinstance(each, CallSealed)}
    assert list(dict(sorted(sealed.items())).values()) == [(call.name, call.arguments) for call in result.calls]
    opened = {each.slot: each.name for each in events if isinstance(each, CallOpened)}
    assert all(opened[slot] == name for slot, (name, _) in sealed.items())
    return [(call.name, json.loads(call.arguments)) for call in result.calls if call.whole]


@given(
    st.lists(written(), min_size=1, max_size=4),
    st.sampled_from(sorted(HABITS)),
    st.booleans(),
    st.sampled_from(["each", "burst", "pairs"]),
)
@settings(max_examples=200)
def test_every_habit_of_servers_gives_the_calls_that_were_meant(meant, habit, name_first, packing):
    items = sequential(*(fragments_of(number, call, habit, name_first, False) for number, call in enumerate(meant)))
    size = {"each": 1, "burst": len(items), "pairs": 2}[packing]
    reads = [calls(*items[at : at + size]) for at in range(0, len(items), size)]
    found = got(*reads, end(), DONE)
    if habit == "index 0 for all tails" and any(one[1] == other[1] for one, other in itertools.pairwise(meant)):
        assert found in (meant_calls(meant), None)  # arguments once more, or the same for the next: not run if unsure
    else:
        assert found == meant_calls(meant)


@given(
    st.lists(written(), min_size=1, max_size=3),
    st.sampled_from(["as it should be", "ids in every delta", "only ids", "no ids"]),
)
def test_names_in_every_delta(meant, habit):
    items = sequential(*(fragments_of(number, call, habit, False, True) for number, call in enumerate(meant)))
    assert got(*map(calls, items), end()) == meant_calls(meant)


@given(st.lists(written(empty=False), min_size=1, max_size=3), st.booleans())
def test_ids_made_up_for_every_delta(meant, same_index):
    items = sequential(*(fragments_of(number, call, "no ids", False, False) for number, call in enumerate(meant)))
    items = [each | {"id": f"made-up-{next(MADE_UP)}"} | ({"index": 0} if same_index else {}) for each in items]
    assert got(*map(calls, items), end()) == meant_calls(meant)


@given(
    st.lists(written(), min_size=1, max_size=3),
    st.sampled_from(["as it should be", "ids in every delta", "only ids", "no ids"]),
    st.booleans(),
)
def test_arguments_once_more_in_full(meant, habit, as_value):
    items = []
    for number, call in enumerate(meant):
        last = call[1] if as_value else json.dumps(call[1])
        items += [*fragments_of(number, call, habit, False, False), item(last, **HABITS[habit](number, False))]
    assert got(*map(calls, items), end()) == meant_calls(meant)


@st.composite
def shuffled_together(draw, of):
    """The fragments of several calls, those of each in their order."""
    queues = [list(fragments) for fragments in of]
    woven = []
    while any(queues):
        queue = draw(st.sampled_from([queue for queue in queues if queue]))
        woven.append(queue.pop(0))
    return woven


@given(
    st.data(),
    st.lists(written(), min_size=2, max_size=3),
    st.sampled_from(["as it should be", "ids in every delta", "only ids", "no ids"]),
)
@settings(max_examples=200)
def test_calls_written_side_by_side(draw, meant, habit):
    heads = [fragments_of(number, call, habit, False, False)[0] for number, call in enumerate(meant)]
    tails = [fragments_of(number, call, habit, False, False)[1:] for number, call in enumerate(meant)]
    items = heads + draw.draw(shuffled_together(tails))
    assert got(*map(calls, items), end()) == meant_calls(meant)


@given(st.data(), st.lists(written(), min_size=1, max_size=3))
@settings(max_examples=250)
def test_no_order_repetition_or_loss_makes_up_arguments(draw, meant):
    """A call was sent these arguments: what the model meant, or what came under the call's labels in the order it came.

    Every fragment here says by id and index whose it is. They come in any order, any number of times, or never.
    """
    items = sequential(*(fragments_of(n, call, "ids in every delta", False, False) for n, call in enumerate(meant)))
    arrived = draw.draw(st.lists(st.sampled_from(items), max_size=2 * len(items)))
    found = got(*map(calls, arrived), end()) or []
    assert len(found) <= len(meant)
    for name, value in found:
        assert any(name == call[0] and value in sent(number, call, arrived) for number, call in enumerate(meant))


def sent(number, call, arrived):
    """All values that count as sent to this call."""
    under_label = "".join(each["function"]["arguments"] for each in arrived if each["id"] == f"i{number}")
    values = [call[1]]
    try:
        value = json.loads(under_label if under_label.strip() else "{}")
        values.append(json.loads(value) if isinstance(value, str) else value)
    except ValueError:
        pass
    return values


@given(st.data(), st.lists(written(), min_size=1, max_size=3), st.sampled_from(sorted(HABITS)))
@settings(max_examples=200)
def test_a_lost_end_never_makes_a_call_of_the_rest(draw, meant, habit):
    """Of a stream cut between two fragments only calls that were complete can be whole."""
    items = sequential(*(fragments_of(number, call, habit, False, False) for number, call in enumerate(meant)))
    kept = items[: draw.draw(st.integers(0, len(items)))]
    found = got(*map(calls, kept), end()) or []
    allowed = [*meant_calls(meant), *((name, {}) for name, _, _ in meant)]
    assert all(each in allowed for each in found)
    assert got(*map(calls, kept)) is None
    assert got(*map(calls, kept), end("length")) in (None, [])


labels = st.fixed_dictionaries(
    {
        "function": st.fixed_dictionaries(
            {},
            optional={
                "name": st.sampled_from(["", "f", "g"]),
                "arguments": st.sampled_from(
                    ["", " ", "{", "}", "{}", '"', '{"a":1}', '{"a":', "1", ",", "null", {"a": 1}]
                ),
            },
        )
    },
    optional={"id": st.sampled_from(["", "a", "b"]), "index": st.sampled_from([0, 1, None])},
)


@given(st.lists(labels, max_size=7), st.booleans())
@settings(max_examples=250)
def test_no_fragments_at_all_break_what_is_told(items, burst):
    """Each slot is announced once and with a name, sealed once and at last, and the reply says the same."""
    reads = [calls(*items)] if burst else [calls(each) for each in items]
    stream = ChatStream()
    events = [event for read in [*reads, end()] for event in stream.feed(read)] + stream.close()
    told = call_events(events)
    opened, sealed = ([each.slot for each in told if isinstance(each, kind)] for kind in (CallOpened, CallSealed))
    assert sorted(set(opened)) == sorted(opened)
    assert sorted(set(sealed)) == sorted(sealed)
    assert set(sealed) <= set(opened)
    assert all(each.name for each in told)
    whole = {json.dumps(value) for value in pieces_that_could_be(items)}
    for call in stream.reply().calls if stream.error is None else []:
        assert not call.whole or json.dumps(json.loads(call.arguments)) in whole


def pieces_that_could_be(items):
    """The objects that any fragments give in the order they came, and the absence of any."""
    texts = [each["function"].get("arguments") or "" for each in items]
    texts = [each if isinstance(each, str) else json.dumps(each) for each in texts]
    yield {}
    for count in range(1, len(texts) + 1):
        for chosen in itertools.combinations([each for each in texts if each], count):
            try:
                value = json.loads("".join(chosen))
                value = json.loads(value) if isinstance(value, str) else value
            except ValueError:
                continue
            if isinstance(value, dict):
                yield value
