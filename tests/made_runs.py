"""Records of runs as tests of what is read from them want them: two turns, one round of tools between them."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from hotloop.trace.declared import Declared
from hotloop.trace.ledger import AttemptFacts, CallFacts, Stage, TurnFacts, Usage
from hotloop.trace.record import TraceRecord
from hotloop.units import ns

USAGE = Usage(1000, 50, 500)
AT = 1_736_244_000.0  # when the first run begins, in Unix seconds

_numbers = iter(range(10**9))


def run_of(
    tools: Mapping[str, float] | None = None,
    *,
    at: float = AT,
    thinks: float = 0.1,
    usage: Usage = USAGE,
    tpot: float = 0.002,
    declared: Declared | None = None,
    limits: Mapping[str, float] | None = None,
    model: str = "gpt",
    **record: Any,
) -> TraceRecord:
    """A run that ends at once after its second reply; `tools` ran side by side, times in seconds.

    A reply takes `thinks`: a fifth of it to the first token. `record` are fields of the record.
    """
    tools = {"lookup": 0.1} if tools is None else tools
    half, whole = ns(thinks / 5), ns(thinks)
    acted = whole + max(map(ns, tools.values()), default=0)
    stages = [Stage("prefill", 0, half, 0), Stage("decode", half, whole, 0)]
    stages += [
        Stage("tool", whole, whole + ns(took), 0, lane, name) for lane, (name, took) in enumerate(tools.items(), 1)
    ]
    stages += [Stage("prefill", acted, acted + half, 1), Stage("decode", acted + half, acted + whole, 1)]
    calls = [CallFacts(f"call{number}", name, "ok", lane=number) for number, name in enumerate(tools, 1)]
    begun = (0, acted)
    return TraceRecord(
        **{"trace_id": f"req-{next(_numbers)}", "name": "orders", "version": "1"} | record,
        started=at,
        start=0,
        end=acted + whole,
        stages=stages,
        turns=[
            TurnFacts(turn, half, ns(tpot), usage, model=model, calls=[] if turn else calls)
            for turn in range(len(begun))
        ],
        attempts=[
            AttemptFacts(turn, "svc", model, "first", start, start + whole, "ok", start + half, "", usage)
            for turn, start in enumerate(begun)
        ],
        declared=declared or Declared(),
        limits={row: ns(seconds) for row, seconds in (limits or {}).items()},
    )


def varied(count: int, seed: int = 0, *, slower: float = 1.0, **options: Any) -> list[TraceRecord]:
    """Runs whose times vary as real ones do; the tool "lookup" is `slower`."""
    chance = random.Random(seed)
    return [
        run_of(
            {
                "lookup": chance.lognormvariate(0, 0.35) * 0.12 * slower,
                "weather": chance.lognormvariate(0, 0.35) * 0.05,
            },
            at=AT + number,
            thinks=chance.lognormvariate(0, 0.3) * 0.08,
            usage=Usage(800 + chance.randrange(200), 60 + chance.randrange(30), 500),
            **options,
        )
        for number in range(count)
    ]
