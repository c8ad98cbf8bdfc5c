"""`hotloop trace`: the runs that were recorded, for whoever wants to know what they were."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

import msgspec
from cyclopts import App, Parameter
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from hotloop.commands.asking import confirmed
from hotloop.commands.console import (
    messages,
    moment,
    plain_table,
    results,
    show_rows,
    show_trace,
    write_json,
)
from hotloop.commands.conversation import show_words
from hotloop.commands.exchange import export, import_
from hotloop.commands.options import Flag, Json, Name
from hotloop.commands.receive import receive
from hotloop.commands.selection import Selection
from hotloop.fields import require
from hotloop.models.routing.routed import RouteFacts
from hotloop.trace.record import TraceRecord
from hotloop.trace.store import TraceInfo, Which
from hotloop.trace.trace import Trace
from hotloop.units import NS_PER_MS, ms, show_ms
from hotloop.visible import one_line
from hotloop.words import counted

_HELP = """Look into the runs that were recorded: list them, see where the time went, hand them out, delete them.

Example: hotloop trace show"""

_LISTED = 50  # runs, where nobody says how many
_NUMBERS = ("turns", "in", "out", "took")
_ANY = Selection()

trace = App(name="trace", help=_HELP)
trace.command(export)
trace.command(import_, name="import")
trace.command(receive)


@trace.command(name="list")
def list_(*, selection: Selection = _ANY, as_json: Json = False) -> int:
    """List runs, the latest first: whose they were, how long they took, how they ended.

    Example: hotloop trace list --agent orders --since 2h --slow 1s

    Parameters
    ----------
    as_json
        Print one object with all of them instead.
    """
    store, which = selection.store(), selection.which()
    if as_json:
        runs = [_as_dict(info) for info in reversed(store.infos(which))]
        write_json({"path": str(store.path), "missed": store.count_missed(), "runs": runs})
        return 0
    infos = store.infos(msgspec.structs.replace(which, limit=which.limit or _LISTED + 1))
    shown = infos if which.limit else infos[-_LISTED:]
    if shown:
        show_rows(_table(shown[::-1]))
    else:
        results().print(one_line(selection.told_missing(store)), style="dim", markup=False, soft_wrap=True)
    if len(shown) < len(infos):
        messages().print(f"[dim]Only the last {_LISTED} are listed; --last N lists more.[/]")
    if missed := store.count_missed():
        told = f"{counted(missed, 'more run')} ended faster than they could be recorded."
        messages().print(told, style="yellow", soft_wrap=True)
    return 0


@trace.command
def show(run: Name | None = None, /, *, selection: Selection = _ANY, as_json: Json = False) -> int:
    """Show where the time of a run went, as `hotloop run` does.

    Example: hotloop trace show --failed

    Parameters
    ----------
    run
        Its id, or how it begins. [default: the latest that is selected]
    as_json
        Print one object with everything that is known instead.
    """
    record = _found(selection, run)
    if as_json:
        write_json(_whole(record))
    else:
        _show(results(), record)
    return 0


@trace.command
def delete(
    run: Name | None = None,
    /,
    *,
    selection: Selection = _ANY,
    all_runs: Annotated[Flag, Parameter(name="--all")] = False,
    yes: Flag = False,
    as_json: Json = False,
) -> int:
    """Delete a run, or those that are selected, with everything that is kept of them.

    Example: hotloop trace delete --agent orders --until 2026-01-01

    Parameters
    ----------
    run
        Its id, or how it begins.
    all_runs
        All runs instead.
    yes
        Do not ask.
    as_json
        Print one object with how many were deleted instead.
    """
    store, which = selection.store(), selection.which()
    given = [run is not None, which != Which(), all_runs]
    require(sum(given) == 1, "Give the id of a run, or options that say which runs, or --all.")
    if run is not None:
        which = Which(trace_id=store.resolve(run))
    infos = store.infos(which)
    what = f"run {infos[0].trace_id}" if run is not None else counted(len(infos), "run")
    if infos and not yes and not confirmed(f"Delete {what} in {store.path}?"):
        messages().print("Nothing was deleted.")
        return 1
    deleted = store.delete(which)
    if as_json:
        write_json({"path": str(store.path), "deleted": deleted})
    else:
        messages().print(one_line(f"Deleted: {what}."), markup=False, soft_wrap=True)
    return 0


def _found(selection: Selection, run: str | None) -> TraceRecord:
    """The run with this id, or the latest of those that are selected. Raises ConfigError if there is none."""
    if run is not None or selection.which() == Which():
        return selection.store().get(run)
    return next(replace(selection, last=1).records())


def _table(infos: list[TraceInfo]) -> Table:
    """A row for each run; of what is the same for all because nobody has said it, there is no column."""
    rows = [_cells(info) for info in infos]
    shown = [name for name in rows[0] if any(row[name] for row in rows)]
    table = plain_table(*shown, numbers=sum(name in _NUMBERS for name in shown))
    for row in rows:
        table.add_row(*(row[name] or "-" for name in shown))
    return table


def _cells(info: TraceInfo) -> dict[str, str]:
    source = "" if info.source == "hotloop" else info.source
    names = {"agent": info.agent, "version": info.version, "session": info.session, "source": source}
    tokens = {"in": info.input_tokens, "out": info.output_tokens}
    ended = escape(_ended(info))
    return {
        "when": moment(info.started),
        "run": escape(one_line(info.trace_id)),
        **{what: escape(one_line(name)) for what, name in names.items()},
        "ended": f"[red]{ended}[/]" if info.outcome == "failed" else ended,
        "turns": f"{info.turns:,}",
        **{what: "" if count is None else f"{count:,}" for what, count in tokens.items()},
        "took": show_ms(info.took / NS_PER_MS),
    }


def _ended(run: TraceInfo | TraceRecord) -> str:
    return one_line(f"{run.outcome}: {run.error}") if run.error else run.outcome


def _show(console: Console, record: TraceRecord) -> None:
    named = (("agent", record.name), ("version", record.version), ("session", record.session))
    whose = [f"{what} {name}" for what, name in named if name]
    of = [] if record.source == "hotloop" else [f"of {record.source}"]
    head = " · ".join([moment(record.started), *whose, *of, _ended(record)])
    console.print(one_line(head), style="bold", markup=False, soft_wrap=True)
    _show_said(console, record)
    show_trace(console, Trace(_with_routes(record)))


def _show_said(console: Console, record: TraceRecord) -> None:
    """What was said, if that was recorded."""
    if record.prompt is not None and record.prompt.text is not None:
        show_words(console, "user", record.prompt.text)
    for call in (call for facts in record.turns for call in facts.calls):
        said = record.said.get(call.call_id)
        if said is not None and said.text is not None:
            show_words(console, "call", f"{call.name} {said.text}")
            show_words(console, "result", said.result or "")
    if record.answer is not None and record.answer.text is not None:
        show_words(console, "model", record.answer.text)


def _with_routes(record: TraceRecord) -> TraceRecord:
    """The record with its routes as a ledger has them."""
    if "routes" not in record.facts:
        return record
    routes = msgspec.convert(record.facts["routes"], list[RouteFacts])
    return msgspec.structs.replace(record, facts={**record.facts, "routes": routes})


def _whole(record: TraceRecord) -> dict[str, Any]:
    """All that is known of a run, ready for JSON: times in milliseconds from its start."""
    named = {name: getattr(record, name) for name in ("version", "session", "source", "outcome", "error")}
    said = {"prompt": record.prompt, "calls": record.said, "answer": record.answer}
    return Trace(record).to_dict() | named | {"said": said, "offered": record.tools}


def _as_dict(info: TraceInfo) -> dict[str, Any]:
    shown = msgspec.structs.asdict(info)
    return shown | {"took_ms": ms(shown.pop("took"))}
