"""Which turns the model sees."""

from __future__ import annotations

from collections.abc import Sequence

from hotloop.context.conversation import Conversation, Turn
from hotloop.context.settings import Window


def first_seen(turns: Sequence[Turn], window: Window, now: float) -> int:
    return 0


def relevant_turns(conversation: Conversation, window: Window, prompt: str, now: float) -> list[int]:
    return list(range(len(conversation.turns)))
