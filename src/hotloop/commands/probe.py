"""`hotloop probe`: measure a model service."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf
from typing import Annotated

import msgspec
from cyclopts import Parameter
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from hotloop.commands.console import messages, results, write_json
from hotloop.commands.launch import TO_REPORT, run_async
from hotloop.commands.options import Count, Duration, Json
from hotloop.commands.weights import have_weights
from hotloop.errors import ConfigError
from hotloop.lab.probe import PROMPT, Percentiles, ProbeReport, Sample, report_of
from hotloop.lab.probe import probe as measure
from hotloop.models.local.engine import SMOLLM2
from hotloop.trace.stats import percentile
from hotloop.units import show_ms
from hotloop.visible import one_line

_FORMULAS = (
    "ttft: first token - start of request · tpot: (last - first token) / (tokens - 1) · "
    "end to end: from the moment the request was due"
)


def probe(
    endpoint: str,
    /,
    *,
    model: str | None = None,
    n: Annotated[Count, Parameter(name=("-n", "--n"))] = 20,
    concurrency: Count = 1,
    prompt: str = PROMPT,
    max_tokens: Count = 64,
    timeout: Duration = 60.0,
    api_key: Annotated[str | None, Parameter(env_var="HOTLOOP_API_KEY")] = None,
    dialect: str | None = None,
    as_json: Json = False,
) -> int:
    """Measure a model service: first token, time per token, end to end, with percentiles.

    Example: hotloop probe https://api.groq.com/openai/v1 --model openai/gpt-oss-20b -n 50

    Parameters
    ----------
    endpoint
        Base URL of an OpenAI-compatible service, or "local" for the embedded model.
    model
        The service's name of the model. [default for local: smollm2]
    n
        How many requests.
    concurrency
        How many at a time.
    prompt
        What to ask each time.
    max_tokens
        Cap of each reply.
    timeout
        What a reply may take, like 10s.
    api_key
        Sent as a bearer token. [default: the service's usual variable, such as GROQ_API_KEY]
    dialect
        The service's ways, if its URL does not tell: openai, groq, vllm, sglang, llamacpp, ollama, dynamo ...
    as_json
        Print one object with all samples and percentiles instead.
    """
    asked = _model(endpoint, model)
    have_weights(endpoint, asked)
    options = {"max_tokens": max_tokens, "timeout": timeout, "api_key": api_key, "dialect": dialect}
    taken: list[Sample] = []
    try:
        with _bar(n, taken) as note:
            measuring = measure(
                endpoint, asked, prompt=prompt, requests=n, concurrency=concurrency, on_sample=note, **options
            )
            report = run_async(measuring, TO_REPORT)
    except KeyboardInterrupt:
        if taken:
            _tell(report_of(taken), endpoint, asked, f"{len(taken)} of {n}", concurrency, as_json=as_json)
        raise
    _tell(report, endpoint, asked, str(n), concurrency, as_json=as_json)
    lost = sum(report.failures.values())
    return 0 if not lost else 1 if lost < n else 2


def _model(endpoint: str, model: str | None) -> str:
    if model is None and endpoint != "local":
        raise ConfigError("A service needs the name of a model: --model NAME.")
    return model or SMOLLM2


@contextmanager
def _bar(requests: int, taken: list[Sample]) -> Iterator[Callable[[Sample], None]]:
    """A function that takes a sample down, and shows on a bar how many there are.

    The bar moves only between requests, so that drawing it does not disturb one that is being measured.
    """
    columns = (TextColumn("probing"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    console = messages()
    with Progress(
        *columns, console=console, transient=True, auto_refresh=False, disable=not console.is_terminal
    ) as progress:
        task = progress.add_task("", total=requests)
        drawn = time.monotonic()

        def note(sample: Sample) -> None:
            nonlocal drawn
            taken.append(sample)
            progress.advance(task)
            if time.monotonic() - drawn > 0.2:
                progress.refresh()
                drawn = time.monotonic()

        progress.refresh()
        yield note


def _tell(report: ProbeReport, endpoint: str, model: str, requests: str, concurrency: int, *, as_json: bool) -> None:
    if as_json:
        write_json({"endpoint": endpoint, "model": model, "concurrency": concurrency} | msgspec.to_builtins(report))
    else:
        _show(report, f"{endpoint} · {model} · {requests} requests, {concurrency} at a time")


def _show(report: ProbeReport, title: str) -> None:
    console = results()
    console.print(title, soft_wrap=True, markup=False)
    console.print(_table(report))
    console.print(_summary(report))
    for error, times in report.failures.items():
        console.print(f"[red]{times} failed:[/]", end=" ")
        console.print(one_line(error), markup=False)
    if report.buffered:
        console.print(
            f"[yellow]{report.buffered} buffered:[/] their tokens came all at once. Something between the model and "
            "here holds the stream back; such replies have no tpot, and their ttft is that of the whole reply."
        )
    console.print(f"[dim]{_FORMULAS}[/]")


def _table(report: ProbeReport) -> Table:
    table = Table("", "p50", "p95", "p99", box=None, pad_edge=False, header_style="bold", padding=(0, 3, 0, 0))
    for column in table.columns[1:]:
        column.justify = "right"
    table.add_row("ttft", *_times(report.ttft))
    table.add_row("tpot", *_times(report.tpot))
    table.add_row("end to end", *_times(report.end_to_end))
    table.add_row("output tokens", *_tokens(report.samples))
    if report.failures:
        table.add_row("ttft, with failures", *_times(report.adjusted_ttft))
        table.add_row("end to end, with failures", *_times(report.adjusted_end_to_end))
    return table


def _times(spread: Percentiles | None) -> list[str]:
    if spread is None:
        return ["-", "-", "-"]
    return ["never" if value == inf else show_ms(value) for value in (spread.p50, spread.p95, spread.p99)]


def _tokens(samples: list[Sample]) -> list[str]:
    counts = [sample.output_tokens for sample in samples if sample.output_tokens is not None]
    return [f"{percentile(counts, percent):.0f}" for percent in (50, 95, 99)] if counts else ["unknown"] * 3


def _summary(report: ProbeReport) -> str:
    complete = len(report.samples) - sum(report.failures.values())
    ready = "" if report.warm_ms is None else f" · ready after {show_ms(report.warm_ms)}"
    return f"{complete} of {len(report.samples)} complete · {report.output_tokens:,} tokens{ready}"
