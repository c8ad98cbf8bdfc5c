"""Agents as their frameworks want them, one module each, with the instrumentation that their users have.

`instrument(provider)` switches tracing on; `ask(task)` does one run and returns what the framework itself counted.
"""
