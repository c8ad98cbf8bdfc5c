"""Tool calls from what services really send: which fragments are one call, and what is never run."""

from __future__ import annotations

import json

import pytest
from wire_frames import DONE, call_events, called, calls, chunk, end, error, item, parse, reply

from hotloop.errors import MalformedReply, TransportError, TruncatedReply
from hotloop.events import CallOpened, CallSealed
from hotloop.models.reply import Reply
from hotloop.models.wire.assembler import CallAssembler, _Slot

PARIS, ROME = '{"city": "Paris"}', '{"city": "Rome"}'
BOTH = [("weather", {"city": "Paris"}), ("weather", {"city": "Rome"})]
ONE = BOTH[:1]


def run(*items, finish="tool_calls"):
    """The calls of a stream with one item a chunk."""
    return called(*(calls(each) for each in items), end(finish), DONE)


def burst(*items):
    """The calls of a stream with all items in one chunk."""
    return called(calls(*items), end(), DONE)


def pieces(text, size=3):
    return [text[at : at + size] for at in range(0, len(text), size)]


# Identity


@pytest.mark.parametrize("form", [run, burst])
@pytest.mark.parametrize(
    "labels",
    [
        pytest.param([{"id": "a", "index": 0}, {"id": "b", "index": 1}], id="as it should be"),
        pytest.param([{"id": "a", "index": 0}, {"id": "b", "index": 0}], id="index 0 for all"),
        pytest.param([{"id": "a"}, {"id": "b"}], id="no index"),
        pytest.param([{"id": "a", "index": 0}, {"index": 1}], id="no id on the second"),
        pytest.param([{"index": 0}, {"index": 1}], id="no ids"),
        pytest.param([{"id": "", "index": 0}, {"id": "", "index": 1}], id="empty ids"),
        pytest.param([{"id": "x", "index": 0}, {"id": "x", "index": 1}], id="equal ids"),
        pytest.param([{"id": "x", "index": 0}, {"id": "x", "index": 0}], id="everything equal"),
        pytest.param([{}, {}], id="no labels at all"),
        pytest.param([{"id": "a", "index": 3}, {"id": "b", "index": 7}], id="odd numbering"),
        pytest.param([{"id": 1, "index": "0"}, {"id": 2, "index": "1"}], id="labels of other types"),
        pytest.param([{"id": ["a"], "index": {}}, {"id": {"b": 1}, "index": []}], id="labels of absurd types"),
    ],
)
def test_two_whole_calls(form, labels):
    first, second = labels
    assert form(item(PARIS, "weather", **first), item(ROME, "weather", **second)) == BOTH


@pytest.mark.parametrize(
    "labels",
    [
        pytest.param(
            ({"id": "a", "index": 0}, {"index": 0}, {"id": "b", "index": 1}, {"index": 1}), id="as it should be"
        ),
        pytest.param(
            ({"id": "a", "index": 0}, {"id": "a", "index": 0}, {"id": "b", "index": 1}, {"id": "b", "index": 1}),
            id="id in every delta",
        ),
        pytest.param(({"id": "a"}, {"id": "a"}, {"id": "b"}, {"id": "b"}), id="only ids"),
        pytest.param(
            ({"id": "a", "index": 0}, {"id": "", "index": 0}, {"id": "b", "index": 1}, {"id": "", "index": 1}),
            id="empty id in tails",
        ),
        pytest.param(({"id": "a", "index": 0}, {}, {"id": "b", "index": 1}, {}), id="labels only on heads"),
        pytest.param(
            ({"id": "a", "index": 0}, {"index": 0}, {"id": "b", "index": 0}, {"index": 0}), id="index 0 for all"
        ),
        pytest.param(
            ({"id": "a", "index": 0}, {"index": 0}, {"id": "b", "index": 1}, {"index": 0}), id="index 0 for all tails"
        ),
        pytest.param(
            ({"id": "a", "index": 1}, {"index": 0}, {"id": "b", "index": 2}, {"index": 1}),
            id="heads from 1, tails from 0",
        ),
        pytest.param(
            ({"id": "a", "index": 0}, {"index": 1}, {"id": "b", "index": 1}, {"index": 2}),
            id="heads from 0, tails from 1",
        ),
        pytest.param(
            ({"id": "a", "index": 0}, {"id": "a", "index": 1}, {"id": "b", "index": 0}, {"id": "b", "index": 1}),
            id="index differs, ids in every delta",
        ),
        pytest.param(({"id": "a"}, {"index": 0}, {"id": "b"}, {"index": 1}), id="index only on tails"),
        pytest.param(({"index": 0}, {"index": 0}, {"index": 1}, {"index": 1}), id="no ids"),
        pytest.param(
            ({"index": 0}, {"id": "a", "index": 0}, {"index": 1}, {"id": "b", "index": 1}), id="ids only on tails"
        ),
        pytest.param(({}, {}, {}, {}), id="no labels at all"),
        pytest.param(({"id": "x", "index": 0}, {"index": 0}, {"id": "x", "index": 1}, {"index": 1}), id="equal ids"),
    ],
)
@pytest.mark.parametrize("size", [1, 3, 100])
def test_two_streamed_calls(labels, size):
    head, tail, second_head, second_tail = labels
    first = [item("", "weather", **head), *(item(piece, **tail) for piece in pieces(PARIS, size))]
    second = [item("", "weather", **second_head), *(item(piece, **second_tail) for piece in pieces(ROME, size))]
    assert run(*first, *second) == BOTH
    assert burst(*first, *second) == BOTH


