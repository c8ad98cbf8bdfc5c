"""openai-agents with the OpenLLMetry bridge from its own tracing to OpenTelemetry."""

from __future__ import annotations

from opentelemetry.instrumentation.openai_agents import OpenAIAgentsInstrumentor
from opentelemetry.sdk.trace import TracerProvider

from frameworks.openai_agents import ask

__all__ = ["ask", "instrument"]


def instrument(provider: TracerProvider) -> None:
    """As the documentation of OpenLLMetry has it."""
    OpenAIAgentsInstrumentor().instrument(tracer_provider=provider)
