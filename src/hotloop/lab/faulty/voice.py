"""What the model of a setup says: calls, round after round, and at last an answer."""

from __future__ import annotations

import re
from itertools import product
from random import Random
from typing import Any

import msgspec

from hotloop.lab.faulty.setup import Setup, Step
from hotloop.lab.script import AnyReply, Call, Request, call, raw

NEIGHBOUR = "Tell a long story."

_CASE = re.compile(r"Case (\d+):")
_STORY = 400  # words
_SYLLABLES = ("ba", "der", "go", "lin", "ma", "nor", "pe", "ri", "so", "tu", "va", "ze")
_VOCABULARY = tuple(map("".join, product(_SYLLABLES, repeat=3)))
_UNREADABLE = {
    "message": "Failed to call a function.",
    "type": "invalid_request_error",
    "code": "tool_use_failed",
    "failed_generation": '<function=look{"subject": <|',
}


def words(seed: str, count: int) -> str:
    """So many words, the same for the same seed."""
    return " ".join(Random(seed).choices(_VOCABULARY, k=count))


def subjects(setup: Setup, case: int) -> list[str]:
    """What the calls of this question can be about, in the order of all its steps."""
    return [f"K{setup.seed}-{case}-{number}" for number, _ in enumerate(each for line in setup.rounds for each in line)]


def result_of(setup: Setup, tool: str, subject: str) -> dict[str, Any]:
    """What a tool answers: always the same about the same."""
    chance = Random(f"{setup.seed} {tool} {subject}")
    refs = [f"R{chance.randrange(10**8):08d}" for _ in range(4)]
    return {"about": subject, "refs": refs, "text": words(f"{tool} {subject}", setup.tools[tool].size // 7)}


class Voice:
    """The script of a setup's model; it tells from a request alone which question it is and how far that has come."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._refused: set[int] = set()

    def __call__(self, request: Request) -> AnyReply:
        messages = request["messages"]
        place = max((at for at, each in enumerate(messages) if _asks(each)), default=None)
        if place is None:
            return words(NEIGHBOUR, _STORY)
        case = int(_CASE.findall(messages[place]["content"])[-1])
        done = sum(each["role"] == "assistant" for each in messages[place:])
        if self._setup.flawed and case % 4 == 1 and done == 0 and case not in self._refused:
            self._refused.add(case)
            return raw(msgspec.json.encode({"error": _UNREADABLE}), status=400)
        return self._reply(case, done, messages)

    def _reply(self, case: int, done: int, messages: list[dict[str, Any]]) -> AnyReply:
        setup = self._setup
        first = setup.rounds[0][0]
        if setup.flawed and case % 4 == 0:
            if done == 0:
                return Call(first.tool, '{"topic": "what it may be"}')
            done -= 1
        if done < len(setup.rounds):
            before = sum(map(len, setup.rounds[:done]))
            return [self._call(step, case, before, slot, messages) for slot, step in enumerate(setup.rounds[done])]
        if done < len(setup.rounds) + setup.again:
            return self._call(first, case, 0, 0, messages)
        return f"Case {case} is settled: {words(f'{setup.seed} {case}', setup.length('answer', case, setup.answer))}."

    def _call(self, step: Step, case: int, before: int, slot: int, messages: list[dict[str, Any]]) -> Call:
        if step.about == "world":
            return call(step.tool, subject="all")
        if step.about == "question":
            return call(step.tool, subject=subjects(self._setup, case)[before + slot])
        results = (msgspec.json.decode(each["content"]) for each in reversed(messages) if each["role"] == "tool")
        return call(step.tool, subject=next(result["refs"] for result in results if "refs" in result)[slot])


def _asks(message: dict[str, Any]) -> bool:
    return message["role"] == "user" and bool(_CASE.match(message["content"]))
