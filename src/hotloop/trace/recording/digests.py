"""What was said in a run, as digests: equal for equal texts of one process, and nothing to anybody else."""

from __future__ import annotations

import hashlib
import os
import sys
from typing import Any

import msgspec

from hotloop.hiding import masked_text, masked_value
from hotloop.trace.ledger import Spoken, Words
from hotloop.trace.record import Said
from hotloop.trace.recording.provenance import sources
from hotloop.trace.recording.redaction import LONGEST

_ALL = (1 << 64) - 1
_keyed = hashlib.blake2b(key=os.urandom(32), digest_size=8)


def _is_keyed() -> bool:
    """Whether Python's own hash of a text has a secret of the process in it, as nearly always."""
    info = sys.hash_info
    chosen = os.environ.get("PYTHONHASHSEED", "random") not in ("random", "")
    return (
        info.algorithm.startswith("siphash") and info.width == 64 and bool(sys.flags.hash_randomization) and not chosen
    )


def digest(text: str) -> str:
    """16 hexadecimal digits that only this process, and those forked from it, can tell the text by."""
    if _KEYED:
        return f"{hash(text) & _ALL:016x}"
    state = _keyed.copy()
    state.update(text.encode(errors="surrogatepass"))
    return state.hexdigest()


_KEYED = _is_keyed()


def said_in(words: Words, content: bool) -> tuple[Said | None, Said | None, dict[str, Said]]:
    """The prompt, the answer, and by its id each call; with `content` their texts, too, without secrets."""
    found = sources(words)
    calls = {each.call_id: _call(each, content, found.get(each.call_id)) for each in words.calls}
    return _text(words.prompt, content), _text(words.answer, content), calls


def _text(text: str, content: bool) -> Said | None:
    if not text:
        return None
    return Said(digest(text), _bytes(text), "", masked_text(text, LONGEST) if content else None)


def _call(spoken: Spoken, content: bool, found: tuple[str, ...] | None) -> Said:
    arguments, result = _canonical(spoken.arguments), spoken.result
    said, read = digest(arguments), digest(result)
    if not content:
        return Said(said, _bytes(result), read, None, None, found)
    return Said(said, _bytes(result), read, _readable(arguments), _readable(result), found)


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))


def _canonical(arguments: str | dict[str, Any]) -> str:
    """The same text for the same arguments."""
    if isinstance(arguments, str):
        return arguments
    try:
        return _encode(arguments).decode()
    except Exception:  # a type's own code may raise anything
        return repr(arguments)


def _foreign(value: Any) -> Any:
    """A value of a type that msgspec does not know, as its members."""
    members = getattr(value, "__dict__", None)
    return members if isinstance(members, dict) and members else str(value)


_encode = msgspec.json.Encoder(enc_hook=_foreign, order="sorted").encode


def _readable(text: str) -> str:
    """The text without secrets; of JSON also without the values of members that are named like one."""
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return masked_text(text, LONGEST)
    return masked_text(msgspec.json.encode(masked_value(value, LONGEST)).decode(), LONGEST)
