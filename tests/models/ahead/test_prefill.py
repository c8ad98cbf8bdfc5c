"""Prefills: what is sent, what is told of it, and that it never takes anybody's place."""

from __future__ import annotations

import asyncio
import json

import pytest
from reading import ReadingService, client_of

from hotloop.errors import Overloaded, ReplyTimeout
from hotloop.models.ahead.prefill import Prefilled, prefill, prefill_body, prefill_front
from hotloop.models.dialects import DIALECTS
from hotloop.models.request import RequestTemplate
from hotloop.testing import run_virtual
from hotloop.trace.ledger import Ledger, Usage
from hotloop.units import clock

MESSAGES = b'{"role":"system","content":"' + b"word" * 500 + b'"},{"role":"user","content":"Hi"}'


@pytest.mark.parametrize("dialect", sorted(DIALECTS))
def test_the_body_is_the_prompt_with_one_token_to_write(dialect):
    template = RequestTemplate("m", DIALECTS[dialect], [b'{"name":"f"}'], max_tokens=900)
    body = prefill_body(template, MESSAGES, "s")
    assert body.startswith(template.front + MESSAGES)
    request = json.loads(body)
    assert request[DIALECTS[dialect].max_tokens] == 1
    assert request.get("n_predict") == (0 if dialect in ("llamacpp", "local") else None)


def test_what_is_read_is_told():
    async def main():
        service = ReadingService()
        client, ledger = client_of(service), Ledger(clock(), "run")
        first = await prefill(client, MESSAGES, ledger=ledger)
        again = await prefill(client, MESSAGES, ledger=ledger)
        assert first == Prefilled(first.tokens, 0, first.tokens * 1.0)
        assert (first.read, again.read, again.ms) == (first.tokens, 0, 0.0)
        assert [(facts.why, facts.outcome, facts.usage) for facts in ledger.attempts] == [
            ("prefill", "ok", Usage(first.tokens, 1, 0)),
            ("prefill", "ok", Usage(first.tokens, 1, first.tokens)),
        ]
        assert ledger.stages == []

    run_virtual(main())


def test_the_front_is_read_with_the_instructions():
    async def main():
        service = ReadingService()
        instructions = MESSAGES[: MESSAGES.index(b"},") + 1]
        assert await prefill_front(client_of(service), instructions)
        (body,) = service.bodies
        assert [message["role"] for message in json.loads(body)["messages"]] == ["system", "user"]
        assert instructions in body
        assert await prefill_front(client_of(service, "generic"), instructions) is None
        assert await prefill_front(client_of(service), b"")
        assert await prefill_front(client_of(service, "openai"), instructions) is None  # under its 1,024 tokens
        assert await prefill_front(client_of(service, "openai"), instructions.replace(b"word", b"long word"))
        assert len(service.bodies) == 3

    run_virtual(main())


def test_a_busy_service_is_not_asked():
    async def main():
        service = ReadingService()
        client = client_of(service, max_concurrent=1)
        assert client.service.admission.try_enter(1, 0)
        assert await prefill(client, MESSAGES) is None
        client.service.admission.leave()
        assert await prefill(client, MESSAGES)
        assert client.service.admission.inside == 0
        assert len(service.bodies) == 1

    run_virtual(main())


def test_what_fails_is_told_and_does_not_open_the_circuit():
    async def main():
        client, ledger = client_of(ReadingService(status=503)), Ledger(clock(), "run")
        for _ in range(30):
            with pytest.raises(Overloaded):
                await prefill(client, MESSAGES, ledger=ledger)
        client.service.require_closed(ledger.clock())
        assert ledger.attempts[0].outcome == "failed"
        assert ledger.attempts[0].reason
        assert client.service.admission.inside == 0

    run_virtual(main())


def test_it_has_the_time_of_a_reply():
    async def main():
        with pytest.raises(ReplyTimeout, match=r"did not read the prompt within 0.1 s"):
            await prefill(client_of(ReadingService(), total=0.1), MESSAGES)

    run_virtual(main())


def test_cancelled_it_gives_its_place_back():
    async def main():
        service, ledger = ReadingService(), Ledger(clock(), "run")
        client = client_of(service)
        task = asyncio.create_task(prefill(client, MESSAGES, ledger=ledger))
        await asyncio.sleep(0.05)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        assert (service.under_way, client.service.admission.inside) == (0, 0)
        assert ledger.attempts[0].outcome == "cancelled"

    run_virtual(main())


def test_a_token_that_begins_a_call_is_no_failure():
    async def main():
        assert (await prefill(client_of(ReadingService(calls=True)), MESSAGES)).tokens is None

    run_virtual(main())
