"""Prompts of a wanted length in tokens, new to the service from the first line on, or known to it up to a point."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import count, cycle, islice
from typing import Any

import msgspec

from hotloop.lab.probing.asking import Message

COUNT = "Count from one to two hundred in words, separated by spaces, and say nothing else."
_TALE = "the river ran past an old mill and under the stone bridge to the town where boats lay by the wall"
_FEWER = 12  # words: two such steps are longer than the usual block of a cache, 16 tokens
_OVERHEAD, _PER_WORD = 12.0, 1.1  # tokens, until the service has said more
_REPORT = {"name": "get_report", "description": "The report.", "parameters": {"type": "object", "properties": {}}}


class ProbePrompt(msgspec.Struct, frozen=True):
    """What is asked, about `tokens` long; prompts with the same `key` begin with the same `shared` tokens.

    `words` is how many words it has; `fields` are further ones of the request's body.
    """

    messages: list[Message]
    words: int
    tokens: int
    key: str
    shared: int = 0
    fields: dict[str, Any] = {}


class Texts:
    """Makes prompts, and learns from what a service counts how many words a token is."""

    def __init__(self) -> None:
        self._counted: dict[int, int] = {}

    def learn(self, prompt: ProbePrompt, tokens: int | None) -> None:
        """The service counted so many tokens in a prompt without further fields."""
        if tokens is not None:
            self._counted[prompt.words] = tokens

    def fixed(self, text: str) -> ProbePrompt:
        """The prompt that is this text."""
        return self._prompt([_said("user", text)], key=_novel())

    def cold(self, tokens: int) -> ProbePrompt:
        """A prompt whose first line is like no other's."""
        return self.fixed(f"{_novel()}\n{self._filler(tokens)}\n{COUNT}")

    def cached(self, tokens: int) -> Callable[[], ProbePrompt]:
        """Makes prompts that begin like the first of them, each for some words less than the one before.

        So services that count cached tokens show how long the blocks of their cache are.
        """
        key, words, made = _novel(), self._filler(tokens).split(), count()

        def make() -> ProbePrompt:
            start = f"{key}\n{' '.join(words[: max(0, len(words) - _FEWER * next(made))])}"
            shared = self._tokens(len(start.split()))
            return self._prompt([_said("user", f"{start}\n{_novel()} {COUNT}")], key=key, shared=shared)

        return make

    def conversation(self, result_tokens: int, empty: str | None) -> Callable[[], ProbePrompt]:
        """Makes prompts that end three turns, in the second of which a tool gave a result of so many tokens."""
        key = _novel()
        call = {"id": "call00001", "type": "function", "function": {"name": "get_report", "arguments": "{}"}}
        past = [
            _said("user", f"{key} I have some questions about a report."),
            _said("assistant", "Ask me."),
            _said("user", "Get the report."),
            {"role": "assistant", "content": empty, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "call00001", "content": self._filler(result_tokens)},
            _said("assistant", "I have read it."),
            _said("user", "Was it long?"),
            _said("assistant", "It was."),
        ]
        shared = self._tokens(sum(len((message["content"] or "").split()) for message in past))
        fields = {"tools": [{"type": "function", "function": _REPORT}]}
        return lambda: self._prompt([*past, _said("user", f"{_novel()} {COUNT}")], key, shared, fields)

    def _prompt(
        self, messages: list[Message], key: str, shared: int = 0, fields: dict[str, Any] | None = None
    ) -> ProbePrompt:
        words = sum(len((message["content"] or "").split()) for message in messages)
        return ProbePrompt(messages, words, self._tokens(words), key, shared, fields or {})

    def _filler(self, tokens: int) -> str:
        overhead, per_word = self._line()
        words = round((tokens - overhead) / per_word) - len(COUNT.split())
        return " ".join(islice(cycle(_TALE.split()), max(0, words)))

    def _tokens(self, words: int) -> int:
        overhead, per_word = self._line()
        return round(overhead + per_word * words)

    def _line(self) -> tuple[float, float]:
        """Tokens before the first word, and for each word."""
        if not self._counted:
            return _OVERHEAD, _PER_WORD
        (few, of_few), (many, of_many) = min(self._counted.items()), max(self._counted.items())
        per_word = (of_many - of_few) / (many - few) if many > few else _PER_WORD
        return of_few - per_word * few, per_word


def _novel() -> str:
    return f"{random.getrandbits(64):016x}"


def _said(role: str, content: str) -> Message:
    return {"role": role, "content": content}
