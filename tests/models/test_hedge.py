"""A second request beside a slow one: when it is sent, what is told of the two, and what is left of them.

The service has shown twenty first tokens, of which 95 % came within 120 ms; a reply then takes three words 10 ms apart.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from typing import Any

import pytest
from asking import PROMPT, Asked, Plan, Wire, breaks, client, now_ms, refuses, says, think, virtually, writes
from hypothesis import given, settings
from hypothesis import strategies as st
from loopback import Peer, chunked, eventually, service, sockets
from wire_frames import DONE, calls, end, item, text

from hotloop.errors import TransportError
from hotloop.models.client import Client
from hotloop.models.http.transport import HttpTransport
from hotloop.models.policy.policy import Breaker
from hotloop.trace.stats import percentile
from hotloop.units import ns

USUAL = [says("a b c")] * 18 + [says("a b c", ttft=120)] * 2
FIRST, HEDGE = "first one here", "hedge is faster"
CUT = TransportError("cut")
BUSY = "failed: The service answered 503: busy."
LOST = "lost: the other one was first"


async def warmed(asking: Client, count: int = 20) -> None:
    for _ in range(count):
        assert (await think(asking)).story == "first ok"


def hedged(*plans: Plan, inside: bool = False, options: dict[str, Any] | None = None, **policy: Any) -> Asked:
    """What comes of these plans, for the first request and what follows it, at a service that is known."""
    wire = Wire([*USUAL, *plans], inside=inside)
    asking = client(wire, **{"hedge": True, "hedge_share": 0.2, "max_concurrent": 2} | policy)

    async def main() -> Asked:
        await warmed(asking)
        found = await think(asking, **(options or {}))
        assert asking.service.admission.inside == 0
        return found

    return virtually(main(), wire)


def show_speed(asking: Client, seconds: float) -> None:
    """The same at once: 95 % of its first tokens came within this time."""
    for _ in range(20):
        asking.service.latencies.first_token(ns(seconds), len(asking.request.body(PROMPT)))
        asking.service.latencies.asked()


def seen(found: Asked) -> list[str]:
    """What its reader has before him at the end, and each time that something is taken back."""
    shown = [""]
    for _, event in found.events:
        if type(event).__name__ == "Reset":
            shown.append("")
        shown[-1] += getattr(event, "text", "")
    return shown


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize(
    ("plans", "attempts", "shown"),
    [
        ([says(FIRST, 119)], ["first m 0-149 ok"], [FIRST]),
        ([says(FIRST, 119, 500)], ["first m 0-1619 ok"], [FIRST]),  # only before the first token
        ([says(FIRST, 2000), says(HEDGE)], [f"first m 0-220 {LOST}", "hedge m 120-250 ok"], [HEDGE]),
        ([says(FIRST, 190), says(HEDGE)], [f"hedge m 120-190 {LOST}", "first m 0-220 ok"], [FIRST]),
        ([says(FIRST, 2000), refuses()], [f"hedge m 120-120 {BUSY}", "first m 0-2030 ok"], [FIRST]),
        ([says(FIRST, 300), refuses(at=150)], [f"hedge m 120-270 {BUSY}", "first m 0-330 ok"], [FIRST]),
        ([says(FIRST, 200), refuses(at=150)], [f"hedge m 120-200 {LOST}", "first m 0-230 ok"], [FIRST]),
        ([refuses(at=150), says(HEDGE)], [f"first m 0-150 {BUSY}", "hedge m 120-250 ok"], [HEDGE]),
        ([breaks(CUT, 150), says(HEDGE, 900)], ["first m 0-150 failed: cut", "hedge m 120-1050 ok"], [HEDGE]),
        (
            [refuses(at=150), breaks(CUT, 50), says(FIRST)],
            [f"first m 0-150 {BUSY}", "hedge m 120-170 failed: cut", "retry m 370-500 ok"],
            [FIRST],
        ),
        (
            [says(FIRST, 2000), breaks(CUT, 115, says(HEDGE)), says(FIRST)],
            [f"first m 0-220 {LOST}", "hedge m 120-235 failed: cut", "retry m 435-565 ok"],
            ["hedge is", FIRST],
        ),
        (
            [breaks(CUT, 205, says(FIRST, 190)), says(HEDGE), says(FIRST)],
            [f"hedge m 120-190 {LOST}", "first m 0-205 failed: cut", "retry m 405-535 ok"],
            ["first one", FIRST],
        ),
        ([refuses(at=90), says(FIRST)], [f"first m 0-90 {BUSY}", "retry m 290-420 ok"], [FIRST]),
    ],
)
def test_which_reply_counts(plans: list[Plan], attempts: list[str], shown: list[str], inside: bool) -> None:
    found = hedged(*plans, inside=inside)
    assert (found.attempts, seen(found)) == (attempts, shown)
    assert found.outcome.text == shown[-1]
    assert found.kinds.count("ReplyFinished") == 1


def test_the_time_before_a_hedge_that_wins_is_the_services() -> None:
    found = hedged(says(FIRST, 2000), says(HEDGE))
    assert found.stages == ["prefill 120 before its hedge", "prefill 100", "decode 30"]
    assert found.trace.turns[0].ttft == 100_000_000
    found = hedged(says(FIRST, 190), says(HEDGE))
    assert found.stages == ["prefill 190", "decode 30"]


def test_it_is_sent_once_enough_like_requests_have_shown_their_times() -> None:
    wire = Wire([*USUAL[1:], says(FIRST, 300), says(FIRST, 300), says(FIRST, 300), says(HEDGE)])
    asking = client(wire, hedge=True, hedge_share=0.2)
    other = PROMPT[:-2] + b" now, but not as before" * 10 + b'"}'

    async def main() -> list[Asked]:
        await warmed(asking, 19)
        return [await think(asking), await think(asking, messages=other), await think(asking)]

    nineteen, unlike, like = virtually(main(), wire)
    assert (nineteen.story, unlike.story, like.story) == ("first ok", "first ok", "first lost, hedge ok")


def test_it_takes_a_place_or_is_not_sent() -> None:
    assert hedged(says(FIRST, 300), says(HEDGE), max_concurrent=1).attempts == ["first m 0-330 ok"]

    wire = Wire([*USUAL, says(FIRST, 2000), says(HEDGE, tpot=500)])
    asking = client(wire, hedge=True, max_concurrent=2)

    async def main() -> list[int]:
        await warmed(asking)
        task = asyncio.create_task(think(asking))
        inside = []
        for pause in 0.1, 0.1, 0.1:  # before it is sent, while both wait, and when it has won
            await asyncio.sleep(pause)
            inside.append(asking.service.admission.inside)
        await task
        return [*inside, asking.service.admission.inside]

    assert virtually(main(), wire) == [1, 2, 1, 0]


def test_the_loser_is_gone_in_the_moment_in_which_the_other_one_begins() -> None:
    wire = Wire([*USUAL, says(FIRST, 2000), says(HEDGE, tpot=500), says(FIRST, 190, tpot=500), says(HEDGE)])
    asking = client(wire, hedge=True, hedge_share=0.2)

    async def main() -> list[float]:
        await warmed(asking)
        begun = now_ms()
        await think(asking)
        again = now_ms()
        await think(asking)
        return [wire.closed[-4] - begun, wire.closed[-2] - again]

    assert virtually(main(), wire) == [220, 190]


def test_at_most_its_share_of_requests_is_sent_twice() -> None:
    """Of a thousand requests forty are slow, and a second one would help each."""
    wire = Wire(lambda place, _: says(FIRST, 1000 if place % 25 == 24 else 100 + place % 10))
    asking = client(wire, hedge=True, hedge_share=0.02)

    async def main() -> list[str]:
        return [(await think(asking)).story for _ in range(1000)]

    stories = virtually(main(), wire)
    assert 15 <= len(wire.times) - 1000 <= 20
    assert stories.count("first lost, hedge ok") == len(wire.times) - 1000


def test_on_a_service_with_stragglers_the_slowest_are_twice_as_fast_for_few_requests_more() -> None:
    """Three in a hundred take ten times as long; see benchmarks/hedging.py for more of this."""
    chance = random.Random(1)

    def plan(place: int, _: object) -> Plan:
        return says(FIRST, 100 * chance.lognormvariate(0, 0.15) * (10 if chance.random() < 0.03 else 1))

    def p99(hedge: bool) -> tuple[float, int]:
        wire = Wire(plan)
        asking = client(wire, hedge=hedge)

        async def main() -> list[float]:
            return [(await think(asking)).ms for _ in range(1500)]

        return percentile(virtually(main(), wire), 99), len(wire.times)

    (without, _), (with_it, requests) = p99(False), p99(True)
    assert without > 2 * with_it
    assert 1500 < requests <= 1.06 * 1500


def test_it_is_off_while_the_service_as_a_whole_is_slow() -> None:
    """Even if all requests might be sent twice: only until it is clear that they do not just straggle."""
    wire = Wire(lambda place, _: says(FIRST, 500 if 100 <= place < 200 else 100 + place % 20))
    asking = client(wire, hedge=True, hedge_share=1.0)

    async def main() -> list[str]:
        return [(await think(asking)).story for _ in range(190)]

    stories = virtually(main(), wire)
    assert 1 <= sum("hedge" in each for each in stories[-90:]) <= 7


def test_it_goes_before_nobody_who_waits() -> None:
    """A background request waits for tokens of which there are enough for a second request, but not for it."""
    tokens = {"limit": "2000", "remaining": "900", "reset": "20s"}
    limited = says("a b c", headers={f"x-ratelimit-{name}-tokens": value for name, value in tokens.items()})
    wire = Wire([*USUAL[:-1], limited, says(FIRST, 300), says(HEDGE), says(HEDGE)])
    asking = client(wire, hedge=True)
    long = PROMPT[:-2] + b" on" * 1600 + b'"}'

    async def main() -> list[str]:
        await warmed(asking)
        waiting = asyncio.create_task(think(asking, messages=long, background=True))
        await asyncio.sleep(0)
        found = await think(asking)
        return [found.story, (await waiting).story]

    assert virtually(main(), wire) == ["first ok", "first ok"]


def test_while_a_service_that_failed_is_tried_again_it_is_not_sent() -> None:
    wire = Wire([*USUAL, *[refuses()] * 20, *[says(FIRST, 300)] * 3, says(HEDGE)])
    asking = client(wire, hedge=True, hedge_share=0.2, retries=0, breaker=Breaker(window=40, cool=5.0, probes=2))

    async def main() -> list[str]:
        await warmed(asking)
        for _ in range(21):
            told = await think(asking)
        assert told.story == "first failed" and "left alone" in str(told.outcome)
        await asyncio.sleep(5)
        return [(await think(asking)).story for _ in range(3)]

    assert virtually(main(), wire) == ["first ok", "first ok", "first lost, hedge ok"]


@pytest.mark.parametrize(
    ("plans", "told"), [([says(FIRST, 2000), says(HEDGE)], [220]), ([says(FIRST, 121), says(HEDGE)], [])]
)
def test_only_who_has_waited_long_tells_of_the_services_times(plans: list[Plan], told: list[float]) -> None:
    """What came to nothing after a moment would make the service look fast."""
    wire = Wire([*USUAL, *plans])
    asking = client(wire, hedge=True, hedge_share=0.2)
    noted: list[float] = []

    async def main() -> None:
        await warmed(asking)
        asking.service.lost = lambda exchange, size, now: noted.append((now - exchange.begun) / 1e6)
        assert "lost" in (await think(asking)).story

    virtually(main(), wire)
    assert noted == told


WHOLE = b'{"choices":[{"message":{"content":"%b"},"finish_reason":"stop"}],"usage":{"completion_tokens":3}}'


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize(
    "body",
    [WHOLE % b"whole", end("stop") + DONE, text("whole") + end("stop") + DONE, text("whole") + end("stop")],
    ids=["one body", "empty", "one read", "without a mark of its end"],
)
def test_replies_that_come_in_the_same_instant_are_told_once(body: bytes, inside: bool) -> None:
    found = hedged(writes(body, ttft=200), writes(body, ttft=80), inside=inside)
    assert found.kinds in (["TextDelta", "ReplyFinished"], ["ReplyFinished"])
    assert sorted(each.outcome for each in found.trace.attempts) == ["lost", "ok"]


def test_an_error_in_a_whole_reply_is_no_part_of_the_others() -> None:
    broken = b'{"choices":[{"message":{"content":"whole"}}],"error":{"message":"no","code":503}}'
    found = hedged(writes(broken, ttft=150), says(HEDGE), says(HEDGE))
    assert seen(found)[-1] == HEDGE
    assert found.story in ("first failed, hedge lost, retry ok", "hedge lost, first failed, retry ok")


def test_a_bug_is_not_hidden_by_the_other_request() -> None:
    with pytest.raises(RuntimeError, match="a bug"):
        hedged(breaks(RuntimeError("a bug"), 150), says(HEDGE))


def test_calls_that_begin_early_are_those_of_the_winner() -> None:
    called = [calls(item("{}", name, id=name, index=0)) for name in ("f", "g")]
    heard = []

    class Listener:
        def heard(self, found) -> None:
            heard.extend(call.name for call in found.sealed)

        async def discard(self) -> None:
            heard.append("discarded")

    first, second = (writes(call, end(), DONE, ttft=ttft) for call, ttft in zip(called, (200, 80), strict=True))
    found = hedged(first, second, options={"listener": Listener()})
    assert len(set(heard)) <= 1
    assert {call.name for call in found.outcome.calls} >= set(heard)


# Cancelled at any moment

ENDS = {"ok", "failed", "lost", "cancelled"}


@given(
    st.sampled_from([0, 1, 99, 119, 120, 121, 150, 190, 219, 220, 221, 240, 250]) | st.integers(0, 260),
    st.integers(0, 6),
    st.sampled_from(
        [
            [says(FIRST, 2000), says(HEDGE)],
            [says(FIRST, 190), says(HEDGE)],
            [says(FIRST, 220), says(HEDGE)],
            [refuses(at=150), breaks(CUT, 30), says(FIRST)],
            [says(FIRST, 120, 40), says(HEDGE)],
            [writes(WHOLE % b"a", ttft=220), writes(WHOLE % b"b", ttft=100)],
        ]
    ),
    st.booleans(),
)
@settings(max_examples=300, deadline=None)
def test_a_run_that_is_cancelled_leaves_nothing(moment: float, turns: int, plans: list[Plan], inside: bool) -> None:
    """Whatever the moment, and however many turns of the event loop after it."""
    wire = Wire(plans, inside=inside)
    asking = client(wire, hedge=True, hedge_share=0.2, max_concurrent=2, backoff=0.05)

    async def main() -> Asked:
        show_speed(asking, 0.12)
        found = await think(asking, cancel_at=moment, cancel_turns=turns)
        assert (asking.service.admission.inside, wire.open) == (0, 0)
        return found

    found = virtually(main(), wire)
    outcomes = [each.outcome for each in found.trace.attempts]
    if found.outcome is asyncio.CancelledError:
        assert "ReplyFinished" not in found.kinds or "ok" in outcomes
        assert outcomes.count("lost") + outcomes.count("ok") <= 2 and set(outcomes) <= ENDS
    else:
        assert outcomes.count("ok") == 1
        assert found.outcome.text == seen(found)[-1]


def test_the_winner_of_a_cancelled_run_was_not_lost() -> None:
    found = hedged(says(FIRST, 2000), says(HEDGE), options={"cancel_at": 235})
    assert found.attempts == [f"first m 0-220 {LOST}", "hedge m 120-235 cancelled"]
    assert found.stages == ["prefill 120 before its hedge", "prefill 100", "decode 15"]
    found = hedged(says(FIRST, 2000), says(HEDGE), options={"cancel_at": 150})
    assert sorted(found.attempts) == ["first m 0-150 cancelled", "hedge m 120-150 cancelled"]


def test_of_two_that_were_cancelled_none_was_lost() -> None:
    """Even if one of them takes a moment to clean up."""

    class Tidy(Wire):
        async def send(self, body, receiver) -> None:
            try:
                await super().send(body, receiver)
            except asyncio.CancelledError:
                if len(self.closed) == 1:
                    await asyncio.sleep(0.01)
                raise

    wire = Tidy([says(FIRST, 2000), says(HEDGE, 2000)])
    asking = client(wire, hedge=True, hedge_share=0.2)

    async def main() -> Asked:
        show_speed(asking, 0.12)
        return await think(asking, cancel_at=150)

    assert {each.outcome for each in virtually(main(), wire).trace.attempts} == {"cancelled"}


EVERY_LOOP = True


@pytest.mark.parametrize("slow", [0, 1])
async def test_the_losers_connection_is_closed(slow: int) -> None:
    """On real sockets: its service sees the connection end as soon as the other one's first token is there."""
    closed, both = asyncio.Event(), asyncio.Event()
    number = itertools.count()

    async def handle(peer: Peer) -> None:
        await peer.request()
        place = next(number)
        if place == 1:
            both.set()
        if place == slow:
            await peer.is_closed()
            closed.set()
        else:
            await both.wait()
            await peer.send(chunked(text("one"), text(" two"), end("stop") + DONE))

    before = sockets()
    async with service(handle) as where:
        transport = HttpTransport(where.url)
        asking = client(transport, hedge=True, hedge_share=1.0, max_concurrent=2)
        show_speed(asking, 0.01)
        found = await think(asking)
        assert (found.outcome.text, found.text) == ("one two", "one two")
        assert found.story == ("first lost, hedge ok" if slow == 0 else "hedge lost, first ok")
        await asyncio.wait_for(closed.wait(), 1)
        assert asking.service.admission.inside == 0
        await transport.aclose()
    await eventually(lambda: sockets() == before)
