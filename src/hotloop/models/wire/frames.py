"""The fields of a chat-completion chunk that matter, decoded in one pass, and a lenient reading of odd ones."""

from __future__ import annotations

from typing import Any

import msgspec

from hotloop.trace.ledger import Usage


class Delta(msgspec.Struct, gc=False):
    content: str | list[Any] | None = None
    tool_calls: list[Any] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    function_call: dict[str, Any] | None = None
    refusal: str | None = None


class Choice(msgspec.Struct, gc=False):
    delta: Delta | None = None
    finish_reason: str | None = None
    message: Delta | None = None
    index: int | None = 0


class Frame(msgspec.Struct, gc=False):
    choices: list[Choice] | None = None
    usage: dict[str, Any] | None = None
    error: Any = None
    x_groq: dict[str, Any] | None = None
    timings: dict[str, Any] | None = None
    metrics: dict[str, Any] | None = None
    nvext: dict[str, Any] | None = None


decode_frame = msgspec.json.Decoder(Frame).decode


def decode_json(data: bytes | str) -> Any:
    """Any JSON value; raises msgspec.DecodeError for what is none, and for what is nested too deeply to read."""
    try:
        return msgspec.json.decode(data)
    except RecursionError:
        raise msgspec.DecodeError("it is nested too deeply") from None


def encode_json(value: Any) -> bytes:
    """A decoded value as JSON; raises msgspec.DecodeError for what is nested too deeply to write."""
    try:
        return msgspec.json.encode(value)
    except RecursionError:
        raise msgspec.DecodeError("it is nested too deeply") from None


class _Named(msgspec.Struct, gc=False):
    model: Any = None


_decode_named = msgspec.json.Decoder(_Named).decode


def model_of(payload: bytes) -> str:
    """The model that a chunk names, "" if none."""
    try:
        model = _decode_named(payload).model
    except (msgspec.DecodeError, RecursionError):
        return ""
    return model if isinstance(model, str) else ""


def usage_of(usage: dict[str, Any]) -> Usage:
    """The counts in a service's usage object; what is not there or no number is unknown."""
    if not usage:
        return Usage()
    prompt, completion = usage.get("prompt_tokens_details"), usage.get("completion_tokens_details")
    return Usage(
        _count(usage, "prompt_tokens"),
        _count(usage, "completion_tokens"),
        None if prompt is None else _count(prompt, "cached_tokens"),
        None if completion is None else _count(completion, "reasoning_tokens"),
    )


def _count(counts: Any, key: str) -> int | None:
    value = counts.get(key) if counts.__class__ is dict else None
    return value if value.__class__ is int else None


def groq_ms(usage: dict[str, Any]) -> dict[str, float]:
    """Server timings in a Groq usage object: seconds there, milliseconds here."""
    return {
        key.replace("_time", "_ms"): float(usage[key]) * 1e3
        for key in ("queue_time", "prompt_time", "completion_time")
        if isinstance(usage.get(key), int | float)
    }


def own_ms(frame: Frame) -> dict[str, float]:
    """What llama.cpp, vLLM or Dynamo tells of its times, in milliseconds, by its own names."""
    told = frame.timings or frame.metrics or (frame.nvext or {}).get("timing")
    if not isinstance(told, dict):
        return {}
    return {key: value for key in _TIMES if isinstance(value := told.get(key), int | float)}


_TIMES = ("prompt_ms", "predicted_ms", "queue_time_ms", "time_to_first_token_ms", "generation_time_ms", "ttft_ms")


def lenient_frame(value: Any) -> dict[str, Any]:
    """A chunk with every field of an unexpected type left out; of a list, its first."""
    if isinstance(value, list) and value:
        value = value[0]
    if not isinstance(value, dict):
        return {}
    choices = value.get("choices")
    return {
        **{key: value[key] for key in _OBJECTS if isinstance(value.get(key), dict)},
        "error": value.get("error"),
        "model": value.get("model"),
        "choices": [_lenient_choice(choice) for choice in choices if isinstance(choice, dict)]
        if isinstance(choices, list)
        else None,
    }


def whole_frame(value: Any) -> dict[str, Any]:
    """A reply that came as one JSON body, as the one chunk that says the same."""
    frame = lenient_frame(value)
    for choice in frame.get("choices") or ():
        if "message" in choice:
            choice.pop("delta", None)
        choice["finish_reason"] = choice.get("finish_reason") or "stop"
    return frame


def _lenient_choice(choice: dict[str, Any]) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    if isinstance(choice.get("finish_reason"), str):
        kept["finish_reason"] = choice["finish_reason"]
    for key in ("delta", "message"):
        if isinstance(part := choice.get(key), dict):
            kept[key] = {name: part[name] for name, kind in _DELTA_TYPES.items() if isinstance(part.get(name), kind)}
    return kept


_OBJECTS = ("usage", "x_groq", "timings", "metrics", "nvext")
_DELTA_TYPES: dict[str, type | tuple[type, ...]] = {
    "content": (str, list),
    "tool_calls": list,
    "reasoning_content": str,
    "reasoning": str,
    "function_call": dict,
    "refusal": str,
}
