"""Prompts that were recorded, of whatever agent: which of them read anew what the service had just read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from hotloop.errors import ConfigError
from hotloop.models.prefix.causes import Cause
from hotloop.models.prefix.divergence import Divergence, divergence
from hotloop.models.prefix.parts import HEAD_ROLES, common, read_body
from hotloop.models.sizes import estimated_tokens

_WRAPPERS = ("body", "request", "request_body", "data", "input", "params", "kwargs")
_NAMES = ("session_id", "conversation_id", "thread_id", "session", "conversation")
_DEEPEST = 4  # wrappers around a body
_NEWEST = 8  # conversations with which the beginning of a new one is compared
_BY_DESIGN: tuple[Cause, ...] = ("text", "counter", "tool", "tool set", "model", "option")

_Fields = dict[str, msgspec.Raw]


class Prompt(NamedTuple):
    """A request body, the number of its line, and the name of its conversation, "" if the line does not tell."""

    line: int
    body: bytes
    conversation: str


class Fault(msgspec.Struct, frozen=True):
    """The prompt in `line` diverges from the one in line `after`; `within` one conversation or from another's."""

    line: int
    after: int
    within: bool
    found: Divergence

    @property
    def meant(self) -> bool:
        """Whether it may be by design: two conversations may be those of two agents."""
        return not self.within and self.found.cause in _BY_DESIGN


class Comparison(msgspec.Struct, frozen=True):
    """What was compared: tokens are estimates, `again` those that were read anew for faults that cannot be meant."""

    prompts: int
    conversations: int
    tokens: int
    again: int
    faults: list[Fault]


class _Talk(msgspec.Struct, eq=False):
    """A conversation as far as it was read: its newest prompt, and the messages in that after the instructions."""

    newest: Prompt
    said: tuple[bytes, ...]


class _Talks:
    """All conversations so far; `recent` are the newest of them.

    One is found by its name or, without one, by what it has said, the whole of it or single messages.
    """

    def __init__(self) -> None:
        self.recent: list[_Talk] = []
        self._named: dict[str, _Talk] = {}
        self._whole: dict[tuple[bytes, ...], list[_Talk]] = {}
        self._single: dict[bytes, _Talk] = {}

    def of(self, prompt: Prompt, said: tuple[bytes, ...]) -> _Talk | None:
        """The conversation that the prompt is of, None for a new one."""
        if prompt.conversation:
            return self._named.get(prompt.conversation)
        if len(said) < 2:
            return None
        for length in range(len(said), 0, -1):
            if those := self._whole.get(said[:length]):
                return those[-1]
        shared = {id(talk): talk for each in said if (talk := self._single.get(each)) is not None}
        likeliest = max(shared.values(), key=lambda talk: _in_common(talk, said), default=None)
        return likeliest if likeliest is not None and _in_common(likeliest, said) > 0 else None

    def note(self, talk: _Talk | None, prompt: Prompt, said: tuple[bytes, ...]) -> None:
        """The prompt is the newest one of this conversation, or of a new one."""
        if talk is None:
            talk = _Talk(prompt, said)
        elif not prompt.conversation:
            self._whole[talk.said].remove(talk)
        talk.newest, talk.said = prompt, said
        self.recent = [talk, *(each for each in self.recent if each is not talk)][:_NEWEST]
        if prompt.conversation:
            self._named[prompt.conversation] = talk
        else:
            self._whole.setdefault(said, []).append(talk)
            self._single.update(dict.fromkeys(said, talk))


def read_prompts(path: Path) -> list[Prompt]:
    """The bodies in a file with one JSON object a line: a body, or a log's entry around one.

    Raises ConfigError, with the line, for a file or a line without any.
    """
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.") from None
    prompts = [_prompt(path, number, line) for number, line in enumerate(lines, 1) if line.strip()]
    if not prompts:
        raise ConfigError(f"{path} has no prompts.")
    return prompts


def compare(prompts: Sequence[Prompt]) -> Comparison:
    """Hold every prompt against the one before it in its conversation, or a new one's beginning against others'.

    A conversation without a name is known by the messages that its prompts share.
    """
    talks = _Talks()
    conversations = 0
    faults = []
    for prompt in prompts:
        said = _said(prompt.body)
        talk = talks.of(prompt, said)
        conversations += talk is None
        before = _nearest(talks.recent, prompt) if talk is None else talk
        if before is not None and (fault := _fault(before.newest, prompt, within=talk is not None)):
            faults.append(fault)
        talks.note(talk, prompt, said)
    tokens = sum(estimated_tokens(each.body) for each in prompts)
    again = sum(each.found.again for each in faults if not each.meant)
    return Comparison(len(prompts), conversations, tokens, again, faults)


def _prompt(path: Path, number: int, line: bytes) -> Prompt:
    try:
        fields = msgspec.json.decode(line, type=_Fields)
    except msgspec.DecodeError as error:
        raise ConfigError(f"{path}, line {number}: it is no JSON object ({error}).") from None
    chain = list(_unwrapped(msgspec.Raw(line), fields))
    if "messages" in chain[-1][1]:
        named = (_text(each[1], name) for each in reversed(chain) for name in _NAMES)
        return Prompt(number, bytes(chain[-1][0]), next(filter(None, named), ""))
    raise ConfigError(f"{path}, line {number}: there is no request with messages in it, also not as its body.")


def _unwrapped(raw: msgspec.Raw, fields: _Fields) -> Iterator[tuple[msgspec.Raw, _Fields]]:
    """An entry, and what is wrapped in it, down to the body."""
    yield raw, fields
    for _ in range(_DEEPEST):
        if "messages" in fields:
            return
        raw, fields = next(filter(None, (_inside(fields, name) for name in _WRAPPERS)), (raw, {}))
        yield raw, fields


def _inside(fields: _Fields, name: str) -> tuple[msgspec.Raw, _Fields] | None:
    raw = fields.get(name)
    if raw is None:
        return None
    text = _text(fields, name)
    try:
        inner = msgspec.Raw(text.encode()) if text else raw
        return inner, msgspec.json.decode(inner, type=_Fields)
    except msgspec.DecodeError:
        return None


def _text(fields: _Fields, name: str) -> str:
    try:
        return msgspec.json.decode(fields[name], type=str)
    except (KeyError, msgspec.DecodeError):
        return ""


def _said(body: bytes) -> tuple[bytes, ...]:
    """The messages after the instructions."""
    read = read_body(body)
    return tuple(read.text(each) for each in read.messages if read.plain(each, "role") not in HEAD_ROLES)


def _in_common(talk: _Talk, said: tuple[bytes, ...]) -> int:
    """The bytes of the conversation's messages that are said again; 0 if they are less than half of them."""
    again = set(said)
    shared = sum(len(each) for each in talk.said if each in again)
    return shared if 2 * shared >= sum(map(len, talk.said)) else 0


def _nearest(talks: Sequence[_Talk], prompt: Prompt) -> _Talk | None:
    return max(talks, key=lambda talk: common(talk.newest.body, prompt.body), default=None)


def _fault(before: Prompt, prompt: Prompt, *, within: bool) -> Fault | None:
    found = divergence(before.body, prompt.body)
    if found is None or not found.costs:
        return None
    if not within and found.kind == "message" and found.name not in HEAD_ROLES:
        return None  # another conversation says something else
    return Fault(prompt.line, before.line, within, found)
