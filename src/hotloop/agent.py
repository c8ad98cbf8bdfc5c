"""An agent: what it is made of, compiled once, and the ways to run it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, Unpack

import msgspec

from hotloop import loop
from hotloop.budget import Budget, Deadline
from hotloop.config.arguments import agent_arguments
from hotloop.config.options import check_options, first_model
from hotloop.config.spec import AgentSpec, load_spec
from hotloop.context.conversation import Conversation
from hotloop.errors import ApprovalRequired, ConfigError, HotloopError
from hotloop.events import Event
from hotloop.fields import require
from hotloop.models.backend import Backends
from hotloop.models.model import Model
from hotloop.models.policy.policy import Policy
from hotloop.models.rejection import Predicate, empty_answer
from hotloop.models.routing.router import Router
from hotloop.models.transport import Emit, Transport, nobody
from hotloop.outlet import streamed
from hotloop.output.output import Output
from hotloop.output.reading import Answer
from hotloop.programs import ProgramCache
from hotloop.runner import run_here
from hotloop.runoptions import RunOptions, read_options
from hotloop.session import Session
from hotloop.tools.approvals.journal import RunJournal, held
from hotloop.tools.defining.source import Offer, Offered
from hotloop.tools.defining.tool import Tool
from hotloop.tools.running.caller import Caller, read_grants
from hotloop.tools.running.executor import Executor, ToolPolicy
from hotloop.tools.running.job import RunContext
from hotloop.tools.running.result import ToolResult
from hotloop.trace.ledger import Ledger, Usage
from hotloop.trace.trace import Trace
from hotloop.units import NS_PER_S, clock, ms

if TYPE_CHECKING:
    from hotloop.answering import Answering
    from hotloop.answers.cache import AnswerCache
    from hotloop.tools.approvals.store import ApprovalStore, PausedRun
    from hotloop.tools.audit.log import AuditLog

_log = logging.getLogger("hotloop.agent")


class Result(msgspec.Struct, frozen=True):
    """What a run gave: the answer, and where its time went.

    `output` is the model's text, or a value of the type that the agent was given as `output`. `finish_reason` is
    "stop", or "length" when the token cap cut the answer.
    """

    output: Any
    trace: Trace
    finish_reason: str = "stop"

    @property
    def usage(self) -> Usage:
        """The tokens of all turns, as far as the service counted them."""
        return self.trace.usage


class Agent:
    """A model with instructions and tools. Times are seconds.

    `model` is a name, with an `endpoint` (the base URL of an OpenAI-compatible service or its full
    .../chat/completions URL, "local" for the embedded engine, or a Transport); or a Model, which has its own; or a
    Router, which chooses among several. `api_key` is taken from the service's usual environment variable when it is
    None and the service is known. `policy` says how the service is treated; `timeout` (for a whole reply) and `retries`
    are those of it that are changed most often. The models in `fallback` are asked in their order when the one before
    failed, or gave a reply that a predicate in `reject` finds fault with.

    `max_parallel=1` runs tools one after the other; `tool_ttl` keeps results of read-only tools; `shortlist` is how
    many tools, the best matches for the first request, the model is offered, from its first request to its last. `plan`
    offers it one more, which makes several calls of which some need results of others. `max_result` is how many
    characters of a tool's result the model reads. `speculate` has a service read early results of tools while later
    ones run, where that has shown to pay. `grants` are what runs may do that tools require, unless a run is given its
    own. `audit` is the file of the audit log, `approvals` that of runs that wait for a person.

    `output` is the type of the answer, text if it is None. `answers` keeps answers for questions that come again,
    outside of sessions. Raises ConfigError for what cannot work.
    """

    def __init__(
        self,
        *,
        model: str | Model | Router,
        endpoint: str | Transport | None = None,
        instructions: str = "",
        tools: Sequence[Offered] = (),
        budget: Budget | None = None,
        name: str = "",
        api_key: str | None = None,
        headers: dict[str, str] | None = None,
        dialect: str | None = None,
        temperature: float | None = None,
        max_tokens: int | None = None,
        stream: bool = True,
        timeout: float | None = None,
        retries: int | None = None,
        policy: Policy | None = None,
        fallback: Sequence[Model] = (),
        reject: Sequence[Predicate] = (empty_answer,),
        max_turns: int = 10,
        max_parallel: int = 8,
        tool_timeout: float | None = 30.0,
        tool_retry: int = 0,
        tool_ttl: float | None = None,
        prefix_cache: bool = True,
        speculate: bool = False,
        shortlist: int | None = None,
        plan: bool = False,
        max_result: int | None = None,
        grants: Collection[str] = (),
        output: Any = None,
        audit: str | Path | None = None,
        approvals: str | Path | None = None,
        answers: AnswerCache | None = None,
    ) -> None:
        check_options(locals())
        self.name = name
        self._offer = Offer(tools)
        first = first_model(locals())
        self._backends = Backends(first, fallback, reject, stream=stream, prefix_cache=prefix_cache)
        if not prefix_cache and (forced := self._backends.that_cache_anyway()):
            _log.warning("prefix_cache=False has no effect: %s services cache as they like.", forced)
        self._policy = ToolPolicy(max_parallel, tool_timeout, tool_retry, tool_ttl, max_result, plan)
        self._audit = _audit_log(audit)
        self._grants = read_grants(grants)
        self._approvals = approvals
        self._budget = budget
        self._answering = None if answers is None else _answering(answers, self._backends.fingerprint)
        self._limits = budget.limits() if budget else {}
        self._output = Output.of(output)
        if self._output is not None:
            services = [(each.dialect, each.stream) for each in self._backends.all]
            instructions = self._output.instructions(instructions, services, bool(tools))
        self._compile = partial(
            ProgramCache,
            backends=self._backends,
            budget=budget,
            max_turns=max_turns,
            shortlist=shortlist,
            output=self._output,
            speculate=speculate,
        )
        self._sessions: dict[str, Session] = {}
        self._start = Conversation(instructions)
        known = self._offer.known()
        self._programs = None if known is None else self._compiled(known)

    @classmethod
    def from_yaml(cls, path: str | Path) -> Self:
        """The agent that a YAML (or JSON) file declares; see docs/configuration.md. Raises ConfigError."""
        return cls.from_spec(load_spec(Path(path)))

    @classmethod
    def from_spec(cls, spec: AgentSpec) -> Self:
        """The agent of a declaration that was read before. Raises ConfigError for tools that cannot be imported."""
        return cls(**agent_arguments(spec))

    async def run(self, prompt: str, **options: Unpack[RunOptions]) -> Result:
        """Answer one prompt.

        Raises HotloopError; `error.trace` then shows how far it came. ApprovalRequired means that the run waits for
        a person, and goes on with `resume`.
        """
        return await self._ask(prompt, options)

    def run_sync(self, prompt: str, **options: Unpack[RunOptions]) -> Result:
        """`run` outside asyncio; connections stay open from one call to the next."""
        return run_here(self.run(prompt, **options))

    def stream(self, prompt: str, **options: Unpack[RunOptions]) -> AsyncGenerator[Event]:
        """Answer one prompt, event by event; the last is `RunFinished` with the result, or `RunPaused`.

        The run goes on beside its reader, and stops with it: leaving the loop early cancels the run.
        """
        return streamed(lambda emit: self._ask(prompt, options, emit=emit))

    @property
    def approvals(self) -> ApprovalStore:
        """The runs that wait for people's decisions, and where these are put."""
        from hotloop.tools.approvals.store import ApprovalStore

        return ApprovalStore(self._approvals)

    def close_sync(self) -> None:
        """`aclose` for `run_sync`: close what it has kept open in this thread."""
        run_here(self.aclose())

    async def resume(self, run_id: str) -> Result:
        """Go on with a run that waited for decisions, also in another process; only what has not run is run.

        Raises what `run` raises, ApprovalRequired too while a decision is missing; ConfigError for a run that does
        not wait, RunError if it is being resumed already.
        """
        return await self._resume(run_id)

    def resume_sync(self, run_id: str) -> Result:
        """`resume` outside asyncio."""
        return run_here(self.resume(run_id))

    def resume_stream(self, run_id: str) -> AsyncGenerator[Event]:
        """`resume`, event by event; see `stream`."""
        return streamed(lambda emit: self._resume(run_id, emit))

    def session(self, session_id: str) -> Session:
        """The conversation with this id, begun when it is first asked for; kept while the agent lives."""
        is_text = isinstance(session_id, str) and bool(session_id)
        require(is_text, f"The session's id is {session_id!r}; give some text.")
        found = self._sessions.get(session_id)
        if found is None:
            found = self._sessions[session_id] = Session(self, session_id, self._start)
        return found

    @property
    def tools(self) -> list[Tool]:
        """Its tools; of an `MCPServer` that never listed its own, none before the first run or `warm`."""
        return list(self._programs.tools) if self._programs is not None else []

    async def warm(self, connections: int = 1, *, prefix: bool = False) -> None:
        """Open connections, also to tools, or load the embedded model, before the first run needs them.

        With `prefix`, have the models also read the tools and instructions that every conversation begins with, where
        a service is known to cache them: a request for one token. Raises ModelError, ConfigError for a wrong argument.
        """
        natural = type(connections) is int and connections > 0
        require(natural, f"warm(connections={connections!r}): give a whole number, 1 or more.")
        require(isinstance(prefix, bool), f"warm(prefix={prefix!r}): give True or False.")
        programs = await self._listed()
        await asyncio.gather(self._offer.connected(), self._backends.warm(connections))
        if prefix:
            await programs.prefill(bytes(self._start.messages))

    async def aclose(self) -> None:
        """Close connections; the agent can be used again."""
        await self._offer.aclose()
        await self._backends.aclose()
        if self._audit is not None:
            self._audit.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def _compiled(self, tools: Sequence[Tool]) -> ProgramCache:
        _require_unique([each.name for each in tools])
        answer = self._output.tool if self._output is not None else None
        return self._compile(tools, Executor(tools, self._policy, self._audit, answer))

    async def _ask(
        self, prompt: str, options: RunOptions, session: Session | None = None, emit: Emit = nobody
    ) -> Result:
        run_id, user, given = read_options(options)
        grants = self._grants if given is None else given
        caller = Caller(run_id, self.name, session.id if session else "", user, grants)

        async def answer(programs: ProgramCache, ledger: Ledger) -> Answer:
            if options.get("trace_id") and programs.executor.asks:
                await asyncio.to_thread(self.approvals.check_free, run_id)
            choose = partial(programs.for_prompt, prompt)
            program, conversation = session.begin(choose) if session else (choose(), self._start.branch())
            deadline, background = Deadline(self._budget, ledger.start), bool(options.get("background"))
            run = RunContext(ledger, emit, deadline, caller, conversation, prompt=prompt, background=background)
            if self._answering is not None and session is None:
                return await self._answering.answer(program, run)
            return await loop.run(program, run)

        return await self._run(run_id, answer)

    async def _resume(self, run_id: str, emit: Emit = nobody, session: Session | None = None) -> Result:
        store = self.approvals
        async with held(store, run_id):
            paused = await asyncio.to_thread(store.load, run_id)
            known = await asyncio.to_thread(store.results, run_id)
            saved = self._read(paused)
            conversation = Conversation.restore(saved.conversation)

            async def answer(programs: ProgramCache, ledger: Ledger) -> Answer:
                ledger.facts["paused_ms"] = ms((time.time() - paused.paused_at) * NS_PER_S)
                program = programs.with_tools(saved.tools)
                if session is not None:
                    session.go_on(program, conversation, saved.caller)
                deadline, journal = Deadline(self._budget, ledger.start), RunJournal(store, paused)
                run = RunContext(
                    ledger, emit, deadline, saved.caller, conversation, journal, saved.prompt, saved.background
                )
                results = {call_id: msgspec.json.decode(known[call_id], type=ToolResult) for call_id in known}
                return await loop.resume(program, run, saved, results)

            result = await self._run(run_id, answer, first=False)
            await asyncio.to_thread(store.finish, run_id)
            return result

    def _read(self, paused: PausedRun) -> loop.Checkpoint:
        whose = f"Run {paused.run_id} is one of the agent {paused.agent!r}, and this is {self.name!r}."
        require(paused.agent == self.name, whose)
        try:
            return msgspec.json.decode(paused.state, type=loop.Checkpoint)
        except msgspec.MsgspecError as error:
            raise ConfigError(
                f"The state of run {paused.run_id} cannot be read ({error}); another version of hotloop has saved it. "
                "Resume it with that one, or discard it."
            ) from None

    async def _run(
        self, run_id: str, answer: Callable[[ProgramCache, Ledger], Awaitable[Answer]], *, first: bool = True
    ) -> Result:
        """Open the ledger, have the answer, close the ledger; a run that pauses is saved before anybody is told."""
        ledger = Ledger(clock(), run_id, self.name, time.time())
        ledger.facts["max_parallel"] = self._policy.max_parallel
        trace = Trace(ledger, self._limits)
        try:
            try:
                given = await answer(await self._ready(ledger), ledger)
            except loop.Paused as pause:
                raise await self._pause(run_id, pause, first) from None
        except HotloopError as error:
            error.trace, error.elapsed_ms = trace, ms(ledger.clock() - ledger.start)
            error.stage = ledger.stages[-1].kind if ledger.stages else None
            if isinstance(error, ApprovalRequired):
                ledger.mark("approval", "saved")
            raise
        finally:
            ledger.close()
            trace.log()
        return Result(given.value, trace, given.finish_reason)

    async def _pause(self, run_id: str, pause: loop.Paused, first: bool) -> ApprovalRequired:
        save = partial(self.approvals.pause, run_id, self.name, pause.state, pause.calls, first=first)
        await asyncio.to_thread(save)
        names = ", ".join(dict.fromkeys(call.name for call in pause.calls))
        sentence = f"A person must decide about {names} before run {run_id} can go on."
        return ApprovalRequired(sentence, run_id=run_id, calls=pause.calls)

    async def _ready(self, ledger: Ledger) -> ProgramCache:
        """The programs, once all tools are known; sources that are known already connect beside the run."""
        if self._programs is None:
            programs = await self._listed()
            ledger.mark("connect", "tools listed")
            return programs
        if self._offer.sources:
            self._offer.connect()
        return self._programs

    async def _listed(self) -> ProgramCache:
        if self._programs is None:
            programs = self._compiled(await self._offer.listed())
            self._programs = self._programs or programs  # another run may have been first meanwhile
        return self._programs


def _answering(answers: AnswerCache, models: str) -> Answering:
    from hotloop.answering import Answering
    from hotloop.answers.cache import AnswerCache

    require(isinstance(answers, AnswerCache), f"answers is {answers!r}; make it with AnswerCache(...).")
    return Answering(answers, models)


def _audit_log(path: str | Path | None) -> AuditLog | None:
    if path is None:
        return None
    from hotloop.tools.audit.log import AuditLog

    return AuditLog(path)


def _require_unique(names: list[str]) -> None:
    for name in names:
        several = f"There are several tools named {name}; give one another name, with tool(name=...)"
        require(names.count(name) == 1, f"{several} or MCPServer(name=...).")
