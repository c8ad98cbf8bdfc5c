"""What `Agent(...)` takes, with the same limits that a declaration has."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from hotloop.config.spec import Count, Retries, Seconds, Text
from hotloop.errors import ConfigError


class AgentOptions(msgspec.Struct, kw_only=True):
    """The plain options of an agent; see `Agent`."""

    model: Text
    instructions: str
    name: str
    api_key: str | None
    headers: dict[str, str] | None
    dialect: str | None
    temperature: Annotated[float, Meta(ge=0)] | None
    max_tokens: Count | None
    stream: bool
    timeout: Seconds
    retries: Retries
    max_turns: Count
    max_parallel: Count
    tool_timeout: Seconds | None
    tool_retry: Retries
    tool_ttl: Annotated[float, Meta(ge=0)] | None
    prefix_cache: bool
    shortlist: Count | None
    plan: bool
    max_result: Count | None


def check_options(given: dict[str, Any]) -> None:
    """Raise ConfigError, with the option's name, if one is of the wrong type or out of its limits."""
    options = {name: given[name] for name in AgentOptions.__struct_fields__}
    try:
        msgspec.convert(options, AgentOptions)
    except msgspec.ValidationError as fault:
        what, _, where = str(fault).partition(" - at `$.")
        raise ConfigError(f"Agent({where.rstrip('`')}=...): {what[:1].lower()}{what[1:]}.") from None
