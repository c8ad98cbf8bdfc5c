"""LangGraph with OpenTelemetry's own instrumentation of LangChain, what is said left out as it is by default."""

from __future__ import annotations

from opentelemetry.instrumentation.genai.langchain import LangChainInstrumentor
from opentelemetry.sdk.trace import TracerProvider

from frameworks.langgraph import ask

__all__ = ["ask", "instrument"]


def instrument(provider: TracerProvider) -> None:
    """As the documentation of OpenTelemetry has it."""
    LangChainInstrumentor().instrument(tracer_provider=provider)
