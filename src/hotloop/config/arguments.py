"""What a declaration means: the arguments of `Agent`, with its tools and models imported and loaded."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from hotloop.config.contextspec import MemorySpec
from hotloop.config.functions import load_function, unusable
from hotloop.config.modelspec import RouterSpec, RuleSpec
from hotloop.config.spec import AgentSpec, AnswersSpec
from hotloop.config.toolspec import MCPSpec, OpenAPISpec, ToolsSpec
from hotloop.errors import ToolDefinitionError
from hotloop.models.routing.classifier import RouteClassifier
from hotloop.models.routing.router import Cascade, Router
from hotloop.models.routing.rules import Rule
from hotloop.tools.defining.define import tool
from hotloop.tools.defining.source import ToolSource
from hotloop.tools.defining.tool import Tool
from hotloop.trace.recording.recording import Traces

if TYPE_CHECKING:
    from hotloop.answers.cache import AnswerCache
    from hotloop.context.memory.memory import Memory
    from hotloop.tools.prefetch.settings import Prefetch

_TOOL = "The tool {!r} of tools.use"
_OUTPUT = "The type {!r} of output"
_WHEN = "The function {!r} of router.rules"
_CONTEXT = "The function {!r} of context"


def agent_arguments(spec: AgentSpec) -> dict[str, Any]:
    """The keyword arguments of `Agent` that a declaration means. Raises ConfigError for tools that cannot be had."""
    tools, cache = spec.tools, spec.cache
    return {
        **_thinking(spec),
        "instructions": spec.instructions,
        "tools": [*load_tools(tools.use, spec.folder), *_from_servers(tools, spec.folder)],
        "budget": spec.budget,
        "name": spec.name,
        "version": spec.version,
        "traces": _traces(spec),
        "exporters": spec.telemetry.exporters(),
        "owners": spec.owners,
        "max_turns": spec.max_turns,
        "max_parallel": tools.max_parallel if tools.parallel else 1,
        "tool_timeout": tools.timeout,
        "tool_retry": tools.retry,
        "tool_ttl": cache.tool_result_ttl,
        "prefix_cache": cache.prefix_cache,
        "speculate": cache.speculate,
        "output": None if spec.output is None else load_function(spec.output, spec.folder, _OUTPUT),
        "shortlist": tools.shortlist,
        "plan": tools.plan,
        "prefetch": _prefetch(spec),
        "max_result": tools.max_result,
        "grants": tools.grants,
        "audit": spec.beside(tools.audit),
        "approvals": spec.beside(tools.approvals),
        "answers": None if cache.answers is None else _answers(cache.answers),
        **_lasting(spec),
    }


def _lasting(spec: AgentSpec) -> dict[str, Any]:
    """What the model sees beside the prompt, and where conversations and facts are kept."""
    return {
        "context": spec.context.declared(lambda named: load_function(named.function, spec.folder, _CONTEXT)),
        "memory": None if spec.memory is None else _memory(spec, spec.memory),
        "sessions": _kept(spec, spec.sessions.path),
        "busy": spec.sessions.busy,
    }


def _prefetch(spec: AgentSpec) -> Prefetch | None:
    """What the section says, its file beside the declaration."""
    said = spec.tools.prefetch
    if said is None or said.path is None:
        return said
    return msgspec.structs.replace(said, path=str(spec.beside(said.path)))


def _memory(spec: AgentSpec, declared: MemorySpec) -> Memory:
    from hotloop.context.memory.memory import Memory

    path = _kept(spec, declared.path)
    return Memory(path, limit=declared.limit, timeout=declared.timeout, embed=declared.embed)


def _traces(spec: AgentSpec) -> Traces | bool | None:
    if not isinstance(spec.traces, Traces) or spec.traces.path is None:
        return spec.traces
    return msgspec.structs.replace(spec.traces, path=str(spec.beside(spec.traces.path)))


def _kept(spec: AgentSpec, name: str | None) -> str | Path | None:
    return name if name == ":memory:" else spec.beside(name)


def _thinking(spec: AgentSpec) -> dict[str, Any]:
    """Who thinks for the agent."""
    inference, router = spec.inference, spec.router
    if router is not None:
        fallback = [each.declared() for each in router.fallback]
        return {"model": _router(router, spec.folder), "fallback": fallback, "stream": router.stream}
    assert inference is not None  # one of them there is
    return {
        "model": inference.declared(),
        "fallback": [each.declared() for each in inference.fallback],
        "stream": inference.stream,
        "timeout": inference.timeout,
        "retries": inference.retries,
    }


def _router(spec: RouterSpec, folder: Path) -> Router:
    return Router(
        models={name: each.declared() for name, each in spec.models.items()},
        default=spec.default,
        rules=[_rule(each, folder) for each in spec.rules],
        classifier=None if spec.classifier is None else RouteClassifier.load(folder / spec.classifier),
        cascade=None if spec.cascade is None else Cascade(confidence=spec.cascade.confidence),
        per=spec.per,
    )


def _rule(spec: RuleSpec, folder: Path) -> Rule:
    return spec.declared(when=None if spec.when is None else load_function(spec.when, folder, _WHEN))


def _answers(spec: AnswersSpec) -> AnswerCache:
    from hotloop.answers.cache import AnswerCache

    return AnswerCache(**msgspec.structs.asdict(spec))


def _from_servers(tools: ToolsSpec, folder: Path) -> list[Tool | ToolSource]:
    found: list[Tool | ToolSource] = []
    for document in tools.openapi:
        from hotloop.tools.openapi import tools_from_openapi

        options = msgspec.structs.asdict(document) | {"rules": _rules(document)}
        source = options.pop("source")
        found += tools_from_openapi(source if "://" in source else folder / source, **options)
    for server in tools.mcp:
        from hotloop.tools.mcp import MCPServer

        found.append(MCPServer(**msgspec.structs.asdict(server) | {"rules": _rules(server)}))
    return found


def _rules(source: OpenAPISpec | MCPSpec) -> dict[str, Any]:
    return {name: msgspec.to_builtins(rules) for name, rules in source.rules.items()}


def load_tools(names: Iterable[str], folder: Path) -> list[Tool]:
    """Import tools given as "module:function", with `folder` on the import path as for a script that lies in it.

    Raises ConfigError that says which one cannot be had, and why.
    """
    return [_load_tool(name, folder) for name in names]


def _load_tool(name: str, folder: Path) -> Tool:
    found = load_function(name, folder, _TOOL)
    try:
        return found if isinstance(found, Tool) else tool(found)
    except ToolDefinitionError as error:
        raise ToolDefinitionError(str(unusable(name, _TOOL, str(error)))) from error.__cause__
