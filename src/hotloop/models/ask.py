"""What is asked of whoever thinks: one turn of a run, with everything that bounds it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Protocol

import msgspec

from hotloop.budget import Deadline
from hotloop.models.dialects import Dialect
from hotloop.models.reply import Reply
from hotloop.models.transport import Emit
from hotloop.models.wire.assembler import CallAssembler
from hotloop.trace.ledger import Ledger, Why

_NO_DEADLINE = Deadline(None, 0)


class Listener(Protocol):
    """Hears of calls while the reply that they belong to is still being written."""

    def heard(self, calls: CallAssembler) -> None:
        """More of the calls has come; called on the event loop, must not block."""

    async def discard(self) -> None:
        """That reply is not to be trusted; another one may come."""


class Ask(msgspec.Struct, kw_only=True):
    """One turn's question. `messages` are the conversation's bytes, as `dialect` wants them (None: as anybody does).

    `tools` tells whether calls may be made. `listener` hears of calls while they are written, and of each reply that
    came to nothing. `session` names the conversation, "" for one without a name. `background` lets others go first,
    `others` tells that somebody else can be asked. `check` says in a sentence what is wrong with a complete reply
    (calls that do not validate, an answer of the wrong form), "" if nothing is. `prompt` is the user's newest request,
    `aside` what is said last in this request only. `step` is the place of the step by which the run saves time with
    another model, `max_tokens` the most that this reply may have, if that is less than ever. `rearranged` tells that
    the messages do not go on from what was sent of this conversation before, and are not meant to.
    """

    messages: bytearray
    ledger: Ledger
    emit: Emit
    dialect: Dialect | None = None
    tools: bool = True
    deadline: Deadline = _NO_DEADLINE
    listener: Listener | None = None
    session: str = ""
    background: bool = False
    others: bool = False
    prompt: str = ""
    aside: str = ""
    step: int | None = None
    max_tokens: int | None = None
    rearranged: bool = False
    check: Callable[[Reply], str] | None = None


class Thinker(Protocol):
    """Whoever gives a reply: a client of one model, a chain of them, a router."""

    @property
    def dialect(self) -> Dialect:
        """The one in which the conversation is kept."""

    def think(self, ask: Ask, why: Why = "first") -> Coroutine[Any, Any, Reply]:
        """The reply to one turn; its stages, attempts and facts go to the ledger.

        Raises ModelError once nothing that is left to try would help, or when the deadline has come.
        """
