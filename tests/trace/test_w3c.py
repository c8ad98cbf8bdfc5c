"""Runs know where in a W3C trace they stand: what whoever asked said of it, and what their own calls say."""

from __future__ import annotations

import logging
import timeit

import pytest

from hotloop.errors import ConfigError
from hotloop.runoptions import RunOptions, read_parent
from hotloop.trace.w3c import Position, read_position, w3c_trace_id

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01"


@pytest.mark.parametrize("flags", [0, 1, 2, 3])
def test_a_traceparent_is_read_and_said_again(flags: int) -> None:
    text = f"00-{TRACE}-{SPAN}-0{flags}"

    position = read_position(text, "vendor=a,other=b")

    assert position == Position(TRACE, SPAN, flags, "vendor=a,other=b")
    assert (position.traceparent, position.sampled) == (text, flags in (1, 3))


def test_one_of_a_later_version_is_read_as_far_as_it_is_known() -> None:
    assert read_position(f"cc-{TRACE}-{SPAN}-ff-what-the-future-holds") == Position(TRACE, SPAN, 3)


@pytest.mark.parametrize(
    "text",
    [
        "",
        TRACE,
        PARENT.upper(),
        PARENT + " ",
        PARENT + "\n",
        PARENT + "-more",
        PARENT.replace("00-", "ff-", 1),
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE}-{SPAN}-1",
        f"cc-{TRACE}-{SPAN}-01more",
    ],
)
def test_what_is_none_is_not_read(text: str) -> None:
    assert read_position(text) is None


@pytest.mark.parametrize("state", ["a=b\r\nx-forged: 1", "a=é", "a" * 513])
def test_a_tracestate_that_cannot_be_sent_on_is_left_out(state: str) -> None:
    assert read_position(PARENT, state) == Position(TRACE, SPAN)


def test_the_options_of_a_run_say_where_it_stands(caplog: pytest.LogCaptureFixture) -> None:
    assert read_parent({"traceparent": PARENT, "tracestate": "a=b"}) == Position(TRACE, SPAN, 1, "a=b")
    assert read_parent({"traceparent": None}) is None
    assert not caplog.records

    with caplog.at_level(logging.WARNING):
        assert read_parent({"traceparent": "hello"}) is None
    assert "'hello' is no W3C trace context" in caplog.text


@pytest.mark.parametrize("options", [{"traceparent": 7}, {"traceparent": PARENT, "tracestate": 7}])
def test_an_option_that_is_no_text_is_an_error(options: RunOptions) -> None:
    with pytest.raises(ConfigError, match="give the header of that name"):
        read_parent(options)


def test_nothing_said_costs_next_to_nothing() -> None:
    unused: RunOptions = {}
    ratio = min(timeit.repeat(lambda: read_parent(unused), number=1000)) / min(timeit.repeat(list, number=1000))
    assert ratio < 200  # on any machine far below a microsecond each


def test_a_run_of_nobody_has_an_id_of_its_own() -> None:
    assert w3c_trace_id(TRACE) == TRACE
    assert w3c_trace_id("req-1") == w3c_trace_id("req-1") != w3c_trace_id("req-2")
    assert len(w3c_trace_id("0" * 32)) == 32 and w3c_trace_id("0" * 32) != "0" * 32
