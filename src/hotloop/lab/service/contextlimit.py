"""What a service says of a prompt that leaves no room in its context, each in its own words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from hotloop.lab.service.outgoing import Outgoing, refusal


def too_long(dialect: str, tokens: int, limit: int) -> Outgoing:
    """The refusal of a prompt of so many tokens, as services of this dialect write it; as OpenAI does for others."""
    return refusal(400, msgspec.json.encode({"error": _ERRORS.get(dialect, _openai)(tokens, limit)}))


def _openai(tokens: int, limit: int) -> dict[str, Any]:
    return _exceeded(
        f"This model's maximum context length is {limit} tokens. However, your messages resulted in {tokens} tokens. "
        "Please reduce the length of the messages."
    )


def _groq(tokens: int, limit: int) -> dict[str, Any]:
    return _exceeded("Please reduce the length of the messages or completion.")


def _exceeded(message: str) -> dict[str, Any]:
    return {
        "message": message,
        "type": "invalid_request_error",
        "param": "messages",
        "code": "context_length_exceeded",
    }


def _vllm(tokens: int, limit: int) -> dict[str, Any]:
    return _bad_request(
        f"This model's maximum context length is {limit} tokens. However, your request has {tokens} input tokens. "
        "Please reduce the length of the input messages."
    )


def _sglang(tokens: int, limit: int) -> dict[str, Any]:
    return _bad_request(f"The input ({tokens} tokens) is longer than the model's context length ({limit} tokens).")


def _bad_request(message: str) -> dict[str, Any]:
    return {"message": message, "type": "BadRequestError", "param": None, "code": 400}


def _llama_cpp(tokens: int, limit: int) -> dict[str, Any]:
    message = f"request ({tokens} tokens) exceeds the available context size ({limit} tokens), try increasing it"
    counts = {"n_prompt_tokens": tokens, "n_ctx": limit}
    return {"code": 400, "message": message, "type": "exceed_context_size_error", **counts}


_ERRORS: dict[str, Callable[[int, int], dict[str, Any]]] = {
    "groq": _groq,
    "vllm": _vllm,
    "sglang": _sglang,
    "llamacpp": _llama_cpp,
    "local": _llama_cpp,
}
