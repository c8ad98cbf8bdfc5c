"""`hotloop trace receive`: traces that agents of other frameworks send are kept."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Annotated, TypeAlias

import msgspec
from cyclopts import Parameter, validators

from hotloop.commands.console import messages
from hotloop.commands.options import Duration, Flag
from hotloop.commands.selection import StoreFile
from hotloop.errors import HotloopError
from hotloop.trace.importing.gathering import Gathering
from hotloop.trace.importing.span import Span
from hotloop.trace.record import TraceRecord
from hotloop.trace.store import TraceStore
from hotloop.units import show_span
from hotloop.visible import one_line
from hotloop.words import counted

Port: TypeAlias = Annotated[int, Parameter(validator=validators.Number(gte=0, lte=65535))]

_OFTEN = 0.2  # seconds between two looks for traces that are complete
_HOW = """
Traces that are sent there are kept in {store}; Ctrl-C ends it. Have an agent send its own:

  OTEL_EXPORTER_OTLP_ENDPOINT={url} OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf python agent.py
"""


class _Kept(msgspec.Struct):
    runs: int = 0
    spans: int = 0
    nothing: int = 0  # traces without a run
    lost: int = 0  # traces that could not be kept


def receive(
    *,
    port: Port = 4318,
    host: str = "127.0.0.1",
    path: StoreFile = None,
    content: Flag = False,
    settle: Duration = 5.0,
) -> int:
    """Receive OpenTelemetry traces of any agent (OTLP over HTTP) and keep their runs, until Ctrl-C.

    A trace is kept when its root has ended and nothing more of it comes.

    Example: hotloop trace receive --store shop.db

    Parameters
    ----------
    port
        0 takes a free one.
    host
        Address to listen on.
    path
        The file to keep runs in. [default: the one in your state folder]
    content
        Keep what was said, too, where it was sent, without secrets.
    settle
        How long nothing more may have come of a trace before it is kept.
    """
    from hotloop.trace.importing.endpoint import PATH
    from hotloop.trace.importing.receiver import Receiver

    kept, traces = _Kept(), TraceStore(path)
    gathering = Gathering(settle)
    with _stopping() as stop, Receiver(gathering, host, port) as receiver:
        print(f"{receiver.url}{PATH}", flush=True)
        messages().print(_HOW.format(store=traces.path, url=receiver.url), markup=False, soft_wrap=True)
        while not stop.wait(_OFTEN):
            _keep(gathering.due(), traces, content, kept)
    _keep(gathering.complete(), traces, content, kept)
    traces.close()
    messages().print(_summary(kept, gathering), markup=False, soft_wrap=True)
    return 0


@contextmanager
def _stopping() -> Iterator[threading.Event]:
    """What Ctrl-C, or the signal that `kill` sends, sets."""
    stop = threading.Event()

    def ask(number: int, frame: FrameType | None) -> None:
        stop.set()

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _keep(due: Sequence[tuple[str, list[Span]]], traces: TraceStore, content: bool, kept: _Kept) -> None:
    """Keep the runs of these traces, and say so; one that cannot be kept costs itself only."""
    for trace_id, spans in due:
        try:
            runs = _stored(trace_id, spans, traces, content)
        except Exception as error:  # whatever is wrong with one trace, others are still to come
            kept.lost += 1
            messages().print(one_line(f"{trace_id}  not kept: {_told(error)}"), markup=False, soft_wrap=True)
            continue
        kept.spans += len(spans)
        kept.runs += len(runs)
        kept.nothing += not runs
        for run in runs:
            messages().print(_line(run), markup=False, soft_wrap=True)


def _stored(trace_id: str, spans: list[Span], traces: TraceStore, content: bool) -> list[TraceRecord]:
    """The runs of a trace, which are in the file now."""
    from hotloop.trace.importing.records import records_of_trace

    runs = list(records_of_trace(trace_id, spans, content))
    if runs:
        traces.export(runs)
    return runs


def _told(error: Exception) -> str:
    return str(error) if isinstance(error, HotloopError) else f"{type(error).__name__}: {error}"


def _line(run: TraceRecord) -> str:
    took, turns = show_span(run.end - run.start), counted(len(run.turns), "turn")
    error = f" · {run.error or run.outcome}" if run.outcome != "ok" else ""
    return one_line(f"{run.trace_id}  {run.name} ({run.source}) · {took} · {turns}{error}")


def _summary(kept: _Kept, gathering: Gathering) -> str:
    besides = [
        (kept.nothing, "trace", "without a run"),
        (kept.lost, "trace", "not kept"),
        (gathering.waiting, "trace", "not complete, left out"),
        (gathering.late, "span", "too late"),
    ]
    told = [f"{counted(number, noun)} {what}" for number, noun, what in besides if number]
    return " · ".join([f"{counted(kept.runs, 'run')} kept, of {counted(kept.spans, 'span')}", *told])
