"""The tools of one agent and how they run; every reply of the model gets a batch of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from hotloop.errors import ArgumentsError, ToolDefinitionError
from hotloop.models.reply import Call
from hotloop.models.sizes import sure_characters
from hotloop.tools.cutting.rest import READ_RESULT, reading_tool
from hotloop.tools.defining.tool import TELL_MODEL, Tool, arguments_key
from hotloop.tools.plan.plan import PLAN, plan_definition
from hotloop.tools.plan.reading import PlanReader
from hotloop.tools.running.cache import Key, ResultCache, invalidate, shared
from hotloop.tools.running.callrunner import CallRunner
from hotloop.tools.running.calls import ReplyCalls
from hotloop.tools.running.execution import PreparedTool
from hotloop.tools.running.graph import check_acyclic
from hotloop.tools.running.job import RunContext
from hotloop.tools.running.result import words_of
from hotloop.tools.running.shaping import Shaper, SummarizeText
from hotloop.trace.ledger import ToolFacts
from hotloop.words import did_you_mean

if TYPE_CHECKING:
    from hotloop.tools.audit.log import AuditLog

_MOST = 25_000  # tokens of a result


class ToolPolicy(msgspec.Struct, frozen=True):
    """How tools run unless they say otherwise; times in seconds, `ttl` for read-only tools only.

    `max_result` is about how many tokens of a result the model reads, None a number that nearly none has. With `plan`
    it may have several calls made of which some need results of others.
    """

    max_parallel: int = 8
    timeout: float | None = 30.0
    retry: int = 0
    ttl: float | None = None
    max_result: int | None = None
    plan: bool = False


class Executor:
    """The tools of one agent. The calls of many runs may be under way at the same time.

    `answer` is the tool whose arguments are the final answer, if there is one; it is never run. `summarize` is asked
    for summaries of long text by tools with `summarize`.
    Raises ConfigError for tools whose `after` contradicts.
    """

    def __init__(
        self,
        tools: Sequence[Tool],
        policy: ToolPolicy,
        audit: AuditLog | None = None,
        answer: Tool | None = None,
        summarize: SummarizeText | None = None,
    ) -> None:
        check_acyclic(tools)
        self.policy = policy
        self.audit = audit
        self.answer = answer
        self.cache = ResultCache()
        self.prepared = {tool.name: _prepare(tool, policy) for tool in tools}
        self.ordered = any(
            tool.after or tool.sequential or tool.reads or tool.writes or tool.invalidates for tool in tools
        )
        self.guarded = audit is not None or any(
            tool.requires or tool.allow or tool.approval != "never" for tool in tools
        )
        self.asks = any(tool.approval != "never" for tool in tools)
        bounds = [size for size in (policy.max_result, *[tool.max_result for tool in tools]) if size is not None]
        self.reads_rest = bool(bounds) or any(tool.keep is not None or tool.summarize for tool in tools)
        self.most_at_once = max(bounds, default=_MOST)  # of a result whose own bound is no longer known
        self.shaper = Shaper(self.reads_rest, summarize)
        self.built_in = [*([PLAN] if policy.plan else []), *([READ_RESULT] if self.reads_rest else [])]
        self.built_in += [answer.name] if answer is not None else []
        for name in self.built_in:
            if name in self.prepared:
                raise ToolDefinitionError(f"The agent has a tool of its own named {name}; give yours another name.")

    def definitions(self, tools: Sequence[Tool]) -> list[bytes]:
        """What the model is offered: these tools, and those of the executor's own."""
        plan = [plan_definition(tools)] if self.policy.plan and tools else []
        return [*[tool.definition for tool in tools], *plan, *([reading_tool().definition] if self.reads_rest else [])]

    def facts(self, tool: Tool) -> ToolFacts:
        """How a tool runs, for the ledger."""
        prepared = self.prepared[tool.name]
        size = len(tool.definition)
        return ToolFacts(tool.read_only, prepared.timeout, prepared.ttl, prepared.retries, tool.after, size)

    def begin(self, run: RunContext) -> ReplyCalls:
        """The calls of the reply that the model is about to write."""
        return ReplyCalls(self, run, CallRunner(self, run))

    def place(self, prepared: PreparedTool, arguments: dict[str, Any], run: RunContext) -> tuple[ResultCache, Key]:
        """Where a result of this call is kept, and under which key.

        A scope that is not known, as the user of a run that names none, is shared with nobody: it is the run's own.
        """
        caller, scope = run.caller, prepared.tool.scope
        whose = {"run": caller.run, "session": caller.session, "user": caller.user}.get(scope or "", "")
        unknown = scope in ("session", "user") and not whose
        name = f"run:{caller.run}" if unknown else f"{scope}:{whose}"
        key = Key(prepared.tool, name, arguments_key(arguments), run.ledger.clock)
        return (self.cache if unknown or scope in (None, "run") else shared), key

    def invalidate(self, tool: Tool, arguments: dict[str, Any]) -> None:
        """Drop what a call of this tool has made stale, whoever has it."""
        invalidate([each.fill(arguments) for each in (*tool.writes, *tool.invalidates)])

    def fault(self, call: Call) -> str:
        """Why a call can only fail, whoever allows it; "" if it may do."""
        if call.name == PLAN and self.policy.plan:
            plan = PlanReader(self.prepared)
            plan.complete(call.arguments)
            return plan.fault
        prepared = self.prepared.get(call.name)
        tool = prepared.tool if prepared is not None else self.answer
        if tool is None or tool.name != call.name:
            return "" if call.name in self.built_in else self.unknown(call.name)
        try:
            tool.bind(call.arguments)
        except ArgumentsError as error:
            return f"The arguments of {call.name} are wrong: {words_of(error.__cause__ or error)}."
        return ""

    def unknown(self, name: str) -> str:
        """What a model is told that calls a tool which is not there."""
        meant = did_you_mean(name, self.prepared) or "."
        return f"There is no tool {name}{meant} The tools are: {', '.join(self.prepared) or 'none'}."


def _prepare(tool: Tool, policy: ToolPolicy) -> PreparedTool:
    """Only read-only and idempotent tools may run twice, and only results of read-only ones are kept."""
    retries = tool.retry if tool.retry is not None else policy.retry
    ttl = (policy.ttl if tool.ttl is None else tool.ttl) if tool.read_only else None
    retries = retries if tool.read_only or tool.idempotent else 0
    max_result = tool.max_result or policy.max_result or _MOST
    return PreparedTool(
        tool,
        timeout=policy.timeout if tool.timeout is None else tool.timeout,
        retries=retries,
        ttl=ttl,
        max_result=max_result,
        short=sure_characters(max_result) if tool.keep is None else 0,
        once=not retries and tool.on_timeout is TELL_MODEL,
        shares=bool(ttl) or (tool.scope or "run") != "run",
        invalidates=bool(tool.writes or tool.invalidates),
        threads=policy.max_parallel,
        stand_in=_prepare(tool.on_timeout, policy) if isinstance(tool.on_timeout, Tool) else None,
    )
