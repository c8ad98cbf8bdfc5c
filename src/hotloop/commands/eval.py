"""`hotloop eval`: are the answers right, how long do they take, and what do they cost, by route."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from hotloop.commands.console import messages, results, write_json
from hotloop.commands.launch import TO_REPORT, run_async
from hotloop.commands.options import Count, Json, Names
from hotloop.config.arguments import agent_arguments
from hotloop.config.spec import load_spec
from hotloop.errors import ConfigError
from hotloop.lab.evaluation import (
    ROUTER,
    Candidate,
    Case,
    Outcome,
    Score,
    candidates,
    evaluate,
    load_cases,
    score,
)
from hotloop.units import show_ms
from hotloop.visible import one_line
from hotloop.words import counted, listed, short

Note = Callable[[Outcome], None]

_SHOWN = 10  # wrong answers that are told


def eval(
    cases: Path,
    /,
    *,
    agent: Path,
    route: Names | None = None,
    concurrency: Count = 1,
    records: Path | None = None,
    min_accuracy: float | None = None,
    as_json: Json = False,
) -> int:
    """Put questions with known answers to an agent: accuracy, time and cost, for each model of its router and for all.

    Exits with 1 if a run failed: how many is said apart from what was wrong.

    Example: hotloop eval cases.yaml --agent agent.yaml --records records.jsonl

    Parameters
    ----------
    cases
        A YAML or JSON list, or .jsonl, of prompts and what is right; see docs/eval.md.
    agent
        The agent's file.
    route
        A model of the router to be measured alone, or "router"; repeat it for more. [default: all of them]
    concurrency
        How many at a time.
    records
        Write which route was right for which prompt, as it comes, for `hotloop route` to learn from.
    min_accuracy
        Exit with 1 if the agent's share of right answers is lower, like 0.9.
    as_json
        Print one object with all outcomes and scores instead.
    """
    if min_accuracy is not None and not 0 <= min_accuracy <= 1:
        raise ConfigError(f"--min-accuracy is {min_accuracy:g}; give a share from 0 to 1.")
    questions = load_cases(cases)
    chosen = _chosen(candidates(agent_arguments(load_spec(agent))), route)
    with _written(records) as write:
        outcomes, interrupted = _measured(chosen, questions, concurrency, write)
        scores = [score(each) for each in outcomes]
        if as_json:
            write_json({"scores": scores, "outcomes": [each for some in outcomes for each in some]})
        elif scores:
            _tell(scores, outcomes)
    if interrupted:
        raise interrupted
    return 0 if _held(scores, min_accuracy or 0) else 1


def _held(scores: list[Score], least: float) -> bool:
    """Whether no run failed, and the agent (or each route, if its router is not among them) is right often enough."""
    gated = scores[-1:] if scores[-1].route == ROUTER else scores
    return not any(each.failed for each in scores) and all((each.accuracy or 0) >= least for each in gated)


def _chosen(all_of_them: list[Candidate], names: Sequence[str] | None) -> list[Candidate]:
    known = [each.route for each in all_of_them]
    for name in names or ():
        if name not in known:
            raise ConfigError(f"There is no route {name!r}; there are {listed(name, known)}.")
    return [each for each in all_of_them if names is None or each.route in names]


@contextmanager
def _written(path: Path | None) -> Iterator[Note]:
    """A function that writes an outcome of a model alone to the records at once."""
    if path is None:
        yield lambda outcome: None
        return
    try:
        file = path.open("wb", buffering=0)
    except OSError as error:
        raise ConfigError(f"The records cannot be written to {path}: {error.strerror}.") from None

    def write(outcome: Outcome) -> None:
        if outcome.route != ROUTER:
            file.write(msgspec.json.encode(outcome) + b"\n")

    with file:
        yield write


def _measured(
    chosen: list[Candidate], questions: list[Case], concurrency: int, write: Note
) -> tuple[list[list[Outcome]], KeyboardInterrupt | None]:
    """The outcomes by candidate, and what stopped it, if it was Ctrl-C; a candidate without any is left out."""
    measured: list[list[Outcome]] = []
    for candidate in chosen:
        came: list[Outcome] = []
        with _bar(candidate.route, len(questions)) as advance:

            def note(outcome: Outcome, came: list[Outcome] = came, advance: Note = advance) -> None:
                came.append(outcome)
                write(outcome)
                advance(outcome)

            try:
                came = run_async(_measure(candidate, questions, concurrency, note), TO_REPORT)
            except KeyboardInterrupt as interrupted:
                return [*measured, *filter(None, [came])], interrupted
        measured.append(came)
    return measured, None


async def _measure(candidate: Candidate, questions: list[Case], concurrency: int, note: Note) -> list[Outcome]:
    async with candidate.agent as agent:
        await agent.warm()
        return await evaluate(
            agent,
            questions,
            route=candidate.route,
            concurrency=concurrency,
            price=candidate.price,
            on_outcome=note,
        )


@contextmanager
def _bar(route: str, questions: int) -> Iterator[Note]:
    console = messages()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(one_line(route), total=questions)
        yield lambda _: progress.advance(task)


def _tell(scores: list[Score], outcomes: list[list[Outcome]]) -> None:
    console = results()
    console.print(_table(scores))
    failed = [each for some in outcomes for each in some if each.right is None]
    if failed:
        told = f"{counted(len(failed), 'run')} failed, which the accuracy leaves out; most often {_most_often(failed)}"
        console.print(f"\n{one_line(told)}", markup=False, soft_wrap=True)
    wrong = [each for each in outcomes[-1] if each.right is False]
    if wrong:
        console.print(f"\nwrong on {one_line(wrong[0].route)}:", markup=False)
    for each in wrong[:_SHOWN]:
        _tell_wrong(console, each)
    if len(wrong) > _SHOWN:
        console.print(f"... and {len(wrong) - _SHOWN:,} more; --json has them all", style="dim")


def _most_often(failed: list[Outcome]) -> str:
    """The first of the errors of the commonest kind: their words may differ in numbers."""
    kinds = [each.why.partition(":")[0] for each in failed]
    ((kind, _),) = Counter(kinds).most_common(1)
    return failed[kinds.index(kind)].why


def _tell_wrong(console: Console, outcome: Outcome) -> None:
    console.print(f"  {one_line(short(outcome.prompt))}", markup=False, soft_wrap=True)
    console.print(f"    {one_line(outcome.why)}", style="dim", markup=False, soft_wrap=True)


def _table(scores: list[Score]) -> Table:
    any_failed = any(each.failed for each in scores)
    failed, gap = (("failed",), 1) if any_failed else ((), 2)  # so that it fits into 80 columns
    table = Table("route", box=None, pad_edge=False, header_style="bold", padding=(0, gap, 0, 0))
    for heading in (*failed, "right", "accuracy", "p50", "p95", "tokens in", "out", "cost of 1,000"):
        table.add_column(heading, justify="right")
    for each in scores:
        table.add_row(one_line(each.route), *([f"{each.failed:,}"] if any_failed else []), *_numbers(each))
    return table


def _numbers(each: Score) -> list[str]:
    judged = each.cases - each.failed
    accuracy = "-" if each.accuracy is None else f"{each.accuracy:.1%}"
    times = ["-" if value is None else show_ms(value) for value in (each.p50_ms, each.p95_ms)]
    tokens = ["-" if value is None else f"{value:,}" for value in (each.input_tokens, each.output_tokens)]
    cost = "-" if each.cost is None else f"{1000 * each.cost / judged:,.4g}"
    return [f"{each.right} of {judged}", accuracy, *times, *tokens, cost]