@pytest.mark.parametrize("size", [1, 3, 100])
def test_an_id_made_up_for_every_delta(size):
    ids = iter(range(1000))
    tails = [item(piece, id=f"i{next(ids)}", index=0) for piece in pieces(PARIS, size)]
    assert run(item("", "weather", id="h", index=0), *tails) == ONE
    assert (
        run(item("", "weather", id="h", index=0), item("", id="g", index=0), *tails, item("", id="z", index=0)) == ONE
    )


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_braces_and_quotes_inside_strings_end_nothing(size):
    """Without labels, only where the first object closes tells that the second call begins."""
    tricky = {"a": '}{"', "b": '\\"}', "\\": "]", "c": "\\\\"}
    items = [item("", "f"), *(item(piece) for piece in pieces(json.dumps(tricky), size))]
    assert run(*items, *items[:1], *(item(piece) for piece in pieces(PARIS, size))) == [
        ("f", tricky),
        ("f", {"city": "Paris"}),
    ]
    named = [item(piece, "f") for piece in pieces(json.dumps(tricky), size)]
    assert run(*named, item(PARIS, "weather")) == [("f", tricky), *ONE]


def test_the_same_arguments_under_an_index_that_all_calls_share():
    """Was the first call said once more, or is that the second one's? Nothing is run that may not have been sent."""
    first = [item("", "weather", id="a", index=0), item(PARIS, index=0)]
    second = [item("", "weather", id="b", index=1), item(PARIS, index=0)]
    assert isinstance(error(*map(calls, first + second), end()), MalformedReply)
    assert run(*first, *second, item(PARIS, index=1)) == [*ONE, *ONE]


def test_a_first_call_without_arguments_takes_none_of_the_next_one():
    assert run(item("", "ping", index=0), item("", "weather", index=1), item(PARIS, index=1)) == [("ping", {}), *ONE]
    assert run(item("", "ping", id="a"), item("", "weather", id="b"), item(PARIS)) == [("ping", {}), *ONE]


def test_an_id_made_up_for_every_delta_of_two_calls():
    items = []
    for index, text in enumerate((PARIS, ROME)):
        items.append(item("", "weather", id=f"head{index}", index=index))
        items += [item(piece, id=f"tail{index}-{number}", index=index) for number, piece in enumerate(pieces(text))]
    assert run(*items) == BOTH


def test_fragments_of_calls_written_side_by_side():
    for label in (
        ({"index": 0}, {"index": 1}),
        ({"id": "a"}, {"id": "b"}),
        ({"id": "a", "index": 0}, {"id": "b", "index": 1}),
    ):
        items = [item("", "weather", id="a", index=0), item("", "weather", id="b", index=1)]
        for one, other in zip(pieces(PARIS, 5), pieces(ROME, 5), strict=True):
            items += [item(one, **label[0]), item(other, **label[1])]
        assert run(*items) == BOTH


def test_the_same_call_once_more_under_another_label_is_another():
    assert run(item(PARIS, "weather", id="a", index=0), item(PARIS, "weather", id="b", index=1)) == [*ONE, *ONE]


# Names


def test_a_name_in_every_delta():
    for labels in {"id": "a", "index": 0}, {"index": 0}, {"id": "a"}, {}:
        assert (
            run(
                item("", "weather", **labels),
                *(item(piece, "weather", **labels) for piece in pieces(PARIS)),
                item("", "weather", **labels),
            )
            == ONE
        )


