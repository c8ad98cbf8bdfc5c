"""A divergence in words: where it is, what it looks like, what it costs, and what to do about it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hotloop.models.prefix.causes import Cause
from hotloop.visible import one_line, visible

if TYPE_CHECKING:
    from hotloop.models.prefix.divergence import Divergence

_WIDTH = 24  # characters shown on either side of a difference
_AROUND = 256  # characters on either side of it in which a secret is looked for
_KEY = re.compile(r"(?=[A-Za-z_+/=-]*\d)(?=[\d_+/=-]*[A-Za-z])[\w+/=-]{16,}", re.ASCII)
_NAMED = re.compile(r"((?:key|token|secret|password|bearer)[\"']?[ :=]+[\"']?)([^\s\"']{4,})", re.IGNORECASE)

_HIDDEN = re.compile("…+")

_WORDS: dict[Cause, tuple[str, str]] = {
    "clock": (
        "It looks like a clock or a date.",
        "Put the time at the end of the newest message, or have a tool tell it.",
    ),
    "id": ("It looks like a random id.", "Leave it out of the prompt, or put it at the end of the newest message."),
    "address": ("It looks like an object's address in memory.", "Write what the object means instead of printing it."),
    "counter": ("Only a number differs.", "If it changes with every request, put it at the end of the newest message."),
    "order": (
        "It is the same in another order, as of a set or of a list that nobody sorts.",
        "Sort it before it is written.",
    ),
    "whitespace": ("Only white space differs.", "Put this text together in one way only."),
    "text": ("", "What changes from request to request belongs at the end of the newest message."),
    "tool order": ("The tools are the same in another order.", "List them in one order, such as by name."),
    "tool set": (
        "Other tools are offered",
        "Offer every request the same; if they are chosen, then once for a conversation.",
    ),
    "tool": ("The tool's definition is another.", "Make names, descriptions and schemas of tools constants."),
    "key order": (
        "The keys of its definition are the same in another order.",
        "Build it in one order, or sort its keys.",
    ),
    "edited": (
        "A message of an earlier turn was changed.",
        "Never change what was sent: shorten results before they go in.",
    ),
    "trimmed": (
        "Messages were taken out of the history.",
        "Cut much at once and seldom, instead of a little each turn.",
    ),
    "inserted": ("A message was put in before older ones.", "Put new messages at the end."),
    "request": ("It is another request, as it should be.", ""),
    "model": ("Another model has another cache.", "Keep to one model within a conversation."),
    "option": (
        "Some services write it into the prompt, or choose the cache by it.",
        "Keep it the same in all requests.",
    ),
    "sampling": ("It is no part of the prompt, and makes no difference to the cache.", ""),
}


def sentence(found: Divergence) -> str:
    """The divergence for a person, on one line."""
    looks, advice = _WORDS[found.cause]
    if found.cause == "tool set":
        looks = f"{looks}: {found.details}." if found.details else f"{looks}."
    what = f"The prompts diverge at byte {found.at:,}, in {place(found)}: {found.was} became {found.now}."
    return " ".join(filter(None, [what, looks, _cost(found), advice]))


def place(found: Divergence) -> str:
    """Where it is: "messages[0].content (system)"."""
    if found.kind == "option":
        return f"the option {one_line(found.name)}"
    field = f".{one_line(found.field)}" if found.field else ""
    return f"{found.kind}s[{found.number}]{field} ({one_line(found.name) or 'without a name'})"


def excerpt(text: str, at: int) -> str:
    """The text around character `at`, in quotes; of what may be a secret only its first characters."""
    skipped = max(0, at - _AROUND)
    near = _masked(text[skipped : at + _AROUND])
    start, end = max(0, at - _WIDTH), at + _WIDTH
    shown = near[start - skipped : end - skipped]
    before, after = "…" if start else "", "…" if len(text) > end else ""
    return f'"{_HIDDEN.sub("…", visible(before + shown + after))}"'


def _cost(found: Divergence) -> str:
    if not found.costs:
        return ""
    if not found.again:
        return "Nothing behind it had been sent before."
    return f"About {found.again:,} tokens behind it had been sent before, and are read anew."


def _masked(text: str) -> str:
    """The text, as long as it was, with each character of a secret that is not to be shown replaced by "…"."""
    named = _NAMED.sub(lambda found: found[1] + _cut(found[2], 2), text)
    return _KEY.sub(lambda found: _cut(found[0], 4), named)


def _cut(secret: str, shown: int) -> str:
    return secret[:shown].ljust(len(secret), "…")
