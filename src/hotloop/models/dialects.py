"""What differs between services behind one OpenAI-compatible wire."""

from __future__ import annotations

import msgspec

from hotloop.errors import ConfigError
from hotloop.models.target import split_url


class Dialect(msgspec.Struct, frozen=True):
    """One service's ways, as far as they differ.

    `max_tokens` is the name of the token cap; `empty_content` the content of an assistant turn that is only calls;
    `forbids_tools` tells that `tool_choice: "none"` works with tools present, which keeps the cached prefix;
    `echo_reasoning` that a turn with calls must carry its reasoning back; `stream_options` is what asks for usage in
    a stream; `cache_off` and `cache_key` are the fields that switch the prefix cache off and make it sticky;
    `key_variable` is the environment variable that its users keep their key in.
    """

    name: str
    max_tokens: str = "max_tokens"
    empty_content: str | None = None
    forbids_tools: bool = True
    echo_reasoning: bool = False
    stream_options: bytes = b'{"include_usage":true}'
    cache_off: bytes = b""
    cache_key: str = ""
    key_variable: str = ""


_ALL = (
    Dialect("generic", forbids_tools=False),
    Dialect(
        "openai",
        max_tokens="max_completion_tokens",
        stream_options=b'{"include_usage":true,"include_obfuscation":false}',
        cache_key="prompt_cache_key",
        key_variable="OPENAI_API_KEY",
    ),
    Dialect("groq", max_tokens="max_completion_tokens", key_variable="GROQ_API_KEY"),
    Dialect("vllm"),
    Dialect("sglang"),
    Dialect("llamacpp", cache_off=b'"cache_prompt":false'),
    Dialect("ollama", empty_content="", forbids_tools=False),
    Dialect("dynamo"),
    Dialect("deepseek", empty_content="", echo_reasoning=True, key_variable="DEEPSEEK_API_KEY"),
)
DIALECTS: dict[str, Dialect] = {dialect.name: dialect for dialect in _ALL}

_HOSTS = {"api.openai.com": "openai", "api.groq.com": "groq", "api.deepseek.com": "deepseek", "ollama.com": "ollama"}
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
