"""An agent, declared: what a YAML or JSON file may say, with what it means where it says nothing."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta

from hotloop.budget import Budget
from hotloop.errors import ConfigError
from hotloop.models.model import Model
from hotloop.models.policy.policy import Policy

_TOOL = re.compile(r"\w+(\.\w+)*:\w+")

Text: TypeAlias = Annotated[str, Meta(min_length=1)]
Count: TypeAlias = Annotated[int, Meta(ge=1)]
Retries: TypeAlias = Annotated[int, Meta(ge=0)]
Seconds: TypeAlias = Annotated[float, Meta(gt=0)]


class ModelSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A model and the service it runs on; see `hotloop.Model`."""

    endpoint: Text
    model: Text
    api_key: str | None = None
    headers: dict[str, str] = {}
    dialect: str | None = None
    temperature: Annotated[float, Meta(ge=0)] | None = None
    max_tokens: Count | None = None
    price_in: Annotated[float, Meta(ge=0)] | None = None
    price_out: Annotated[float, Meta(ge=0)] | None = None
    policy: Policy = Policy()

    def __repr__(self) -> str:
        shown = msgspec.structs.asdict(self)
        if self.api_key is not None:
            shown["api_key"] = "***"
        shown["headers"] = dict.fromkeys(self.headers, "***")
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in shown.items())})"

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
    retries: Retries | None = None
    fallback: tuple[ModelSpec, ...] = ()


class RuleSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Which requests go to which model; see `hotloop.Rule`. `when` is a "module:function", `max_left` seconds."""

    to: Text
    when: Text | None = None
    pattern: Text | None = None
    min_tokens: Retries | None = None
    max_tokens: Retries | None = None
    max_left: Seconds | None = None
    background: bool | None = None


class CascadeSpec(msgspec.Struct, frozen=True, kw_only=True):
    """When a stronger model is asked; see `hotloop.Cascade`."""

    confidence: Annotated[float, Meta(gt=0, le=1)] | None = None


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


class RulesSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Rules for a tool that a server lists, and other words for it; see `ToolOptions`. Times are seconds."""

    name: Text | None = None
    description: Text | None = None
    approval: Literal["never", "always"] = "never"
    requires: tuple[Text, ...] = ()
    secrets: tuple[Text, ...] = ()
    timeout: Seconds | None = None
    retry: Retries | None = None
    ttl: Seconds | None = None
    scope: Literal["run", "session", "user", "global"] | None = None
    max_result: Count | None = None
    sequential: bool = False


class MCPSpec(msgspec.Struct, frozen=True, kw_only=True):
    """An MCP server; see `hotloop.tools.mcp.MCPServer`. `timeout` is seconds for connecting."""

    name: Text
    command: tuple[Text, ...] | None = None
    url: Text | None = None
    env: dict[str, str] | None = None
    headers: dict[str, str] | None = None
    trust_hints: bool = False
    read_only: tuple[Text, ...] = ()
    include: tuple[Text, ...] | None = None
    rules: dict[str, RulesSpec] = {}
    timeout: Seconds = 30.0


class OpenAPISpec(msgspec.Struct, frozen=True, kw_only=True):
    """An OpenAPI document; see `hotloop.tools.openapi.tools_from_openapi`. `timeout` is seconds for one call."""

    source: Text
    base_url: Text | None = None
    prefix: str = ""
    include: tuple[Text, ...] | None = None
    auth: dict[str, str] | None = None
    timeout: Seconds | None = None
    approval: Literal["never", "always"] = "never"


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
    retry: Retries = 0
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
    likeness: Annotated[float, Meta(gt=0, le=1)] = 0.9


class CacheSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept: results of read-only tools, for seconds (None or 0: not), the service's prefix cache, answers.

    With `speculate` the service reads early results of tools while later ones run.
    """

    tool_result_ttl: Annotated[float, Meta(ge=0)] | None = None
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
    instructions: str = ""
    tools: ToolsSpec = ToolsSpec()
    cache: CacheSpec = CacheSpec()
    budget: Budget | None = None
    max_turns: Count = 10
    output: Text | None = None
    folder: Path = Path()

    def __post_init__(self) -> None:
        if (self.inference is None) == (self.router is None):
            raise ConfigError("it needs either inference, with endpoint and model, or router")

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
