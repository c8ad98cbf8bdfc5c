"""What a service can do is found by asking it, and a refusal is a finding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from probed import WORDS, counting, probed, simulated

from hotloop.errors import ConnectError, InvalidRequest
from hotloop.lab.faults import Answer, FaultyTransport, Refuse
from hotloop.lab.probing.abilities import Ability
from hotloop.lab.probing.owntimes import OwnTimes, own_times
from hotloop.lab.profiles import Curve, Profile
from hotloop.lab.script import AnyReply, call, raw, say
from hotloop.lab.scripted import ScriptedModel
from hotloop.lab.simtransport import SimulatedTransport
from hotloop.models.transport import Transport

SCHEMAS = [f"JSON schema{way}" for way in ("", ", streamed", " + tools", " + tools, streamed")]


def found(transport: Transport, dialect: str = "") -> dict[str, Ability]:
    """What a probe finds before it measures anything, by name."""
    return {ability.name: ability for ability in probed(transport, (), dialect=dialect).abilities}


def service(**options: Any) -> Transport:
    given = {"name": "p", "kind": "lpu", "base_ms": 10, "per_prompt_token_ms": 0.01, "tpot_ms": Curve(2)} | options
    return simulated(Profile(**given))


def refusing(wrong: Callable[[dict[str, Any]], bool], message: str) -> Transport:
    """A service that refuses some requests."""
    refusal = raw(b'{"error": {"message": "%b"}}' % message.encode(), status=400)
    return SimulatedTransport(lambda request: refusal if wrong(request) else counting(request), ttft=0.01, tpot=0.001)


def test_a_service_that_can_do_everything():
    abilities = found(service(cache_block=16, dialect="groq"))
    assert {name for name, ability in abilities.items() if ability.found != "yes"} == set()
    assert list(abilities) == [
        "streamed text",
        "usage in the stream",
        "server timings",
        "cached tokens",
        "tools",
        "parallel calls",
        "streamed arguments",
        *SCHEMAS,
    ]
    assert abilities["tools"].why == "get_weather, get_time called"


@pytest.mark.parametrize(
    ("granularity", "answer", "why"),
    [
        ("token", "yes", "pieces at"),
        ("call", "no", "each call came whole"),
        ("burst", "no", "in a burst: all of them at once"),
    ],
)
def test_how_finely_arguments_are_streamed(granularity, answer, why):
    ability = found(service(granularity=granularity))["streamed arguments"]
    assert (ability.found, ability.kind) == (answer, granularity)
    assert why in ability.why


@pytest.mark.parametrize("dialect", ["groq", "llamacpp", "vllm", "dynamo", "openai"])
def test_whose_timings_it_tells(dialect):
    ability = found(service(dialect=dialect), dialect)["server timings"]
    assert (ability.found, ability.kind) == ("yes", dialect)


def test_timings_and_cached_tokens_that_are_not_told():
    abilities = found(service(dialect="ollama"))
    assert (abilities["server timings"].found, abilities["cached tokens"].found) == ("no", "no")


def test_a_service_that_buffers():
    abilities = found(SimulatedTransport(counting, ttft=0.2))
    assert abilities["streamed text"].found == "no"
    assert "holds the stream back" in abilities["streamed text"].why
    assert abilities["streamed arguments"].kind == "burst"


def test_a_service_that_refuses_tools():
    abilities = found(refusing(lambda request: "tools" in request, "tools are not supported"))
    assert abilities["tools"].found == "no"
    assert "tools are not supported" in abilities["tools"].why
    assert [abilities[name].found for name in ("parallel calls", "streamed arguments")] == ["unknown", "unknown"]
    assert [abilities[name].found for name in SCHEMAS] == ["yes", "yes", "no", "no"]


def test_a_service_whose_schemas_go_with_nothing_else():
    abilities = found(refusing(lambda request: "response_format" in request and request["stream"], "no streaming here"))
    assert [abilities[name].found for name in SCHEMAS] == ["yes", "no", "yes", "no"]


@pytest.mark.parametrize(
    ("reply", "tools", "parallel", "schema", "why"),
    [
        (WORDS, "unknown", "unknown", "no", "taken, but not heeded: 'one one"),
        ([call("get_weather", city="Oslo", day="2026-03-01")], "yes", "no", "unknown", "it called a tool instead"),
        (say('{"weather": "mild", "time": 5}'), "unknown", "unknown", "no", "taken, but not heeded"),
    ],
)
def test_a_model_that_does_something_else(reply, tools, parallel, schema, why):
    def answer(request: dict[str, Any]) -> AnyReply:
        return reply if "tools" in request or "response_format" in request else WORDS

    abilities = found(SimulatedTransport(answer, ttft=0.01, tpot=0.001))
    assert [abilities[name].found for name in ("tools", "parallel calls", SCHEMAS[0])] == [tools, parallel, schema]
    assert why in abilities[SCHEMAS[0]].why


def test_usage_that_is_not_told():
    abilities = found(ScriptedModel(lambda request: say(WORDS, usage={}), ttft=0.01, tpot=0.001))
    assert abilities["usage in the stream"].found == abilities["cached tokens"].found == "no"


def test_who_is_busy_is_asked_again():
    faults = [Answer(429, retry_after=3.0), None, Answer(503), None, None, Answer(503), Answer(503), Answer(503)]
    abilities = found(FaultyTransport(service(), faults))
    assert abilities["streamed text"].found == "yes"
    assert abilities["tools"].found == "unknown"
    assert abilities["tools"].why.startswith("Overloaded: ")
    assert abilities[SCHEMAS[0]].found == "yes"


@pytest.mark.parametrize(("fault", "error"), [(Refuse(), ConnectError), (Answer(404), InvalidRequest)])
def test_a_first_question_without_an_answer_is_an_error(fault, error):
    with pytest.raises(error):
        found(FaultyTransport(service(), [fault]))


@pytest.mark.parametrize(
    ("server_ms", "told"),
    [
        (
            {"queue_ms": 1.0, "prompt_ms": 20.0, "completion_ms": 500.0},
            OwnTimes("groq", queue_ms=1.0, prefill_ms=20.0, first_ms=21.0, decode_ms=500.0),
        ),
        ({"completion_ms": 500.0}, OwnTimes("groq", decode_ms=500.0)),
        ({"prompt_ms": 7.5, "predicted_ms": 90.0}, OwnTimes("llamacpp", prefill_ms=7.5, decode_ms=90.0)),
        (
            {"queue_time_ms": 3.0, "time_to_first_token_ms": 40.0, "generation_time_ms": 90.0},
            OwnTimes("vllm", queue_ms=3.0, first_ms=43.0, decode_ms=90.0),
        ),
        ({"time_to_first_token_ms": 40.0}, OwnTimes("vllm")),
        ({"ttft_ms": 40.0}, OwnTimes("dynamo", first_ms=40.0)),
        ({"prompt_ms": 7.5}, None),
    ],
)
def test_the_times_that_a_reply_tells(server_ms, told):
    assert own_times(server_ms, {}) == told
