"""Prompts that are too long for a simulated service: what it says in each dialect, and how an agent goes on."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from hotloop import Agent, Context
from hotloop.errors import ConfigError, ContextOverflow
from hotloop.lab.profiles import Curve, Profile
from hotloop.lab.service.contextlimit import too_long
from hotloop.models.wire.faults import service_error
from hotloop.testing import SimulatedService, SimulatedTransport
from recorder import Recorder

MOST = "This model's maximum context length is 100 tokens. However, your "
OPENAI = f"{MOST}messages resulted in 123 tokens. Please reduce the length of the messages."


@pytest.mark.parametrize(
    ("dialect", "message", "told"),
    [
        ("openai", OPENAI, {"code": "context_length_exceeded", "type": "invalid_request_error", "param": "messages"}),
        ("generic", OPENAI, {"code": "context_length_exceeded"}),
        (
            "groq",
            "Please reduce the length of the messages or completion.",
            {"code": "context_length_exceeded", "type": "invalid_request_error"},
        ),
        (
            "vllm",
            f"{MOST}request has 123 input tokens. Please reduce the length of the input messages.",
            {"code": 400, "type": "BadRequestError"},
        ),
        (
            "sglang",
            "The input (123 tokens) is longer than the model's context length (100 tokens).",
            {"code": 400, "type": "BadRequestError"},
        ),
        (
            "llamacpp",
            "request (123 tokens) exceeds the available context size (100 tokens), try increasing it",
            {"code": 400, "type": "exceed_context_size_error", "n_prompt_tokens": 123, "n_ctx": 100},
        ),
    ],
)
def test_each_dialect_says_it_in_its_own_words(dialect: str, message: str, told: dict[str, Any]) -> None:
    refused = too_long(dialect, 123, 100)
    error = msgspec.json.decode(refused.pieces[0])["error"]
    assert (refused.status, error["message"]) == (400, message)
    assert error.items() >= told.items()
    assert isinstance(service_error(400, {}, refused.pieces[0]), ContextOverflow)


PROFILE = Profile(name="x", kind="lpu", base_ms=0, per_prompt_token_ms=0, tpot_ms=Curve(), context_limit=50)


@pytest.mark.parametrize(
    ("options", "size", "status"),
    [
        ({"context_limit": 50}, 199, 200),
        ({"context_limit": 50}, 200, 400),
        ({"profile": PROFILE}, 200, 400),
        ({"profile": PROFILE, "context_limit": 60}, 200, 200),
        ({}, 100_000, 200),
    ],
)
async def test_a_prompt_may_be_as_long_as_leaves_room_for_a_reply(options: Any, size: int, status: int) -> None:
    body = b'{"messages":[{"role":"user","content":"Hi"}]}'
    recorder = Recorder()
    await SimulatedTransport(["Yes."], **options).send(body + b" " * (size - len(body)), recorder)
    assert recorder.status == status


def test_a_context_of_nothing_is_none() -> None:
    with pytest.raises(ConfigError, match="context_limit: expected a whole number >= 1"):
        SimulatedService(context_limit=0)


def replies(request: dict[str, Any]) -> str:
    last = request["messages"][-1]["content"]
    return "Ann wants shoes." if last.startswith("Summarize our conversation") else "Yes."


@pytest.mark.parametrize("dialect", ["openai", "groq", "vllm", "sglang", "llamacpp"])
@pytest.mark.parametrize("context", [None, Context(limit=600)])
async def test_an_agent_goes_on_after_it(dialect: str, context: Context | None) -> None:
    profile = msgspec.structs.replace(PROFILE, dialect=dialect, context_limit=600)
    async with (
        SimulatedService(replies, profile=profile) as service,
        Agent(model="m", endpoint=service.url, sessions=":memory:", context=context) as agent,
    ):
        session = agent.session("ann")
        results = [await session.run(f"{number} {'shoes ' * 60}") for number in range(12)]
    assert [result.output for result in results] == ["Yes."] * 12
    assert any("compaction" in result.trace.facts for result in results)
    refused = [each for result in results for each in result.trace.attempts if each.outcome == "failed"]
    assert bool(refused) is (context is None)


async def test_the_tokens_that_it_names_are_those_that_it_reports() -> None:
    async def asked(limit: int) -> Any:
        async with (
            SimulatedService(["Yes."], context_limit=limit) as service,
            Agent(model="m", endpoint=service.url) as agent,
        ):
            return await agent.run("Hello " * 100)

    counted = (await asked(1000)).usage.input_tokens
    with pytest.raises(ContextOverflow, match=f"is 100 tokens. However, your messages resulted in {counted} tokens"):
        await asked(100)
