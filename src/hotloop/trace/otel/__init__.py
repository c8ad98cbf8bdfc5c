"""Runs as OpenTelemetry tells them: spans and metrics by the conventions for generative AI."""
