"""A trace for a person: bars on a time axis, and the budget as a table. Plain text."""

from __future__ import annotations

import unicodedata
from collections.abc import Container, Sequence

from hotloop.trace.ledger import UNKNOWN_FIRST, AttemptFacts, Stage
from hotloop.trace.trace import BudgetRow, Trace
from hotloop.units import NS_PER_MS, ms, show_ms
from hotloop.visible import one_line
from hotloop.words import counted, short

_EIGHTHS = " ▏▎▍▌▋▊▉█"
_MAIN = ("queue", "memory", "connect", "prefill", "decode", "approval", "wait", "guard", "cache", "tool")
_LABELS = {"prefill": "first token", "decode": "text", "connect": "connect", "queue": "wait to retry"}
_SMALL = 0.005  # a part of the run below this share is summed up instead of drawn
_TOOL_KINDS = ("tool", "cache", "wait")
_REST = "hotloop itself"
_REST_ELSEWHERE = "all between"
_FIXED = 22  # columns of a line beside the label and the bar
_LEAST_BAR = 16
_REASON = 80  # characters of why a request failed


def timeline(trace: Trace, width: int = 88) -> str:
    """One line a stage, parallel tools on lines of their own, the loop itself last; 54 columns or `width`, if more."""
    total = trace.end_to_end_ms
    drawn = sorted((s for s in trace.stages if _is_drawn(s, total)), key=lambda stage: (stage.start, stage.lane))
    turns = counted(len(trace.turns), "turn")
    head = _fit(f"{one_line(trace.trace_id)} · {show_ms(total)} end to end · {turns}", width).rstrip()
    if not drawn:
        return head
    labels = [one_line(_label(stage, trace)) for stage in drawn]
    rest = _REST if trace.source == "hotloop" else _REST_ELSEWHERE
    longest = max(map(_columns, [*labels, rest]))
    name_width = min(longest, 32, max(width - _FIXED - _LEAST_BAR, len(rest)))
    bar_width = max(width - _FIXED - name_width, _LEAST_BAR)
    lines = [head]
    turn = -1
    for stage, label in zip(drawn, labels, strict=True):
        margin = f"turn {stage.turn}" if stage.turn != turn else ""
        turn = stage.turn
        start = (stage.start - trace.start) / NS_PER_MS
        length = (stage.end - stage.start) / NS_PER_MS
        bar = _bar(start, length, total, bar_width)
        lines.append(f"{margin:<7} {_fit(label, name_width)} {bar} {show_ms(length):>12}".rstrip())
    lines.append(_remainder(trace, _fit(rest, name_width), bar_width))
    return "\n".join(lines)


def notes(trace: Trace) -> list[str]:
    """What there is to say beside the timeline, a line each."""
    lines = [*attempt_lines(trace), tools_line(trace), prefetch_line(trace), output_line(trace), memory_line(trace)]
    lines += [context_line(trace), cache_line(trace), *degraded_lines(trace), *warning_lines(trace)]
    return [line for line in lines if line]


def attempt_lines(trace: Trace) -> list[str]:
    """A line for each request of a turn that took more than one good one: what it was for, and what came of it."""
    lines = []
    for turn in dict.fromkeys(facts.turn for facts in trace.attempts):
        attempts = [facts for facts in trace.attempts if facts.turn == turn]
        if [facts.outcome for facts in attempts] != ["ok"] or attempts[0].why != "first" or attempts[0].reason:
            several = len({facts.model for facts in trace.attempts}) > 1
            in_order = sorted(attempts, key=lambda facts: facts.start)
            lines += [f"turn {turn}  {_attempt(facts, several)}" for facts in in_order]
    return lines


def _attempt(facts: AttemptFacts, names_model: bool) -> str:
    of = f" of {one_line(facts.model)}" if names_model else ""
    took = show_ms((facts.end - facts.start) / NS_PER_MS)
    why = f" ({one_line(short(facts.reason, _REASON))})" if facts.reason else ""
    return f"{facts.why}{of} {facts.outcome} after {took}{why}"


def tools_line(trace: Trace) -> str:
    """What was overlapped, begun early, waited for and saved, in a sentence; "" if there is nothing to say."""
    tools, calls = trace.tools(), sum(len(facts.calls) for facts in trace.turns)
    parts = [
        (tools.overlapped_ms, f"{show_ms(tools.overlapped_ms)} of {show_ms(tools.work_ms)} beside something else"),
        (tools.head_start_ms, f"{show_ms(tools.head_start_ms)} head start"),
        (tools.burst and calls > 1, "no head start, for the calls came in one burst"),
        (tools.waited_ms, f"{show_ms(tools.waited_ms)} waited{_waited_for(trace)}"),
        (tools.hits, f"{tools.hits} from the cache"),
        (tools.joins, f"{tools.joins} shared"),
        (tools.saved_ms, f"{show_ms(tools.saved_ms)} saved"),
        (tools.discarded, f"{tools.discarded} begun in vain"),
    ]
    told = [text for holds, text in parts if holds]
    return f"tools: {', '.join(told)}" if told else ""


def prefetch_line(trace: Trace) -> str:
    """What came of calls that were begun while the model was thinking; "" if there were none."""
    if not (told := trace.facts.get("prefetch")):
        return ""
    won = f", {show_ms(told['won_ms'])} won" if told["used"] else ""
    vain = f", {show_ms(told['wasted_ms'])} in vain" if told["used"] < told["started"] else ""
    return f"prefetch: {told['used']} of {told['started']} used{won}{vain}"


def output_line(trace: Trace) -> str:
    """What trouble there was with the form of the answer; "" if there was none."""
    told = [f"{name.replace('_', ' ')} {count}" for name, count in trace.facts.get("output", {}).items() if count]
    return f"output: {', '.join(told)}" if told else ""


