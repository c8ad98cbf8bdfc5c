"""A model, declared: its name, where it is served, and how it is asked there."""

from __future__ import annotations

import os
from urllib.parse import urlsplit

import msgspec

from hotloop.errors import ConfigError
from hotloop.models.dialects import Dialect, dialect_of
from hotloop.models.policy.policy import Policy
from hotloop.models.transport import Transport


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """One model of one service.

    `endpoint` is the base URL of an OpenAI-compatible service (or its full .../chat/completions URL), "local" for the
    embedded engine, or a Transport. `api_key` is taken from the service's usual environment variable when it is None
    and the service is known. `price_in` and `price_out` are what a million tokens cost, in any one currency.
    Raises ConfigError for what cannot be a model.
    """

    name: str
    endpoint: str | Transport
    api_key: str | None = None
    headers: dict[str, str] | None = None
    dialect: str | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    policy: Policy = Policy()
    price_in: float | None = None
    price_out: float | None = None

    def __post_init__(self) -> None:
        _require(isinstance(self.name, str) and bool(self.name), f"the model's name is {self.name!r}; give some text")
        known = bool(self.endpoint) if isinstance(self.endpoint, str) else hasattr(self.endpoint, "send")
        _require(known, f'endpoint is {self.endpoint!r}; give a URL or "local"')
        _require(isinstance(self.policy, Policy), f"policy is {self.policy!r}; make it with Policy(...)")

    @property
    def spoken(self) -> Dialect:
        """The dialect of its service. Raises ConfigError for one that is not known."""
        return dialect_of(self.endpoint if isinstance(self.endpoint, str) else "", self.dialect)

    @property
    def key(self) -> str:
        """The API key, "" if there is none."""
        key = self.api_key if self.api_key is not None else os.environ.get(self.spoken.key_variable or "-", "")
        return key.strip()

    @property
    def where(self) -> str:
        """Its place, for people: host and port, "local", or what kind of transport it is."""
        if not isinstance(self.endpoint, str):
            return type(self.endpoint).__name__
        return urlsplit(self.endpoint).netloc or self.endpoint

    def __repr__(self) -> str:
        return f"Model(name={self.name!r}, endpoint={self.endpoint!r})"  # never its key


def _require(condition: bool, otherwise: str) -> None:
    if not condition:
        raise ConfigError(f"{otherwise[:1].upper()}{otherwise[1:]}.")
