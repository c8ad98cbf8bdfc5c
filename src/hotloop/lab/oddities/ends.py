"""Replies that end, fail, are counted or are thought about in their own way."""

from __future__ import annotations

from typing import Any

from hotloop.lab.oddities.talk import Oddity, Talk, after, choices, chunks, like

_DONE = b"data: [DONE]\n\n"


def no_finish(talk: Talk) -> None:
    """The stream ends without a finish reason."""
    talk[-1].clear()


def no_done(talk: Talk) -> None:
    """The stream ends without [DONE]."""
    talk[-1].remove(_DONE)


def finish_stop(talk: Talk) -> None:
    """The finish reason is `stop` although there are calls."""
    _finish(talk, "tool_calls", "stop")


def finish_despite_cap(talk: Talk) -> None:
    """The finish reason is `tool_calls` although the token cap was hit."""
    _finish(talk, "length", "tool_calls")


def filtered(talk: Talk) -> None:
    """The content filter stops the reply in the middle."""
    _leave_half(talk)
    talk[-1][:] = [like(next(chunks(talk)), {}), _DONE]
    for choice in choices(talk[-1:]):
        choice["finish_reason"] = "content_filter"


def error_in_stream(talk: Talk) -> None:
    """An error object comes in the middle of a stream with status 200."""
    _leave_half(talk)
    talk[-1][:] = [{"error": {"message": "The engine has died.", "type": "server_error", "code": 503}}]


def error_beside_choices(talk: Talk) -> None:
    """The same, next to an empty list of choices."""
    _leave_half(talk)
    talk[-1][:] = [{"choices": [], "error": {"message": "Rate limit reached.", "code": "rate_limit_exceeded"}}]


def not_json(talk: Talk) -> None:
    """A chunk in the middle is no JSON."""
    talk[len(talk) // 2].append(b'data: {"choices": [{"delta": {"content": "\n\n')


def filter_first(talk: Talk) -> None:
    """The first chunk has no choices, but a filter's verdict."""
    talk[0].insert(0, {**next(chunks(talk)), "choices": [], "prompt_filter_results": [{"prompt_index": 0}]})


def nulls(talk: Talk) -> None:
    """Chunks that are null come in between."""
    for piece in talk:
        piece.insert(0, b"data: null\n\n")


def pings(talk: Talk) -> None:
    """Comments come in between."""
    for piece in talk:
        piece.insert(0, b": ping\n\n")


def usage_null(talk: Talk) -> None:
    """Every chunk but the last has a usage of null."""
    for chunk in chunks(talk):
        chunk.setdefault("usage", None)


def usage_first(talk: Talk) -> None:
    """Usage comes in the first chunk, and not at the end."""
    usage = _take_usage(talk)
    if usage is not None:
        next(chunks(talk))["usage"] = usage


def usage_everywhere(talk: Talk) -> None:
    """Every chunk has the usage so far."""
    usage = _take_usage(talk)
    if usage is None:
        return
    for written, piece in enumerate(talk):
        so_far = {**usage, "completion_tokens": min(written + 1, usage["completion_tokens"])}
        for chunk in chunks([piece]):
            chunk["usage"] = so_far


def reasoning(talk: Talk) -> None:
    """Thoughts come first, as `reasoning`."""
    _think(talk, "reasoning")


def reasoning_content(talk: Talk) -> None:
    """Thoughts come first, as `reasoning_content`."""
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


ODDITIES: tuple[Oddity, ...] = (
    no_finish,
    no_done,
    finish_stop,
    finish_despite_cap,
    filtered,
    error_in_stream,
    error_beside_choices,
    not_json,
    filter_first,
    nulls,
    pings,
    usage_null,
    usage_first,
    usage_everywhere,
    reasoning,
    reasoning_content,
)
