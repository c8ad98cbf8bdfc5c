"""openai-agents with OpenTelemetry's own instrumentation, what is said left out as it is by default."""

from __future__ import annotations

from opentelemetry.instrumentation.genai.openai_agents import OpenAIAgentsInstrumentor
from opentelemetry.sdk.trace import TracerProvider

from frameworks.openai_agents import ask

__all__ = ["ask", "instrument"]


def instrument(provider: TracerProvider) -> None:
    """As the documentation of OpenTelemetry has it."""
    OpenAIAgentsInstrumentor().instrument(tracer_provider=provider)
