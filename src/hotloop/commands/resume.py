"""`hotloop resume`: runs that wait for a person's decisions, or were cut off after one; deciding and going on."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, TypeAlias

from cyclopts import Parameter

from hotloop.commands.answering import Answering
from hotloop.commands.asking import call_as_dict, login_name, show_call, undecided
from hotloop.commands.console import messages, moment, results, write_json
from hotloop.commands.options import Flag, Json, Name, Names
from hotloop.commands.telling import Manner, tell
from hotloop.events import RunPaused
from hotloop.fields import require
from hotloop.tools.approvals.store import ApprovalStore, DecidedCall, PausedRun
from hotloop.visible import one_line

Ids: TypeAlias = Annotated[Names | None, Parameter(metavar="ID")]


def resume(
    config: Path,
    run_id: str | None = None,
    /,
    *,
    approve: Ids = None,
    refuse: Ids = None,
    approve_all: Flag = False,
    refuse_all: Flag = False,
    reason: Annotated[str, Parameter(show_default=False, metavar="TEXT")] = "",
    by: Name | None = None,
    discard: Flag = False,
    as_json: Json = False,
) -> int:
    """Decide about the calls that a run waits for, and go on with it.

    Without RUN_ID it lists the runs that wait. A run goes on once all its calls are decided;
    on a terminal you are asked about those that are left. Only what has not run is run.

    Example: hotloop resume agent.yaml req-4f1c22a09b3e --approve call00002

    Parameters
    ----------
    config
        The agent's file; see docs/configuration.md.
    run_id
        The run, as it said when it paused.
    approve
        A call that may run; repeat it for more.
    refuse
        A call that may not.
    approve_all
        All calls may run that nobody has decided about.
    refuse_all
        None of them may.
    reason
        Why, for the record; of a refusal the model is told.
    by
        Who decides. [default: your login name]
    discard
        Give the run up instead: it is forgotten, with all that was decided.
    as_json
        Print one object, as run does, or with all runs.
    """
    manner = Manner(as_json, not as_json and sys.stdout.isatty(), not as_json)
    answering = Answering(config, manner, login_name() if by is None else by, reason)
    store = answering.agent.approvals
    chosen = _chosen(approve or [], refuse or [])
    others = _for_others(approve_all, refuse_all)
    decides = bool(chosen) or others is not None
    require(run_id is not None or not (decides or discard), "Say for which run, by its id after the file.")
    require(not (decides and discard), "A run that is given up needs no decisions; leave them out, or --discard.")
    if run_id is None:
        return _list(store, config, as_json)
    if discard:
        return _discard(store, run_id, as_json)
    _decide(store, run_id, chosen, others, answering.by, reason)
    left = undecided(store, run_id)
    ended = answering.decide(RunPaused(run_id, left, None)) if left else answering.go_on(run_id)
    return tell(ended, answering.manner, config)


def _chosen(approve: Sequence[str], refuse: Sequence[str]) -> dict[str, bool]:
    """Which calls are approved, and which are not."""
    both = sorted({*approve} & {*refuse})
    require(not both, f"Either approve or refuse {', '.join(both)}, not both.")
    return dict.fromkeys(approve, True) | dict.fromkeys(refuse, False)


def _for_others(approve_all: bool, refuse_all: bool) -> bool | None:
    """What is decided about calls that are not named; None for nothing."""
    require(not (approve_all and refuse_all), "Either --approve-all or --refuse-all, not both.")
    return approve_all if approve_all or refuse_all else None


def _decide(
    store: ApprovalStore, run_id: str, chosen: dict[str, bool], others: bool | None, by: str, reason: str
) -> None:
    """Put the decisions, all or none of them."""
    calls = store.load(run_id).calls
    digests = {each.call.call_id: each.call.digest for each in calls}
    left = [each.call.call_id for each in calls if each.decision is None]
    if others is not None:
        chosen = dict.fromkeys(left, others) | chosen
    # First those that are not to be decided any more, or never were: they change nothing, or are an error.
    for call_id in sorted(chosen, key=left.__contains__):
        store.decide(run_id, call_id, digests.get(call_id, ""), chosen[call_id], by, reason)


def _discard(store: ApprovalStore, run_id: str, as_json: bool) -> int:
    with store.lease(run_id):
        store.finish(run_id)
    if as_json:
        write_json({"discarded": run_id})
    else:
        messages().print(one_line(f"Run {run_id} is given up."), markup=False, soft_wrap=True)
    return 0


def _list(store: ApprovalStore, config: Path, as_json: bool) -> int:
    runs = store.runs()
    if as_json:
        write_json({"runs": [_as_dict(run) for run in runs]})
        return 0
    for run in runs:
        _show(run)
    console = results()
    hint = f"Go on with: hotloop resume {shlex.quote(str(config))} RUN_ID, with --approve ID or --refuse ID for each ?"
    console.print(hint if runs else f"No run waits in {store.path}.", style="dim", markup=False, soft_wrap=True)
    return 0


def _show(run: PausedRun) -> None:
    console = results()
    what = "waits" if any(each.decision is None for each in run.calls) else "can go on"
    told = " · ".join(part for part in (run.run_id, run.agent, f"{what} since {moment(run.paused_at)}") if part)
    console.print(one_line(told), style="bold", markup=False, soft_wrap=True)
    for each in run.calls:
        show_call(console, each.call, *_decided(each))
    console.print()


def _decided(call: DecidedCall) -> tuple[str, str]:
    """A mark for what was decided about a call, and the same in words."""
    if call.decision is None:
        return "[yellow]?[/]", ""
    mark, word = ("[green]✓[/]", "approved") if call.decision.approved else ("[red]✗[/]", "refused")
    by = f" by {call.decision.by}" if call.decision.by else ""
    reason = f": {call.decision.reason}" if call.decision.reason else ""
    return mark, f"{word}{by}{reason}{', and begun' if call.claimed else ''}"


def _as_dict(run: PausedRun) -> dict[str, object]:
    """A run that waits, ready for JSON."""
    calls = [call_as_dict(each.call) | {"decision": each.decision, "claimed": each.claimed} for each in run.calls]
    return {"run_id": run.run_id, "agent": run.agent, "paused_at": run.paused_at, "calls": calls}
