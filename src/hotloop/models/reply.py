"""What a model's reply is, once it is complete."""

from __future__ import annotations

from typing import Any

import msgspec

from hotloop.trace.ledger import Usage


class Call(msgspec.Struct, frozen=True, gc=False):
    """One tool call as the model wrote it. `whole` tells that `arguments` are the text of a JSON object.

    `extra` holds the fields of the call that only its service understands, to be echoed to it; `slot` is the call's
    place among all that the reply began to call, as in its events.
    """

    name: str
    arguments: str
    extra: dict[str, Any] = {}
    whole: bool = True
    slot: int = 0


class Reply(msgspec.Struct, frozen=True, gc=False):
    """A complete reply. It is the answer only if it has no calls.

    `confidence` is how sure the model was of its least certain words, from 0 to 1; None if nobody asked for it.
    """

    text: str
    calls: list[Call]
    finish_reason: str
    usage: Usage
    reasoning: str = ""
    model: str | None = None
    server_ms: dict[str, float] = {}
    salvaged: bool = False
    confidence: float | None = None
