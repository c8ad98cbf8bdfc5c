"""A model, declared: its name, where it is served, and how it is asked there."""

from __future__ import annotations

import os

import msgspec

from hotloop.fields import Amount, Count, Secret, Secrets, Text, check_fields, require
from hotloop.masks import masked
from hotloop.models.dialects import Dialect, dialect_of
from hotloop.models.http.target import chat_url, parse_target
from hotloop.models.policy.policy import Policy
from hotloop.models.transport import Transport


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """One model of one service.

    `endpoint` is the base URL of an OpenAI-compatible service (or its full .../chat/completions URL), "local" for the
    embedded engine, or a Transport. `api_key` is taken from the service's usual environment variable when it is None
    and the service is known. `price_in` and `price_out` are what a million tokens cost, in any one currency.
    Raises ConfigError for what cannot be a model.
    """

    name: Text
    endpoint: str | Transport
    api_key: Secret | None = None
    headers: Secrets | None = None
    dialect: str | None = None
    temperature: Amount | None = None
    max_tokens: Count | None = None
    policy: Policy = Policy()
    price_in: Amount | None = None
    price_out: Amount | None = None

    def __post_init__(self) -> None:
        check_fields(Model, msgspec.structs.asdict(self), "Model")
        if isinstance(self.endpoint, str):
            check_endpoint(self.endpoint)
        else:
            known = all(hasattr(self.endpoint, name) for name in ("send", "warm", "aclose"))
            require(known, f'The endpoint is {self.endpoint!r}; give a URL, "local" or a Transport.')
        if self.dialect is not None:
            check_dialect(self.dialect)

    @property
    def spoken(self) -> Dialect:
        """The dialect of its service."""
        return dialect_of(self.endpoint if isinstance(self.endpoint, str) else "", self.dialect)

    @property
    def key(self) -> str:
        """The API key, "" if there is none."""
        key = self.api_key if self.api_key is not None else os.environ.get(self.spoken.key_variable or "-", "")
        return key.strip()

    @property
    def where(self) -> str:
        """Its place, for people: host and port (a usual port is left out), "local", or the kind of transport it is."""
        if not isinstance(self.endpoint, str):
            return type(self.endpoint).__name__
        if self.endpoint == "local":
            return self.endpoint
        target = parse_target(chat_url(self.endpoint))
        return target.unix or target.authority

    def __repr__(self) -> str:
        return masked(self)


def check_endpoint(endpoint: str) -> None:
    """Raise ConfigError unless it is "local" or a URL, without a user in it."""
    if endpoint != "local":
        parse_target(chat_url(endpoint))


def check_dialect(name: str) -> None:
    """Raise ConfigError unless there is a dialect of this name."""
    dialect_of("", name)
