"""Every OpenTelemetry name that hotloop says, and the revision of the conventions that it is from.

Released: version 1.41.0 of the semantic conventions, with the two durations (`invoke_agent`, `execute_tool`) that its
successor for generative AI added since. Latest: the main branch of that successor, which renames the metrics. All are
in "Development". What begins with `hotloop.` is our own; Phoenix reads `openinference.`, Langfuse `langfuse.`.
"""

from __future__ import annotations

from functools import cache
from typing import Literal, NamedTuple

import msgspec

Semconv = Literal["released", "latest"]

SCOPE = "hotloop"
CONTENT_VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"

CHAT = "chat"
EXECUTE_TOOL = "execute_tool"
INVOKE_AGENT = "invoke_agent"

OPERATION = "gen_ai.operation.name"
PROVIDER = "gen_ai.provider.name"
AGENT_NAME = "gen_ai.agent.name"
AGENT_VERSION = "gen_ai.agent.version"
CONVERSATION = "gen_ai.conversation.id"
REQUEST_MODEL = "gen_ai.request.model"
RESPONSE_MODEL = "gen_ai.response.model"
FINISH_REASONS = "gen_ai.response.finish_reasons"
FIRST_CHUNK = "gen_ai.response.time_to_first_chunk"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
CACHED_TOKENS = "gen_ai.usage.cache_read.input_tokens"
REASONING_TOKENS = "gen_ai.usage.reasoning.output_tokens"
TOOL_NAME = "gen_ai.tool.name"
TOOL_TYPE = "gen_ai.tool.type"
CALL_ID = "gen_ai.tool.call.id"
CALL_ARGUMENTS = "gen_ai.tool.call.arguments"
CALL_RESULT = "gen_ai.tool.call.result"
INPUT_MESSAGES = "gen_ai.input.messages"
OUTPUT_MESSAGES = "gen_ai.output.messages"
TOKEN_TYPE = "gen_ai.token.type"
TOKEN_MODALITY = "gen_ai.token.modality"
ERROR = "error.type"
SERVER = "server.address"
PORT = "server.port"
SESSION = "session.id"

OPENINFERENCE_KIND = "openinference.span.kind"
INPUT_VALUE = "input.value"
OUTPUT_VALUE = "output.value"
COMPLETION_START = "langfuse.observation.completion_start_time"

RUN = "hotloop.run.id"
OUTCOME = "hotloop.outcome"
TURN = "hotloop.turn"
WHY = "hotloop.attempt.why"
REASON = "hotloop.attempt.reason"
TIME_PER_TOKEN = "hotloop.time_per_output_token"
HEAD_START = "hotloop.tool.head_start"
WAITED_FOR = "hotloop.tool.waited_for"
USED = "hotloop.tool.used"
NOTE = "hotloop.note"

_PROVIDERS = {
    "openai.com": "openai",
    "openai.azure.com": "azure.ai.openai",
    "groq.com": "groq",
    "anthropic.com": "anthropic",
    "deepseek.com": "deepseek",
    "mistral.ai": "mistral_ai",
    "x.ai": "x_ai",
    "perplexity.ai": "perplexity",
    "cohere.com": "cohere",
    "cohere.ai": "cohere",
    "moonshot.ai": "moonshot_ai",
    "moonshot.cn": "moonshot_ai",
    "generativelanguage.googleapis.com": "gcp.gemini",
    "aiplatform.googleapis.com": "gcp.vertex_ai",
}
_COMPATIBLE = "openai_compatible"  # a service of one's own, which is none of those with a name
_EMBEDDED = "llama.cpp"


@cache
def provider_of(service: str) -> str:
    """The provider of a service, by the place where it is asked."""
    if service == "local":
        return _EMBEDDED
    host = service.rsplit(":", 1)[0].lower()
    return next((name for end, name in _PROVIDERS.items() if f".{host}".endswith(f".{end}")), _COMPATIBLE)


class Instrument(NamedTuple):
    """A metric: its name, unit and meaning; the bounds of a histogram's buckets, None for a counter."""

    name: str
    unit: str
    description: str
    bounds: tuple[float, ...] | None = None


def _doubled(first: float, count: int) -> tuple[float, ...]:
    return tuple(round(first * 2**power, 6) for power in range(count))


_SECONDS = _doubled(0.01, 14)
_TOKENS = tuple(float(4**power) for power in range(14))


class TokenCount(NamedTuple):
    """Which count in `Usage` a metric takes, and what its attributes say of that."""

    field: str
    instrument: Instrument
    attributes: dict[str, str]


class Metrics(msgspec.Struct, frozen=True, kw_only=True):
    """What is measured, under the names of one revision."""

    duration: Instrument
    first_chunk: Instrument
    output_chunk: Instrument
    tokens: tuple[TokenCount, ...]
    agent: Instrument = Instrument(
        "gen_ai.invoke_agent.duration", "s", "From the start of a run to its end.", _doubled(0.1, 13)
    )
    tool: Instrument = Instrument("gen_ai.execute_tool.duration", "s", "One execution of a tool.", _SECONDS)
    overhead: Instrument = Instrument(
        "hotloop.overhead.duration", "s", "The loop's own work on the critical path of a run.", _doubled(0.00001, 16)
    )


def _durations(prefix: str) -> tuple[Instrument, Instrument, Instrument]:
    chunk = "(last token - first token) / (tokens - 1) of a reply."
    return (
        Instrument(f"{prefix}.duration", "s", "One request to a model.", _SECONDS),
        Instrument(f"{prefix}.time_to_first_chunk", "s", "From the request to its first token.", _SECONDS),
        Instrument(f"{prefix}.time_per_output_chunk", "s", chunk, _SECONDS),
    )


def _released() -> Metrics:
    duration, first, chunk = _durations("gen_ai.client.operation")
    usage = Instrument("gen_ai.client.token.usage", "{token}", "Tokens of one request.", _TOKENS)
    kinds = {"input_tokens": "input", "output_tokens": "output"}
    tokens = tuple(TokenCount(field, usage, {TOKEN_TYPE: kind}) for field, kind in kinds.items())
    return Metrics(duration=duration, first_chunk=first, output_chunk=chunk, tokens=tokens)


def _latest() -> Metrics:
    prefix = "gen_ai.client.inference"
    duration, first, chunk = _durations(prefix)
    added = {
        "input_tokens": Instrument(f"{prefix}.usage.input_tokens", "{token}", "Tokens read."),
        "output_tokens": Instrument(f"{prefix}.usage.output_tokens", "{token}", "Tokens written."),
        "cached_tokens": Instrument(f"{prefix}.usage.cache_read.input_tokens", "{token}", "Tokens read from a cache."),
        "reasoning_tokens": Instrument(f"{prefix}.usage.reasoning.output_tokens", "{token}", "Tokens of reasoning."),
    }
    each = {
        "input_tokens": Instrument(f"{prefix}.operation.input_tokens", "{token}", "Tokens of one request.", _TOKENS),
        "output_tokens": Instrument(f"{prefix}.operation.output_tokens", "{token}", "Tokens of one reply.", _TOKENS),
    }
    sums = [TokenCount(field, instrument, {TOKEN_MODALITY: "text"}) for field, instrument in added.items()]
    single = [TokenCount(field, instrument, {}) for field, instrument in each.items()]
    return Metrics(duration=duration, first_chunk=first, output_chunk=chunk, tokens=(*sums, *single))


METRICS: dict[Semconv, Metrics] = {"released": _released(), "latest": _latest()}
