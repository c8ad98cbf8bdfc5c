"""Server-sent events: any bytes in any reads, and what servers get wrong in them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotloop.models.wire.sse import EventSource, payloads


def read(*pieces: bytes) -> list[bytes]:
    """The data of the events that have any."""
    source = EventSource()
    found = [payload for piece in pieces for payload in payloads(source.feed(piece))]
    return [payload for payload in found + payloads(source.close()) if payload]


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        pytest.param(b"data: a\n\ndata: b\n\n", [b"a", b"b"], id="plain"),
        pytest.param(b"data:a\n\n", [b"a"], id="no space after the colon"),
        pytest.param(b"data:  a\n\n", [b" a"], id="only one space is dropped"),
        pytest.param(b"data: a\ndata: b\n\n", [b"a\nb"], id="several data lines"),
        pytest.param(b"data: a\r\n\r\ndata: b\r\n\r\n", [b"a", b"b"], id="crlf"),
        pytest.param(b"data: a\r\rdata: b\r\r", [b"a", b"b"], id="cr"),
        pytest.param(b"data: a\r\n\ndata: b\n\r\n", [b"a", b"b"], id="mixed line ends"),
        pytest.param(b"event: x\nid: 7\nretry: 5\ndata: a\n\n", [b"a"], id="other fields"),
        pytest.param(b"data: a\n\n\n\n\ndata: b\n\n", [b"a", b"b"], id="more blank lines"),
        pytest.param(b"\n\ndata: a\n\n", [b"a"], id="blank lines first"),
        pytest.param(b"data: a", [b"a"], id="no line end at all"),
        pytest.param(b"data: a\n\ndata: b\n", [b"a", b"b"], id="no blank line at the end"),
        pytest.param(b"\xef\xbb\xbfdata: a\n\n", [b"a"], id="byte order mark"),
        pytest.param(b"", [], id="nothing"),
        pytest.param(b"\n\n\n", [], id="only line ends"),
    ],
)
def test_data_of_events(stream, expected):
    assert read(stream) == expected
    assert read(*(stream[at : at + 1] for at in range(len(stream)))) == expected


def test_events_without_data_have_none():
    assert read(b": ping\n\nevent: message\n\ndata\n\ndata: a\n\n") == [b"a"]


def test_an_event_is_there_with_the_byte_that_ends_it():
    """No server can make the reader wait: not even one that ends lines in CR, whose LF may still come."""
    for ending in (b"\n\n", b"\r\n\r\n", b"\r\r"):
        source = EventSource()
        assert source.feed(b"data: a" + ending[:-1]) in (b"", b"data: a")
        assert payloads(source.feed(b"")) == []
    source = EventSource()
    assert payloads(source.feed(b"data: a\r\r")) == [b"a"]
    assert payloads(source.feed(b"\ndata: b\r\r")) == [b"b"]


def test_an_empty_read_between_cr_and_lf_changes_nothing():
    assert read(b"data: a\r", b"", b"\ndata: b\r", b"\n", b"\r", b"\n") == [b"a\nb"]


lines = st.sampled_from(
    [b"data: a", b"data:b", b"data: ", b"data", b": ping", b"event: x", b"", b"\xef\xbb\xbfdata: c", b"x"]
)
endings = st.sampled_from([b"\n", b"\r\n", b"\r"])
streams = st.lists(st.tuples(lines, endings).map(b"".join), max_size=12).map(b"".join)


@st.composite
def cut(draw, of):
    """Some bytes, and the same bytes in any number of reads, empty ones included."""
    data = draw(of)
    at = sorted(draw(st.lists(st.integers(0, len(data)), max_size=8)))
    return data, [data[start:end] for start, end in zip([0, *at], [*at, len(data)], strict=True)]


@given(cut(streams))
def test_reads_make_no_difference(example):
    data, pieces = example
    assert read(*pieces) == read(data) == read(*(bytes([byte]) for byte in data))


@given(cut(st.binary(max_size=200)))
def test_nor_do_they_for_any_bytes(example):
    data, pieces = example
    assert read(*pieces) == read(data)


@given(
    st.lists(st.lists(st.binary(max_size=8).filter(lambda line: not set(line) & set(b"\r\n")), min_size=1), max_size=8),
    endings,
)
def test_what_was_written_is_read(events, ending):
    written = b"".join(b"".join(b"data: " + line + ending for line in event) + ending for event in events)
    assert read(written) == [data for event in events if (data := b"\n".join(event))]


class Counted(bytearray):
    """A buffer that counts the bytes it is searched through."""

    searched = 0

    def rfind(self, what, start=0, end=None):
        Counted.searched += len(self) - start
        return super().rfind(what, start)


def test_a_huge_event_in_tiny_reads_is_searched_once():
    """Work is linear: what was looked through is never looked through again."""
    source = EventSource()
    source._tail = Counted(b"data: ")
    Counted.searched = 0
    size = 100_000
    for _ in range(size):
        assert source.feed(b"x") == b""
    assert Counted.searched <= 3 * size
    assert payloads(source.feed(b"\n\n")) == [b"x" * size]
