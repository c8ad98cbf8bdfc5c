"""An agent, declared: what a YAML or JSON file may say, with what it means where it says nothing."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta

from hotloop.budget import Budget
from hotloop.errors import ConfigError, ToolDefinitionError
from hotloop.models.model import Model
from hotloop.models.policy.policy import Policy
from hotloop.tools.defining.define import tool
from hotloop.tools.defining.source import ToolSource
from hotloop.tools.defining.tool import Tool
from hotloop.words import did_you_mean

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


class CacheSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept: results of read-only tools, for seconds (None or 0: not), and the service's prefix cache."""

    tool_result_ttl: Annotated[float, Meta(ge=0)] | None = None
    prefix_cache: bool = True


class AgentSpec(msgspec.Struct, frozen=True, kw_only=True):
    """An agent as a file declares it; `folder` is where its own relative paths and modules start from."""

    inference: InferenceSpec
    name: str = ""
    instructions: str = ""
    tools: ToolsSpec = ToolsSpec()
    cache: CacheSpec = CacheSpec()
    budget: Budget | None = None
    max_turns: Count = 10
    folder: Path = Path()


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


def load_tools(names: Iterable[str], folder: Path) -> list[Tool]:
    """Import tools given as "module:function", with `folder` on the import path as for a script that lies in it.

    Raises ConfigError that says which one cannot be had, and why.
    """
    names = list(names)
    place = str(folder.resolve())
    if names and place not in sys.path:
        sys.path.insert(0, place)
    return [_load_tool(name, folder) for name in names]


def agent_arguments(spec: AgentSpec) -> dict[str, Any]:
    """The keyword arguments of `Agent` that a declaration means. Raises ConfigError for tools that cannot be had."""
    inference, tools, cache = spec.inference, spec.tools, spec.cache
    return {
        "model": inference.declared(),
        "fallback": [each.declared() for each in inference.fallback],
        "instructions": spec.instructions,
        "tools": [*load_tools(tools.use, spec.folder), *_from_servers(tools, spec.folder)],
        "budget": spec.budget,
        "name": spec.name,
        "stream": inference.stream,
        "timeout": inference.timeout,
        "retries": inference.retries,
        "max_turns": spec.max_turns,
        "max_parallel": tools.max_parallel if tools.parallel else 1,
        "tool_timeout": tools.timeout,
        "tool_retry": tools.retry,
        "tool_ttl": cache.tool_result_ttl,
        "prefix_cache": cache.prefix_cache,
        "shortlist": tools.shortlist,
        "plan": tools.plan,
        "max_result": tools.max_result,
        "grants": tools.grants,
        "audit": spec.folder / tools.audit if tools.audit else None,
        "approvals": spec.folder / tools.approvals if tools.approvals else None,
    }


def _from_servers(tools: ToolsSpec, folder: Path) -> list[Tool | ToolSource]:
    found: list[Tool | ToolSource] = []
    for document in tools.openapi:
        from hotloop.tools.openapi import tools_from_openapi

        options = msgspec.structs.asdict(document)
        source = options.pop("source")
        found += tools_from_openapi(source if "://" in source else folder / source, **options)
    for server in tools.mcp:
        from hotloop.tools.mcp import MCPServer

        options = msgspec.structs.asdict(server)
        options["rules"] = {name: msgspec.to_builtins(rules) for name, rules in server.rules.items()}
        found.append(MCPServer(**options))
    return found


def _load_tool(name: str, folder: Path) -> Tool:
    if not _TOOL.fullmatch(name):
        raise _unusable(name, "it is not of the form module:function")
    module_name, attribute = name.split(":")
    module = _import(name, module_name, folder)
    found = getattr(module, attribute, None)
    if found is None:
        hint = did_you_mean(attribute, [each for each, value in vars(module).items() if callable(value)])
        raise _unusable(name, f"{module_name} has no {attribute}{hint}")
    if not callable(found):
        raise _unusable(name, f"it is a value of type {type(found).__name__}, not a function")
    try:
        return found if isinstance(found, Tool) else tool(found)
    except ToolDefinitionError as error:
        raise ToolDefinitionError(str(_unusable(name, str(error)))) from error.__cause__


def _import(name: str, module_name: str, folder: Path) -> ModuleType:
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:  # a script that lacks its `if __name__ == "__main__"` may end itself
        if isinstance(error, ModuleNotFoundError) and f"{module_name}.".startswith(f"{error.name}."):
            where = f"neither in {folder.resolve()} nor installed"
            raise _unusable(name, f"there is no module {error.name}, {where}") from None
        raise _unusable(name, f"importing {module_name} failed: {type(error).__name__}: {error}") from error
    meant = folder.resolve() / f"{module_name.replace('.', '/')}.py"
    if meant.exists() and module.__file__ and not meant.samefile(module.__file__):
        raise _unusable(name, f"another module {module_name} is imported already, from {module.__file__}")
    return module


def _unusable(name: str, why: str) -> ConfigError:
    stop = "" if why.endswith((".", "?")) else "."
    return ConfigError(f"The tool {name!r} of tools.use cannot be had: {why}{stop}")
