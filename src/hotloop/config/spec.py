"""An agent, declared: what a YAML or JSON file may say, with what it means where it says nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta

from hotloop.budget import Budget
from hotloop.errors import ConfigError
from hotloop.fields import (
    Amount,
    Count,
    Natural,
    Seconds,
    SecondsOrZero,
    Secret,
    Secrets,
    SomeShare,
    Text,
    require,
)
from hotloop.masks import masked
from hotloop.models.model import Model, check_dialect, check_endpoint
from hotloop.models.policy.policy import Policy
from hotloop.models.routing.rules import Question, Rule
from hotloop.words import listed

Endpoint: TypeAlias = Annotated[str, Meta(min_length=1, extra={"check": check_endpoint})]
DialectName: TypeAlias = Annotated[str, Meta(extra={"check": check_dialect})]
TextOrFile: TypeAlias = Annotated[str, Meta(extra={"file": True})]
Command: TypeAlias = Annotated[tuple[Text, ...], Meta(extra={"secret": True})]


class ModelSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A model and the service it runs on; see `hotloop.Model`."""

    endpoint: Endpoint
    model: Text
    api_key: Secret | None = None
    headers: Secrets = {}
    dialect: DialectName | None = None
    temperature: Amount | None = None
    max_tokens: Count | None = None
    price_in: Amount | None = None
    price_out: Amount | None = None
    policy: Policy = Policy()

    def __repr__(self) -> str:
        return masked(self)

    def declared(self) -> Model:
        """The model that it declares."""
        options = {name: getattr(self, name) for name in ModelSpec.__struct_fields__ if name != "model"}
        return Model(name=self.model, **options)


class InferenceSpec(ModelSpec, frozen=True, kw_only=True):
    """The model that is asked first, and those in `fallback`, which are asked when it will not do.

    `timeout` (seconds for one reply) and `retries` are those of its policy, where they are given.
    """

    stream: bool = True
    timeout: Seconds | None = None
    retries: Natural | None = None
    fallback: tuple[ModelSpec, ...] = ()


class RuleSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Which requests go to which model; see `hotloop.Rule`. `when` is a "module:function", `max_left` seconds."""

    to: Text
    when: Text | None = None
    pattern: Text | None = None
    min_tokens: Natural | None = None
    max_tokens: Natural | None = None
    max_left: Seconds | None = None
    background: bool | None = None

    def __post_init__(self) -> None:
        self.declared(when=None if self.when is None else bool)  # which stands for a function that is not imported yet

    def declared(self, when: Callable[[Question], bool] | None) -> Rule:
        """The rule that it declares, with the function that its `when` names. Raises ConfigError."""
        return Rule(**{**msgspec.structs.asdict(self), "when": when})


class CascadeSpec(msgspec.Struct, frozen=True, kw_only=True):
    """When a stronger model is asked; see `hotloop.Cascade`."""

    confidence: SomeShare | None = None


class RouterSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Several models in the place of one; see `hotloop.Router`. `classifier` is a file that `hotloop route` wrote."""

    default: Text
    models: dict[str, ModelSpec]
    rules: tuple[RuleSpec, ...] = ()
    classifier: Text | None = None
    cascade: CascadeSpec | None = None
    per: Literal["request", "turn"] = "request"
    fallback: tuple[ModelSpec, ...] = ()
    stream: bool = True

    def __post_init__(self) -> None:
        require(bool(self.models), "The router has no models; give at least one, by name.")
        named = {"default": self.default, **{f"rules[{place}].to": rule.to for place, rule in enumerate(self.rules)}}
        for key, name in named.items():
            known = f"which is no model of the router; there are {listed(name, self.models)}."
            require(name in self.models, f"{key} is {name!r}, {known}")


class RulesSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Rules for a tool that a server lists, and other words for it; see `ToolOptions`. Times are seconds."""

    name: Text | None = None
    description: Text | None = None
    approval: Literal["never", "always"] = "never"
    requires: tuple[Text, ...] = ()
    secrets: tuple[Text, ...] = ()
    timeout: Seconds | None = None
    retry: Natural | None = None
    ttl: Seconds | None = None
    scope: Literal["run", "session", "user", "global"] | None = None
    max_result: Count | None = None
    sequential: bool = False


class MCPSpec(msgspec.Struct, frozen=True, kw_only=True):
    """An MCP server; see `hotloop.tools.mcp.MCPServer`. `timeout` is seconds for connecting."""

    name: Text
    command: Command | None = None
    url: Text | None = None
    env: Secrets | None = None
    headers: Secrets | None = None
    trust_hints: bool = False
    read_only: tuple[Text, ...] = ()
    include: tuple[Text, ...] | None = None
    rules: dict[str, RulesSpec] = {}
    timeout: Seconds = 30.0

    def __post_init__(self) -> None:
        one = bool(self.command) != bool(self.url)
        require(one, "An MCP server has a command, which starts it, or a url, where it is: give one of the two.")

    def __repr__(self) -> str:
        return masked(self)


class OpenAPISpec(msgspec.Struct, frozen=True, kw_only=True):
    """An OpenAPI document; see `hotloop.tools.openapi.tools_from_openapi`. `timeout` is seconds for one call."""

    source: Text
    base_url: Text | None = None
    prefix: str = ""
    include: tuple[Text, ...] | None = None
    auth: Secrets | None = None
    timeout: Seconds | None = None
    approval: Literal["never", "always"] = "never"

    def __repr__(self) -> str:
        return masked(self)


class ToolsSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Which tools there are, as "module:function" or from servers, how they run, and what they may do.

    `timeout` is seconds for one call, `max_result` characters of a result; `audit` and `approvals` are files.
    """

    use: tuple[Text, ...] = ()
    mcp: tuple[MCPSpec, ...] = ()
    openapi: tuple[OpenAPISpec, ...] = ()
    parallel: bool = True
    max_parallel: Count = 8
    timeout: Seconds = 30.0
    retry: Natural = 0
    shortlist: Count | None = None
    plan: bool = False
    max_result: Count | None = None
    grants: tuple[Text, ...] = ()
    audit: Text | None = None
    approvals: Text | None = None


class AnswersSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Answers that are given again; see `hotloop.AnswerCache`. `ttl` is seconds."""

    ttl: Seconds
    size: Count = 1000
    scope: Literal["user", "global"] = "user"
    embed: Literal["local"] | None = None
    similarity: SomeShare = 0.9


class CacheSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept: results of read-only tools, for seconds (None or 0: not), the service's prefix cache, answers.

    With `speculate` the service reads early results of tools while later ones run.
    """

    tool_result_ttl: SecondsOrZero | None = None
    prefix_cache: bool = True
    speculate: bool = False
    answers: AnswersSpec | None = None


class AgentSpec(msgspec.Struct, frozen=True, kw_only=True):
    """An agent as a file declares it; `folder` is where its own relative paths and modules start from.

    Either `inference` or `router` says who thinks; `output` is the "module:Type" of its answers.
    """

    inference: InferenceSpec | None = None
    router: RouterSpec | None = None
    name: str = ""
    instructions: TextOrFile = ""
    tools: ToolsSpec = ToolsSpec()
    cache: CacheSpec = CacheSpec()
    budget: Budget | None = None
    max_turns: Count = 10
    output: Text | None = None
    folder: Path = Path()

    def __post_init__(self) -> None:
        if (self.inference is None) == (self.router is None):
            raise ConfigError("it needs either inference, with endpoint and model, or router, and not both")

    @property
    def models(self) -> list[ModelSpec]:
        """Every model that may be asked."""
        if self.router is not None:
            return [*self.router.models.values(), *self.router.fallback]
        return [] if self.inference is None else [self.inference, *self.inference.fallback]


def load_spec(path: str | Path) -> AgentSpec:
    """Read the declaration in a YAML or JSON file.

    Raises ConfigError; its message has one line, with file, line number and key, for each thing that is wrong.
    """
    try:
        from hotloop.config.declaration import read_declaration
    except ModuleNotFoundError as error:
        if error.name != "yaml":
            raise
        raise ConfigError('A declaration in YAML or JSON needs PyYAML: pip install "hotloop[yaml]".') from None
    return read_declaration(Path(path))
