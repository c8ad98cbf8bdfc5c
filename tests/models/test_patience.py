"""How long a reply may take: first token, silence, whole reply, deadline; and what is our own reader's fault."""

from __future__ import annotations

import asyncio

import pytest
from asking import Plan, Wire, asked, client, now_ms, says, silent, think, virtually
from wire_frames import DONE, end, text

from hotloop.models.client import Client

WORDS = "one two three four"  # the first at 100 ms, the others 10 ms apart, the end at 140


def only(*plans: Plan, **policy) -> Client:
    return client(Wire(plans), retries=0, **policy)


@pytest.mark.parametrize(
    ("plan", "policy", "attempt"),
    [
        (says(WORDS), {}, "0-140 ok"),
        (says(WORDS, ttft=900), {"first_token": 1.0, "stall": 1.0}, "0-940 ok"),
        (says(WORDS, ttft=1001), {"first_token": 1.0}, "0-1000 failed: The service sent nothing within 1 s."),
        (silent(), {"first_token": 0.5}, "0-500 failed: The service sent nothing within 0.5 s."),
        (says(WORDS, tpot=400), {"first_token": 0.5, "stall": 0.5}, "0-1700 ok"),
        (
            silent(says(WORDS), 2),
            {"stall": 0.5},
            "0-610 failed: The reply stopped after 2 tokens: nothing came for 0.5 s.",
        ),
        (
            silent(says(WORDS, ttft=5000), 1),
            {"stall": 0.5},
            "0-5500 failed: The reply stopped after 1 token: nothing came for 0.5 s.",
        ),
        (
            silent(says(WORDS, ttft=2100, tpot=300), 3),
            {"stall": 1.0, "first_token": 2.5},
            "0-3700 failed: The reply stopped after 3 tokens: nothing came for 1 s.",
        ),
        (
            silent(says(WORDS), 1),
            {"stall": None, "total": 3.0},
            "0-3000 failed: The reply was not complete within 3 s.",
        ),
        (
            says(WORDS, tpot=400),
            {"stall": 0.5, "total": 1.2},
            "0-1200 failed: The reply was not complete within 1.2 s.",
        ),
        (silent(says(WORDS), 1), {}, "0-30100 failed: The reply stopped after 1 token: nothing came for 30 s."),
    ],
)
def test_what_ends_a_reply_and_when(plan: Plan, policy: dict, attempt: str) -> None:
    found = asked(only(plan, **policy))
    assert found.attempts == [f"first m {attempt}"]
    assert (str(found.outcome) in attempt) is ("failed" in attempt)


def test_the_time_to_the_first_token_begins_when_the_request_is_sent() -> None:
    found = asked(only(says(WORDS, ttft=900)._replace(opens=2000), first_token=1.0))
    assert (found.attempts, found.stages[0]) == (["first m 0-2940 ok"], "connect 2000 opened")
    found = asked(only(says(WORDS, ttft=1100)._replace(opens=2500), first_token=1.0))
    assert found.attempts == ["first m 0-3500 failed: The service sent nothing within 1 s."]


@pytest.mark.parametrize(
    ("seconds", "attempt"),
    [
        (0.4, "0-400 failed: The reply was not complete within 0.4 s, which was all that the run's budget had left."),
        (1.0, "0-1000 failed: The service sent nothing within 1 s."),
        (3.0, "0-1000 failed: The service sent nothing within 1 s."),
    ],
)
def test_all_of_it_ends_with_the_deadline(seconds: float, attempt: str) -> None:
    found = asked(only(silent(), first_token=1.0), seconds=seconds)
    assert found.attempts == [f"first m {attempt}"]


def test_a_reply_that_is_not_streamed_has_only_its_total_time() -> None:
    whole = Plan(((2000, b'{"choices":[{"message":{"content":"Hello"},"finish_reason":"stop"}]}'),))
    wire = Wire([whole, silent()])
    once = client(wire, stream=False, retries=0, first_token=0.5, stall=0.5, total=4.0)

    async def main() -> list[str]:
        return [*(await think(once)).attempts, *(await think(once)).attempts]

    ok, late = virtually(main(), wire)
    assert (ok, late) == ("first m 0-2000 ok", "first m 0-4000 failed: The reply was not complete within 4 s.")


