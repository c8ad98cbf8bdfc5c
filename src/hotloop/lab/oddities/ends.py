"""Replies that end, fail, are counted or are thought about in their own way."""

from __future__ import annotations

from typing import Any

from hotloop.lab.oddities.talk import Oddity, Talk, after, choices, chunks, like

_DONE = b"data: [DONE]\n\n"


def _no_finish(talk: Talk) -> None:
    talk[-1].clear()


def _no_done(talk: Talk) -> None:
    talk[-1].remove(_DONE)


def _finish_stop(talk: Talk) -> None:
    _finish(talk, "tool_calls", "stop")


def _finish_despite_cap(talk: Talk) -> None:
    _finish(talk, "length", "tool_calls")


def _filtered(talk: Talk) -> None:
    _leave_half(talk)
    talk[-1][:] = [like(next(chunks(talk)), {}), _DONE]
    for choice in choices(talk[-1:]):
        choice["finish_reason"] = "content_filter"


def _error_in_stream(talk: Talk) -> None:
    _leave_half(talk)
    talk[-1][:] = [{"error": {"message": "The engine has died.", "type": "server_error", "code": 503}}]


def _error_beside_choices(talk: Talk) -> None:
    _leave_half(talk)
    talk[-1][:] = [{"choices": [], "error": {"message": "Rate limit reached.", "code": "rate_limit_exceeded"}}]


def _not_json(talk: Talk) -> None:
    talk[len(talk) // 2].append(b'data: {"choices": [{"delta": {"content": "\n\n')


def _filter_first(talk: Talk) -> None:
    talk[0].insert(0, {**next(chunks(talk)), "choices": [], "prompt_filter_results": [{"prompt_index": 0}]})


def _nulls(talk: Talk) -> None:
    for piece in talk:
        piece.insert(0, b"data: null\n\n")


def _pings(talk: Talk) -> None:
    for piece in talk:
        piece.insert(0, b": ping\n\n")


def _usage_null(talk: Talk) -> None:
    for chunk in chunks(talk):
        chunk.setdefault("usage", None)


def _usage_first(talk: Talk) -> None:
    usage = _take_usage(talk)
    if usage is not None:
        next(chunks(talk))["usage"] = usage


def _usage_everywhere(talk: Talk) -> None:
    usage = _take_usage(talk)
    if usage is None:
        return
    for written, piece in enumerate(talk):
        so_far = {**usage, "completion_tokens": min(written + 1, usage["completion_tokens"])}
        for chunk in chunks([piece]):
            chunk["usage"] = so_far


def _reasoning(talk: Talk) -> None:
    _think(talk, "reasoning")


def _reasoning_content(talk: Talk) -> None:
    _think(talk, "reasoning_content")


def _finish(talk: Talk, usual: str, odd: str) -> None:
    for choice in choices(talk):
        if choice["finish_reason"] == usual:
            choice["finish_reason"] = odd


def _leave_half(talk: Talk) -> None:
    """Drop the second half of the tokens, and what ends the reply."""
    for piece in talk[max(1, len(talk) // 2) :]:
        piece.clear()


def _take_usage(talk: Talk) -> dict[str, Any] | None:
    """The usage, taken out of the chunk that has it; None if it was not asked for."""
    for chunk in chunks(talk[-1:]):
        if usage := chunk.pop("usage", None):
            taken: dict[str, Any] = usage
            return taken
    return None


def _think(talk: Talk, key: str) -> None:
    first = next(chunks(talk))
    after(talk, first, *(like(first, {key: thought}) for thought in ("Let", " me", " think.")))


ODDITIES: dict[str, tuple[str, Oddity]] = {
    "no-finish": ("The stream ends without a finish reason.", _no_finish),
    "no-done": ("The stream ends without [DONE].", _no_done),
    "finish-stop": ("The finish reason is `stop` although there are calls.", _finish_stop),
    "finish-despite-cap": ("The finish reason is `tool_calls` although the token cap was hit.", _finish_despite_cap),
    "filtered": ("The content filter stops the reply in the middle.", _filtered),
    "error-in-stream": ("An error object comes in the middle of a stream with status 200.", _error_in_stream),
    "error-beside-choices": ("The same, next to an empty list of choices.", _error_beside_choices),
    "not-json": ("A chunk in the middle is no JSON.", _not_json),
    "filter-first": ("The first chunk has no choices, but a filter's verdict.", _filter_first),
    "nulls": ("Chunks that are null come in between.", _nulls),
    "pings": ("Comments come in between.", _pings),
    "usage-null": ("Every chunk but the last has a usage of null.", _usage_null),
    "usage-first": ("Usage comes in the first chunk, and not at the end.", _usage_first),
    "usage-everywhere": ("Every chunk has the usage so far.", _usage_everywhere),
    "reasoning": ("Thoughts come first, as `reasoning`.", _reasoning),
    "reasoning-content": ("Thoughts come first, as `reasoning_content`.", _reasoning_content),
}
