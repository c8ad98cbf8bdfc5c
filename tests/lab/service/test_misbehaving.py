"""Every fault of a simulated service, through a whole agent: the right answer, or the right typed error."""

import asyncio
import json
from collections import Counter

import pytest
from msgspec import structs

from hotloop import Agent, tool
from hotloop.errors import (
    ConfigError,
    ContentFiltered,
    MalformedReply,
    Overloaded,
    RateLimited,
    ReplyTimeout,
    TransportError,
    TruncatedReply,
)
from hotloop.lab.profiles import Curve, Profile
from hotloop.lab.script import call, raw, say
from hotloop.lab.service.misbehaving import Mix, faults
from hotloop.lab.simtransport import SimulatedTransport
from hotloop.lab.virtual import run_virtual
from recorder import Recorder, exchange

TURNS = [
    say("Let me look.", call("find", order_id="1024", note="查询"), call("ping")),
    call("find", order_id="2048"),
    "It has 发货 shipped.",
]
STREAM = b'{"stream": true, "messages": [{}]}'
RUNS = ["find 1024", "find 2048", "ping"]
ERRORS = {
    "429": RateLimited,
    "429-words": RateLimited,
    "429-bare": RateLimited,
    "498": Overloaded,
    "500": Overloaded,
    "502": Overloaded,
    "503": Overloaded,
    "cut": TransportError,
    "stall": ReplyTimeout,
    "no-finish": TransportError,
    "filtered": ContentFiltered,
    "error-in-stream": Overloaded,
    "error-beside-choices": RateLimited,
    "not-json": MalformedReply,
}


def profile(granularity="token"):
    return Profile(
        name="test",
        kind="lpu",
        base_ms=10.0,
        per_prompt_token_ms=0.0,
        tpot_ms=Curve(1.0),
        granularity=granularity,
    )


def ask(transport, **options):
    """What an agent with two tools answers, the calls that were run, and its usage."""
    runs = []

    @tool
    def find(order_id: str, note: str = "") -> str:
        """Find an order."""
        runs.append(f"find {order_id}")
        return "found"

    @tool
    def ping() -> str:
        """Whether anybody is there."""
        runs.append("ping")
        return "pong"

    async def run():
        async with Agent(model="m", endpoint=transport, tools=[find, ping], **options) as agent:
            result = await agent.run("Where is order 1024?")
        return result.output, sorted(runs), result.usage.output_tokens

    return run_virtual(run())


@pytest.mark.parametrize("granularity", ["token", "call", "burst"])
@pytest.mark.parametrize("fault", faults())
def test_the_client_gets_the_answer_or_the_right_error(fault, granularity):
    transport = SimulatedTransport(TURNS, profile=profile(granularity), faults=f"{fault}:100%")
    if fault in ERRORS:
        with pytest.raises(ERRORS[fault]):
            ask(transport)
        return
    output, runs, tokens = ask(transport)
    assert (output, runs) == (TURNS[2], RUNS)
    assert tokens == (5 if fault.startswith("tool-use") else 25)  # an error has no usage


def test_a_streamed_request_may_be_answered_with_one_body():
    recorder = exchange(SimulatedTransport(["a b c"], profile=profile(), faults="plain-json:100%"), STREAM)
    assert json.loads(recorder.body)["choices"][0]["message"]["content"] == "a b c"
    assert recorder.headers[b"content-type"] == b"application/json"


def test_a_capped_reply_that_says_it_is_complete_is_not_believed():
    transport = SimulatedTransport(TURNS, profile=profile(), faults="finish-despite-cap:100%")
    with pytest.raises(TruncatedReply):
        ask(transport, max_tokens=5)


@pytest.mark.parametrize(
    ("fault", "times"), [("slow", [100, 101, 102]), ("slow*3", [30, 31, 32]), ("pings", [10, 11, 12])]
)
def test_a_straggler_is_late_with_its_first_token_only(fault, times):
    transport = SimulatedTransport(["one two three"], profile=profile(), faults=f"{fault}:100%")
    assert exchange(transport, STREAM).times == times


def test_a_cut_and_a_stall_come_in_the_middle():
    async def run(fault):
        transport, recorder = SimulatedTransport(["a b c d"], profile=profile(), faults=f"{fault}:100%"), Recorder()
        with pytest.raises(TransportError if fault == "cut" else TimeoutError):
            async with asyncio.timeout(5):
                await transport.send(STREAM, recorder)
        return recorder.times, (transport.stats.open, transport.stats.abandoned)

    assert run_virtual(run("cut")) == ([10, 11], (0, 0))
    assert run_virtual(run("stall")) == ([10, 11], (0, 1))


def test_errors_come_at_once_and_take_no_slot():
    slow = structs.replace(profile(), slots=1, rtt_ms=2.0)
    assert exchange(SimulatedTransport(["x"], profile=slow, faults="500:100%"), STREAM).times == [2]


@pytest.mark.parametrize("fault", ["cut", "stall", "slow", "crlf", "zero-index"])
def test_scripted_bytes_stay_as_they_are(fault):
    recorder = exchange(SimulatedTransport([raw(b"data: {", b"}\n\n")], faults=f"{fault}:100%"), STREAM)
    assert (recorder.chunks, recorder.times) == ([b"data: {", b"}\n\n"], [0, 0])


def test_a_whole_body_can_be_cut_too():
    transport = SimulatedTransport(["one two three"], profile=profile(), faults="cut:100%")
    with pytest.raises(TransportError):
        exchange(transport, STREAM.replace(b"true", b"false"))


def test_faults_come_in_their_shares_and_the_same_with_the_same_seed():
    def drawn(seed):
        mix = Mix("cut:10%, slow*3:20%,429:5%", seed)
        return [mix.draw() for _ in range(4000)]

    counts = Counter(map(str, drawn(1)))
    assert sorted(count / 4000 for count in counts.values()) == pytest.approx([0.05, 0.1, 0.2, 0.65], rel=0.15)
    assert list(map(str, drawn(1))) == list(map(str, drawn(1))) != list(map(str, drawn(2)))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("cu:1%", r"There is no fault 'cu'; there are .*did you mean cut\?"),
        ("cut", "'cut' is no fault; write its name and how often, like cut:1%"),
        ("cut:1", "'cut:1' is no fault"),
        ("cut:1%,", "'' is no fault"),
        ("cut*2:1%", "Only slow can be told how many times, not cut"),
        ("cut:60%,stall:41%", "are more than 100% of all requests"),
    ],
)
def test_faults_that_there_are_not_are_refused(text, told):
    with pytest.raises(ConfigError, match=told):
        Mix(text)


def test_every_fault_says_what_it_does():
    assert all(sentence.endswith(".") and sentence[0].isupper() for sentence in faults().values())
    assert len(faults()) > 50
