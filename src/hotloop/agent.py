"""An agent: what it is made of, compiled once, and the ways to run it."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Sequence
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import msgspec

from hotloop import loop
from hotloop.budget import Budget, Deadline
from hotloop.config.options import check_options
from hotloop.config.spec import AgentSpec, agent_arguments, load_spec
from hotloop.context.conversation import Conversation
from hotloop.context.shortlist import shortlist as best_matches
from hotloop.errors import ApprovalRequired, ConfigError, HotloopError
from hotloop.events import Event, RunFinished
from hotloop.models.client import Client
from hotloop.models.dialects import dialect_of
from hotloop.models.http import HttpTransport
from hotloop.models.reply import Reply
from hotloop.models.request import RequestTemplate
from hotloop.models.target import chat_url
from hotloop.models.transport import Emit, Transport
from hotloop.outlet import streamed
from hotloop.runner import run_here
from hotloop.tools.audit import AuditLog
from hotloop.tools.caller import Caller, read_grants
from hotloop.tools.define import tool
from hotloop.tools.executor import Executor, Policy
from hotloop.tools.job import Run
from hotloop.tools.permits import Permits, held
from hotloop.tools.result import ToolResult
from hotloop.tools.tool import Tool
from hotloop.trace.ledger import Ledger, Usage
from hotloop.trace.trace import Trace
from hotloop.units import NS_PER_S, clock, ms

if TYPE_CHECKING:
    from hotloop.tools.approvals import ApprovalStore

_log = logging.getLogger("hotloop.agent")
_MOST_PROGRAMS = 256  # sets of tools that are kept compiled


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
        tools: Sequence[Tool | Callable[..., Any]] = (),
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
        _require(budget is None or isinstance(budget, Budget), f"budget is {budget!r}; make it with Budget(...)")
        self.name = name
        self.tools = [each if isinstance(each, Tool) else tool(each) for each in tools]
        _require_unique([each.name for each in self.tools])
        self._url = endpoint if isinstance(endpoint, str) else ""
        self._dialect = dialect_of(self._url, dialect)
        if not prefix_cache and not self._dialect.cache_off:
            _log.warning("prefix_cache=False has no effect: %s services cache as they like.", self._dialect.name)
        self._transport = _transport(endpoint, model, self._key(api_key), headers or {})
        policy = Policy(max_parallel, tool_timeout, tool_retry, tool_ttl, max_result, plan)
        self._executor = Executor(self.tools, policy, AuditLog(audit) if audit else None)
        self._grants = read_grants(grants)
        self._approvals = approvals
        self._budget = budget
        self._limits = budget.limits() if budget else {}
        self._max_turns = max_turns
        self._shortlist = shortlist
        self._request = partial(
            RequestTemplate,
            model,
            self._dialect,
            temperature=temperature,
            max_tokens=max_tokens,
            stream=stream,
            prefix_cache=prefix_cache,
        )
        self._client = partial(Client, self._transport, retries=retries, timeout=timeout)
        self._programs: dict[tuple[str, ...], loop.Program] = {}
        self._sessions: dict[str, Session] = {}
        self._start = Conversation(instructions)
        self._all = self._compile(self.tools)

    @classmethod
    def from_yaml(cls, path: str | Path) -> Self:
        """The agent that a YAML (or JSON) file declares; see docs/configuration.md. Raises ConfigError."""
        return cls.from_spec(load_spec(Path(path)))

    @classmethod
    def from_spec(cls, spec: AgentSpec) -> Self:
        """The agent of a declaration that was read before. Raises ConfigError for tools that cannot be imported."""
        return cls(**agent_arguments(spec))

    async def run(
        self, prompt: str, *, trace_id: str | None = None, user: str = "", grants: Collection[str] | None = None
    ) -> Result:
        """Answer one prompt, for this user and with these grants instead of the agent's.

        Raises HotloopError; `error.trace` then shows how far it came. ApprovalRequired means that the run waits for
        a person, and goes on with `resume`.
        """
        return await self._run(self._asked(prompt, trace_id, user, grants), _nobody)

    def run_sync(
        self, prompt: str, *, trace_id: str | None = None, user: str = "", grants: Collection[str] | None = None
    ) -> Result:
        """`run` outside asyncio; connections stay open from one call to the next."""
        return run_here(self.run(prompt, trace_id=trace_id, user=user, grants=grants))

    def stream(
        self, prompt: str, *, trace_id: str | None = None, user: str = "", grants: Collection[str] | None = None
    ) -> AsyncGenerator[Event]:
        """Answer one prompt, event by event; the last is `RunFinished` with the result, or `RunPaused`.

        The run goes on beside its reader, and stops with it: leaving the loop early cancels the run.
        """
        return streamed(partial(self._run, self._asked(prompt, trace_id, user, grants)))

    @property
    def approvals(self) -> ApprovalStore:
        """The runs that wait for people's decisions, and where these are put."""
        from hotloop.tools.approvals import ApprovalStore

        return ApprovalStore(self._approvals)

    async def resume(self, run_id: str) -> Result:
        """Go on with a run that waited for decisions, also in another process; only what has not run is run.

        Raises what `run` raises, ApprovalRequired too while a decision is missing; ConfigError for a run that does
        not wait, RunError if it is being resumed already.
        """
        return await self._resume(run_id, _nobody)

    def resume_stream(self, run_id: str) -> AsyncGenerator[Event]:
        """`resume`, event by event; see `stream`."""
        return streamed(partial(self._resume, run_id))

    def session(self, session_id: str) -> Session:
        """The conversation with this id, begun when it is first asked for; kept while the agent lives."""
        found = self._sessions.get(session_id)
        if found is None:
            found = self._sessions[session_id] = Session(self, session_id)
        return found

    async def warm(self, connections: int = 1) -> None:
        """Open connections, or load the embedded model, before the first run needs them."""
        await self._transport.warm(connections)

    async def aclose(self) -> None:
        """Close connections; the agent can be used again."""
        await self._transport.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def _key(self, api_key: str | None) -> str:
        key = api_key if api_key is not None else os.environ.get(self._dialect.key_variable or "-", "")
        return key.strip()

    def _asked(
        self,
        prompt: str,
        trace_id: str | None,
        user: str,
        grants: Collection[str] | None,
        session: Session | None = None,
    ) -> _Asked:
        """What a run of this prompt needs to begin."""
        given = self._grants if grants is None else read_grants(grants)
        run_id = trace_id or f"req-{random.getrandbits(48):012x}"
        if session is None:
            program, conversation, session_id = self._program(prompt), self._start.branch(), ""
        else:
            program, conversation, session_id = *session.begin(prompt), session.id
        caller = Caller(run_id, self.name, session_id, user, given)
        return _Asked(program, conversation, caller, partial(loop.run, prompt=prompt))

    def _program(self, prompt: str) -> loop.Program:
        """The program for a conversation that begins with this prompt."""
        if self._shortlist is None or self._shortlist >= len(self.tools):
            return self._all
        texts = [(each.name, each.description) for each in self.tools]
        chosen = sorted(best_matches(prompt, texts, self._shortlist))
        return self._program_with([self.tools[index] for index in chosen])

    def _program_with(self, offered: Sequence[Tool]) -> loop.Program:
        names = tuple(each.name for each in offered)
        if names not in self._programs:
            if len(self._programs) >= _MOST_PROGRAMS:
                self._programs.clear()
            self._programs[names] = self._compile(offered)
        return self._programs[names]

    def _compile(self, tools: Sequence[Tool]) -> loop.Program:
        request = self._request(self._executor.definitions(tools))
        names = tuple(each.name for each in tools)
        client = self._client(request, tool_names=frozenset([*names, *self._executor.own]))
        return loop.Program(client, self._executor, self._budget, self._max_turns, names)

    async def _run(self, asked: _Asked, emit: Emit) -> Result:
        caller = asked.caller
        ledger = Ledger(clock(), caller.run, self.name, time.time())
        ledger.facts["max_parallel"] = self._executor.policy.max_parallel
        run = Run(ledger, emit, Deadline(self._budget, ledger.start), caller, asked.conversation, asked.permits)
        trace = Trace(ledger, self._limits)
        try:
            reply = await asked.answer(asked.program, run)
        except HotloopError as error:
            error.trace, error.elapsed_ms = trace, ms(ledger.clock() - ledger.start)
            error.stage = ledger.stages[-1].kind if ledger.stages else None
            if isinstance(error, ApprovalRequired):
                await asyncio.to_thread(self.approvals.pause, error.run_id, self.name, error.state, error.calls)
                ledger.mark("approval", "saved")
            raise
        finally:
            ledger.close()
            trace.log()
        return Result(reply.text, trace, reply.finish_reason)

    async def _resume(self, run_id: str, emit: Emit, session: Session | None = None) -> Result:
        store = self.approvals
        async with held(store, run_id):
            paused = await asyncio.to_thread(store.load, run_id)
            results = await asyncio.to_thread(store.results, run_id)
            saved = msgspec.json.decode(paused.state, type=loop.Saved)
            answer = partial(
                loop.resume,
                saved=saved,
                known={call_id: msgspec.json.decode(result, type=ToolResult) for call_id, result in results.items()},
            )
            conversation = Conversation.restore(saved.messages, saved.ids_given)
            if session is not None:
                session.check_continues(conversation, run_id)
            asked = _Asked(self._offered(saved.tools), conversation, saved.caller, answer, Permits(store, paused))
            result = await self._run(asked, emit)
            result.trace.facts["paused_ms"] = ms((time.time() - paused.paused_at) * NS_PER_S)
            await asyncio.to_thread(store.finish, run_id)
        if session is not None:
            session.commit(conversation)
        return result

    def _offered(self, names: Sequence[str]) -> loop.Program:
        """The program with just these tools, as a run had them before it was paused."""
        known = {each.name: each for each in self.tools}
        gone = [name for name in names if name not in known]
        _require(not gone, f"The paused run had tools that this agent has not: {', '.join(gone)}")
        return self._program_with([known[name] for name in names])


