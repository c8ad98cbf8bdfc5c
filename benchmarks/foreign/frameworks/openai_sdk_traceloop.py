"""The same loop, whose requests OpenLLMetry records."""

from __future__ import annotations

from opentelemetry import trace
from opentelemetry.instrumentation.openai import OpenAIInstrumentor
from opentelemetry.sdk.trace import TracerProvider

from frameworks.openai_sdk import ask

__all__ = ["ask", "instrument"]


def instrument(provider: TracerProvider) -> None:
    """As the documentation of OpenLLMetry has it; the loop's own span goes to the global provider."""
    trace.set_tracer_provider(provider)
    OpenAIInstrumentor().instrument(tracer_provider=provider)
