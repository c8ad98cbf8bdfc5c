"""Which attribute says what in each convention that is read, old names too; the first that a span has counts.

They are OpenTelemetry's conventions for generative AI (`gen_ai.`), those of OpenInference (`openinference.`, `llm.`,
`tool.`), of OpenLLMetry (`traceloop.`) and of Vercel's AI SDK (`ai.`), and what single frameworks add.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

OPENINFERENCE_KIND = "openinference.span.kind"
TRACELOOP_KIND = "traceloop.span.kind"
OPERATION = "gen_ai.operation.name"
REQUEST_TYPE = "llm.request.type"
AI_OPERATION = "ai.operationId"
AI_STREAM = "ai.streamText.doStream"
MCP_METHOD = "mcp.method.name"
HTTP_METHOD = ("http.request.method", "http.method")
DATABASE = ("db.system.name", "db.system")

AGENT = ("gen_ai.agent.name", "agent.name", "agent_name", "ai.telemetry.functionId")
VERSION = ("gen_ai.agent.version", "service.version")
SESSION = ("gen_ai.conversation.id", "session.id", "traceloop.association.properties.session_id")
RUN = "hotloop.run.id"
OUTCOME = "hotloop.outcome"

REQUEST_MODEL = ("gen_ai.request.model", "llm.model_name", "llm.request.model", "embedding.model_name")
RESPONSE_MODEL = ("gen_ai.response.model", "llm.response.model", "llm.model_name")
PROVIDER = ("gen_ai.provider.name", "llm.provider", "gen_ai.system", "llm.system")
SERVER = ("server.address", "net.peer.name")
PORT = ("server.port", "net.peer.port")
FINISH = ("gen_ai.response.finish_reasons", "llm.finish_reason", "llm.response.finish_reason")
STATUS = ("http.response.status_code", "http.status_code")
ERROR = ("error.type", "exception.type")
MESSAGE = ("exception.message",)

INPUT_TOKENS = (
    "gen_ai.usage.input_tokens",
    "gen_ai.usage.prompt_tokens",
    "llm.token_count.prompt",
    "llm.usage.prompt_tokens",
)
OUTPUT_TOKENS = (
    "gen_ai.usage.output_tokens",
    "gen_ai.usage.completion_tokens",
    "llm.token_count.completion",
    "llm.usage.completion_tokens",
)
CACHED_TOKENS = (
    "gen_ai.usage.cache_read.input_tokens",
    "gen_ai.usage.cache_read_input_tokens",
    "gen_ai.usage.details.cache_read_tokens",
    "llm.token_count.prompt_details.cache_read",
    "ai.usage.cachedInputTokens",
)
REASONING_TOKENS = (
    "gen_ai.usage.reasoning.output_tokens",
    "gen_ai.usage.reasoning_tokens",
    "gen_ai.usage.details.reasoning_tokens",
    "llm.token_count.completion_details.reasoning",
    "llm.usage.reasoning_tokens",
    "ai.usage.reasoningTokens",
)

FIRST_CHUNK = (
    "gen_ai.response.time_to_first_chunk",
    "gen_ai.client.operation.time_to_first_chunk",
    "gen_ai.response.time_to_first_token",
)
FIRST_CHUNK_MS = ("gen_ai.server.time_to_first_token", "ai.response.msToFirstChunk")  # of strands-agents; of the AI SDK
FIRST_AT = "langfuse.observation.completion_start_time"
TOKEN_EVENTS = ("First Token Stream Event", "llm.content.completion.chunk", "gen_ai.content.completion.chunk")
SERVER_SECONDS = {
    "gen_ai.latency.time_in_queue": "queue_ms",
    "gen_ai.latency.time_in_model_prefill": "prompt_ms",
    "gen_ai.latency.time_in_model_decode": "completion_ms",
}

TOOL = ("gen_ai.tool.name", "tool.name", "mcp.tool.name", "traceloop.entity.name", "ai.toolCall.name")
CALL_ID = ("gen_ai.tool.call.id", "tool_call.id", "tool.id", "ai.toolCall.id")
ARGUMENTS = (
    "gen_ai.tool.call.arguments",
    "tool_arguments",
    "traceloop.entity.input",
    "input.value",
    "ai.toolCall.args",
)
RESULT = ("gen_ai.tool.call.result", "tool_response", "traceloop.entity.output", "output.value", "ai.toolCall.result")
TOOL_STATUS = "gen_ai.tool.status"

INPUT = (
    "gen_ai.input.messages",
    "gen_ai.prompt",
    "llm.prompts",
    "input.value",
    "traceloop.entity.input",
    "ai.prompt.messages",
)
OUTPUT = (
    "gen_ai.output.messages",
    "gen_ai.completion",
    "output.value",
    "traceloop.entity.output",
    "ai.response.toolCalls",
    "ai.response.text",
)
ANSWER = ("final_result", "output.value", "traceloop.entity.output", "ai.response.text")
DEFINITIONS = ("gen_ai.tool.definitions", "gen_ai.request.tools", "llm.request.functions", "ai.prompt.tools")
FRONT = (("gen_ai.system_instructions",), DEFINITIONS)
PARAMETERS = "llm.invocation_parameters"


def told(attributes: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    """The value of the first of these attributes that there is; None if there is none."""
    for name in names:
        value = attributes.get(name)
        if value is not None:
            return value
    return None


def told_text(attributes: Mapping[str, Any], names: tuple[str, ...]) -> str:
    """The same as text; "" if there is none, or if it is none."""
    value = told(attributes, names)
    return value if isinstance(value, str) else ""


def told_count(attributes: Mapping[str, Any], names: tuple[str, ...]) -> int | None:
    """The same as a count, None if it is none."""
    value = told(attributes, names)
    countable = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e15
    return int(value) if countable else None
