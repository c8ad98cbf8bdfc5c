"""What was said in a run, as digests: equal for equal texts of one process, and nothing to anybody else."""

from __future__ import annotations

import hashlib
import os
from typing import Any

import msgspec

from hotloop.hiding import masked_text, masked_value
from hotloop.trace.ledger import Spoken, Words
from hotloop.trace.provenance import sources
from hotloop.trace.record import Said
from hotloop.trace.redaction import LONGEST

_keyed = hashlib.blake2b(key=os.urandom(32), digest_size=8)


def digest(text: bytes) -> str:
    """16 hexadecimal digits that only this process, and those forked from it, can tell the text by."""
    state = _keyed.copy()
    state.update(text)
    return state.hexdigest()


def said_in(words: Words, content: bool) -> tuple[Said | None, Said | None, dict[str, Said]]:
    """The prompt, the answer, and by its id each call; with `content` their texts, too, without secrets."""
    found = sources(words)
    calls = {each.call_id: _call(each, content, found.get(each.call_id)) for each in words.calls}
    return _text(words.prompt, content), _text(words.answer, content), calls


def _text(text: str, content: bool) -> Said | None:
    if not text:
        return None
    data = text.encode(errors="surrogatepass")
    return Said(digest(data), len(data), "", masked_text(text, LONGEST) if content else None)


def _call(spoken: Spoken, content: bool, found: tuple[str, ...] | None) -> Said:
    arguments, result = _canonical(spoken.arguments), spoken.result.encode(errors="surrogatepass")
    texts = (_readable(arguments), _readable(result)) if content else (None, None)
    return Said(digest(arguments), len(result), digest(result), *texts, sources=found)


def _canonical(arguments: str | dict[str, Any]) -> bytes:
    """The same bytes for the same arguments."""
    if isinstance(arguments, str):
        return arguments.encode(errors="surrogatepass")
    try:
        return msgspec.json.encode(arguments, enc_hook=_foreign, order="sorted")
    except Exception:  # a type's own code may raise anything
        return repr(arguments).encode(errors="surrogatepass")


def _foreign(value: Any) -> Any:
    """A value of a type that msgspec does not know, as its members."""
    members = getattr(value, "__dict__", None)
    return members if isinstance(members, dict) and members else str(value)


def _readable(data: bytes) -> str:
    """The text without secrets; of JSON also without the values of members that are named like one."""
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return masked_text(data.decode(errors="surrogatepass"), LONGEST)
    return masked_text(msgspec.json.encode(masked_value(value, LONGEST)).decode(), LONGEST)
