"""Every fault under every policy: what comes of it, in which attempts, and at which times on a virtual clock.

The service has its first token after 100 ms and four more 10 ms apart, so that a reply takes 140 ms.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterable
from typing import NamedTuple

import pytest
from wire_frames import DONE, end, text

from hotloop.budget import Budget, Deadline
from hotloop.errors import HotloopError
from hotloop.events import Event, Reset, TextDelta
from hotloop.lab.faultproxy import FaultProxy
from hotloop.lab.faults import Answer, Corrupt, Cut, Fault, FaultyTransport, Late, Refuse, Stall
from hotloop.models.ask import Ask, Thinker
from hotloop.models.chain import Chain
from hotloop.models.client import Client
from hotloop.models.dialects import DIALECTS
from hotloop.models.http.transport import HttpTransport
from hotloop.models.model import Model
from hotloop.models.policy.policy import Breaker, Policy
from hotloop.models.request import RequestTemplate
from hotloop.models.service import Service
from hotloop.models.transport import Transport
from hotloop.testing import ScriptedModel, SimulatedService, raw, run_virtual
from hotloop.trace.ledger import Ledger
from hotloop.units import NS_PER_MS, clock

ANSWER = "one two three four five"
PIECES = [*(text(f"{word} ") for word in ("one", "two", "three", "four")), text("five") + end("stop") + DONE]
MIDDLE = len(b"".join(PIECES[:3])) + len(b"data: {")  # bytes of the body, within the token that comes at 130 ms


class Met(NamedTuple):
    """How one thought ended, its attempts, and what the reader was told; milliseconds since it began."""

    outcome: str
    attempts: list[tuple[str, float, float, str]]
    events: list[Event]
    ledger: Ledger

    @property
    def spans(self) -> str:
        """The attempts and the outcome: "0-0 200-340 ok"."""
        return " ".join([f"{start:g}-{end:g}" for _, start, end, _ in self.attempts] + [self.outcome])

    @property
    def story(self) -> str:
        """The same with the reasons: "first failed, retry ok"."""
        return ", ".join(f"{why} {outcome}" for why, _, _, outcome in self.attempts)


def client(
    faults: Iterable[Fault | None] = (), *, ttft: float = 0.1, model: Transport | None = None, **policy
) -> Client:
    """Of a service whose requests meet these faults, and that nobody else asks."""
    transport = FaultyTransport(model or ScriptedModel(lambda request: raw(*PIECES), ttft=ttft, tpot=0.01), faults)
    how = Policy(**{"jitter": 0.0, **policy})
    service = Service(Model(name="m", endpoint=transport, policy=how))
    return Client(transport, RequestTemplate("m", DIALECTS["generic"]), service, how)


async def think(thinker: Thinker, seconds: float | None = None, background: bool = False) -> Met:
    ledger, events = Ledger(clock(), "t"), []
    budget = None if seconds is None else Budget(total=seconds, answer_reserve=seconds / 2)
    ask = Ask(
        messages=bytearray(b'{"role":"user","content":"go"}'),
        ledger=ledger,
        emit=lambda some, throttle=None: events.extend(some),
        deadline=Deadline(budget, ledger.start),
        background=background,
    )
    try:
        reply = await thinker.think(ask)
        outcome = "ok" if reply.text == ANSWER else f"the answer {reply.text!r}"
    except HotloopError as error:
        outcome = type(error).__name__
    attempts = [
        (each.why, (each.start - ledger.start) / 1e6, (each.end - ledger.start) / 1e6, each.outcome)
        for each in ledger.attempts
    ]
    return Met(outcome, attempts, events, ledger)


POLICIES = {
    "": {},
    "no retries": {"retries": 0},
    "first_token 1": {"first_token": 1.0},
    "stall 1": {"stall": 1.0},
    "total 2": {"total": 2.0},
    "deadline 1": {"seconds": 1.0},
}
AT_ONCE = {"": "0-0 200-340 ok"}
THRICE = "0-0 200-200 600-600"
MATRIX: list[tuple[Fault, bool, dict[str, str]]] = [  # the fault, whether of every request, what comes of it by policy
    (Refuse(), False, AT_ONCE | {"no retries": "0-0 ConnectError"}),
    (Refuse(), True, {"": f"{THRICE} ConnectError", "no retries": "0-0 ConnectError"}),
    (Answer(400), False, {"": "0-0 InvalidRequest"}),
    (Answer(401), False, {"": "0-0 AuthenticationError"}),
    (Answer(429), False, AT_ONCE | {"no retries": "0-0 RateLimited"}),
    (Answer(429), True, {"": f"{THRICE} RateLimited", "no retries": "0-0 RateLimited"}),
    (Answer(429, 0.5), False, {"": "0-0 500-640 ok", "no retries": "0-0 RateLimited"}),
    (
        Answer(429, 0.5),
        True,
        {
            "": "0-0 500-500 1000-1000 RateLimited",
            "no retries": "0-0 RateLimited",
            "deadline 1": "0-0 500-500 RateLimited",  # there is no time for the next wait
        },
    ),
    (
        Answer(429, 1.5),
        False,
        {"": "0-0 1500-1640 ok", "no retries": "0-0 RateLimited", "deadline 1": "0-0 RateLimited"},
    ),
    (Answer(429, 100.0), False, {"": "0-0 RateLimited"}),  # longer than a whole reply may take
    (Answer(500), False, AT_ONCE | {"no retries": "0-0 Overloaded"}),
    (Answer(503), True, {"": f"{THRICE} Overloaded", "no retries": "0-0 Overloaded"}),
    (Answer(503, 0.3), False, {"": "0-0 300-440 ok", "no retries": "0-0 Overloaded"}),
    (Cut(None), False, AT_ONCE | {"no retries": "0-0 TransportError"}),
    (Cut(0), False, {"": "0-100 300-440 ok", "no retries": "0-100 TransportError"}),
    (Cut(MIDDLE), False, {"": "0-130 330-470 ok", "no retries": "0-130 TransportError"}),
    (Cut(MIDDLE), True, {"": "0-130 330-460 860-990 TransportError", "no retries": "0-130 TransportError"}),
    (Corrupt(MIDDLE), False, {"": "0-130 330-470 ok", "no retries": "0-130 MalformedReply"}),
    (Late(0.5), True, {"": "0-640 ok"}),
    (
        Late(5.0),
        False,
        {
            "": "0-5140 ok",
            "first_token 1": "0-1000 1200-1340 ok",
            "total 2": "0-2000 2200-2340 ok",
            "deadline 1": "0-1000 ReplyTimeout",
        },
    ),
    (
        Late(5.0),
        True,
        {
            "": "0-5140 ok",
            "first_token 1": "0-1000 1200-2200 2600-3600 ReplyTimeout",
            "total 2": "0-2000 2200-4200 4600-6600 ReplyTimeout",
            "deadline 1": "0-1000 ReplyTimeout",
        },
    ),
    (Stall(MIDDLE, 0.5), True, {"": "0-630 ok"}),  # slow, not stuck
    (
        Stall(MIDDLE),
        False,
        {
            "": "0-30120 30320-30460 ok",  # nothing is known yet of the service's pace
            "no retries": "0-30120 ReplyTimeout",
            "stall 1": "0-1120 1320-1460 ok",
            "total 2": "0-2000 2200-2340 ok",
            "deadline 1": "0-1000 ReplyTimeout",
        },
    ),
]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(
    ("fault", "every", "row"), MATRIX, ids=lambda value: str(value) if isinstance(value, Fault) else ""
)
def test_outcome_attempts_and_times(fault: Fault, every: bool, row: dict[str, str], policy: str) -> None:
    async def main() -> Met:
        settings = dict(POLICIES[policy])
        seconds = settings.pop("seconds", None)
        asked = client(itertools.repeat(fault) if every else [fault], **settings)
        met = await think(asked, seconds)
        assert asked.service.admission.inside == 0
        return met

    met = run_virtual(main())
    assert met.spans == row.get(policy, row[""])
    whys, outcomes = [each[0] for each in met.attempts], [each[3] for each in met.attempts]
    assert whys == ["first", "retry", "retry"][: len(whys)]
    assert outcomes == ["failed"] * (len(outcomes) - 1) + ["ok" if met.outcome == "ok" else "failed"]


def test_text_that_was_shown_is_taken_back_before_it_comes_anew() -> None:
    events = run_virtual(think(client([Cut(MIDDLE)]))).events
    kinds = [type(event).__name__ for event in events]
    assert kinds.index("Reset") < kinds.index("Retrying")
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "one two three " + ANSWER
    assert not any(isinstance(event, Reset) for event in run_virtual(think(client([Cut(0)]))).events)


def test_a_service_that_is_known_to_be_fast_is_stuck_sooner() -> None:
    async def main() -> str:
        asked = client([None] * 40 + [Stall(MIDDLE)])
        for _ in range(40):
            await think(asked)
        return (await think(asked)).spans

    assert run_virtual(main()) == "0-2120 2320-2460 ok"  # gaps of 10 ms: after the least time, 2 s


def test_a_reply_that_began_late_is_still_seen_to_be_stuck() -> None:
    met = run_virtual(think(client([Stall(MIDDLE)], ttft=1.5, stall=1.0)))
    assert met.spans == "0-2520 2720-4260 ok"


async def hedged(*faults: Fault | None, **policy) -> Met:
    """After thirty requests, of which three took 120 ms to their first token and the others 100."""
    asked = client([Late(0.02)] * 3 + [None] * 27 + list(faults), hedge=True, max_concurrent=5, **policy)
    for _ in range(30):
        assert (await think(asked)).story == "first ok"
    met = await think(asked)
    assert asked.service.admission.inside == 0
    return met


@pytest.mark.parametrize(
    ("faults", "story", "spans"),
    [
        ([], "first ok", "0-140 ok"),
        ([Late(2.0)], "first lost, hedge ok", "0-220 120-260 ok"),
        ([Late(0.05)], "hedge lost, first ok", "120-150 0-190 ok"),
        ([Late(2.0), Refuse()], "hedge failed, first ok", "120-120 0-2140 ok"),
        ([Late(2.0), Late(1.0)], "first lost, hedge ok", "0-1220 120-1260 ok"),
        ([Late(2.0), Cut(MIDDLE)], "first lost, hedge failed, retry ok", "0-220 120-250 450-590 ok"),
        ([Answer(503)], "first failed, retry ok", "0-0 200-340 ok"),
        ([Cut(0)], "first failed, retry ok", "0-100 300-440 ok"),
    ],
)
def test_a_second_request_beside_a_slow_one(faults: list, story: str, spans: str) -> None:
    met = run_virtual(hedged(*faults))
    assert (met.story, met.spans) == (story, spans)


def test_both_requests_failed_is_a_failure_that_is_tried_again() -> None:
    met = run_virtual(hedged(Stall(0), Cut(0), first_token=1.0))
    assert (met.story, met.spans) == ("hedge failed, first failed, retry ok", "120-220 0-1000 1200-1340 ok")


class OnCue:
    """A transport whose first reply comes whole when `cue` is called."""

    async def send(self, body, receiver) -> None:
        receiver.sent(False, None)
        self._receiver, self._ended = receiver, asyncio.get_running_loop().create_future()
        await self._ended

    def cue(self) -> None:
        self._receiver.head(200, [])
        self._receiver.data(b"".join(PIECES))
        self._ended.set_result(None)


def test_a_second_request_that_is_not_needed_in_the_moment_it_begins_leaves_its_place() -> None:
    async def main() -> int:
        model = OnCue()
        asked = client(model=model, hedge=True, hedge_share=1.0, max_concurrent=5)
        service, may_hedge = asked.service, asked.service.may_hedge
        for size in [1 << bits for bits in range(6, 12)] * 20:
            service.latencies.first_token(NS_PER_MS, size)

        def may(tokens: int, now: int) -> bool:
            asyncio.get_running_loop().call_soon(model.cue)
            return may_hedge(tokens, now)

        service.may_hedge = may
        met = await think(asked)
        assert (met.outcome, met.ledger.clock() - met.ledger.start) == ("ok", NS_PER_MS)
        return service.admission.inside

    assert run_virtual(main()) == 0


def test_a_service_that_keeps_failing_is_left_alone_until_it_has_rested() -> None:
    async def main() -> list[str]:
        faults = [Answer(503)] * 4 + [Cut(0)]
        asked = client(faults, retries=0, breaker=Breaker(window=4, at_least=4, cool=10.0, probes=2))
        told = [(await think(asked)).spans for _ in range(5)]
        await asyncio.sleep(10.0)
        told += [(await think(asked)).spans for _ in range(2)]  # the probe fails
        await asyncio.sleep(10.0)
        return told + [met.spans for met in await asyncio.gather(*(think(asked) for _ in range(3)))]

    assert run_virtual(main()) == [
        *["0-0 Overloaded"] * 4,
        "0-0 CircuitOpen",
        "0-100 TransportError",
        "0-0 CircuitOpen",
        *["0-140 ok"] * 2,
        "0-0 CircuitOpen",
    ]


def test_a_breaker_that_opens_ends_the_retries() -> None:
    breaker = Breaker(window=4, at_least=2)
    met = run_virtual(think(client(itertools.repeat(Answer(503)), retries=5, breaker=breaker)))
    assert met.spans == "0-0 200-200 600-600 CircuitOpen"


def test_who_waits_for_a_place_waits_in_the_queue_stage() -> None:
    async def main() -> list[Met]:
        asked = client(max_concurrent=1)
        return await asyncio.gather(think(asked, background=True), think(asked, background=True), think(asked))

    first, second, third = run_virtual(main())
    assert (first.spans, second.spans, third.spans) == ("0-140 ok", "280-420 ok", "140-280 ok")
    queued = [(stage.end - stage.start) / 1e6 for stage in second.ledger.stages if stage.kind == "queue"]
    assert queued == [280.0]


def test_a_wait_that_one_was_asked_for_holds_for_all() -> None:
    async def main() -> list[str]:
        asked = client([Answer(429, 0.5)])
        first = asyncio.create_task(think(asked))
        await asyncio.sleep(0.1)
        met = await asyncio.gather(first, think(asked), think(asked, seconds=0.3))
        return [each.spans for each in met]

    assert run_virtual(main()) == ["0-0 500-640 ok", "400-540 ok", "0-0 ServiceBusy"]


def test_the_next_service_answers_when_one_does_not() -> None:
    async def main() -> Met:
        return await think(Chain([client(itertools.repeat(Cut(MIDDLE)), retries=1), client()]))

    met = run_virtual(main())
    assert (met.story, met.spans) == ("first failed, retry failed, fallback ok", "0-130 330-460 460-600 ok")
    assert sum(isinstance(event, Reset) for event in met.events) == 2


@pytest.mark.parametrize(
    ("faults", "story"),
    [
        ([Cut(None)], "first failed, retry ok"),
        ([Cut(0)], "first failed, retry ok"),
        ([Cut(MIDDLE)], "first failed, retry ok"),
        ([Answer(429, 0.02)], "first failed, retry ok"),
        ([Answer(503), Cut(MIDDLE)], "first failed, retry failed, retry ok"),
        ([Corrupt(MIDDLE)], "first failed, retry ok"),
        ([Stall(MIDDLE)], "first failed, retry ok"),
        ([Stall(MIDDLE, 0.05), Cut(0)], "first ok"),
        ([Late(5.0)], "first failed, retry ok"),
    ],
)
async def test_the_same_over_real_sockets(faults: list, story: str) -> None:
    async with (
        SimulatedService([raw(*PIECES)], tpot=0.001) as service,
        FaultProxy(f"{service.url}/chat/completions", faults) as proxy,
    ):
        transport = HttpTransport(proxy.url)
        asked = client(model=transport, backoff=0.01, first_token=0.3, stall=0.3)
        met = await think(asked)
        await transport.aclose()
    assert (met.outcome, met.story) == ("ok", story)
    assert asked.service.admission.inside == 0