@pytest.mark.parametrize("labels", [{"id": "a", "index": 0}, {"index": 0}, {"id": "a"}, {}])
def test_an_empty_name_first(labels):
    events, result = parse(
        calls(item("", "", **labels)),
        calls(item(None, "weather", **labels)),
        calls(item(PARIS, "", **labels)),
        end(),
        DONE,
    )
    assert [(each.name, each.arguments) for each in result.calls] == [("weather", PARIS)]
    assert call_events(events) == [CallOpened(0, "weather"), CallSealed(0, "weather", PARIS)]


def test_an_empty_name_first_in_the_second_call_too():
    assert (
        run(
            item(PARIS, "weather", id="a", index=0),
            item("", "", id="b", index=0),
            item(None, "weather", index=0),
            item(ROME, index=0),
        )
        == BOTH
    )


def test_arguments_that_were_never_given_a_name_are_refused():
    for labels in {"id": "a", "index": 0}, {}:
        assert isinstance(error(calls(item(PARIS, **labels)), end()), MalformedReply)
        assert isinstance(error(calls(item(PARIS, "", **labels)), end()), MalformedReply)
        assert isinstance(error(calls(item(PARIS, 7, **labels)), end()), MalformedReply)


@pytest.mark.parametrize(
    "nothing",
    [{}, item(), item("", ""), item("", "", id="", index=0), {"function": None}, {"function": []}, {"function": "f"}],
)
def test_an_item_that_says_nothing_is_no_call(nothing):
    assert reply(chunk({"content": "hi", "tool_calls": [nothing]}), end("stop")).calls == []
    assert reply(chunk({"content": "hi", "tool_calls": [nothing]}), end("length")).finish_reason == "length"
    assert reply(chunk({"content": "hi", "tool_calls": [nothing]}), end("eos")).text == "hi"


@pytest.mark.parametrize("nothing", [None, 5, "x", [], [[]]])
def test_an_item_that_is_no_object_is_no_call(nothing):
    assert reply(chunk({"content": "hi", "tool_calls": [nothing]}), end("stop")).calls == []
    assert called(calls(nothing, item(PARIS, "weather")), end()) == ONE


# Arguments


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param([None], id="absent"),
        pytest.param([""], id="empty"),
        pytest.param(["", "", ""], id="empty in every delta"),
        pytest.param([" \n"], id="blank"),
        pytest.param(["null"], id="null as text"),
        pytest.param(["{}"], id="an empty object"),
        pytest.param([{}], id="an empty object, not text"),
        pytest.param(['"{}"'], id="an empty object as text in text"),
    ],
)
def test_a_call_without_arguments(arguments):
    first, *rest = arguments
    labels = {"id": "a", "index": 0}
    assert run(item(first, "ping", **labels), *(item(each, index=0) for each in rest)) == [("ping", {})]
    assert run(item(first, "ping", **labels), item(PARIS, "weather", id="b", index=1)) == [("ping", {}), *ONE]


def test_two_calls_without_arguments():
    two = [("ping", {}), ("ping", {})]
    assert run(item(None, "ping", id="a", index=0), item(None, "ping", id="b", index=1)) == two
    assert run(item("", "ping", id="a"), item("", "ping", id="b")) == two
    assert run(item("{}", "ping", index=0), item("{}", "ping", index=1)) == two


def test_a_second_call_without_arguments_is_a_call():
    assert run(item(PARIS, "weather", index=0), item("", "weather", index=1)) == [*ONE, ("weather", {})]


@pytest.mark.parametrize(
    "value", [{"city": "Paris"}, {"a": [1, 2.5, None, True, {"b": "}"}]}, {"n": 12345678901234567890123}]
)
def test_an_object_in_place_of_text(value):
    assert run(item(value, "weather", id="a", index=0)) == [("weather", value)]
    assert run(item(value, "weather"), item("", "weather")) == [("weather", value)]
    assert run(item({}, "weather", index=0), *(item(piece, index=0) for piece in pieces(json.dumps(value)))) == [
        ("weather", value)
    ]


def test_text_in_text():
    doubled = json.dumps(PARIS)
    for size in 1, 4, 100:
        assert run(item("", "weather", index=0), *(item(piece, index=0) for piece in pieces(doubled, size))) == ONE


def test_numbers_stay_as_they_were_written():
    exact = '{"n": 1.10, "big": 12345678901234567890123}'
    assert reply(calls(item(exact, "f", index=0)), end()).calls[0].arguments == exact


