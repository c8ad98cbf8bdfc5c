"""What happened elsewhere: OpenTelemetry traces of agents that other frameworks ran, as records of ours."""
