"""`hotloop demo`: the order question on an embedded model, then on two simulated services."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Literal

import msgspec
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress

from hotloop.agent import Agent
from hotloop.budget import Budget
from hotloop.commands.comparison import NOTE, RUNS, Run, compare, comparison_table, conclusion, faster
from hotloop.commands.console import messages, results, show_trace, write_json
from hotloop.commands.launch import run_async
from hotloop.commands.options import Flag, Json
from hotloop.commands.screen import Screen, tell_if_cut, watch
from hotloop.commands.telling import as_dict, held
from hotloop.commands.weights import have_weights
from hotloop.errors import HotloopError
from hotloop.lab.orders import query_logistics, query_order_status
from hotloop.models.local.engine import SMOLLM2
from hotloop.runs import Result
from hotloop.tools.defining.tool import Tool
from hotloop.visible import one_line

_QUESTIONS = {
    "en": "What is the status of order 20250101, and where is it now (logistics)?",
    "zh": "查询订单 20250101 的状态，同时查一下物流信息",
}
_TOOLS = (query_order_status, query_logistics)
_BUDGET = Budget(total=15.0, model=14.0, tools=0.4, network=0.2, other=0.4)  # what a busy CPU may take


def demo(
    *,
    prompt: str | None = None,
    lang: Literal["en", "zh"] = "en",
    no_local: Flag = False,
    as_json: Json = False,
) -> int:
    """Ask an agent about an order: on an embedded model, then on simulated GPU-like and LPU-like services.

    Shows where the time went: timeline and budget, then what a faster chip, parallel tools and an early start bring.

    Example: hotloop demo --lang zh

    Parameters
    ----------
    prompt
        Another question; name an order by eight digits.
    lang
        Language of the question.
    no_local
        Leave out the embedded model, whose weights (93 MB) are fetched the first time.
    as_json
        Print one object with both parts instead.
    """
    question = prompt or _QUESTIONS[lang]
    console = Console(quiet=True) if as_json else results()
    console.print(f"[bold]?[/] {escape(one_line(question))}", soft_wrap=True)
    local = None if no_local else _ask_local(question, console)
    runs = _ask_services(question, console)
    if as_json:
        write_json(_as_dict(question, local, runs))
    return int(isinstance(local, HotloopError) or (local is not None and not held(local.trace)))


def _ask_local(question: str, console: Console) -> Result | HotloopError:
    """The answer of the embedded model, shown as it comes; or why there is none."""
    console.print("\n[bold]1 · SmolLM2 (135M), embedded, on this machine's CPU[/]\n")
    try:
        have_weights("local", SMOLLM2)
        result = run_async(_answer(question, quiet=console.quiet))
    except HotloopError as error:
        why = escape(one_line(str(error)))
        messages().print(f"[red]error:[/] The embedded model cannot answer. {why}", soft_wrap=True)
        return error
    tell_if_cut(result)
    show_trace(console, result.trace)
    return result


async def _answer(question: str, *, quiet: bool) -> Result:
    async with _agent("local", model=SMOLLM2, budget=_BUDGET) as agent:
        with Screen(answer=not quiet, status=not quiet) as screen:
            await agent.warm()
            return await watch(agent, question, screen)


def _ask_services(question: str, console: Console) -> list[Run]:
    console.print("\n[bold]2 · The same agent on two simulated services[/]\n")
    terminal = messages()
    # The bar moves only between runs, so that drawing it takes no time from them.
    with Progress(console=terminal, transient=True, auto_refresh=False, disable=not terminal.is_terminal) as progress:
        bar = progress.add_task("runs", total=RUNS)

        def step() -> None:
            progress.advance(bar)
            progress.refresh()

        progress.refresh()
        # An early start only hides the work of calls before the last one, so the slower tool comes first.
        make = partial(_agent, tools=(query_logistics, query_order_status))
        runs = run_async(compare(make, question, step))
    console.print(comparison_table(runs))
    console.print(f"\n{conclusion(runs)}\n\n[dim]{NOTE}[/]")
    return runs


def _agent(endpoint: str, *, model: str = "simulated", tools: Sequence[Tool] = _TOOLS, **options: Any) -> Agent:
    """An agent of the demo; among the runs of real ones its own have no place."""
    how: dict[str, Any] = {"instructions": "You are an order assistant.", "tools": tools, "traces": False}
    return Agent(model=model, endpoint=endpoint, **how, **options)


def _as_dict(question: str, local: Result | HotloopError | None, runs: list[Run]) -> dict[str, object]:
    if isinstance(local, HotloopError):
        shown: dict[str, object] | None = {"error": str(local)}
    else:
        shown = None if local is None else as_dict(local)
    services = [msgspec.to_builtins(run) | {"faster": round(faster(run, runs), 2)} for run in runs]
    return {"question": question, "local": shown, "services": services, "conclusion": conclusion(runs)}
