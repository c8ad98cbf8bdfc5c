"""A run as log lines: one per reply, one per round of tools, one for the whole."""

from __future__ import annotations

import re
from datetime import timedelta

from hotloop.trace.ledger import TurnFacts
from hotloop.trace.rows import ROWS
from hotloop.trace.trace import Trace
from hotloop.units import NS_PER_MS

_UNSAFE = re.compile(r"[^\w.:/-]")  # a model's name of a tool, or a caller's of a run, could forge a log line


def log_lines(trace: Trace) -> list[str]:
    """The lines, each with the time at which what it tells of started."""
    lines: list[tuple[int, str]] = []
    for facts in trace.turns:
        lines.append((min(_starts(trace, facts.turn, ("context",)), default=trace.start), _reply_line(facts)))
        if ran := _starts(trace, facts.turn, ROWS["tools"]):
            names = ", ".join(map(_safe, facts.tools))
            text = f"tools=[{names}] max_parallel={trace.facts.get('max_parallel')}"
            lines.append((min(ran), f"turn={facts.turn} {text} total_ms={_number(facts.tools_ns)}"))
    lines.append((trace.end, f"end_to_end={_number(trace.end - trace.start)}ms turns={len(trace.turns)}"))
    trace_id = _safe(trace.trace_id)
    return [f"{_stamp(trace, at)} [trace={trace_id}] {text}" for at, text in lines]


def _safe(name: str) -> str:
    return _UNSAFE.sub("?", name)


def _starts(trace: Trace, turn: int, kinds: tuple[str, ...]) -> list[int]:
    return [stage.start for stage in trace.stages if stage.turn == turn and stage.kind in kinds]


def _stamp(trace: Trace, at: int) -> str:
    moment = trace.started + timedelta(microseconds=(at - trace.start) / 1000)
    return moment.isoformat(sep=" ", timespec="milliseconds")


def _reply_line(facts: TurnFacts) -> str:
    tpot = "buffered" if facts.buffered else _ms_or_unknown(facts.tpot)
    counted = {"input_tokens": facts.usage.input_tokens, "output_tokens": facts.usage.output_tokens}
    tokens = {name: "unknown" if count is None else count for name, count in counted.items()}
    cached = "" if facts.usage.cached_tokens is None else f" cached_tokens={facts.usage.cached_tokens}"
    return (
        f"turn={facts.turn} input_tokens={tokens['input_tokens']} ttft={_ms_or_unknown(facts.ttft)} "
        f"tpot={tpot} output_tokens={tokens['output_tokens']}{cached}"
    )


def _ms_or_unknown(nanoseconds: int | None) -> str:
    return "unknown" if nanoseconds is None else f"{_number(nanoseconds)}ms"


def _number(nanoseconds: int) -> str:
    """Whole milliseconds from 10 on, two decimals that matter below."""
    value = nanoseconds / NS_PER_MS
    return f"{value:.0f}" if value >= 10 else f"{value:.2f}".rstrip("0").rstrip(".")