@pytest.mark.parametrize("labels", [{"index": 0}, {"id": "a", "index": 0}, {"id": "a"}, {}])
@pytest.mark.parametrize("name", [None, "weather"])
@pytest.mark.parametrize("last", [PARIS, '{"city":"Paris"}', {"city": "Paris"}])
def test_a_last_item_that_repeats_the_arguments_in_full(labels, name, last):
    head = item("", "weather", id="a", index=0)
    assert run(head, *(item(piece, **labels) for piece in pieces(PARIS)), item(last, name, **labels)) == ONE
    assert run(head, item(PARIS, **labels), item(last, name, **labels), item("", **labels)) == ONE
    assert run(head, item('{"city": "Pa', **labels), item({"city": "Paris"}, name, **labels)) == ONE


def test_a_last_item_that_says_all_of_what_was_begun():
    assert run(item("", "weather", index=0), item('{"city": "Pa', index=0), item(PARIS, index=0)) == ONE


@pytest.mark.parametrize(
    "written",
    [
        pytest.param(['{"city": "Paris",}'], id="a comma too many"),
        pytest.param(["{'city': 'Paris'}"], id="other quotes"),
        pytest.param(['{"filter": ', '{"a": 1}'], id="an inner object last, the outer one open"),
        pytest.param(['"filter": ', '{"a": 1}'], id="an inner object last, the outer one never begun"),
        pytest.param(["}", '{"filter": ', '{"a": 1}'], id="fragments out of order"),
        pytest.param(['{"filter": ', '{"a": 1}', "}", '{"a": 1}'], id="an inner object twice"),
        pytest.param(['{"a": 1}', '{"b": 2}'], id="two objects"),
        pytest.param(["{", '{"a": 1}'], id="a brace too many"),
        pytest.param(["sure: ", '{"a": 1}'], id="words first"),
        pytest.param(["[1, 2]"], id="a list"),
        pytest.param(["5"], id="a number"),
        pytest.param(['"Paris"'], id="a string"),
        pytest.param(["[" * 5000], id="nested without end"),
    ],
)
def test_arguments_that_are_no_object_are_kept_as_written(written):
    """They go to the tool as they stand, which tells the model what is wrong with them: nothing is repaired."""
    result = reply(
        calls(item("", "weather", id="a", index=0)), *(calls(item(each, index=0)) for each in written), end()
    )
    assert [(each.arguments, each.whole) for each in result.calls] == [("".join(written), False)]


@pytest.mark.parametrize("arguments", [5, True, [1], [[["x"]]], [{"a": 1}]])
def test_arguments_of_other_types_are_no_object_either(arguments):
    [call] = reply(calls(item(arguments, "weather", index=0)), end()).calls
    assert not call.whole
    assert json.loads(call.arguments) == arguments


# Sealing


def test_a_call_is_sealed_when_the_next_one_opens():
    assembler = CallAssembler()
    events = []
    assembler.feed(item("", "weather", id="a", index=0), events)
    assembler.feed(item(PARIS, index=0), events)
    assert events == [CallOpened(0, "weather")]
    assembler.feed(item("", "weather", id="b", index=1), events)
    assert events[1:] == [CallSealed(0, "weather", PARIS), CallOpened(1, "weather")]


def test_a_call_that_is_not_complete_is_not_sealed_by_the_next_one():
    assembler = CallAssembler()
    events = []
    assembler.feed(item('{"city": ', "weather", id="a", index=0), events)
    assembler.feed(item("", "weather", id="b", index=1), events)
    assembler.feed(item('"Paris"}', index=0), events)
    assembler.feed(item(ROME, index=1), events)
    assert not [event for event in events if isinstance(event, CallSealed)]
    assert [call.arguments for call in assembler.seal(events)] == [PARIS, ROME]


def test_a_sealed_call_that_changes_is_refused():
    reads = [calls(item(PARIS, "weather", id="a", index=0)), calls(item(ROME, "weather", id="b", index=1))]
    for change in item(ROME, id="a"), item(', "x": 1}', id="a", index=0), item({"city": "Oslo"}, id="a"):
        assert isinstance(error(*reads, calls(change), end()), MalformedReply)
    for repeat in (
        item(PARIS, id="a"),
        item('{"city":"Paris"}', id="a"),
        item({"city": "Paris"}, id="a"),
        item(" ", id="a"),
    ):
        assert called(*reads, calls(repeat), end()) == BOTH


