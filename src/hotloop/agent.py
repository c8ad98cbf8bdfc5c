"""An agent: what it is made of, compiled once, and the ways to run it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Collection, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, Unpack
from weakref import WeakValueDictionary

from hotloop.budget import Budget
from hotloop.config.options import check_options, first_model
from hotloop.context.settings import Context
from hotloop.events import Event
from hotloop.fields import require
from hotloop.models.ask import Thinker
from hotloop.models.backend import Backends
from hotloop.models.model import Model
from hotloop.models.policy.policy import Policy
from hotloop.models.rejection import Predicate, empty_answer
from hotloop.models.routing.router import Router
from hotloop.models.transport import Transport
from hotloop.outlet import streamed
from hotloop.output.output import Output
from hotloop.perceiving import Perceiving
from hotloop.programs import ProgramCache, Programs
from hotloop.runner import run_here
from hotloop.runoptions import RunOptions
from hotloop.runs import Result, Runs
from hotloop.session import Busy, Session
from hotloop.summarizing import Summarizer
from hotloop.tools.defining.source import Offer, Offered
from hotloop.tools.defining.tool import Tool
from hotloop.tools.prefetch.settings import Prefetch
from hotloop.tools.running.caller import read_grants
from hotloop.tools.running.executor import Executor, ToolPolicy
from hotloop.trace.declared import Declared, Owners
from hotloop.trace.recording.recording import Recording, Traces, read_traces

if TYPE_CHECKING:
    from hotloop.answering import Answering
    from hotloop.answers.cache import AnswerCache
    from hotloop.config.spec import AgentSpec
    from hotloop.context.memory.memory import Memory
    from hotloop.context.sessions.live import LiveSession
    from hotloop.context.sessions.record import SessionStore
    from hotloop.tools.approvals.store import ApprovalStore
    from hotloop.tools.audit.log import AuditLog
    from hotloop.tools.prefetch.kept import Learned
    from hotloop.tools.prefetch.prefetcher import Prefetcher
    from hotloop.trace.recording.recorder import Exporter

_log = logging.getLogger("hotloop.agent")


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
    tokens of a tool's result the model reads. `speculate` has a service read early results of tools while later
    ones run, where that has shown to pay; `prefetch` begins read-only calls that tend to come next while the model is
    thinking, as recorded runs have taught. `grants` are what runs may do that tools require, unless a run is given its
    own. `audit` is the file of the audit log, `approvals` that of runs that wait for a person.

    `output` is the type of the answer, text if it is None. `answers` keeps answers for questions that come again,
    outside of sessions.

    `context` says how long prompts may be and what is left out of them, `memory` what is known of users. `sessions` is
    the SQLite file that conversations are kept in (None: the usual one in the user's state folder, ":memory:": they end
    with the process) or another store; `busy` what a run does while another one writes to its session: wait ("queue"),
    raise SessionBusy ("reject"), or wait and be answered together with others that wait ("merge").

    Every run is recorded, off its own path: in the SQLite file that `traces` names (None: the usual one in the user's
    state folder, unless the environment says HOTLOOP_TRACES=off; False: in none), and by `exporters`; `version` is then
    the agent's own, to tell its runs from those before a change. `owners` says whose its parts are, for whoever reads
    bills and alerts.

    Raises ConfigError for what cannot work.
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
        prefetch: Prefetch | None = None,
        max_result: int | None = None,
        grants: Collection[str] = (),
        output: Any = None,
        audit: str | Path | None = None,
        approvals: str | Path | None = None,
        answers: AnswerCache | None = None,
        context: Context | None = None,
        memory: Memory | None = None,
        sessions: str | Path | SessionStore | None = None,
        busy: Busy = "queue",
        version: str = "",
        traces: Traces | str | Path | bool | None = None,
        exporters: Sequence[Exporter] = (),
        owners: Owners | None = None,
    ) -> None:
        check_options(locals())
        context = context or Context()
        self.name = name
        self._offer = Offer(tools)
        first = first_model(locals())
        steps = budget.degrade if budget is not None else ()
        self._backends = Backends(first, fallback, reject, stream=stream, prefix_cache=prefix_cache, steps=steps)
        if not prefix_cache and (forced := self._backends.that_cache_anyway()):
            _log.warning("prefix_cache=False has no effect: %s services cache as they like.", forced)
        self._policy = ToolPolicy(max_parallel, tool_timeout, tool_retry, tool_ttl, max_result, plan)
        self._audit = _audit_log(audit)
        self._memory = memory
        self._busy = busy
        self._sessions: WeakValueDictionary[tuple[LiveSession, str, str | None], Session] = WeakValueDictionary()
        self._output = Output.of(output)
        if self._output is not None:
            services = [(each.dialect, each.stream) for each in self._backends.all]
            instructions = self._output.instructions(instructions, services, bool(tools))
        self._prefetch = prefetch
        self._learned = None if prefetch is None else _learned(prefetch)
        self._compile = partial(
            ProgramCache,
            backends=self._backends,
            budget=budget,
            max_turns=max_turns,
            shortlist=shortlist,
            output=self._output,
            speculate=speculate,
        )
        self._summary_models = None if context.summarizer is None else Backends(context.summarizer)
        models = [each.model for each in self._backends.all] + [each for each in [context.summarizer] if each]
        declared = Declared.of(owners, models, context.limit)
        self._summarizer = Summarizer(self._summary_thinker, name)
        self._programs = Programs(self._offer, self._compiled)
        self._runs = Runs(
            name,
            self._programs,
            instructions,
            budget=budget,
            grants=read_grants(grants),
            context=context,
            perceiving=Perceiving(context, memory, budget.memory if budget else None),
            summarize=self._summarizer.conversation,
            answering=None if answers is None else _answering(answers, self._backends.fingerprint),
            approvals=approvals,
            sessions=sessions,
            waits=busy != "reject",
            recording=Recording(
                read_traces(traces), self._exporters(exporters), version, declared, usual=traces is None
            ),
        )

    @classmethod
    def from_yaml(cls, path: str | Path) -> Self:
        """The agent that a YAML (or JSON) file declares; see docs/configuration.md. Raises ConfigError."""
        from hotloop.config.spec import load_spec

        return cls.from_spec(load_spec(Path(path)))

    @classmethod
    def from_spec(cls, spec: AgentSpec) -> Self:
        """The agent of a declaration that was read before. Raises ConfigError for tools that cannot be imported."""
        from hotloop.config.arguments import agent_arguments

        return cls(**agent_arguments(spec))

    async def run(self, prompt: str, **options: Unpack[RunOptions]) -> Result:
        """Answer one prompt.

        Raises HotloopError; `error.trace` then shows how far it came. ApprovalRequired means that the run waits for
        a person, and goes on with `resume`.
        """
        return await self._runs.ask(prompt, options)

    def run_sync(self, prompt: str, **options: Unpack[RunOptions]) -> Result:
        """`run` outside asyncio; connections stay open from one call to the next."""
        return run_here(self.run(prompt, **options))

    def stream(self, prompt: str, **options: Unpack[RunOptions]) -> AsyncGenerator[Event]:
        """Answer one prompt, event by event; the last is `RunFinished` with the result, or `RunPaused`.

        The run goes on beside its reader, and stops with it: leaving the loop early cancels the run.
        """
        return streamed(lambda emit: self._runs.ask(prompt, options, emit))

    @property
    def approvals(self) -> ApprovalStore:
        """The runs that wait for people's decisions, and where these are put."""
        return self._runs.approvals

    @property
    def sessions(self) -> SessionStore:
        """Where its conversations are kept: to list and delete them."""
        return self._runs.sessions.store

    def close_sync(self) -> None:
        """`aclose` for `run_sync`: close what it has kept open in this thread."""
        run_here(self.aclose())

    async def resume(self, run_id: str) -> Result:
        """Go on with a run that waited for decisions, also in another process; only what has not run is run.

        Raises what `run` raises, ApprovalRequired too while a decision is missing; ConfigError for a run that does
        not wait, RunError if it is being resumed already.
        """
        return await self._runs.resume(run_id)

    def resume_sync(self, run_id: str) -> Result:
        """`resume` outside asyncio."""
        return run_here(self.resume(run_id))

    def resume_stream(self, run_id: str) -> AsyncGenerator[Event]:
        """`resume`, event by event; see `stream`."""
        return streamed(lambda emit: self._runs.resume(run_id, emit))

    def session(self, session_id: str, *, user: str = "", instructions: str | None = None) -> Session:
        """The conversation with this id of the agent of this name, begun or gone on with.

        `user` is whose it is, also of its runs that name nobody; `instructions` hold for this conversation alone (None:
        those that it had before). Raises ConfigError for an id that is no text, or a conversation of another user.
        """
        require(isinstance(user, str), f"The session's user is {user!r}; give text.")
        told = instructions is None or isinstance(instructions, str)
        require(told, f"The session's instructions are {instructions!r}; give text.")
        live = self._runs.sessions.get(session_id)
        live.require_owner(user)
        found = self._sessions.get((live, user, instructions))
        if found is None:
            found = Session(self._runs, live, self._busy, user, instructions)
            self._sessions[live, user, instructions] = found
        return found

    @property
    def tools(self) -> list[Tool]:
        """Its tools; of an `MCPServer` that never listed its own, none before the first run or `warm`."""
        return list(self._programs.known.tools) if self._programs.known is not None else []

    async def warm(self, connections: int = 1, *, prefix: bool = False) -> None:
        """Open connections, also to tools and memory, or load the embedded model, before the first run needs them.

        With `prefix`, have the models also read the tools and instructions that every conversation begins with, where
        a service is known to cache them: a request for one token. Raises ModelError, ConfigError for a wrong argument.
        """
        natural = type(connections) is int and connections > 0
        require(natural, f"warm(connections={connections!r}): give a whole number, 1 or more.")
        require(isinstance(prefix, bool), f"warm(prefix={prefix!r}): give True or False.")
        programs = await self._programs.listed()
        ready = [self._offer.connected(), self._backends.warm(connections), self._runs.warm()]
        await asyncio.gather(*ready, *([self._memory.warm()] if self._memory is not None else []))
        if prefix:
            await programs.prefill(bytes(self._runs.start.messages))

    async def aclose(self) -> None:
        """Close connections and files, and have its runs recorded; the agent can be used again."""
        await self._runs.aclose()
        if self._memory is not None:
            await self._memory.flush()
        await self._offer.aclose()
        for each in filter(None, (self._backends, self._summary_models)):
            await each.aclose()
        if self._audit is not None:
            self._audit.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def _compiled(self, tools: Sequence[Tool]) -> ProgramCache:
        _require_unique([each.name for each in tools])
        answer = self._output.tool if self._output is not None else None
        executor = Executor(tools, self._policy, self._audit, answer, self._summarizer.result)
        return self._compile(tools, executor, prefetcher=self._prefetcher(executor))

    def _prefetcher(self, executor: Executor) -> Prefetcher | None:
        if self._prefetch is None or self._learned is None:
            return None
        from hotloop.tools.prefetch.prefetcher import Prefetcher

        return Prefetcher(self._prefetch, self.name, executor, self._learned)

    def _exporters(self, given: Sequence[Exporter]) -> Sequence[Exporter]:
        """Who takes its runs, beside the store: those given, and what learns to prefetch."""
        return given if self._learned is None else [*given, self._learned]

    def _summary_thinker(self) -> Thinker:
        """Who summarizes what is too long."""
        if self._summary_models is not None:
            return self._summary_models.thinker([], frozenset())
        assert self._programs.known is not None  # a run has begun
        return self._programs.known.summarizer()


def _answering(answers: AnswerCache, models: str) -> Answering:
    from hotloop.answering import Answering
    from hotloop.answers.cache import AnswerCache

    require(isinstance(answers, AnswerCache), f"answers is {answers!r}; make it with AnswerCache(...).")
    return Answering(answers, models)


def _learned(prefetch: Prefetch) -> Learned:
    from hotloop.tools.prefetch.kept import learned_at

    return learned_at(prefetch.path)


def _audit_log(path: str | Path | None) -> AuditLog | None:
    if path is None:
        return None
    from hotloop.tools.audit.log import AuditLog

    return AuditLog(path)


def _require_unique(names: list[str]) -> None:
    for name in names:
        several = f"There are several tools named {name}; give one another name, with tool(name=...)"
        require(names.count(name) == 1, f"{several} or MCPServer(name=...).")
