"""What a service says of its own times beside a reply; each dialect has its way."""

from __future__ import annotations

import msgspec


class OwnTimes(msgspec.Struct, frozen=True, omit_defaults=True):
    """Milliseconds by the service's clock: until the prompt's turn came, for reading it, from the request's arrival to
    the first token, and from there to the last. `dialect` is whose way of telling it is."""

    dialect: str
    queue_ms: float | None = None
    prefill_ms: float | None = None
    first_ms: float | None = None
    decode_ms: float | None = None


def own_times(told: dict[str, float], headers: dict[str, str]) -> OwnTimes | None:
    """The times that a reply tells (`Reply.server_ms`), or that its headers do; None if there are none."""
    if "completion_ms" in told:
        queue, prefill = told.get("queue_ms"), told.get("prompt_ms")
        return OwnTimes("groq", queue, prefill, _together(queue, prefill), told["completion_ms"])
    if "predicted_ms" in told:
        return OwnTimes("llamacpp", prefill_ms=told.get("prompt_ms"), decode_ms=told["predicted_ms"])
    if "time_to_first_token_ms" in told:
        queue = told.get("queue_time_ms")
        first = _together(queue, told["time_to_first_token_ms"])
        return OwnTimes("vllm", queue, None, first, told.get("generation_time_ms"))
    if "ttft_ms" in told:
        return OwnTimes("dynamo", first_ms=told["ttft_ms"])
    return OwnTimes("openai") if "openai-processing-ms" in headers else None


def _together(queue: float | None, rest: float | None) -> float | None:
    return None if queue is None or rest is None else queue + rest
