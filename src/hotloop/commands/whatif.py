"""`hotloop whatif`: what recorded runs would have taken, if something had been otherwise."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from rich.console import Console

from hotloop.commands.changes import Changes
from hotloop.commands.console import messages, plain_table, results, show_marked, show_rows, write_json
from hotloop.commands.options import Json
from hotloop.commands.selection import Selection
from hotloop.errors import ConfigError
from hotloop.fields import require
from hotloop.insight.edits import Cache, Edit, Service, ToolTime, Without
from hotloop.insight.whatif import Confidence, Prediction
from hotloop.insight.whatif import whatif as predict
from hotloop.insight.workload import Workload
from hotloop.units import show_ms
from hotloop.visible import one_line
from hotloop.words import counted, listed

_ANY = Selection()
_NOTHING = Changes()
_STAGES = ("approval", "cache", "connect", "context", "guard", "memory", "overhead", "queue")


def whatif(*, changes: Changes = _NOTHING, selection: Selection = _ANY, as_json: Json = False) -> int:
    """Predict what recorded runs would have taken on another service, or if their agent were run otherwise.

    The runs are scheduled anew with everything that is changed.

    Example: hotloop whatif --service groqcloud-llama70b --cache-seen 60s --last 1000

    Parameters
    ----------
    as_json
        Print one object instead.
    """
    edits = changes.edits()
    require(bool(edits), "Nothing is to be changed: say what, like --service groqcloud-llama70b or --max-parallel 8.")
    with messages().status("Scheduling the runs anew"):
        work = Workload.of(selection.records())
        _require_known(work, edits)
        prediction = predict(work, edits)
    if as_json:
        write_json(msgspec.to_builtins(prediction))
    else:
        show_prediction(results(), prediction)
    return 0


def _require_known(work: Workload, edits: Sequence[Edit]) -> None:
    """Raise ConfigError if there are no runs, or a tool or model is meant that none of them has."""
    if not work.graphs:
        failed = f" ({counted(work.left_out, 'run')} did not)" if work.left_out else ""
        raise ConfigError(f"No recorded run of these ended well{failed}: run the agent first, or choose other runs.")
    tools = {call.name for graph in work.graphs for turn in graph.turns for call in turn.calls}
    models = {ask.model for graph in work.graphs for ask in graph.asks}
    for edit in edits:
        if isinstance(edit, ToolTime | Cache) and edit.tool not in tools:
            raise ConfigError(f"No run has called a tool {edit.tool!r}; there are {listed(edit.tool, sorted(tools))}.")
        if isinstance(edit, Without) and edit.what not in (*_STAGES, *tools):
            known = listed(edit.what, [*_STAGES, *sorted(tools)])
            raise ConfigError(f"No run has any {edit.what!r} to be left out; there are {known}.")
        if isinstance(edit, Service) and edit.model is not None and edit.model not in models:
            raise ConfigError(
                f"No run has asked a model {edit.model!r}; there are {listed(edit.model, sorted(models))}."
            )


def show_prediction(console: Console, prediction: Prediction) -> None:
    """Print a prediction for a person: what is changed, before and after, what is assumed, what it is worth."""
    console.print(one_line(_of_what(prediction)), markup=False, soft_wrap=True)
    for label in prediction.edits:
        show_marked(console, "[cyan]·[/]", label)
    console.print()
    _show_times(prediction)
    if prediction.assumptions:
        console.print("\nassumed:", style="bold")
        for told in prediction.assumptions:
            show_marked(console, "[dim]·[/]", told, "dim")
    for profile in prediction.confidence:
        console.print()
        show_marked(console, "[dim]·[/]", _worth(profile), "dim")


def _worth(profile: Confidence) -> str:
    """Where a profile is from, and how far it can be trusted."""
    errors = ", ".join(f"{name} {error:.1%}" for name, error in profile.fit_error.items())
    off = f"; off what was measured by {errors}" if errors else ""
    source = profile.source or "nobody says where it is from"
    return f"{profile.profile}: {source}; confidence: {profile.words or 'not said'}{off}"


def _of_what(prediction: Prediction) -> str:
    runs = counted(prediction.of, "run")
    some = f", of which {prediction.runs:,} were scheduled anew" if prediction.runs < prediction.of else ""
    left_out = f"; {prediction.left_out:,} that did not end well are left out" if prediction.left_out else ""
    return f"{runs}{some}{left_out}. What if:"


def _show_times(prediction: Prediction) -> None:
    table = plain_table("", "before", "after", "90 % interval", "saved", "at best", numbers=5)
    times, bound = prediction.times, prediction.bound
    for name in ("p50", "p95", "mean"):
        before, after, saved = (getattr(figures, name) for figures in (times.before, times.after, times.saved))
        interval = f"{show_ms(after.low).removesuffix(' ms')} .. {show_ms(after.high)}"
        share = f"{saved.value / before.value:.0%}" if before.value else "-"
        cells = (show_ms(before.value), show_ms(after.value), interval, f"{show_ms(saved.value)} ({share})")
        table.add_row(name, *cells, show_ms(getattr(bound, name)))
    show_rows(table)
    results().print("at best: if what is changed took no time at all (Amdahl)", style="dim")