class _Asked(NamedTuple):
    """A run that is about to begin, or to go on."""

    program: loop.Program
    conversation: Conversation
    caller: Caller
    answer: Callable[[loop.Program, Run], Awaitable[Reply]]
    permits: Permits | None = None


class Session:
    """A conversation that lasts. Each prompt is committed whole, or, when it fails or is cancelled, not at all.

    One run at a time writes: others wait for it. The conversation lives in this process; a run of it that was paused
    can be resumed in another one, where the session then has what came before too.
    """

    def __init__(self, agent: Agent, session_id: str) -> None:
        self.id = session_id
        self._agent = agent
        self._program: loop.Program | None = None
        self._conversation = agent._start
        self._turn = asyncio.Lock()

    async def run(
        self, prompt: str, *, trace_id: str | None = None, user: str = "", grants: Collection[str] | None = None
    ) -> Result:
        """Answer one prompt in this conversation; see `Agent.run`."""
        async with self._turn:
            asked = self._agent._asked(prompt, trace_id, user, grants, self)
            result = await self._agent._run(asked, _nobody)
            self.commit(asked.conversation)
            return result

    async def stream(
        self, prompt: str, *, trace_id: str | None = None, user: str = "", grants: Collection[str] | None = None
    ) -> AsyncGenerator[Event]:
        """Answer one prompt in this conversation, event by event; see `Agent.stream`."""
        async with self._turn:
            asked = self._agent._asked(prompt, trace_id, user, grants, self)
            async with aclosing(streamed(partial(self._agent._run, asked))) as events:
                async for event in events:
                    if isinstance(event, RunFinished):
                        self.commit(asked.conversation)
                    yield event

    async def resume(self, run_id: str) -> Result:
        """Go on with a run of this conversation that was paused; see `Agent.resume`.

        Raises ConfigError if the conversation has gone on without it.
        """
        async with self._turn:
            return await self._agent._resume(run_id, _nobody, self)

    def begin(self, prompt: str) -> tuple[loop.Program, Conversation]:
        """The program of this conversation and a branch of it; for the agent."""
        if self._program is None:
            self._program = self._agent._program(prompt)  # its tools stay, so that the cached prefix stays
        return self._program, self._conversation.branch()

    def commit(self, branch: Conversation) -> None:
        """What the branch holds is the conversation from now on; for the agent."""
        self._conversation = branch

    def check_continues(self, conversation: Conversation, run_id: str) -> None:
        """Raise ConfigError unless this conversation is the beginning of that one; for the agent."""
        if not conversation.messages.startswith(self._conversation.messages):
            raise ConfigError(f"Session {self.id} has gone on without run {run_id}, so it cannot take its answer.")


def _nobody(events: Sequence[Event], throttle: object = None) -> None:
    """Nobody streams this run."""


def _transport(endpoint: str | Transport, model: str, key: str, headers: dict[str, str]) -> Transport:
    if not isinstance(endpoint, str):
        return endpoint
    if endpoint == "local":
        from hotloop.models.local.engine import LocalTransport

        return LocalTransport(model)
    if key:
        headers = {"authorization": f"Bearer {key}"} | headers
    return HttpTransport(chat_url(endpoint), headers)


def _require(condition: bool, otherwise: str) -> None:
    if not condition:
        raise ConfigError(f"{otherwise}.")


def _require_unique(names: list[str]) -> None:
    for name in names:
        _require(
            names.count(name) == 1, f"There are several tools named {name}; give one another name with tool(name=...)"
        )
