"""What of a text that others have a part in was written by hotloop itself: all that is kept where content is not."""

from __future__ import annotations

import re
from functools import cache, lru_cache

LEFT_OUT = "…"

# Of each text the parts in groups are ours alone. What fits none of these is left out as a whole.
_TEXTS = (
    # notes of stages, and what facts say of memory, context, routes and kept answers
    r"(a place at the service(?:: [a-z (),]+)?)",
    r"(retry after \w+)",
    r"(before its hedge|reply to calls|tools done|tools listed|end of run|for a free place|kept answer|nothing kept)",
    r"(session (?:loaded|committed)|waited for the (?:session|summary)|while the run waited|ahead)",
    r"(opened|kept|failed|saved|recorded|stopped|summarized|left out|parts|parts, cut|cut|ok|rejected)",
    r"(error|cached|joined|fallback|refused|unknown|pending|known|prefetched|cancelled|discarded|skipped)",
    r"(cut: no (?:room|time) for a summary|cut: no summary within [\d.e+-]+ s)",
    r"(cut: the summary (?:was given up|failed: \w+|was too long|was empty))",
    r"(\d+ facts?|late, left out)",
    r"(failed, left out): .*",
    r"(default|the run is with it|rule \d+|classifier, \d+% sure)",
    r"(default: the classifier is \d+% sure) of .*",
    r"(the run names no user whose it is|its question is too long|it is (?:empty|too long)|the run was cut short)",
    r"(it was not good enough): .*",
    r".*( may have had effects, or needed an approval)",
    # why a run was cut short, or a reply did not do
    r"(Only the budget's answer reserve was left\.)",
    r"(No more than [\d,]+ turns? may have calls\.)",
    r"(The model made the same call) of .*( \d+ times and it failed each time): .*",
    r"(the answer is empty|it refuses to help|the model was \d+% sure, less than \d+%|the other one was first)",
    # why a request failed, where the class of its error does not tell that it quotes nobody
    r"(The service answered \d{3}).*",
    r"(The service sent (?:arguments that cannot be read|a chunk that is not JSON|a body that is not JSON)).*",
    r"(The service sent JSON that is no chat completion).*",
    r"(The reply's calls cannot be trusted): .*",
    # warnings
    r"(over the budget: [\w., ]+)",
    r"(The session was damaged and is used as far as it is whole): .*",
    r'(The prompts diverge at byte [\d,]+, in \w+\[\d+\])[^"]*".*" became ".*"\.( .*)?',
    r"(The prompts diverge at byte [\d,]+, in (?:the option \w+|\w+\[\d+\])).*",
    r"(None of the prompt's tokens came from the cache), though .*",
    r"(No answer is ever kept: no run names its user\.) .*",
)


@lru_cache(maxsize=1024)
def own_words(text: str) -> str:
    """The text with "…" for whatever in it may be a user's, a tool's, a model's or a service's."""
    if not text:
        return text
    for rule in _rules():
        if found := rule.fullmatch(text):
            parts = [part for part in found.groups() if part is not None]
            before = LEFT_OUT if found.start(1) else ""
            after = LEFT_OUT if found.end(len(found.groups())) < len(text) else ""
            return f"{before}{LEFT_OUT.join(parts)}{after}"
    return LEFT_OUT


@cache
def _rules() -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(rule, re.DOTALL) for rule in _TEXTS)
