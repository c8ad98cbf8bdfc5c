"""What a service says of its own times beside a reply; each dialect has its way."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

Object = dict[str, Any]


class OwnTimes(msgspec.Struct, frozen=True, omit_defaults=True):
    """Milliseconds by the service's clock: until the prompt's turn came, for reading it, from the request's arrival to
    the first token, and from there to the last. `dialect` is whose way of telling it is."""

    dialect: str
    queue_ms: float | None = None
    prefill_ms: float | None = None
    first_ms: float | None = None
    decode_ms: float | None = None


def own_times(frames: Iterable[Object], headers: dict[str, str]) -> OwnTimes | None:
    """The times in the objects of a reply; None if it tells none."""
    found: OwnTimes | None = None
    for frame in frames:
        found = next((times for read in _READERS if (times := read(frame))), found)
    return found or (OwnTimes("openai") if "openai-processing-ms" in headers else None)


def _groq(frame: Object) -> OwnTimes | None:
    usage = frame.get("usage") or _within(frame, "x_groq").get("usage")
    if not isinstance(usage, dict) or (decode := _ms(usage, "completion_time", 1e3)) is None:
        return None
    queue, prefill = _ms(usage, "queue_time", 1e3), _ms(usage, "prompt_time", 1e3)
    return OwnTimes("groq", queue, prefill, None if queue is None or prefill is None else queue + prefill, decode)


def _llamacpp(frame: Object) -> OwnTimes | None:
    times = _within(frame, "timings")
    prefill, decode = _ms(times, "prompt_ms"), _ms(times, "predicted_ms")
    return None if decode is None else OwnTimes("llamacpp", prefill_ms=prefill, decode_ms=decode)


def _vllm(frame: Object) -> OwnTimes | None:
    times = _within(frame, "metrics")
    queue, first = _ms(times, "queue_time_ms"), _ms(times, "time_to_first_token_ms")
    if first is None:
        return None
    return OwnTimes("vllm", queue, None, None if queue is None else queue + first, _ms(times, "generation_time_ms"))


def _dynamo(frame: Object) -> OwnTimes | None:
    first = _ms(_within(_within(frame, "nvext"), "timing"), "ttft_ms")
    return None if first is None else OwnTimes("dynamo", first_ms=first)


_READERS: tuple[Callable[[Object], OwnTimes | None], ...] = (_groq, _llamacpp, _vllm, _dynamo)


def _within(value: Object, key: str) -> Object:
    inner = value.get(key)
    return inner if isinstance(inner, dict) else {}


def _ms(times: Object, key: str, factor: float = 1.0) -> float | None:
    value = times.get(key)
    return value * factor if isinstance(value, int | float) else None
