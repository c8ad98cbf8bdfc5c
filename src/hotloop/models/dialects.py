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
    so in a stream, `schema_with_tools` beside tools, `schema_shown` that it shows its models the schema itself,
    `schema_strict` that it knows a part of JSON Schema only, and holds them to that; `logprobs` that it tells how
    likely each token was.

    `caches` tells that it caches prefixes, from `least_cached` tokens on (of the model with the shortest, where models
    differ). `cache_off` is the field that switches that off, `sticky` the one that keeps requests where their prefix is
    cached (%b is the key as JSON), made from the conversation's name and, with `sticky_front`, from what every request
    begins with. `partial_history` tells that a conversation may end with calls that have no results yet,
    `write_nothing` is the field with which it reads a prompt and writes not even one token.
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
    schema_shown: bool = False
    schema_strict: bool = False
    caches: bool = False
    least_cached: int = 0
    partial_history: bool = False
    write_nothing: bytes = b""
    logprobs: bool = False
    key_variable: str = ""


_LLAMA_CPP = Dialect(
    "llamacpp",
    schema=True,
    logprobs=True,
    caches=True,
    cache_off=b'"cache_prompt":false',
    partial_history=True,
    write_nothing=b'"n_predict":0',
)
_ALL = (
    Dialect("generic", forbids_tools=False),
    Dialect(
        "openai",
        max_tokens="max_completion_tokens",
        stream_options=b'{"include_usage":true,"include_obfuscation":false}',
        key_variable="OPENAI_API_KEY",
        schema=True,
        schema_with_tools=True,
        schema_shown=True,
        schema_strict=True,
        logprobs=True,
        caches=True,
        least_cached=1024,
        sticky=b'"prompt_cache_key":%b',
        sticky_front=True,
    ),
    Dialect(
        "groq",
        max_tokens="max_completion_tokens",
        key_variable="GROQ_API_KEY",
        schema=True,
        schema_streams=False,
        schema_shown=True,
        schema_strict=True,
        caches=True,
        least_cached=128,
    ),
    Dialect("vllm", schema=True, logprobs=True, caches=True, least_cached=16, partial_history=True),
    Dialect("sglang", schema=True, logprobs=True, caches=True, sticky=b'"session_id":%b', partial_history=True),
    _LLAMA_CPP,
    msgspec.structs.replace(_LLAMA_CPP, name="local", schema_with_tools=True, schema_shown=True, logprobs=False),
    Dialect("ollama", empty_content="", forbids_tools=False, schema=True, caches=True, partial_history=True),
    Dialect(
        "dynamo",
        schema=True,
        logprobs=True,
        caches=True,
        least_cached=16,
        sticky=b'"nvext":{"session_control":{"session_id":%b,"action":"bind","timeout":300}}',
        partial_history=True,
    ),
    Dialect(
        "deepseek",
        empty_content="",
        echo_reasoning=True,
        key_variable="DEEPSEEK_API_KEY",
        logprobs=True,
        caches=True,
        least_cached=64,
    ),
    Dialect("gemini", key_variable="GEMINI_API_KEY", schema=True, schema_shown=True, caches=True, least_cached=1024),
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
        return DIALECTS["local"]
    parts = split_url(url)
    return DIALECTS[_HOSTS.get(parts.hostname or "") or _PORTS.get(parts.port or 0) or "generic"]
