"""Calls carry a W3C traceparent that belongs to their run."""

from __future__ import annotations

import re

import pytest

from hotloop.tools.running.tracecontext import traceparent_of

W3C = "4bf92f3577b34da6a3ce929d0e0e4736"


@pytest.mark.parametrize("trace_id", ["req-fd174e4c148b", W3C.upper(), "0" * 32, "", "订单", "\ud800"])
def test_any_id_becomes_a_trace_id(trace_id):
    parent = traceparent_of(trace_id, "call-1")
    assert re.fullmatch(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-01", parent)
    assert parent == traceparent_of(trace_id, "call-1")


def test_a_trace_id_stays_and_calls_differ():
    first, second = (traceparent_of(W3C, call) for call in ("call-1", "call-2"))
    assert first.split("-")[1] == second.split("-")[1] == W3C
    assert first != second
    assert traceparent_of("req-1", "call-1").split("-")[1] != traceparent_of("req-2", "call-1").split("-")[1]
