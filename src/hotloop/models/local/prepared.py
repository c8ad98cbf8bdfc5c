"""A request made ready for llama.cpp, in one of the ways that models are asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from hotloop.models.local.reply import LineReader
from hotloop.models.local.request import ChatRequest, Function, JsonObject


class Prepared(NamedTuple):
    """What to ask and how to read the reply.

    `chat` tells which of llama.cpp's two interfaces the body is for: messages in the model's own template, or a plain
    prompt. The schemas of `checked` must be ones that llguidance can hold.
    """

    chat: bool
    body: JsonObject
    checked: Sequence[Function]
    read: LineReader


Prepare = Callable[[ChatRequest], Prepared]
