"""What a probe has found, on the screen and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from pathlib import Path
from statistics import median

import msgspec
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from hotloop.commands.console import plain_table, results, write_json
from hotloop.lab.probing.abilities import Ability
from hotloop.lab.probing.fitting import Fit
from hotloop.lab.probing.measuring import Measured
from hotloop.lab.probing.probe import ProbeReport
from hotloop.lab.probing.replay import Replayed
from hotloop.lab.probing.report import Percentiles, Summary, summary
from hotloop.lab.probing.samples import Sample
from hotloop.lab.profiles import Curve
from hotloop.models.model import Model
from hotloop.trace.stats import percentile
from hotloop.units import show_ms
from hotloop.visible import one_line

_FORMULAS = (
    "ttft: first token - start of request · tpot: (last - first token) / (tokens - 1) · "
    "end to end: start of request to end of reply"
)
_COLOURS = {"yes": "green", "no": "red", "unknown": "yellow"}
_KINDS = {"gpu": "replies slow each other down", "lpu": "replies do not slow each other down"}
_UNTOLD = "a guess; whether replies slow each other down is lost in the noise, or was not seen"
_JITTER = {"gpu": "from token to token", "lpu": "from reply to reply"}
_BUSY = 0.8  # of the time: then it is this process that is measured


def show_report(report: ProbeReport, out: Path | None) -> None:
    """Everything that a person reads of a probe; `out` is where its profile was written."""
    console = results()
    console.print(f"{report.service} · {report.model} · dialect {report.dialect}", soft_wrap=True, markup=False)
    console.print()
    console.print(_abilities(report.abilities))
    if any(measured.samples for measured in report.cells):
        console.print()
        console.print(_cells(report.cells))
    for line in _remarks(report.cells):
        console.print(line, soft_wrap=True)
    console.print()
    if report.fit is None:
        console.print(f"No profile: {report.why_not}", soft_wrap=True, markup=False)
    else:
        _show_fit(console, report.fit, report.replayed, out)


def write_report(report: ProbeReport, out: Path | None) -> None:
    """Everything, as one JSON object."""
    shown = msgspec.to_builtins(report)
    for cell, measured in zip(shown["cells"], report.cells, strict=True):
        cell["summary"] = msgspec.to_builtins(summary(measured.asked))
    write_json(shown)


def show_answers(model: Model, measured: Measured, ready_ms: float) -> None:
    """How fast one question was answered."""
    console, cell, told = results(), measured.cell, summary(measured.samples)
    asked = str(cell.requests) if told.requests == cell.requests else f"{told.requests} of {cell.requests}"
    title = f"{model.where} · {model.name} · {asked} requests, {cell.at_once} at a time"
    console.print(title, soft_wrap=True, markup=False)
    console.print(_percentiles(told, measured.samples))
    ready = f" · ready after {show_ms(ready_ms)}"
    console.print(f"{told.complete} of {told.requests} complete · {told.output_tokens:,} tokens{ready}")
    for error, times in told.failures.items():
        console.print(f"[red]{times} failed:[/]", end=" ")
        console.print(one_line(error), markup=False)
    if told.buffered:
        console.print(_buffered(told.buffered))
    console.print(f"[dim]{_FORMULAS}[/]")


def write_answers(model: Model, measured: Measured, ready_ms: float) -> None:
    """The same with every sample, as one JSON object."""
    about = {"service": model.where, "model": model.name, "concurrency": measured.cell.at_once}
    told = msgspec.to_builtins({"warm_ms": ready_ms, "samples": measured.samples})
    write_json(about | told | msgspec.to_builtins(summary(measured.samples)))


def _abilities(found: list[Ability]) -> Table:
    table = plain_table("what it can do", "", "")
    for ability in found:
        colour = _COLOURS[ability.found]
        table.add_row(ability.name, f"[{colour}]{ability.found}[/]", escape(one_line(ability.why)))
    return table


def _cells(cells: list[Measured]) -> Table:
    table = plain_table("milliseconds", "ttft p50", "p95", "tpot p50", "p95", "p99", numbers=5)
    for measured in cells:
        if measured.samples:
            told = summary(measured.asked)
            table.add_row(measured.cell.title, *_numbers(told.ttft)[:2], *_numbers(told.tpot))
    return table


def _remarks(cells: list[Measured]) -> Iterator[str]:
    """What is to be known before these numbers are believed."""
    for measured in cells:
        title, told = measured.cell.title, summary(measured.asked)
        if measured.cell.kind == "steady" and told.tpot:
            yield f"{title}: {told.stragglers} took more than three times as long as usual"
        for error, times in told.failures.items():
            yield f"[red]{title}: {times} of {told.requests} failed:[/] {escape(one_line(error))}"
        if measured.stopped and measured.stopped not in told.failures:
            yield f"[yellow]{title}:[/] {escape(one_line(measured.stopped))}"
        if told.buffered:
            came = "1 reply came" if told.buffered == 1 else f"{told.buffered} replies came"
            yield f"[yellow]{title}:[/] {came} all at once, held back on the way, and without a tpot"
        if measured.busy > _BUSY:
            yield (
                f"[yellow]{title}:[/] this machine was busy {measured.busy:.0%} of the time; "
                "it is part of what was measured."
            )


def _show_fit(console: Console, fitted: Fit, replayed: list[Replayed], out: Path | None) -> None:
    table = plain_table("as a profile", "")
    for name, told in _described(fitted):
        table.add_row(name, told)
    console.print(table)
    if replayed:
        console.print(_again(replayed), soft_wrap=True)
    written = (
        f"Written to {out}; simulate it with: hotloop sim {out}" if out else "--out FILE keeps it for hotloop sim."
    )
    console.print(written, soft_wrap=True, markup=False)


def _described(fitted: Fit) -> Iterator[tuple[str, str]]:
    profile, looked = fitted.profile, fitted.looked
    yield "kind", f"{profile.kind}: {_KINDS[profile.kind] if looked.kind_told else _UNTOLD}"
    yield "first token", f"{show_ms(profile.base_ms)} + {profile.per_prompt_token_ms:.3g} ms for each prompt token"
    if profile.rtt_ms:
        yield "  round trip", f"+ {show_ms(profile.rtt_ms)}"
    if told := _growth(profile.wait_ms):
        yield "  c others are running", f"{told.strip()} ms"
    tokens = _growth(profile.tpot_ms)
    yield "each token after it", f"{profile.tpot_ms.a:.3g}{tokens} ms" + (" for c replies at once" if tokens else "")
    if profile.interference:
        yield "  a prompt is being read", f"{profile.interference:.0%} slower"
    queue = "" if profile.queue is None else f"; {profile.queue} more may wait"
    yield "replies at once", _no_limit(looked.at_once) if profile.slots is None else f"{profile.slots}{queue}"
    yield "prefix cache", f"in blocks of {profile.cache_block} tokens" if profile.cache_block else "none seen"
    after = f"{profile.decode_sigma:.0%} {_JITTER[profile.kind]}"
    yield "jitter", f"{profile.queue_sigma:.0%} before the first token, {after}"
    yield "confidence", profile.confidence


def _no_limit(at_once: int) -> str:
    return f"no limit seen up to {at_once} at once" if at_once > 1 else "only one at a time was seen"


def _growth(curve: Curve) -> str:
    return "".join(f" + {factor:.3g} {power}" for factor, power in ((curve.b, "c"), (curve.d, "c²")) if factor)


def _again(replayed: list[Replayed]) -> str:
    told = []
    for name, pairs in (
        ("ttft", [(each.ttft_ms, each.simulated_ttft_ms) for each in replayed]),
        ("tpot", [(each.tpot_ms, each.simulated_tpot_ms) for each in replayed]),
    ):
        apart = [abs(simulated / real - 1) for real, simulated in pairs if real and simulated]
        if apart:
            told.append(f"{name} {median(apart):.0%} (at most {max(apart):.0%})")
    return f"All of this simulated with the profile: medians differ by {', '.join(told)}."


def _percentiles(told: Summary, samples: list[Sample]) -> Table:
    table = plain_table("", "p50", "p95", "p99", numbers=3)
    table.add_row("ttft", *_times(told.ttft))
    table.add_row("tpot", *_times(told.tpot))
    table.add_row("end to end", *_times(told.end_to_end))
    table.add_row("output tokens", *_tokens(samples))
    if told.failures:
        table.add_row("ttft, with failures", *_times(told.adjusted_ttft))
        table.add_row("end to end, with failures", *_times(told.adjusted_end_to_end))
    return table


def _times(spread: Percentiles | None) -> list[str]:
    if spread is None:
        return ["-", "-", "-"]
    return ["never" if value == inf else show_ms(value) for value in (spread.p50, spread.p95, spread.p99)]


def _numbers(spread: Percentiles | None) -> list[str]:
    return [time.removesuffix(" ms") for time in _times(spread)]


def _tokens(samples: list[Sample]) -> list[str]:
    counts = [sample.output_tokens for sample in samples if sample.output_tokens is not None]
    return [f"{percentile(counts, percent):.0f}" for percent in (50, 95, 99)] if counts else ["unknown"] * 3


def _buffered(replies: int) -> str:
    return (
        f"[yellow]{replies} buffered:[/] their tokens came all at once. Something between the model and here holds the "
        "stream back; such replies have no tpot, and their ttft is that of the whole reply."
    )