def test_a_reply_that_is_all_there_is_never_late() -> None:
    """Its task may hear of it later than of a limit, where the event loop was held up."""

    class Lingering(Wire):
        async def send(self, body, receiver) -> None:
            await super().send(body, receiver)
            await asyncio.sleep(5)

    for limit in {"stall": 0.5}, {"total": 1.0}, {"first_token": 0.5}:
        found = asked(client(Lingering([says(WORDS)]), retries=0, **limit))
        assert found.attempts == ["first m 0-5140 ok"]


def test_stages_of_a_reply_that_stopped() -> None:
    found = asked(client(Wire([silent(says(WORDS), 2), says(WORDS)]), stall=0.5))
    assert found.stages == [
        "prefill 100",
        "decode 510",
        "queue 200 retry after ReplyTimeout",
        "prefill 100",
        "decode 40",
    ]
    assert found.attempts[1] == "retry m 810-950 ok"


# Stall, learned


def test_the_stall_is_learned_from_replies_that_were_complete() -> None:
    """Of gaps of 300 ms the tenfold, whatever the first token took; of shorter ones the least, 2 s."""

    async def main() -> list[str]:
        plans = [says(WORDS, ttft=5000, tpot=300)] * 40 + [silent(says(WORDS), 1)]
        wires = Wire(plans), Wire([says(WORDS)] * 40 + [silent(says(WORDS), 1)])
        found = []
        for wire in wires:
            once = client(wire, retries=0)
            for _ in range(40):
                await think(once)
            found += (await think(once)).attempts
        return found

    slow, fast = virtually(main())
    assert slow == "first m 0-3100 failed: The reply stopped after 1 token: nothing came for 3 s."
    assert fast == "first m 0-2100 failed: The reply stopped after 1 token: nothing came for 2 s."


# A reader that holds the reply up


def read_slowly(until: float, count: int = 1):
    """A reader that holds the reply up at its pieces up to `count`, and lets it go on at a time."""
    pieces = 0

    def read(events, throttle=None) -> None:
        nonlocal pieces
        pieces += 1
        if pieces == count and throttle is not None:
            throttle.pause()
            asyncio.get_running_loop().call_later((until - now_ms()) / 1000, throttle.resume)

    return read


@pytest.mark.parametrize("until", [599, 601, 5000, 5599, 5601, 5999])
def test_a_reply_that_our_own_reader_holds_up_is_no_stall(until: float) -> None:
    """Whenever the hold ends, and however long nothing comes after it that is no stall by itself."""
    plan = Plan(((100, text("one")), (until + 400, end("stop") + DONE)))
    found = asked(only(plan, stall=0.5), reader=read_slowly(until))
    assert found.attempts == [f"first m 0-{until + 400} ok"]


def test_a_reply_that_stops_after_it_was_held_up_does_stall() -> None:
    found = asked(only(silent(says(WORDS), 3), stall=0.5), reader=read_slowly(5000))
    assert found.attempts == ["first m 0-5500 failed: The reply stopped after 3 tokens: nothing came for 0.5 s."]


def test_nothing_is_learned_from_a_silence_that_was_ours() -> None:
    async def main() -> list[str]:
        wire = Wire([says(WORDS)] * 40 + [silent(says(WORDS), 1)])
        once = client(wire, retries=0)
        for _ in range(40):
            await think(once, reader=read_slowly(now_ms() + 9000))
        return (await think(once)).attempts

    assert virtually(main()) == ["first m 0-2100 failed: The reply stopped after 1 token: nothing came for 2 s."]


def test_a_reader_who_comes_late_does_not_meddle_with_the_next_reply() -> None:
    """The connection, whose throttle it is, may carry another one by then."""
    wire, throttles = Wire([says(WORDS)]), []

    async def main() -> None:
        await think(client(wire), reader=lambda events, throttle=None: throttles.append(throttle))
        [of_connection] = wire.throttles
        of_connection.pause()
        throttles[0].resume()
        assert of_connection.paused
        of_connection.resume()
        throttles[0].pause()
        assert not of_connection.paused

    virtually(main(), wire)
