"""Which answers may be kept: those that came from the question alone, and would come again."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from typing import Any

import msgspec

from hotloop.trace.ledger import Ledger

_LONGEST = 64 * 1024  # characters
_FINE = frozenset({"ok", "cached", "joined", "prefetched"})


def unfit(text: str, finish_reason: str, ledger: Ledger, harmless: Collection[str]) -> str:
    """Why the answer of this run must not be given again, "" if it may.

    `harmless` are the tools whose use changes nothing and needs nobody's approval. Of the run's history nothing is
    known here: whoever asks must not come with that of a conversation that had gone on before.
    """
    if not text.strip():
        return "it is empty"
    if len(text) > _LONGEST:
        return "it is too long"
    if finish_reason != "stop":
        return f"it ended with {finish_reason}"
    if "stopped" in ledger.facts:
        return "the run was cut short"
    if "degraded" in ledger.facts:
        return "the run had to save time"
    if doubts := [each.reason for each in ledger.attempts if each.outcome == "ok" and each.reason]:
        return f"it was not good enough: {doubts[-1]}"
    for call in (call for turn in ledger.turns for call in turn.calls):
        if call.name not in harmless:
            return f"{call.name} may have had effects, or needed an approval"
        if call.outcome not in _FINE:
            return f"{call.name} ended with {call.outcome}"
    return ""


def maker_of(*parts: Any) -> str:
    """A fingerprint of what makes an answer, such as model, instructions, tools, form of output and grants."""
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()
