"""How sure a model was of its reply, where the service tells the log-probability of each token."""

from __future__ import annotations

import math

import msgspec

from hotloop.events import Event
from hotloop.models.reply import Reply
from hotloop.models.wire.chatstream import ChatStream

_SHARE = 10  # one token of so many, the least certain ones, is what counts


class _Token(msgspec.Struct, gc=False):
    logprob: float | None = None


class _Scores(msgspec.Struct, gc=False):
    content: list[_Token] | None = None


class _Choice(msgspec.Struct, gc=False):
    logprobs: _Scores | None = None


class _Chunk(msgspec.Struct, gc=False):
    choices: list[_Choice] | None = None


_decode = msgspec.json.Decoder(_Chunk).decode


class ScoredStream(ChatStream):
    """A `ChatStream` of a request with `logprobs`, whose reply has a `confidence`.

    Each chunk is read for it once more, so this is only for those who ask.
    """

    __slots__ = ("_logprobs",)

    def __init__(self, max_tokens: int | None = None) -> None:
        super().__init__(max_tokens)
        self._logprobs: list[float] = []

    def reply(self) -> Reply:
        """See `ChatStream.reply`."""
        return msgspec.structs.replace(super().reply(), confidence=confidence(self._logprobs))

    def _runs(self, block: bytes, events: list[Event]) -> bytes:
        return block  # runs are read for their text alone

    def _chunks(self, chunks: list[bytes], events: list[Event]) -> None:
        for chunk in chunks:
            self._score(chunk)
        super()._chunks(chunks, events)

    def _whole(self, body: bytes, events: list[Event]) -> None:
        self._score(body)
        super()._whole(body, events)

    def _score(self, chunk: bytes) -> None:
        try:
            choices = _decode(chunk).choices
        except (msgspec.DecodeError, RecursionError):
            return  # whatever is wrong with it is told where it is read
        if choices and choices[0].logprobs is not None:
            tokens = choices[0].logprobs.content or ()
            self._logprobs += [token.logprob for token in tokens if token.logprob is not None]


def confidence(logprobs: list[float]) -> float | None:
    """The mean (geometric) probability of the least certain tenth of the tokens; None if none is known.

    One doubtful word among many sure ones is what makes an answer doubtful, and a mean of all would hide it.
    """
    if not logprobs:
        return None
    doubtful = sorted(logprobs)[: math.ceil(len(logprobs) / _SHARE)]
    return math.exp(min(0.0, sum(doubtful) / len(doubtful)))
