"""`hotloop route`: learn which model is good enough for which prompt."""

from __future__ import annotations

from pathlib import Path

from hotloop.commands.console import plain_table, results, write_json
from hotloop.commands.options import Json
from hotloop.models.routing.records import good_enough, read_records
from hotloop.models.routing.training import Training, train
from hotloop.visible import one_line


def route(records: Path, /, *, out: Path, confidence: float = 0.7, as_json: Json = False) -> int:
    """Train a router's classifier from records of which route was right for which prompt.

    Example: hotloop route records.jsonl --out routes.json

    Parameters
    ----------
    records
        JSON lines with prompt, route and right, as `hotloop eval --records` writes them; the first route that was right
        for a prompt, in the order of the file, is the one to choose.
    out
        The classifier's file, for the router's `classifier`.
    confidence
        Below it the classifier abstains, and the router's default decides.
    as_json
        Print one object with what came of it instead.
    """
    known = read_records(records)
    labels = good_enough(known)
    training = train(labels, confidence)
    training.classifier.save(out)
    failed = {each.prompt for each in known if each.right is None} - labels.keys()
    lost = {each.prompt for each in known} - labels.keys() - failed
    if as_json:
        left_out = {"unanswered": len(lost), "failed": len(failed)}
        write_json({"out": str(out), "prompts": training.prompts, **left_out, "held_out": training.held_out})
    else:
        _tell(training, len(lost), len(failed), out)
    return 0


def _tell(training: Training, lost: int, failed: int, out: Path) -> None:
    console = results()
    counts = " · ".join(f"{count:,} for {one_line(name)}" for name, count in training.prompts.items())
    left_out = f" · {lost:,} left out: no route was right" if lost else ""
    left_out += f" · {failed:,} left out: a run failed" if failed else ""
    console.print(f"{sum(training.prompts.values()):,} prompts: {counts}{left_out}", markup=False, soft_wrap=True)
    table = plain_table("confidence", "decided", "right of these", numbers=3)
    for share in training.held_out:
        right = "-" if share.right is None else f"{share.right:.1%}"
        table.add_row(f"{share.confidence:.2f}", f"{share.decided:.1%}", right)
    console.print(table)
    size = out.stat().st_size / 1000
    console.print(
        f"[dim]Each prompt was judged by a classifier that had not seen it.[/] {one_line(str(out))} ({size:,.0f} kB) "
        f"decides from {training.classifier.confidence:g} on.",
        soft_wrap=True,
    )