def memory_line(trace: Trace) -> str:
    """What memory had for the request, "" if it was not asked."""
    told = trace.facts.get("memory", "")
    return told and f"memory: {one_line(told)}"


def context_line(trace: Trace) -> str:
    """What was left out of the prompts; "" if nothing was."""
    left_out = trace.facts.get("left_out", 0)
    told = [f"{counted(left_out, 'earlier turn')} not sent"] if left_out else []
    told += [
        f"{_how(each['how'])}, {each['tokens_before']:,} -> {each['tokens_after']:,} tokens"
        for each in trace.facts.get("compaction", ())
    ]
    return f"context: {', '.join(told)}" if told else ""


def _how(how: str) -> str:
    return "the beginning left out, for it could not be summarized" if how == "left out" else f"summarized {how}"


def cache_line(trace: Trace) -> str:
    """How much of each prompt the service had in its cache, as far as it tells; "" if it does not."""
    counts = ((facts.turn, facts.usage.cached_tokens, facts.usage.input_tokens) for facts in trace.turns)
    told = [f"{cached:,} of {whole:,} in turn {turn}" for turn, cached, whole in counts if None not in (cached, whole)]
    return f"cached tokens: {', '.join(told)}" if told else ""


def degraded_lines(trace: Trace) -> list[str]:
    """What the run did to save time, when, and why; a line each."""
    told = trace.facts.get("degraded", ())
    return [f"degraded at {show_ms(each['at_ms'])}: {one_line(each['what'])} ({each['why']})" for each in told]


def warning_lines(trace: Trace) -> list[str]:
    """What was noticed that costs this run or others, a line each."""
    return [f"warning: {one_line(told)}" for told in trace.facts.get("warnings", ())]


def _waited_for(trace: Trace) -> str:
    names = dict.fromkeys(call.waited_for for facts in trace.turns for call in facts.calls if call.waited_for)
    return f" for {one_line('; '.join(names))}" if names else ""


def budget_table(trace: Trace) -> str:
    """Stage, acceptable, actual, verdict, share; with what no stage owns in the last line."""
    rows = [("stage", "acceptable", "actual", "verdict", "share"), *map(_cells, trace.budget())]
    lines, rule = columns(rows, left=(0, 3))
    total = trace.end_to_end_ms
    share = trace.unattributed_ms / total if total else 0.0
    owned = f"unattributed {show_ms(trace.unattributed_ms)} ({share:.2%})"
    return "\n".join([lines[0], rule, *lines[1:-1], rule, lines[-1], owned])


def _is_drawn(stage: Stage, total: float) -> bool:
    if not _is_named(stage):
        return False
    return stage.kind == "tool" or (stage.end - stage.start) / NS_PER_MS >= _SMALL * total


def _is_named(stage: Stage) -> bool:
    """Whether it is work that a person would ask about, and not the loop's own."""
    return stage.kind in _MAIN or (stage.kind == "context" and bool(stage.note))


def _label(stage: Stage, trace: Trace) -> str:
    if stage.kind in _TOOL_KINDS:
        return stage.name + (f" ({stage.kind})" if stage.kind != "tool" else f" ({stage.note})" if stage.note else "")
    if stage.kind == "decode" and stage.note == UNKNOWN_FIRST:
        return "whole reply"
    if stage.kind == "decode" and any(facts.turn == stage.turn and facts.tools for facts in trace.turns):
        return "calls"
    if stage.kind == "queue" and stage.note.startswith("a place"):
        return "wait for a place"
    if stage.kind == "context":
        return f"{stage.name} ({stage.note})" if stage.name else stage.note
    return _LABELS.get(stage.kind, stage.kind)


def _remainder(trace: Trace, label: str, bar_width: int) -> str:
    drawn = sum(stage.end - stage.start for stage in trace.critical_path() if _is_named(stage))
    rest = ms(trace.end - trace.start - drawn)
    return f"{'':<7} {label} {'':<{bar_width}} {show_ms(max(rest, 0.0)):>12}"


def _bar(start: float, length: float, total: float, width: int) -> str:
    """A bar in eighths of a column; the shortest is one eighth, so that nothing disappears."""
    per_ms = width * 8 / total if total else 0
    begin, end = min(round(start * per_ms), width * 8 - 1), round((start + length) * per_ms)
    first = begin // 8
    filled = max(end - first * 8, 1) if begin % 8 == 0 else max(end - (first + 1) * 8, 0)
    lead = " " * first + ("▐" if begin % 8 else "")
    blocks = "█" * (filled // 8) + (_EIGHTHS[filled % 8] if filled % 8 else "")
    return f"{(lead + blocks)[:width]:<{width}}"


def _cells(row: BudgetRow) -> tuple[str, str, str, str, str]:
    acceptable = "-" if row.acceptable_ms is None else show_ms(row.acceptable_ms)
    return row.stage, acceptable, show_ms(row.actual_ms), row.verdict, f"{row.share:.1%}"


def columns(rows: Sequence[Sequence[str]], left: Container[int]) -> tuple[list[str], str]:
    """Each row as a line, with all columns to the right but those in `left`; and a rule as wide as they are."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        sized = enumerate(zip(row, widths, strict=True))
        cells = [f"{cell:<{size}}" if place in left else f"{cell:>{size}}" for place, (cell, size) in sized]
        lines.append("  ".join(cells).rstrip())
    return lines, "  ".join("─" * size for size in widths)


def _columns(text: str) -> int:
    """Columns on a terminal: Chinese characters take two."""
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)


def _fit(text: str, width: int) -> str:
    while _columns(text) > width:
        text = text[:-2] + "…"
    return text + " " * (width - _columns(text))
