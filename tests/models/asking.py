"""Services that do exactly what a test says on the virtual clock, and what came of asking them.

Whatever is asked here is held to what must be true of every run: its events are a legal sequence, the stages of its
ledger add up to the wall time, every place in front of a service is given back, and no task or timer is left.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import re
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from wire_frames import DONE, end, text

from hotloop import Agent
from hotloop.budget import Budget, Deadline
from hotloop.errors import HotloopError
from hotloop.events import (
    CallOpened,
    CallSealed,
    Event,
    OutputPartial,
    ReasoningDelta,
    ReplyFinished,
    Reset,
    Retrying,
    RunFinished,
    TextDelta,
    ToolFinished,
    ToolStarted,
    ToolStatus,
)
from hotloop.models.ask import Ask, Thinker
from hotloop.models.client import Client
from hotloop.models.dialects import DIALECTS
from hotloop.models.model import Model
from hotloop.models.policy.policy import Policy
from hotloop.models.request import RequestTemplate
from hotloop.models.service import Service
from hotloop.models.transport import Emit, Receiver, Throttle, nobody
from hotloop.testing import run_virtual
from hotloop.trace.ledger import Ledger, Stage
from hotloop.trace.trace import Trace
from hotloop.units import clock

PROMPT = b'{"role":"user","content":"go"}'
Pieces = tuple[tuple[float, bytes], ...]


class Plan(NamedTuple):
    """What becomes of one request; times are milliseconds since it could be sent, for which a connection took `opens`.

    `pieces` of the body come at their times, and then the body ends, or `error` is raised `ends` after the request.
    """

    pieces: Pieces = ()
    error: Exception | None = None
    ends: float | None = None
    status: int = 200
    headers: tuple[tuple[bytes, bytes], ...] = ()
    opens: float = 0.0


def says(words: str = "Hello", ttft: float = 100.0, tpot: float = 10.0, headers: dict[str, str] | None = None) -> Plan:
    """A reply of these words, each a token."""
    frames = [*map(text, re.findall(r"\s*\S+", words)), end("stop") + DONE]
    named = tuple((name.encode(), value.encode()) for name, value in (headers or {}).items())
    return Plan(tuple((ttft + tpot * place, frame) for place, frame in enumerate(frames)), headers=named)


def writes(*frames: bytes, ttft: float = 100.0, tpot: float = 10.0) -> Plan:
    """A reply of these frames."""
    return Plan(tuple((ttft + tpot * place, frame) for place, frame in enumerate(frames)))


def refuses(status: int = 503, at: float = 0.0, message: str = "busy", **headers: str) -> Plan:
    """An answer that is no reply; `retry_after="2"` is a header."""
    named = tuple((name.replace("_", "-").encode(), value.encode()) for name, value in headers.items())
    return Plan(((at, json.dumps({"error": {"message": message}}).encode()),), status=status, headers=named)


def breaks(error: Exception, at: float = 0.0, after: Plan | None = None) -> Plan:
    """It goes as in `after`, until this error is raised."""
    pieces = () if after is None else tuple(each for each in after.pieces if each[0] < at)
    return Plan(pieces, error, at)


def silent(after: Plan | None = None, pieces: int = 1) -> Plan:
    """Nothing more comes after so many pieces of this reply."""
    return Plan(() if after is None else after.pieces[:pieces], ends=1e12)


class Wire:
    """A `Transport` that follows a plan for each request.

    The plans come one after the other, or from a function of the request's place and body. Data comes to the receiver
    as from a socket, in callbacks of the event loop, or with `inside` from the task that sends, as from an engine.
    `open` counts the requests under way, `times` and `bodies` have what was asked, `closed` when each had ended.
    """

    def __init__(self, plans: Iterable[Plan] | Callable[[int, dict[str, Any]], Plan], *, inside: bool = False) -> None:
        self._plans: Iterator[Plan] | Callable[[int, dict[str, Any]], Plan] = plans if callable(plans) else iter(plans)
        self._inside = inside
        self.times: list[float] = []
        self.closed: list[float] = []
        self.bodies: list[dict[str, Any]] = []
        self.throttles: list[Hold] = []
        self.open = 0

    async def send(self, body: bytes, receiver: Receiver) -> None:
        self.bodies.append(json.loads(body))
        self.times.append(now_ms())
        plans = self._plans
        plan = plans(len(self.times) - 1, self.bodies[-1]) if callable(plans) else next(plans)
        self.open += 1
        try:
            self.throttles.append(Hold())
            if plan.opens:
                await asyncio.sleep(plan.opens / 1000)
            receiver.sent(bool(plan.opens), self.throttles[-1])
            await (_told_inside if self._inside else _told)(plan, receiver, self.throttles[-1])
        finally:
            self.open -= 1
            self.closed.append(now_ms())

    async def warm(self, connections: int = 1) -> None: ...

    async def aclose(self) -> None: ...


class Hold:
    """A `Throttle`; what would come while it is paused comes when it no longer is."""

    def __init__(self) -> None:
        self.paused = False
        self.kept: list[bytes | None] = []
        self.deliver: Callable[[bytes | None], None] | None = None

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        self.paused = False
        while self.kept and not self.paused and self.deliver is not None:
            self.deliver(self.kept.pop(0))


async def _told(plan: Plan, receiver: Receiver, hold: Hold) -> None:
    loop = asyncio.get_running_loop()
    begun, over = loop.time(), loop.create_future()
    timer: asyncio.Handle | None = None
    steps: Iterator[tuple[float, bytes | None]] = iter([*plan.pieces, (_end(plan), None)])

    def deliver(piece: bytes | None) -> None:
        if over.done():
            return
        if piece is not None and not receiver.data(piece):
            return
        if piece is None and plan.error is not None:
            over.set_exception(plan.error)
        else:
            over.set_result(None)

    def come(piece: bytes | None) -> None:
        if hold.paused:
            hold.kept.append(piece)
        else:
            deliver(piece)
        wait()

    def wait() -> None:
        nonlocal timer
        if (step := next(steps, None)) is not None:
            timer = loop.call_at(begun + step[0] / 1000, come, step[1])

    hold.deliver = deliver
    if plan.pieces:
        receiver.head(plan.status, list(plan.headers))
    wait()
    try:
        await over
    finally:
        if timer is not None:
            timer.cancel()


def _end(plan: Plan) -> float:
    return plan.ends if plan.ends is not None else max([at for at, _ in plan.pieces], default=0.0)


async def _told_inside(plan: Plan, receiver: Receiver, hold: Hold) -> None:
    loop = asyncio.get_running_loop()
    begun = loop.time()
    if plan.pieces:
        receiver.head(plan.status, list(plan.headers))
    for at, piece in plan.pieces:
        await asyncio.sleep(begun + at / 1000 - loop.time())
        if receiver.data(piece):
            return
    if plan.ends is not None:
        await asyncio.sleep(begun + plan.ends / 1000 - loop.time())
    if plan.error is not None:
        raise plan.error


def now_ms() -> float:
    """Milliseconds since the virtual clock began."""
    return round((asyncio.get_running_loop().time() - 1) * 1000, 6)


class Illegal(AssertionError):
    """Events that no reader could make sense of."""


class Reading:
    """Reads events as a caller would, and fails for a sequence that makes no sense.

        run    = reply* (RunFinished | an error)
        reply  = shown* [Reset] Retrying* ... shown* ReplyFinished tools*
        shown  = TextDelta | ReasoningDelta | OutputPartial | CallOpened, then CallSealed of the same slot and name

    `Reset` comes only where something is shown, and takes back all of it; `Retrying` only where nothing is. Tools of
    a reply may begin early, while it is written; each that begins ends once, and before its reply is taken back.
    """

    def __init__(self, events: Iterable[Event]) -> None:
        self.text = ""
        self.replies: list[str] = []
        self.finished = 0
        self._slots: dict[int, list[str]] = {}
        self._shown = False
        self._open_tools: set[str] = set()
        self._ended_tools: set[str] = set()
        self.over = False
        for event in events:
            if self.over:
                raise Illegal(f"{event} after the end")
            self._read(event)

    def _read(self, event: Event) -> None:
        match event:
            case TextDelta(text):
                self._show()
                self.text += text
            case ReasoningDelta() | OutputPartial():
                self._show()
            case CallOpened(slot, name):
                self._show()
                _hold(slot not in self._slots, event, "opened twice")
                self._slots[slot] = [name]
            case CallSealed(slot, name):
                _hold(self._slots.get(slot) == [name], event, "sealed, but not open")
                self._slots[slot].append("sealed")
            case ReplyFinished(_, calls):
                sealed = sum(len(each) == 2 for each in self._slots.values())
                _hold(sealed == calls == len(self._slots), event, f"{sealed} of {len(self._slots)} calls are sealed")
                self.replies.append(self.text)
                self._take_back()
            case Reset():
                _hold(self._shown, event, "nothing is shown")
                _hold(not self._open_tools, event, "its tools still run")
                self._take_back()
            case Retrying():
                _hold(not self._shown, event, "something is still shown")
            case ToolStarted(call_id):
                _hold(call_id not in self._open_tools | self._ended_tools, event, "started twice")
                self._open_tools.add(call_id)
            case ToolStatus(call_id):
                _hold(call_id in self._open_tools, event, "it does not run")
            case ToolFinished(call_id):
                _hold(call_id not in self._ended_tools, event, "finished twice")
                self._open_tools.discard(call_id)
                self._ended_tools.add(call_id)
            case RunFinished(result):
                _hold(not self._shown and not self._open_tools, event, "something is still going on")
                _hold(result.output == self.replies[-1], event, f"the reader saw {self.replies[-1]!r}")
                self.over = True
            case _:
                raise Illegal(f"{event} is not known")

    def _show(self) -> None:
        self._shown = True

    def _take_back(self) -> None:
        self.text, self._slots, self._shown = "", {}, False


def _hold(condition: bool, event: Event, why: str) -> None:
    if not condition:
        raise Illegal(f"{event}: {why}")


class Asked(NamedTuple):
    """What came of asking: the outcome (a reply, a result or an error), the events as (ms, event), and the trace."""

    outcome: Any
    events: list[tuple[float, Event]]
    trace: Trace

    @property
    def kinds(self) -> list[str]:
        return [type(event).__name__ for _, event in self.events]

    @property
    def text(self) -> str:
        """All text that was told, also what was taken back."""
        return "".join(event.text for _, event in self.events if isinstance(event, TextDelta))

    @property
    def attempts(self) -> list[str]:
        """Each as "why model start-end outcome: reason", in milliseconds of the run."""
        start = self.trace.start
        return [
            f"{each.why} {each.model} {(each.start - start) / 1e6:g}-{(each.end - start) / 1e6:g} {each.outcome}"
            + (f": {each.reason}" if each.reason else "")
            for each in self.trace.attempts
        ]

    @property
    def story(self) -> str:
        """The attempts without times and reasons."""
        return ", ".join(f"{each.why} {each.outcome}" for each in self.trace.attempts)

    @property
    def stages(self) -> list[str]:
        """Those of the model that took time, as "kind ms" and a note."""
        shown = [each for each in self.trace.stages if each.lane == 0 and each.end > each.start]
        return [_stage(each) for each in shown]

    @property
    def ms(self) -> float:
        return (self.trace.end - self.trace.start) / 1e6


def _stage(stage: Stage) -> str:
    return f"{stage.kind} {(stage.end - stage.start) / 1e6:g}" + (f" {stage.note}" if stage.note else "")


def client(
    wire: Any, *, name: str = "m", dialect: str = "generic", stream: bool = True, tools: Any = (), **policy: Any
) -> Client:
    """A client of a service that nobody else asks."""
    model = Model(name=name, endpoint=wire, dialect=dialect, policy=Policy(**{"jitter": 0.0, **policy}))
    request = RequestTemplate(name, DIALECTS[dialect], stream=stream)
    return Client(wire, request, Service(model), model.policy, tool_names=frozenset(tools))


async def think(
    thinker: Thinker,
    *,
    seconds: float | None = None,
    cancel_at: float | None = None,
    cancel_turns: int = 0,
    ledger: Ledger | None = None,
    messages: bytes = PROMPT,
    reader: Emit = nobody,
    **more: Any,
) -> Asked:
    """One thought, cancelled after so many milliseconds (and turns) if these are given; held to what is true of all."""
    ledger, events = ledger or Ledger(clock(), "t"), []

    def emit(some: Sequence[Event], throttle: Throttle | None = None) -> None:
        events.extend((now_ms(), each) for each in some)
        reader(some, throttle)

    budget = None if seconds is None else Budget(total=seconds, answer_reserve=seconds / 2)
    ask = Ask(
        messages=bytearray(messages),
        ledger=ledger,
        emit=emit,
        deadline=Deadline(budget, ledger.start),
        **more,
    )
    task = asyncio.create_task(thinker.think(ask))
    timer = asyncio.get_running_loop().call_later((cancel_at or 1e12) / 1000, _cancel, task, cancel_turns)
    try:
        outcome: Any = await task
    except HotloopError as error:
        outcome = error
    except asyncio.CancelledError:
        outcome = asyncio.CancelledError
    finally:
        timer.cancel()
    ledger.close()
    asked = Asked(outcome, events, Trace(ledger))
    check(asked)
    return asked


def _cancel(task: asyncio.Task[Any], turns: int) -> None:
    """Cancel it after so many turns of the event loop."""
    if turns:
        asyncio.get_running_loop().call_soon(_cancel, task, turns - 1)
    else:
        task.cancel()


async def run(agent: Agent, prompt: str = "go", **options: Any) -> Asked:
    """A run of an agent, held to what must be true of all."""
    events: list[tuple[float, Event]] = []
    try:
        async for event in agent.stream(prompt, **options):
            events.append((now_ms(), event))  # noqa: PERF401  # what came before an error is kept
    except HotloopError as error:
        asked = Asked(error, events, error.trace)
    else:
        last: Any = events[-1][1]
        assert isinstance(last, RunFinished)
        asked = Asked(last.result, events, last.result.trace)
    check(asked)
    return asked


def check(asked: Asked) -> None:
    """What must be true of every run: a legal sequence of events, and stages that add up to the wall time."""
    Reading([event for _, event in asked.events])
    trace = asked.trace
    lane = [stage for stage in trace.stages if stage.lane == 0]
    assert all(before.end <= after.start for before, after in itertools.pairwise(lane)), lane
    assert trace.unattributed_ms == 0
    for each in trace.attempts:
        assert trace.start <= each.start <= each.end <= trace.end, each
        assert each.first == 0 or each.start <= each.first <= each.end, each
        told = each.outcome in ("failed", "rejected", "lost")
        assert each.outcome == "ok" or bool(each.reason) == told, each  # "ok": whatever a predicate has against it


def virtually(main: Coroutine[Any, Any, Any], *wires: Wire) -> Any:
    """What `main` gives in virtual time; fails if it leaves a task, a timer or a request behind."""

    async def watched() -> Any:
        loop = asyncio.get_running_loop()
        result = await main
        await asyncio.sleep(0)  # what was told to end has ended
        assert asyncio.all_tasks() == {asyncio.current_task()}
        timers = loop._scheduled  # type: ignore[attr-defined]
        assert [each for each in timers if not each.cancelled()] == []
        assert [wire.open for wire in wires] == [0] * len(wires)
        return result

    return run_virtual(watched())


def asked(thinker: Thinker, **options: Any) -> Asked:
    """One thought in virtual time, after which nobody is inside."""
    found = virtually(think(thinker, **options))
    if isinstance(thinker, Client):
        assert thinker.service.admission.inside == 0
    return found
