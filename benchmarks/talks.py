"""Conversations as agents have them, for whoever counts their tokens: English and Chinese, code, JSON and logs.

They are the same every time, but for the Python that brings the English (its manual) and the code (its library).
"""

from __future__ import annotations

import argparse
import asyncio.base_events
import http.client
import inspect
import json
import pydoc_data.topics
import random
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from hotloop.context.conversation import Conversation

TURNS, CUT_AT, CUT_TO = 12, 9, 5
_LIBRARY: Sequence[ModuleType] = (argparse, asyncio.base_events, http.client, typing)
_WORDS = ("order", "parcel", "invoice", "customer", "warehouse", "carrier", "refund", "address", "status", "payment")
_NAMES = ("query_order", "search_archive", "read_file", "run_query", "list_events")


@dataclass(frozen=True)
class Talk:
    """A conversation. `ends` is where each message ends in `messages`.

    `prompts` are the turn in which each was sent, and how many of the messages it had.
    """

    kind: str
    tools: list[dict[str, Any]]
    messages: bytes
    ends: list[int]
    prompts: list[tuple[int, int]]

    def prompt(self, place: int) -> bytes:
        """The messages of one of the prompts."""
        return self.messages[: self.ends[self.prompts[place][1] - 1]]

    @property
    def cut_at(self) -> int:
        """The place of the prompt before which the early turns may be cut off: the first of turn 9."""
        return next(place for place, (turn, _) in enumerate(self.prompts) if turn == CUT_AT)

    @property
    def cut_to(self) -> int:
        """How many messages there are before those that are left: before turn 5."""
        return next(number for turn, number in self.prompts if turn == CUT_TO) - 1

    def after_cut(self) -> bytes:
        """The messages of that prompt, once the early turns are cut off."""
        prompt = self.prompt(self.cut_at)
        return prompt[: self.ends[0]] + prompt[self.ends[self.cut_to - 1] :]


@dataclass(frozen=True)
class Turn:
    """What is said in a turn: the prompt, what each step's calls give, and the answer."""

    prompt: str
    steps: list[list[str]]
    answer: str


class Texts:
    """Texts of each kind and of about so many characters, as `draw` picks them."""

    def __init__(self, draw: random.Random) -> None:
        self.draw = draw
        self._english = "\n".join(pydoc_data.topics.topics.values()).splitlines()
        self._chinese = Path(__file__).with_name("chinese.txt").read_text("utf-8").splitlines()
        self._code = "\n".join(map(inspect.getsource, _LIBRARY)).splitlines()

    def english(self, size: int) -> str:
        """Of the Python manual."""
        return self._lines(self._english, size)

    def chinese(self, size: int) -> str:
        """Of letters, reports, stories."""
        return self._lines(self._chinese, size)

    def code(self, size: int) -> str:
        """Of the standard library."""
        return self._lines(self._code, size)

    def records(self, count: int) -> str:
        """So many records as JSON, with or without spaces."""
        keys = self.draw.sample(list(_FIELDS), 5)
        records = [{key: _FIELDS[key](self.draw) for key in keys} for _ in range(count)]
        separators = self.draw.choice([None, (",", ":")])
        return json.dumps(records if count > 1 else records[0], ensure_ascii=False, separators=separators)

    def log(self, count: int) -> str:
        """So many lines of a log."""
        return "\n".join(
            f"{_time(self.draw)} INFO [worker-{line % 7}] {_word(self.draw)}.{_word(self.draw)}: took {line * 37} ms"
            for line in range(count)
        )

    def _lines(self, lines: list[str], size: int) -> str:
        place, taken = self.draw.randrange(len(lines)), ""
        while len(taken) < size:
            taken += lines[place % len(lines)] + "\n"
            place += 1
        return taken[: max(size, 20)].strip() or "-"


def _word(draw: random.Random) -> str:
    return draw.choice(_WORDS)


def _time(draw: random.Random) -> str:
    return f"2025-{draw.randrange(1, 13):02}-{draw.randrange(1, 29):02}T{draw.randrange(24):02}:{draw.randrange(60):02}"


