"""Chrome's trace format: a process for each run, a thread for each lane, and what they have between them."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import jsonschema
import pytest

from hotloop.trace.chrome import chrome_trace
from hotloop.trace.ledger import AttemptFacts, CallFacts, Stage, TurnFacts, Usage
from hotloop.trace.record import TraceRecord
from hotloop.units import NS_PER_MS

PHASES = {  # what each kind of event must have beside what all have, by the format's description
    "X": ["dur"],
    "M": ["args"],
    "C": ["args"],
    "b": ["id"],
    "n": ["id"],
    "e": ["id"],
    "s": ["id"],
    "f": ["id", "bp"],
}
FORMAT = {
    "type": "object",
    "required": ["traceEvents"],
    "properties": {
        "displayTimeUnit": {"enum": ["ms", "ns"]},
        "otherData": {"type": "object"},
        "traceEvents": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["ph", "pid", "tid", "name", "cat", "ts"],
                "properties": {
                    "ph": {"enum": list(PHASES)},
                    "pid": {"type": "integer", "minimum": 1},
                    "tid": {"type": "integer", "minimum": 1},
                    "name": {"type": "string", "minLength": 1},
                    "cat": {"type": "string"},
                    "id": {"type": "string"},
                    "ts": {"type": "number", "minimum": 0},
                    "dur": {"type": "number", "minimum": 0},
                    "bp": {"const": "e"},
                    "args": {"type": "object"},
                },
                "additionalProperties": False,
                "allOf": [
                    {"if": {"properties": {"ph": {"const": phase}}}, "then": {"required": needed}}
                    for phase, needed in PHASES.items()
                ],
            },
        },
    },
    "additionalProperties": False,
}


def at(milliseconds: float) -> int:
    return round(milliseconds * NS_PER_MS)


def record(trace_id: str = "run-1", started: float = 1_700_000_000.0) -> TraceRecord:
    return TraceRecord(
        trace_id=trace_id,
        name="orders",
        started=started,
        start=at(5),
        end=at(505),
        stages=[
            Stage("prefill", at(5), at(105), 0),
            Stage("decode", at(105), at(205), 0),
            Stage("tool", at(155), at(255), 0, 1, "look"),
            Stage("tool", at(205), at(305), 0, 2, "pay", "failed"),
        ],
        turns=[
            TurnFacts(
                0,
                usage=Usage(100, 10, 64),
                calls=[CallFacts("a", "look", "ok", sealed=at(60), lane=1), CallFacts("b", "pay", "error", lane=2)],
            )
        ],
        attempts=[
            AttemptFacts(0, "gpu-1", "m1", "first", at(5), at(205), "ok", at(105)),
            AttemptFacts(0, "gpu-1", "m1", "hedge", at(55), at(205), "lost"),
        ],
    )


def events(trace: dict[str, Any], phase: str) -> list[dict[str, Any]]:
    return [event for event in trace["traceEvents"] if event["ph"] == phase]


def test_stages_are_where_and_when_they_were() -> None:
    trace = chrome_trace([record()])
    found = [(event["name"], event["tid"] - event["pid"], event["ts"], event["dur"]) for event in events(trace, "X")]
    assert found == [
        ("prefill", 0, 0.0, 100_000.0),
        ("decode", 0, 100_000.0, 100_000.0),
        ("look", 1, 150_000.0, 100_000.0),
        ("pay", 2, 200_000.0, 100_000.0),
    ]
    names = {(event["name"], event["tid"] - event["pid"]): event["args"].get("name") for event in events(trace, "M")}
    assert names["process_name", 0] == "orders run-1"
    assert [names["thread_name", lane] for lane in range(3)] == ["run", "call 1", "call 2"]


def test_a_call_has_an_arrow_from_where_it_was_complete_to_where_its_tool_began() -> None:
    trace = chrome_trace([record()])
    arrows = {event["id"]: event["ts"] for event in events(trace, "s")}
    ends = {event["id"]: (event["ts"], event["tid"] - event["pid"]) for event in events(trace, "f")}
    assert sorted((arrows[key], *ends[key]) for key in arrows) == [(140_000.0, 150_000.0, 1), (200_000.0, 200_000.0, 2)]


def test_counters_tell_how_many_tools_were_at_work_and_how_long_prompts_were() -> None:
    counted = [(event["ts"], event["args"]) for event in events(chrome_trace([record()]), "C")]
    assert counted == [
        (150_000.0, {"tools": 1}),
        (200_000.0, {"tools": 2}),
        (250_000.0, {"tools": 1}),
        (300_000.0, {"tools": 0}),
        (0.0, {"cached": 64, "new": 36}),
    ]


def test_requests_at_the_same_time_have_tracks_of_their_own() -> None:
    trace = chrome_trace([record()])
    tracks = Counter(event["id"] for event in trace["traceEvents"] if event["ph"] in "bne")
    assert sorted(tracks.values()) == [2, 3]
    assert [event["name"] for event in events(trace, "b")] == ["first m1", "hedge m1"]


def test_runs_are_processes_from_the_first_on() -> None:
    trace = chrome_trace([record("later", 1_700_000_002.0), record("earlier", 1_700_000_000.5)])
    begun = [(event["pid"], event["ts"]) for event in events(trace, "X") if event["name"] == "prefill"]
    assert [at for _, at in begun] == [0.0, 1_500_000.0]
    threads = {(event["pid"], event["tid"]) for event in trace["traceEvents"]}
    assert len(threads) == len({thread for _, thread in threads}) == 6 and all(map(all, threads))
    assert trace["otherData"] == {"started": 1_700_000_000.5, "runs": 2}
    assert len({event["id"] for event in events(trace, "b")}) == 4


@pytest.mark.parametrize("records", [[], [record()], [TraceRecord(trace_id="empty", start=0, end=0)]])
def test_it_is_in_the_format(records: list[TraceRecord]) -> None:
    jsonschema.validate(json.loads(json.dumps(chrome_trace(records))), FORMAT)
