"""`hotloop probe`: what a model service can do and how fast it is."""

from __future__ import annotations

import os
import time
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from hotloop.commands.console import messages
from hotloop.commands.findings import show_answers, show_report, write_answers, write_report
from hotloop.commands.launch import TO_REPORT, run_async
from hotloop.commands.options import Count, Duration, Flag, Json
from hotloop.commands.weights import have_weights
from hotloop.errors import ConfigError
from hotloop.lab.probing.measuring import Measured, Note
from hotloop.lab.probing.plan import FULL, QUICK, Cell, cost
from hotloop.lab.probing.probe import Probe
from hotloop.lab.profilefile import save_profile
from hotloop.models.local.engine import SMOLLM2
from hotloop.models.model import Model

PROMPT = "Count from one to fifty in words, separated by spaces."


def probe(
    endpoint: str,
    /,
    *,
    model: str | None = None,
    quick: Flag = False,
    out: Path | None = None,
    n: Annotated[Count | None, Parameter(name=("-n", "--n"))] = None,
    concurrency: Count | None = None,
    prompt: str | None = None,
    max_tokens: Count | None = None,
    timeout: Duration = 60.0,
    api_key: Annotated[str | None, Parameter(env_var="HOTLOOP_API_KEY")] = None,
    dialect: str | None = None,
    as_json: Json = False,
) -> int:
    """Find out what a model service can do and how fast it is.

    It asks, measures up to 100 requests at once, and fits a profile that hotloop sim takes.

    With -n, --concurrency, --prompt or --max-tokens it asks one question again and again instead.

    Example: hotloop probe https://api.groq.com/openai/v1 --model openai/gpt-oss-20b --out groq.yaml

    Parameters
    ----------
    endpoint
        Base URL of an OpenAI-compatible service, or "local" for the embedded model.
    model
        The service's name of the model. [default for local: smollm2]
    quick
        Measure a tenth of it.
    out
        File for the profile, for hotloop sim.
    n
        How many times to ask one question. [default: 20]
    concurrency
        How many at a time. [default: 1]
    prompt
        The question.
    max_tokens
        Cap of each of its answers. [default: 64]
    timeout
        What a reply may take, like 10s.
    api_key
        Sent as a bearer token. [default: the service's usual variable, such as GROQ_API_KEY]
    dialect
        The service's ways, if its URL does not tell: openai, groq, vllm, sglang, llamacpp, ollama, dynamo ...
    as_json
        Print one object with all samples instead.
    """
    asked = Model(name=_name(endpoint, model), endpoint=endpoint, api_key=api_key, dialect=dialect)
    question = (n, concurrency, prompt, max_tokens) != (None, None, None, None)
    if question and (quick or out):
        raise ConfigError(
            "A profile takes more than one question: leave -n, --concurrency, --prompt and --max-tokens out, "
            "or --quick and --out."
        )
    if not timeout:
        raise ConfigError("No reply comes in no time: give --timeout more than 0s, or leave it out.")
    have_weights(endpoint, asked.name)
    if question:
        cell = Cell("question", 0, n or 20, concurrency or 1, max_tokens or 64, question=prompt or PROMPT)
        return _ask(asked, cell, timeout, as_json=as_json)
    return _probe(asked, QUICK if quick else FULL, timeout, out, as_json=as_json)


def _name(endpoint: str, model: str | None) -> str:
    if model is None and endpoint != "local":
        raise ConfigError("A service needs the name of a model: --model NAME.")
    return model or SMOLLM2


def _ask(model: Model, cell: Cell, timeout: float, *, as_json: bool) -> int:
    """Ask one question; 0 if every answer was complete, 2 if none was."""
    probe = Probe(model, timeout=timeout)
    with _bar([cell]) as note:
        interrupted = _until_interrupted(_measure(probe, cell, note))
    if measured := next((each for each in probe.found if each.samples), None):
        (write_answers if as_json else show_answers)(model, measured, probe.ready_ms)
    if interrupted:
        raise interrupted
    complete = len(measured.complete) if measured else 0
    return 2 if not complete else int(complete < cell.requests)


async def _measure(probe: Probe, cell: Cell, note: Note) -> None:
    async with probe:
        await probe.measure([cell], note)


def _probe(model: Model, cells: Sequence[Cell], timeout: float, out: Path | None, *, as_json: bool) -> int:
    """Find out everything; 0 if nothing failed, 2 if not even a profile could be fitted."""
    if out:
        _require_writable(out)
    probe = Probe(model, timeout=timeout)
    messages().print(_estimate(cells), soft_wrap=True)
    with _bar(cells) as note:
        interrupted = _until_interrupted(_run(probe, cells, note))
    report = probe.report(replayed=not interrupted)
    if out and report.fit:
        save_profile(report.fit.profile, out)
    if report.abilities:
        (write_report if as_json else show_report)(report, out)
    if interrupted:
        raise interrupted
    return 2 if report.fit is None else int(any(map(_has_failed, report.cells)))


def _require_writable(out: Path) -> None:
    if out.is_dir() or not os.access(out.parent, os.W_OK):
        raise ConfigError(
            f"The profile cannot be written to {out}: that is a folder, or there is none to write it into."
        )


async def _run(probe: Probe, cells: Sequence[Cell], note: Note) -> None:
    async with probe:
        await probe.run(cells, note)


def _until_interrupted(work: Coroutine[Any, Any, None]) -> KeyboardInterrupt | None:
    """Do this work; what stopped it, if it was Ctrl-C."""
    try:
        run_async(work, TO_REPORT)
    except KeyboardInterrupt as interrupted:
        return interrupted
    return None


def _estimate(cells: Sequence[Cell]) -> str:
    requests, read, written = cost(cells)
    return (
        f"About {requests:,} requests, {read:,} tokens to read and at most {written:,} to write. "
        "Ctrl-C stops and shows what was found by then."
    )


def _has_failed(measured: Measured) -> bool:
    """Whether something went wrong; that the service refuses a request is a finding."""
    return not measured.refused and (bool(measured.stopped) or len(measured.complete) < len(measured.samples))


@contextmanager
def _bar(cells: Sequence[Cell]) -> Iterator[Note]:
    """A function that shows on a bar what is being measured and how much of all that is.

    The bar moves only between requests, and seldom, so that drawing it does not disturb what is measured.
    """
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = messages()
    before = {cell: sum(each.total for each in cells[:place]) for place, cell in enumerate(cells)}
    with Progress(
        *columns, console=console, transient=True, auto_refresh=False, disable=not console.is_terminal
    ) as progress:
        task = progress.add_task("what it can do", total=sum(cell.total for cell in cells))
        drawn = 0.0

        def note(cell: Cell, ended: int) -> None:
            nonlocal drawn
            progress.update(task, description=cell.title, completed=before[cell] + ended)
            if not ended or time.monotonic() - drawn > 0.2:
                progress.refresh()
                drawn = time.monotonic()

        progress.refresh()
        yield note