_FIELDS: dict[str, Callable[[random.Random], Any]] = {
    "order_id": lambda draw: str(draw.randrange(10**7, 10**8)),
    "status": lambda draw: draw.choice(["shipped", "pending", "returned", "已发货", "待付款"]),
    "updatedAt": _time,
    "total": lambda draw: round(draw.random() * 1000, 2),
    "trace": lambda draw: f"{draw.getrandbits(64):016x}",
    "customer": lambda draw: draw.choice(["Ann Lee", "Miller Ltd", "李伟", "王芳", "Jörg Weiß"]),
    "city": lambda draw: draw.choice(["Berlin", "Shenzhen", "杭州", "São Paulo", "New York"]),
    "quantity": lambda draw: draw.randrange(1, 500),
    "paid": lambda draw: draw.random() < 0.5,
    "note": lambda draw: " ".join(_word(draw) for _ in range(draw.randrange(2, 9))),
}


def _support(texts: Texts) -> Turn:
    draw = texts.draw
    steps = [[texts.records(1) for _ in range(draw.randrange(1, 3))] for _ in range(draw.randrange(3))]
    return Turn(texts.english(90), steps, texts.english(250))


def _chinese_support(texts: Texts) -> Turn:
    draw = texts.draw
    steps = [[texts.records(1) for _ in range(draw.randrange(1, 3))] for _ in range(draw.randrange(3))]
    return Turn(texts.chinese(40), steps, texts.chinese(150))


def _coding(texts: Texts) -> Turn:
    draw = texts.draw
    steps = [[texts.code(draw.randrange(300, 6000))] for _ in range(draw.randrange(1, 4))]
    return Turn(texts.english(150), steps, f"{texts.english(300)}\n```python\n{texts.code(500)}\n```")


def _research(texts: Texts) -> Turn:
    draw = texts.draw
    steps = [[draw.choice([texts.english, texts.english, texts.chinese])(draw.randrange(800, 5000))] for _ in range(2)]
    return Turn(texts.english(120), steps, texts.english(1200))


def _data(texts: Texts) -> Turn:
    draw = texts.draw
    steps = [[texts.records(draw.randrange(2, 60))], [texts.log(draw.randrange(5, 80))]]
    return Turn(texts.english(100), steps[: draw.randrange(1, 3)], texts.english(400))


_KINDS: dict[str, Callable[[Texts], Turn]] = {
    "support": _support,
    "客服": _chinese_support,
    "coding": _coding,
    "research": _research,
    "data": _data,
}


def _mixed(texts: Texts) -> Turn:
    return texts.draw.choice(list(_KINDS.values()))(texts)


def talks(count: int) -> list[Talk]:
    """So many conversations of each kind."""
    kinds = {**_KINDS, "mixed": _mixed}
    return [_talk(kind, kinds[kind], seed) for kind in kinds for seed in range(count)]


def _talk(kind: str, turn: Callable[[Texts], Turn], seed: int) -> Talk:
    texts = Texts(random.Random(f"{kind} {seed}"))
    instructions = texts.chinese(300) if kind == "客服" else texts.english(500)
    conversation, ends, prompts = Conversation.of(instructions), [], []
    ends.append(len(conversation.messages))
    for number in range(1, TURNS + 1):
        said = turn(texts)
        conversation.begin(said.prompt)
        ends.append(len(conversation.messages))
        for results in said.steps:
            prompts.append((number, len(ends)))
            ends += _step(conversation, texts.draw, results)
        prompts.append((number, len(ends)))
        conversation.answer(said.answer)
        ends.append(len(conversation.messages))
    tools = [_tool(name, texts) for name in texts.draw.sample(_NAMES, 3)]
    return Talk(kind, tools, bytes(conversation.messages), ends, prompts)


def _step(conversation: Conversation, draw: random.Random, results: list[str]) -> list[int]:
    """Calls that give these results; where their messages end."""
    ids = [conversation.new_id() for _ in results]
    arguments = [json.dumps({"order_id": str(draw.randrange(10**8)), "limit": len(each)}) for each in results]
    names = [draw.choice(_NAMES) for _ in results]
    conversation.calls([(*each, {}) for each in zip(ids, names, arguments, strict=True)])
    ends = [len(conversation.messages)]
    for call_id, result in zip(ids, results, strict=True):
        conversation.result(call_id, result)
        ends.append(len(conversation.messages))
    return ends


def _tool(name: str, texts: Texts) -> dict[str, Any]:
    properties = {
        key: {"type": "string", "description": texts.english(60)} for key in texts.draw.sample(list(_FIELDS), 3)
    }
    parameters = {"type": "object", "properties": properties, "required": list(properties)}
    return {"type": "function", "function": {"name": name, "description": texts.english(150), "parameters": parameters}}
