"""What differs between services behind one OpenAI-compatible wire."""

from __future__ import annotations

import msgspec

from hotloop.errors import ConfigError
from hotloop.models.http.target import split_url


class Dialect(msgspec.Struct, frozen=True):
    """One service's ways, as far as they differ.

    `max_tokens` is the name of the token cap; `empty_content` the content of an assistant turn that is only calls;
    `forbids_tools` tells that `tool_choice: "none"` works with tools present, which keeps the cached prefix;
    `echo_reasoning` that a turn with calls must carry its reasoning back; `stream_options` is what asks for usage in
    a stream; `key_variable` is the environment variable that its users keep their key in.

    `schema` tells that `response_format` takes a JSON schema and holds the model to it, `schema_streams` that it does
    so in a stream, `schema_with_tools` beside tools; `logprobs` that it tells how likely each token was.

    `caches` tells that it caches prefixes, from `least_cached` tokens on (of the model with the shortest, where models
    differ). `cache_off` is the field that switches that off, `sticky` the one that keeps requests where their prefix is
    cached (%b is the key as JSON), made from the conversation's name and, with `sticky_front`, from what every request
    begins with. `partial_history` tells that a conversation may end with calls that have no results yet.
    """

    name: str
    max_tokens: str = "max_tokens"
    empty_content: str | None = None
    forbids_tools: bool = True
    echo_reasoning: bool = False
    stream_options: bytes = b'{"include_usage":true}'
    cache_off: bytes = b""
    sticky: bytes = b""
    sticky_front: bool = False
    schema: bool = False
    schema_streams: bool = True
    schema_with_tools: bool = False
    caches: bool = False
    least_cached: int = 0
    partial_history: bool = False
    logprobs: bool = False
    key_variable: str = ""


_ALL = (
    Dialect("generic", forbids_tools=False),
    Dialect(
        "openai",
        max_tokens="max_completion_tokens",
        stream_options=b'{"include_usage":true,"include_obfuscation":false}',
        sticky=b'"prompt_cache_key":%b',
        sticky_front=True,
        schema=True,
        schema_with_tools=True,
        caches=True,
        least_cached=1024,
        logprobs=True,
        key_variable="OPENAI_API_KEY",
    ),
    Dialect(
        "groq",
        max_tokens="max_completion_tokens",
        schema=True,
        schema_streams=False,
        caches=True,
        least_cached=128,
        key_variable="GROQ_API_KEY",
    ),
    Dialect("vllm", logprobs=True, schema=True, caches=True, least_cached=16, partial_history=True),
    Dialect("sglang", logprobs=True, sticky=b'"session_id":%b', schema=True, caches=True, partial_history=True),
    Dialect(
        "llamacpp", logprobs=True, cache_off=b'"cache_prompt":false', schema=True, caches=True, partial_history=True
    ),
    Dialect("ollama", empty_content="", forbids_tools=False, schema=True, caches=True, partial_history=True),
    Dialect(
        "dynamo",
        logprobs=True,
        sticky=b'"nvext":{"session_control":{"session_id":%b,"action":"bind","timeout":300}}',
        schema=True,
        caches=True,
        least_cached=16,
        partial_history=True,
    ),
    Dialect(
        "deepseek",
        empty_content="",
        echo_reasoning=True,
        caches=True,
        least_cached=64,
        logprobs=True,
        key_variable="DEEPSEEK_API_KEY",
    ),
    Dialect("gemini", schema=True, caches=True, least_cached=1024, key_variable="GEMINI_API_KEY"),
)
DIALECTS: dict[str, Dialect] = {dialect.name: dialect for dialect in _ALL}

_HOSTS = {
    "api.openai.com": "openai",
    "api.groq.com": "groq",
    "api.deepseek.com": "deepseek",
    "ollama.com": "ollama",
    "generativelanguage.googleapis.com": "gemini",
}
_PORTS = {11434: "ollama", 30000: "sglang"}  # default ports that only these services use


def dialect_of(url: str, name: str | None = None) -> Dialect:
    """The dialect called `name`, or else the one that the URL's host or port tells; "generic" if neither does."""
    if name is not None:
        try:
            return DIALECTS[name]
        except KeyError:
            raise ConfigError(f"There is no dialect {name!r}; there are {', '.join(DIALECTS)}.") from None
    if url == "local":
        return DIALECTS["llamacpp"]
    parts = split_url(url)
    return DIALECTS[_HOSTS.get(parts.hostname or "") or _PORTS.get(parts.port or 0) or "generic"]
