"""An agent: what it is made of, compiled once, and the ways to run it."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Self, Unpack

import msgspec

from hotloop import loop
from hotloop.budget import Budget, Deadline
from hotloop.config.options import check_options
from hotloop.config.spec import AgentSpec, agent_arguments, load_spec
from hotloop.context.conversation import Conversation
from hotloop.errors import ApprovalRequired, ConfigError, HotloopError
from hotloop.events import Event
from hotloop.models.client import Client
from hotloop.models.dialects import dialect_of
from hotloop.models.http.target import chat_url
from hotloop.models.http.transport import HttpTransport
from hotloop.models.reply import Reply
from hotloop.models.request import RequestTemplate
from hotloop.models.transport import Emit, Transport
from hotloop.outlet import nobody, streamed
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
    from hotloop.tools.approvals.store import ApprovalStore, PausedRun
    from hotloop.tools.audit.log import AuditLog

_log = logging.getLogger("hotloop.agent")


class Result(msgspec.Struct, frozen=True):
    """What a run gave: the answer, and where its time went.

    `finish_reason` is "stop", or "length" when the token cap cut the answer.
    """

    output: str
    trace: Trace
    finish_reason: str = "stop"

    @property
    def usage(self) -> Usage:
        """The tokens of all turns, as far as the service counted them."""
        return self.trace.usage


class Agent:
    """A model with instructions and tools.

    `endpoint` is the base URL of an OpenAI-compatible service (or its full .../chat/completions URL), "local" for the
    embedded engine, or a Transport. Times are seconds. `api_key` is taken from the service's usual environment
    variable when it is None and the service is known. `max_parallel=1` runs tools one after the other; `tool_ttl`
    keeps results of read-only tools; `shortlist` is how many tools, the best matches for the first request, the model
    is offered, from its first request to its last. `plan` offers it one more, which makes several calls of which some
    need results of others. `max_result` is how many characters of a tool's result the model reads. `grants` are what
    runs may do that tools require, unless a run is given its own. `audit` is the file of the audit log, `approvals`
    that of runs that wait for a person. Raises ConfigError for what cannot work.
    """

    def __init__(
        self,
        *,
        model: str,
        endpoint: str | Transport,
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
        timeout: float = 60.0,
        retries: int = 2,
        max_turns: int = 10,
        max_parallel: int = 8,
        tool_timeout: float | None = 30.0,
        tool_retry: int = 0,
        tool_ttl: float | None = None,
        prefix_cache: bool = True,
        shortlist: int | None = None,
        plan: bool = False,
        max_result: int | None = None,
        grants: Collection[str] = (),
        audit: str | Path | None = None,
        approvals: str | Path | None = None,
    ) -> None:
        check_options(locals())
        for option, path in (("audit", audit), ("approvals", approvals)):
            _require(
                path is None or (isinstance(path, str | Path) and bool(str(path))), f"{option} is {path!r}; give a file"
            )
        _require(
            isinstance(endpoint, str) or hasattr(endpoint, "send"), f'endpoint is {endpoint!r}; give a URL or "local"'
        )
        _require(budget is None or isinstance(budget, Budget), f"budget is {budget!r}; make it with Budget(...)")
        self.name = name
        _require(isinstance(tools, Sequence), f"tools is {tools!r}; give a list of tools")
        self._offer = Offer(tools)
        self._url = endpoint if isinstance(endpoint, str) else ""
        self._dialect = dialect_of(self._url, dialect)
        if not prefix_cache and not self._dialect.cache_off:
            _log.warning("prefix_cache=False has no effect: %s services cache as they like.", self._dialect.name)
        self._transport = _transport(endpoint, model, self._key(api_key), headers or {})
        self._policy = ToolPolicy(max_parallel, tool_timeout, tool_retry, tool_ttl, max_result, plan)
        self._audit = _audit_log(audit)
        self._grants = read_grants(grants)
        self._approvals = approvals
        self._budget = budget
        self._limits = budget.limits() if budget else {}
        request = partial(
            RequestTemplate,
            model,
            self._dialect,
            temperature=temperature,
            max_tokens=max_tokens,
            stream=stream,
            prefix_cache=prefix_cache,
        )
        client = partial(Client, self._transport, retries=retries, timeout=timeout)
        self._compile = partial(
            ProgramCache, request=request, client=client, budget=budget, max_turns=max_turns, shortlist=shortlist
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
        _require(
            isinstance(session_id, str) and bool(session_id), f"The session's id is {session_id!r}; give some text"
        )
        found = self._sessions.get(session_id)
        if found is None:
            found = self._sessions[session_id] = Session(self, session_id, self._start)
        return found

    @property
    def tools(self) -> list[Tool]:
        """Its tools; of an `MCPServer` that never listed its own, none before the first run or `warm`."""
        return list(self._programs.tools) if self._programs is not None else []

    async def warm(self, connections: int = 1) -> None:
        """Open connections, also to tools, or load the embedded model, before the first run needs them."""
        await self._listed()
        await asyncio.gather(self._offer.connected(), self._transport.warm(connections))

    async def aclose(self) -> None:
        """Close connections; the agent can be used again."""
        await self._offer.aclose()
        await self._transport.aclose()
        if self._audit is not None:
            self._audit.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def _key(self, api_key: str | None) -> str:
        key = api_key if api_key is not None else os.environ.get(self._dialect.key_variable or "-", "")
        return key.strip()

    def _compiled(self, tools: Sequence[Tool]) -> ProgramCache:
        _require_unique([each.name for each in tools])
        return self._compile(tools, Executor(tools, self._policy, self._audit))

    async def _ask(
        self, prompt: str, options: RunOptions, session: Session | None = None, emit: Emit = nobody
    ) -> Result:
        run_id, user, given = read_options(options)
        grants = self._grants if given is None else given
        caller = Caller(run_id, self.name, session.id if session else "", user, grants)

        async def answer(programs: ProgramCache, ledger: Ledger) -> Reply:
            if options.get("trace_id") and programs.executor.asks:
                await asyncio.to_thread(self.approvals.check_free, run_id)
            choose = partial(programs.for_prompt, prompt)
            program, conversation = session.begin(choose) if session else (choose(), self._start.branch())
            run = RunContext(ledger, emit, Deadline(self._budget, ledger.start), caller, conversation)
            return await loop.run(program, run, prompt)

        return await self._run(run_id, answer)

    async def _resume(self, run_id: str, emit: Emit = nobody, session: Session | None = None) -> Result:
        store = self.approvals
        async with held(store, run_id):
            paused = await asyncio.to_thread(store.load, run_id)
            known = await asyncio.to_thread(store.results, run_id)
            saved = self._read(paused)
            conversation = Conversation.restore(saved.messages, saved.kept, saved.ids_given)

            async def answer(programs: ProgramCache, ledger: Ledger) -> Reply:
                ledger.facts["paused_ms"] = ms((time.time() - paused.paused_at) * NS_PER_S)
                program = programs.with_tools(saved.tools)
                if session is not None:
                    session.go_on(program, conversation, saved.caller)
                deadline, journal = Deadline(self._budget, ledger.start), RunJournal(store, paused)
                run = RunContext(ledger, emit, deadline, saved.caller, conversation, journal)
                results = {call_id: msgspec.json.decode(known[call_id], type=ToolResult) for call_id in known}
                return await loop.resume(program, run, saved, results)

            result = await self._run(run_id, answer, first=False)
            await asyncio.to_thread(store.finish, run_id)
            return result

    def _read(self, paused: PausedRun) -> loop.Checkpoint:
        whose = f"Run {paused.run_id} is one of the agent {paused.agent!r}, and this is {self.name!r}"
        _require(paused.agent == self.name, whose)
        try:
            return msgspec.json.decode(paused.state, type=loop.Checkpoint)
        except msgspec.MsgspecError as error:
            raise ConfigError(
                f"The state of run {paused.run_id} cannot be read ({error}); another version of hotloop has saved it. "
                "Resume it with that one, or discard it."
            ) from None

    async def _run(
        self, run_id: str, answer: Callable[[ProgramCache, Ledger], Awaitable[Reply]], *, first: bool = True
    ) -> Result:
        """Open the ledger, have the answer, close the ledger; a run that pauses is saved before anybody is told."""
        ledger = Ledger(clock(), run_id, self.name, time.time())
        ledger.facts["max_parallel"] = self._policy.max_parallel
        trace = Trace(ledger, self._limits)
        try:
            try:
                reply = await answer(await self._ready(ledger), ledger)
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
        return Result(reply.text, trace, reply.finish_reason)

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


def _transport(endpoint: str | Transport, model: str, key: str, headers: dict[str, str]) -> Transport:
    if not isinstance(endpoint, str):
        return endpoint
    if endpoint == "local":
        from hotloop.models.local.engine import LocalTransport

        return LocalTransport(model)
    if key:
        headers = {"authorization": f"Bearer {key}"} | headers
    return HttpTransport(chat_url(endpoint), headers)


def _audit_log(path: str | Path | None) -> AuditLog | None:
    if path is None:
        return None
    from hotloop.tools.audit.log import AuditLog

    return AuditLog(path)


def _require(condition: bool, otherwise: str) -> None:
    if not condition:
        raise ConfigError(f"{otherwise}.")


def _require_unique(names: list[str]) -> None:
    for name in names:
        several = f"There are several tools named {name}; give one another name, with tool(name=...)"
        _require(names.count(name) == 1, f"{several} or MCPServer(name=...)")
