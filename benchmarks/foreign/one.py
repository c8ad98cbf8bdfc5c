"""One run of a foreign agent, traced: python one.py FRAMEWORK SCENARIO URL FILE, in the framework's environment.

Its spans go to the file as OTLP JSON lines; what the framework itself says of the run is printed as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import asdict
from importlib import import_module

from exporters import exporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from work import Told, task, timed


def main() -> None:
    """Run once to load all that is loaded late, then once more for the record."""
    name, scenario, url, path = sys.argv[1:]
    framework = import_module(f"frameworks.{name}")
    provider = TracerProvider(resource=Resource({"service.name": "shop"}))
    framework.instrument(provider)
    asyncio.run(_run(framework, scenario, url, provider, path))
    provider.shutdown()


async def _run(framework, scenario: str, url: str, provider: TracerProvider, path: str) -> None:  # type: ignore[no-untyped-def]
    await _told(framework, scenario, url)
    provider.add_span_processor(BatchSpanProcessor(exporter(path)))
    print(json.dumps(asdict(await _told(framework, scenario, url))))


async def _told(framework, scenario: str, url: str) -> Told:  # type: ignore[no-untyped-def]
    with timed() as clock:
        try:
            return await framework.ask(task(scenario, url))
        except Exception as error:
            told = Told(error=type(error).__name__)
    told.seconds = clock.seconds
    return told


if __name__ == "__main__":
    main()