def test_an_id_that_was_taken_for_the_open_calls_and_is_another_calls_is_refused():
    """Where ids do not mean what they say, it is not known whose arguments these were."""
    head = calls(item('{"a": [', "f", id="a"))
    foreign = calls(item('{"b": 1}', id="b"))
    assert isinstance(error(head, foreign, calls(item("]}", id="a")), end()), MalformedReply)
    assert isinstance(error(head, foreign, calls(item(None, "g", id="b")), end()), MalformedReply)
    assert isinstance(error(head, foreign, calls(item(None, "f", id="b")), end()), MalformedReply)


def test_arguments_under_two_indices_are_refused():
    reads = [calls(item('{"a": [', "f", index=0)), calls(item('{"b": 1}', index=1)), calls(item("]}", index=0))]
    assert isinstance(error(*reads, end()), MalformedReply)


# Whatever else


def test_unknown_fields_are_kept():
    extra = {"extra_content": {"google": {"thought_signature": "sig"}}}
    [call] = reply(calls(item(PARIS, "weather", index=0, **extra, other=None)), end()).calls
    assert call.extra == extra
    for tail in {"index": 0, "function": {"arguments": PARIS}} | extra, item(PARIS, index=0) | extra:
        [call] = reply(calls(item("", "weather", index=0)), calls(tail), end()).calls
        assert (call.arguments, call.extra) == (PARIS, extra)


def test_function_call_of_old_servers():
    head = chunk({"content": None, "function_call": {"name": "weather", "arguments": ""}})
    tails = [chunk({"function_call": {"arguments": piece}}) for piece in pieces(PARIS)]
    assert called(head, *tails, end("function_call"), DONE) == ONE
    whole = chunk({"content": "", "function_call": {"name": "weather", "arguments": PARIS}})
    assert called(whole, end("function_call"), DONE) == ONE
    assert (
        called(chunk({"content": "Wait.", "function_call": {"name": "weather", "arguments": PARIS}}), end("stop"))
        == ONE
    )


@pytest.mark.parametrize("finish", ["stop", "tool_calls", "function_call"])
def test_calls_run_after_a_safe_end(finish):
    assert run(item(PARIS, "weather"), finish=finish) == ONE


@pytest.mark.parametrize(
    "finish", ["length", "content_filter", "error", "abort", "eos", "STOP", "max_tokens", "something"]
)
def test_calls_run_after_no_other_end(finish):
    result = error(
        calls(item(PARIS, "weather", id="a", index=0)),
        calls(item('{"city": "Ro', "weather", id="b", index=1)),
        end(finish),
    )
    assert isinstance(result, TruncatedReply) == (finish == "length")


def test_an_unsafe_end_is_not_made_safe_by_another_one():
    assert isinstance(error(calls(item(PARIS, "weather")), end("length"), end("stop")), TruncatedReply)


def test_calls_do_not_run_without_an_end():
    for reads in (
        [calls(item(PARIS, "weather"))],
        [calls(item(PARIS, "weather")), DONE],
        [calls(item(PARIS, "weather")), end("")],
    ):
        assert isinstance(error(*reads), TransportError)


def test_a_cap_that_was_hit_without_being_told():
    capped = {"usage": {"prompt_tokens": 9, "completion_tokens": 64}}
    reads = [calls(item(PARIS, "weather")), end("tool_calls", **capped), DONE]
    assert isinstance(error(*reads, max_tokens=64), TruncatedReply)
    assert called(*reads, max_tokens=65) == ONE
    assert called(*reads) == ONE


def test_work_is_linear_in_the_fragments(monkeypatch):
    """Each fragment is scanned once, whatever labels come with it."""
    scanned = []
    scan = _Slot._scan
    monkeypatch.setattr(_Slot, "_scan", lambda slot, text: (scanned.append(len(text)), scan(slot, text)))
    assembler, events = CallAssembler(), []
    assembler.feed(item('{"text": "', "f", id="a", index=0), events)
    for _ in range(2000):
        assembler.feed(item("x", "f", id="a", index=0), events)
    assembler.feed(item('"}', index=0), events)
    [call] = assembler.seal(events)
    assert json.loads(call.arguments) == {"text": "x" * 2000}
    assert sum(scanned) <= len(call.arguments)


def test_no_call_at_all():
    assert isinstance(parse(chunk({"tool_calls": []}), chunk({"content": "hi"}), end("stop"))[1], Reply)
