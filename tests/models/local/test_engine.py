"""The embedded engine with the real model: calls, answers, cache, cancellation, sharing, errors."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hotloop.errors import TransportError, WeightsError
from hotloop.models.local import worker
from hotloop.models.local.engine import SMOLLM2, LocalTransport

Ask = Callable[..., Any]
Tools = list[dict[str, Any]]

SYSTEM = {"role": "system", "content": "You are an order assistant."}
BOTH = [("query_order_status", {"order_id": "20250101"}), ("query_logistics", {"order_id": "20250101"})]
RESULTS = [
    {"status": "shipped", "items": 2, "total": "315.00 CNY"},
    {"carrier": "SF Express", "location": "Hangzhou transfer centre", "eta": "2025-01-09"},
]
ENGLISH = "What is the status of order 20250101, and where is it now (logistics)?"
CHINESE = "查询订单 20250101 的状态，同时查一下物流信息"
STORY = "Tell me a very long story about a fisherman."


def messages(prompt: str) -> list[dict[str, Any]]:
    return [SYSTEM, {"role": "user", "content": prompt}]


def with_results(conversation: list[dict[str, Any]], message: dict[str, Any]) -> list[dict[str, Any]]:
    """The conversation after the calls in `message` were run."""
    results = [
        {"role": "tool", "tool_call_id": call["id"], "content": msgspec.json.encode(result).decode()}
        for call, result in zip(message["tool_calls"], RESULTS, strict=True)
    ]
    return [*conversation, message, *results]


def all_tokens(got: Any) -> int:
    return got.reply.usage.input_tokens + got.reply.usage.output_tokens


@pytest.mark.parametrize("prompt", [ENGLISH, CHINESE])
async def test_the_order_question_makes_both_calls(ask: Ask, order_tools: Tools, prompt: str) -> None:
    got = await ask(messages=messages(prompt), tools=order_tools)
    assert got.calls == BOTH
    assert got.reply.finish_reason == "tool_calls"


async def test_the_answer_states_both_facts_and_only_the_newest_turn_is_evaluated(ask: Ask, order_tools: Tools) -> None:
    conversation = messages(ENGLISH)
    first = await ask(messages=conversation, tools=order_tools)
    conversation = with_results(conversation, first.message)
    second = await ask(messages=conversation, tools=order_tools)
    answer = second.reply
    assert "shipped" in answer.text
    assert "Hangzhou transfer centre" in answer.text
    assert "2025-01-09" in answer.text
    assert answer.finish_reason == "stop"
    said_before = all_tokens(first)
    assert said_before - 3 <= answer.usage.cached_tokens <= said_before

    conversation += [second.message, {"role": "user", "content": "Thank you!"}]
    third = await ask(messages=conversation, tools=order_tools, max_tokens=4)
    assert third.reply.usage.cached_tokens >= all_tokens(second) - 3


async def test_an_answer_to_one_result_ends_by_itself(ask: Ask, order_tools: Tools) -> None:
    conversation = messages("Where is the parcel of order 20250101?")
    first = await ask(messages=conversation, tools=order_tools)
    result = {"role": "tool", "tool_call_id": "c0", "content": '{"order_id":"20250101","location":"Shanghai"}'}
    answer = (await ask(messages=[*conversation, first.message, result], tools=order_tools)).reply
    assert [call.name for call in first.reply.calls] == ["query_logistics"]
    assert "Shanghai" in answer.text
    assert answer.finish_reason == "stop"


async def test_other_conversations_do_not_cost_the_cache(ask: Ask, order_tools: Tools) -> None:
    ours = {"messages": messages(ENGLISH), "tools": order_tools}
    prompt_tokens = (await ask(**ours)).reply.usage.input_tokens
    await ask("Write about the sea. " * 10, max_tokens=2)
    assert (await ask(**ours)).reply.usage.cached_tokens == prompt_tokens - 1


async def test_a_stream_is_read_like_that_of_any_service(ask: Ask, order_tools: Tools) -> None:
    reply = await ask(messages=messages(ENGLISH), tools=order_tools)
    assert (reply.status, reply.headers) == (200, {b"content-type": b"text/event-stream"})
    last = reply.frames[-1]
    assert last["choices"] == []
    assert last["usage"]["completion_tokens"] == last["timings"]["predicted_n"] > 20
    assert last["usage"]["prompt_tokens_details"] == {"cached_tokens": last["timings"]["cache_n"]}
    assert len({frame["id"] for frame in reply.frames}) == 1


async def test_text_comes_as_it_is_decoded(ask: Ask) -> None:
    reply = await ask(STORY, max_tokens=20)
    texts = [frame["choices"][0]["delta"].get("content") for frame in reply.frames if frame["choices"]]
    assert len([text for text in texts if text]) > 10
    assert reply.frames[-2]["choices"][0]["finish_reason"] == "length"


async def test_no_call_is_made_that_is_forbidden_or_not_asked_for(ask: Ask, order_tools: Tools) -> None:
    asked = {"messages": messages(ENGLISH), "tools": order_tools, "max_tokens": 40}
    assert (await ask(**asked, tool_choice="none")).calls == []
    assert (await ask(**asked | {"messages": messages("Good morning!")})).calls == []


async def in_engine(work: worker.Work) -> None:
    """Have the loaded model do something."""
    engine = worker.acquire(SMOLLM2, lambda: pytest.fail("the engine is running"))
    try:
        await asyncio.wrap_future(engine.submit(work))
    finally:
        worker.release(SMOLLM2)


@pytest.mark.parametrize("stage", ["prefill", "decode"])
async def test_cancelling_stops_the_model_within_100_ms(local: LocalTransport, recorder: Any, stage: str) -> None:
    prompt = STORY if stage == "decode" else " ".join(f"{number} fish." for number in range(700))
    body = {"messages": [{"role": "user", "content": prompt}], "max_tokens": 2000}
    took = []
    for attempt in range(3):
        body["messages"][0]["content"] = f"{attempt} {prompt}"
        came = asyncio.Event()
        recorder.on_data = came.set
        task = asyncio.create_task(local.send(msgspec.json.encode(body), recorder))
        await (came.wait() if stage == "decode" else asyncio.sleep(0.15))
        began = time.process_time()  # CPU of all threads: the same on a machine that is busy with something else
        task.cancel()
        had = recorder.body
        with pytest.raises(asyncio.CancelledError):
            await task
        await in_engine(lambda model: None)
        took.append(time.process_time() - began)
        assert recorder.body == had
    assert bool(recorder.body) is (stage == "decode")
    assert min(took) < 0.1, took


async def test_a_receiver_that_has_enough_stops_the_model(local: LocalTransport, recorder: Any) -> None:
    recorder.on_data = lambda: True
    began = time.perf_counter()
    body = {"messages": [{"role": "user", "content": STORY}], "max_tokens": 2000}
    await local.send(msgspec.json.encode(body), recorder)
    assert recorder.body.count(b"data:") == 1
    assert time.perf_counter() - began < 5


async def test_two_requests_at_once_are_both_answered(ask: Ask, order_tools: Tools) -> None:
    turns = 0

    async def watch_the_loop() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0.001)
            turns += 1

    watch = asyncio.create_task(watch_the_loop())
    replies = await asyncio.gather(
        ask(messages=messages(ENGLISH), tools=order_tools),
        ask(messages=messages(CHINESE), tools=order_tools),
    )
    watch.cancel()
    assert [reply.calls for reply in replies] == [BOTH, BOTH]
    assert turns > 50  # the event loop goes on meanwhile


async def test_a_prompt_longer_than_the_context_is_refused(ask: Ask) -> None:
    reply = await ask("fish " * 9000)
    assert reply.status == 400
    assert reply.error["code"] == "context_length_exceeded"
    assert "8192" in reply.error["message"]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"{", "cannot be read"),
        (b'{"messages":"hello"}', r"Expected `array`, got `str` - at `$.messages`"),
        (b'{"messages":[]}', "no messages"),
        (b'{"messages":[{"role":"user","content":"Hi"}],"max_tokens":-5}', "n_predict"),
        (b'{"messages":[{"role":"user","content":[{"type":"image_url"}]}]}', "Expected `str"),
        (b'{"messages":[{"role":"user","content":"Hi"}],"tool_choice":"required"}', "'required' - at `$.tool_choice`"),
    ],
)
async def test_a_bad_request_is_refused(local: LocalTransport, recorder: Any, body: bytes, reason: str) -> None:
    await local.send(body, recorder)
    assert recorder.status == 400
    assert reason in recorder.error["message"]


async def test_a_schema_that_cannot_be_held_is_refused_by_name(ask: Ask, make_offer: Callable[..., Any]) -> None:
    tools = [make_offer("find_word", "Find a word.", word={"type": "string", "pattern": r"\bfoo\b"})]
    reply = await ask("find the word foo", tools=tools)
    assert reply.status == 400
    assert "The schema of find_word cannot be held" in reply.error["message"]


async def test_what_llama_cpp_itself_cannot_read_is_told(local: LocalTransport) -> None:
    with pytest.raises(worker.Unreadable, match=r"cannot read the request: Expected 'messages' to be an array$"):
        await in_engine(lambda model: model.ask({"messages": "none"}, lambda chunk: None, chat=True))


async def test_transports_of_one_file_share_an_engine_until_the_last_is_closed(
    weights: Path, tmp_path: Path, ask: Ask
) -> None:
    link = tmp_path / "linked.gguf"
    link.symlink_to(weights)
    first, second = LocalTransport(str(link)), LocalTransport(str(weights))
    before = threading.active_count()
    await first.warm()
    await second.warm()
    assert threading.active_count() == before + 1
    await first.aclose()
    assert (await ask("Hello", transport=second, max_tokens=3)).status == 200
    await second.aclose()
    assert threading.active_count() == before
    assert (await ask("Hello", transport=first, max_tokens=3)).status == 200  # it can be used again
    await first.aclose()
    assert threading.active_count() == before


async def test_closing_ends_what_is_under_way(weights: Path, recorder: Any) -> None:
    transport = LocalTransport(str(weights))
    came = asyncio.Event()
    recorder.on_data = came.set
    body = {"messages": [{"role": "user", "content": STORY}], "max_tokens": 2000}
    sends = [asyncio.create_task(transport.send(msgspec.json.encode(body), recorder)) for _ in range(2)]
    await came.wait()
    await transport.aclose()
    for task in sends:
        with pytest.raises(TransportError, match="was closed"):
            await task


async def test_closing_an_engine_that_never_began_is_quick(weights: Path) -> None:
    await LocalTransport(str(weights)).aclose()


def test_a_file_that_is_not_there_is_an_error_at_once() -> None:
    with pytest.raises(WeightsError, match=r"/nowhere/model.gguf cannot be read: No such file"):
        LocalTransport("/nowhere/model.gguf")


async def test_a_file_that_llama_cpp_cannot_load_is_an_error(weights: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.gguf"
    with weights.open("rb") as whole:
        cut.write_bytes(whole.read(8_000_000))
    transport = LocalTransport(str(cut))
    with pytest.raises(WeightsError, match=r"llama.cpp cannot load .*cut.gguf: the file is damaged"):
        await transport.warm()
    await transport.aclose()


async def test_weights_that_cannot_be_fetched_fail_the_request(
    weights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recorder: Any
) -> None:
    monkeypatch.setattr(worker, "_engines", {})  # the loaded engine would serve it
    monkeypatch.setenv("HOTLOOP_CACHE", str(tmp_path / "empty"))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    transport = LocalTransport()
    with pytest.raises(WeightsError, match="pip could not fetch"):
        await transport.send(b'{"messages":[{"role":"user","content":"Hi"}]}', recorder)
    await transport.aclose()


AT_EXIT = """
import asyncio, sys
from hotloop.models.local.engine import LocalTransport

class Receiver:
    def sent(self, connected, throttle): pass
    def head(self, status, headers): pass
    def data(self, chunk): return False

async def main():
    body = b'{"messages":[{"role":"user","content":"A long story"}],"max_tokens":2000}'
    task = asyncio.create_task(LocalTransport(sys.argv[1]).send(body, Receiver()))
    await asyncio.sleep(1)
    print("leaving")
    task.cancel()

asyncio.run(main())
"""


def test_a_process_may_end_without_closing(weights: Path) -> None:
    ended = subprocess.run([sys.executable, "-c", AT_EXIT, str(weights)], capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "leaving\n", "")
