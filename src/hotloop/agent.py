"""An agent: what it is made of, compiled once, and the ways to run it."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import Any, Self

import msgspec

from hotloop import loop
from hotloop.budget import Budget
from hotloop.config.options import check_options
from hotloop.config.spec import AgentSpec, load_spec, load_tools
from hotloop.context.conversation import Conversation
from hotloop.context.shortlist import shortlist as best_matches
from hotloop.errors import ConfigError, HotloopError
from hotloop.events import Event, RunFinished
from hotloop.limit import stop
from hotloop.models.client import Client
from hotloop.models.dialects import dialect_of
from hotloop.models.http import HttpTransport
from hotloop.models.request import RequestTemplate
from hotloop.models.target import chat_url
from hotloop.models.transport import Emit, Transport
from hotloop.outlet import Outlet
from hotloop.runner import run_here
from hotloop.tools.define import tool
from hotloop.tools.executor import Executor, Policy
from hotloop.tools.tool import Tool
from hotloop.trace.ledger import Ledger, Usage
from hotloop.trace.trace import Trace
from hotloop.units import clock, ms

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
    is offered, from its first request to its last. Raises ConfigError for what cannot work.
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
        self._executor = Executor(self.tools, Policy(max_parallel, tool_timeout, tool_retry, tool_ttl))
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
        return cls(**_arguments(spec))

    async def run(self, prompt: str, *, trace_id: str | None = None) -> Result:
        """Answer one prompt. Raises HotloopError; `error.trace` then shows how far it came."""
        return await self._run(self._program(prompt), self._start.branch(), prompt, _nobody, trace_id)

    def run_sync(self, prompt: str, *, trace_id: str | None = None) -> Result:
        """`run` outside asyncio; connections stay open from one call to the next."""
        return run_here(self.run(prompt, trace_id=trace_id))

    def stream(self, prompt: str, *, trace_id: str | None = None) -> AsyncGenerator[Event]:
        """Answer one prompt, event by event; the last is `RunFinished` with the result.

        The run goes on beside its reader, and stops with it: leaving the loop early cancels the run.
        """
        return self._stream(self._program(prompt), self._start.branch(), prompt, trace_id)

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

    def _program(self, prompt: str) -> loop.Program:
        """The program for a conversation that begins with this prompt."""
        if self._shortlist is None or self._shortlist >= len(self.tools):
            return self._all
        texts = [(each.name, each.description) for each in self.tools]
        chosen = sorted(best_matches(prompt, texts, self._shortlist))
        offered = [self.tools[index] for index in chosen]
        names = tuple(each.name for each in offered)
        if names not in self._programs:
            if len(self._programs) >= _MOST_PROGRAMS:
                self._programs.clear()
            self._programs[names] = self._compile(offered)
        return self._programs[names]

    def _compile(self, tools: Sequence[Tool]) -> loop.Program:
        request = self._request([each.definition for each in tools])
        client = self._client(request, tool_names=frozenset(each.name for each in tools))
        return loop.Program(client, self._executor, self._budget, self._max_turns)

    async def _run(
        self, program: loop.Program, conversation: Conversation, prompt: str, emit: Emit, trace_id: str | None
    ) -> Result:
        ledger = Ledger(clock(), trace_id or f"req-{random.getrandbits(48):012x}", self.name, time.time())
        ledger.facts["max_parallel"] = self._executor.policy.max_parallel
        trace = Trace(ledger, self._limits)
        try:
            reply = await loop.run(program, conversation, prompt, ledger, emit)
        except HotloopError as error:
            error.trace, error.elapsed_ms = trace, ms(ledger.clock() - ledger.start)
            error.stage = ledger.stages[-1].kind if ledger.stages else None
            raise
        finally:
            ledger.close()
            trace.log()
        return Result(reply.text, trace, reply.finish_reason)

    async def _stream(
        self, program: loop.Program, conversation: Conversation, prompt: str, trace_id: str | None
    ) -> AsyncGenerator[Event]:
        outlet = Outlet()

        async def work() -> Result:
            try:
                return await self._run(program, conversation, prompt, outlet.put, trace_id)
            finally:
                outlet.end()

        task = asyncio.create_task(work())
        try:
            while await outlet.wait():
                for event in outlet.take():
                    yield event
            yield RunFinished(await task)
        finally:
            await stop([task])


class Session:
    """A conversation that lasts. Each prompt is committed whole, or, when it fails or is cancelled, not at all.

    One run at a time writes: others wait for it. The conversation lives in this process.
    """

    def __init__(self, agent: Agent, session_id: str) -> None:
        self.id = session_id
        self._agent = agent
        self._program: loop.Program | None = None
        self._conversation = agent._start
        self._turn = asyncio.Lock()

    async def run(self, prompt: str, *, trace_id: str | None = None) -> Result:
        """Answer one prompt in this conversation; see `Agent.run`."""
        async with self._turn:
            program, branch = self._begin(prompt)
            result = await self._agent._run(program, branch, prompt, _nobody, trace_id)
            self._conversation = branch
            return result

    async def stream(self, prompt: str, *, trace_id: str | None = None) -> AsyncGenerator[Event]:
        """Answer one prompt in this conversation, event by event; see `Agent.stream`."""
        async with self._turn:
            program, branch = self._begin(prompt)
            async with aclosing(self._agent._stream(program, branch, prompt, trace_id)) as events:
                async for event in events:
                    if isinstance(event, RunFinished):
                        self._conversation = branch
                    yield event

    def _begin(self, prompt: str) -> tuple[loop.Program, Conversation]:
        if self._program is None:
            self._program = self._agent._program(prompt)  # its tools stay, so that the cached prefix stays
        return self._program, self._conversation.branch()


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


def _arguments(spec: AgentSpec) -> dict[str, Any]:
    """The keyword arguments of `Agent` that a declaration means."""
    inference, tools, cache = spec.inference, spec.tools, spec.cache
    return {
        "model": inference.model,
        "endpoint": inference.endpoint,
        "instructions": spec.instructions,
        "tools": load_tools(tools.use, spec.folder),
        "budget": spec.budget,
        "name": spec.name,
        "api_key": inference.api_key,
        "headers": inference.headers,
        "dialect": inference.dialect,
        "temperature": inference.temperature,
        "max_tokens": inference.max_tokens,
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
    }


def _require(condition: bool, otherwise: str) -> None:
    if not condition:
        raise ConfigError(f"{otherwise}.")


def _require_unique(names: list[str]) -> None:
    for name in names:
        _require(
            names.count(name) == 1, f"There are several tools named {name}; give one another name with tool(name=...)"
        )
