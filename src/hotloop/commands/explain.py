"""`hotloop explain`: where the time of recorded runs went, what is wrong with them, and what would help most."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter
from rich.console import Console
from rich.markup import escape

from hotloop.commands.console import (
    messages,
    moment,
    plain_table,
    results,
    show_marked,
    show_rows,
    write_json,
)
from hotloop.commands.options import Json, Name, Names
from hotloop.commands.selection import Selection
from hotloop.insight.candidates import Candidate, Proposal
from hotloop.insight.critical import CriticalPath
from hotloop.insight.doctor import finding_lines
from hotloop.insight.explanation import Explanation
from hotloop.insight.explanation import explain as explanation
from hotloop.insight.report import report_lines
from hotloop.lab.profilefile import load_profile
from hotloop.units import show_ms
from hotloop.visible import one_line
from hotloop.words import counted

_ANY = Selection()
_SERVICES = ("groqcloud-gpt-oss-120b", "groq3-lpx-gemma31b")
_ROWS = 12  # of the critical path: others have too little of it
_LEAST = 0.001  # of the time: a row below it is not shown


def explain(
    trace_id: Annotated[Name | None, Parameter(metavar="ID")] = None,
    /,
    *,
    selection: Selection = _ANY,
    service: Names | None = None,
    as_json: Json = False,
) -> int:
    """Explain the time of recorded runs: budget, critical path, diagnosis, and what would help most.

    Each change is predicted from the runs, which are scheduled anew with it, and comes with its cost and its setting.

    Example: hotloop explain --agent orders --since 2h

    Parameters
    ----------
    trace_id
        One run: its id, or how that begins. [default: all that are selected]
    service
        Predict what another service would bring: a profile of `hotloop sim --list`, or a file that `hotloop probe`
        wrote; repeat it for more. [default: two LPU-like ones]
    as_json
        Print one object instead.
    """
    services = [load_profile(name) for name in service or _SERVICES]
    with messages().status("Reading the runs") as status:
        records = list(selection.records(trace_id))
        status.update(f"Explaining {counted(len(records), 'run')}")
        found = explanation(records, services)
    if as_json:
        write_json(found.to_dict())
    else:
        show_explanation(results(), found)
    return 0


def show_explanation(console: Console, found: Explanation) -> None:
    """Print it for a person."""
    console.print(_of_what(found), markup=False, soft_wrap=True)
    console.print("\n[bold]Budget[/]\n")
    for line in report_lines(found.report):
        console.print(line, markup=False, soft_wrap=True)
    if found.path.rows:
        console.print("\n[bold]Critical path[/]: what the runs could not have ended without\n")
        _show_path(found.path)
    console.print("\n[bold]Diagnosis[/]\n")
    for finding in found.findings:
        first, *others = finding_lines(finding)
        show_marked(console, "[yellow]![/]", first, "bold")
        for line in others:
            console.print(line, markup=False, soft_wrap=True)
    if not found.findings:
        console.print("Nothing was found.")
    console.print("\n[bold]What would help[/]")
    for candidate in found.helps:
        _show_help(console, candidate, found.ours)
    if not found.helps:
        console.print("\nNo change that these runs give reason to ask about would save anything.")


def _of_what(found: Explanation) -> str:
    names = ", ".join(name or "a nameless agent" for name in found.agents)
    versions = ", ".join(filter(None, found.versions))
    of = f"{names}, version {versions}" if versions else names
    when = moment(found.since)
    when = when if found.runs == 1 else f"{when} to {moment(found.until)}"
    left_out = f"; {found.left_out:,} did not end well and count in budget and diagnosis only" if found.left_out else ""
    several = "; they are explained as if they were one: --agent chooses" if len(found.agents) > 1 else ""
    return one_line(f"{counted(found.runs, 'run')} of {of} · {when}{left_out}{several}")


def _show_path(path: CriticalPath) -> None:
    table = plain_table("stage", "", "share", "in the mean run", "p50", "p95", "runs", "to spare", numbers=6)
    for row in [each for each in path.rows if each.share >= _LEAST or each.kind == "tool"][:_ROWS]:
        times = (show_ms(row.mean_ms), show_ms(row.p50_ms), show_ms(row.p95_ms))
        spare = show_ms(row.slack_ms) if row.slack_ms else "-"
        table.add_row(row.kind, escape(one_line(row.name)), f"{row.share:.1%}", *times, f"{row.on_path:.0%}", spare)
    show_rows(table)


def _show_help(console: Console, candidate: Candidate, ours: bool) -> None:
    proposal, prediction = candidate
    console.print()
    times, bound = prediction.times, prediction.bound
    mark = "[green]+[/]" if times.saved.p50.value > 0 or times.saved.p95.value > 0 else "[red]-[/]"
    show_marked(console, mark, proposal.edit.label, "bold")
    told = []
    for name in ("p50", "p95"):
        before, after, saved = (getattr(each, name) for each in (times.before, times.after, times.saved))
        share = f" ({saved.value / before.value:.0%})" if before.value else ""
        least, most = show_ms(saved.low).removesuffix(" ms"), show_ms(saved.high)
        told.append(f"{show_ms(saved.value)}{share} at {name}, {least} to {most} in 90 %: {show_ms(after.value)} left")
    told.append(f"at best (Amdahl) {show_ms(bound.p50)} are left at p50, {show_ms(bound.p95)} at p95")
    lines = [("saves", told[0]), ("", told[1]), ("", told[2]), ("costs", proposal.cost)]
    lines += [("do", _what_to_do(proposal, ours))]
    lines += [("profile", f"{each.words or 'not said'} ({each.source})") for each in prediction.confidence]
    for label, text in lines:
        if text:
            console.print(f"  {label:<7} {text}", markup=False, soft_wrap=True)


def _what_to_do(proposal: Proposal, ours: bool) -> str:
    """In words, then with the settings of hotloop, which are none of the runs' own where it did not run them."""
    settings = " or ".join(filter(None, (proposal.python, proposal.yaml)))
    if not (settings and proposal.do):
        return proposal.do or settings
    return f"{proposal.do}: {settings}" if ours else f"{proposal.do}; in hotloop: {settings}"
