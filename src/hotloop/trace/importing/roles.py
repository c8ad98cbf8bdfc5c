"""What a span is of a run: an agent, one of its parts, a request to a model, a tool, or something beside them."""

from __future__ import annotations

from typing import Literal

from hotloop.trace.importing import names
from hotloop.trace.importing.span import CLIENT, Span

Role = Literal["agent", "chain", "model", "tool", "memory", "guard", "http", "other"]

_OPENINFERENCE: dict[str, Role] = {
    "LLM": "model",
    "TOOL": "tool",
    "AGENT": "agent",
    "CHAIN": "chain",
    "PROMPT": "chain",
    "RETRIEVER": "memory",
    "EMBEDDING": "memory",
    "RERANKER": "memory",
    "GUARDRAIL": "guard",
}
_TRACELOOP: dict[str, Role] = {"workflow": "chain", "task": "chain", "agent": "agent", "tool": "tool"}
_OPERATIONS: dict[str, Role] = {
    "chat": "model",
    "text_completion": "model",
    "completion": "model",
    "generate_content": "model",
    "response": "model",
    "invoke_agent": "agent",
    "invoke_workflow": "chain",
    "execute_event_loop_cycle": "chain",
    "execute_tool": "tool",
    "embeddings": "memory",
    "retrieval": "memory",
    "search_memory": "memory",
    "update_memory": "memory",
    "guardrail": "guard",
}
_AI_OPERATIONS: dict[str, Role] = {
    "ai.generateText": "chain",
    "ai.generateObject": "chain",
    "ai.streamText": "chain",
    "ai.streamObject": "chain",
    "ai.generateText.doGenerate": "model",
    "ai.generateObject.doGenerate": "model",
    "ai.streamText.doStream": "model",
    "ai.streamObject.doStream": "model",
    "ai.toolCall": "tool",
    "ai.embed": "memory",
    "ai.embedMany": "memory",
}
_REQUESTS: dict[str, Role] = {"chat": "model", "completion": "model", "embedding": "memory", "rerank": "memory"}
_CONVENTIONS = (
    (names.TRACELOOP_KIND, _TRACELOOP),
    (names.OPERATION, _OPERATIONS),
    (names.AI_OPERATION, _AI_OPERATIONS),
    (names.REQUEST_TYPE, _REQUESTS),
)
_NO_REQUEST = "._prepare_chat_with_tools"  # of LlamaIndex, recorded as if it were one


def role_of(span: Span) -> Role:
    """The role of a span, by the first convention that it follows."""
    told = span.attributes
    if span.name.endswith(_NO_REQUEST):
        return "chain"
    kind = told.get(names.OPENINFERENCE_KIND)
    if isinstance(kind, str) and (role := _OPENINFERENCE.get(kind.upper())):
        return role
    for name, roles in _CONVENTIONS:
        if role := roles.get(str(told.get(name, ""))):
            return role
    return _by_other_signs(span)


def _by_other_signs(span: Span) -> Role:
    told = span.attributes
    if told.get(names.MCP_METHOD) == "tools/call":
        return "tool"
    if span.kind == CLIENT and (names.MCP_METHOD in told or names.told(told, names.HTTP_METHOD) is not None):
        return "http"
    if names.told(told, names.DATABASE) is not None:
        return "memory"
    if names.OPERATION not in told and "gen_ai.system" in told and "gen_ai.request.model" in told:
        return "model"  # as the conventions were before operations had names
    return "other"
