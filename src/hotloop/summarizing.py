"""How a model is asked for a summary, of a conversation or of a tool's long result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from hotloop.budget import Deadline
from hotloop.errors import MalformedReply
from hotloop.models.ask import Ask, Thinker
from hotloop.models.transport import nobody
from hotloop.trace.ledger import AttemptFacts, Ledger
from hotloop.units import clock

_CONVERSATION = (
    "Summarize our conversation so far, for yourself: you will go on with this summary in its place. Keep what the "
    "user wants, what was agreed, every name, number, date and id that may be needed again, what the tools found, and "
    "what is still open. Leave out greetings and what is settled. Write at most 300 words, in the language of the "
    "user, and nothing but the summary."
)
_RESULT = (
    "Summarize this result of a tool in at most {} words, for a model that has to answer a user from it. Keep every "
    "name, number, date and id that may matter. Write nothing but the summary.\n\n{}"
)
_OF_ANY, _OF_TOOL = b'{"role":"', b'{"role":"tool"'
_NOTED = b'{"role":"assistant","content":"Noted."},'  # some services take no words of the user right after results
_NO_DEADLINE = Deadline(None, 0)
_WORDS_PER_TOKEN = 0.6  # of English; less than there are, so that a summary stays within its bound


class Summarizer:
    """Asks `thinker()` for summaries; `name` is the agent's, in the ledgers of these requests."""

    def __init__(self, thinker: Callable[[], Thinker], name: str = "") -> None:
        self._thinker = thinker
        self._name = name

    async def conversation(self, messages: bytes, deadline: Deadline | None, spent: list[AttemptFacts]) -> str:
        """A summary of these messages; the request begins with them as they are, so that a cached prefix is used.

        Without a deadline it is asked for in the background. `spent` gets the requests. Raises ModelError.
        """
        noted = _NOTED if messages.startswith(_OF_TOOL, messages.rfind(_OF_ANY)) else b""
        asked = bytearray(b",".join((messages, noted + _of_user(_CONVERSATION))))
        return await self._asked(asked, spent, deadline or _NO_DEADLINE, background=deadline is None)

    async def result(self, text: str, tokens: int, spent: list[AttemptFacts]) -> str:
        """A summary of a tool's result in about so many tokens; `spent` gets the requests. Raises ModelError."""
        words = max(int(tokens * _WORDS_PER_TOKEN), 1)
        return await self._asked(bytearray(_of_user(_RESULT.format(words, text))), spent)

    async def _asked(
        self,
        messages: bytearray,
        spent: list[AttemptFacts],
        deadline: Deadline = _NO_DEADLINE,
        *,
        background: bool = False,
    ) -> str:
        thinker, ledger = self._thinker(), Ledger(clock(), "summary", self._name)
        ask = Ask(
            messages=messages,
            ledger=ledger,
            emit=nobody,
            dialect=thinker.dialect,
            tools=False,
            deadline=deadline,
            background=background,
            rearranged=True,
        )
        try:
            reply = await thinker.think(ask, "summary")
        finally:
            spent += ledger.attempts
        if not reply.text.strip():
            raise MalformedReply("The model gave no summary.")
        return reply.text.strip()


def _of_user(text: str) -> bytes:
    message: dict[str, Any] = {"role": "user", "content": text}
    return msgspec.json.encode(message)
