"""The runs of an agent: each is opened, answered or paused, and closed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from hotloop import loop
from hotloop.budget import Budget, Deadline
from hotloop.context.conversation import Conversation
from hotloop.context.sessions.record import SessionKey
from hotloop.context.settings import Context
from hotloop.errors import ApprovalRequired, ConfigError, HotloopError
from hotloop.fields import require
from hotloop.loop import Program
from hotloop.models.transport import Emit, nobody
from hotloop.output.reading import Answer
from hotloop.perceiving import Perceiving, Recall
from hotloop.programs import ProgramCache, Programs
from hotloop.runoptions import RunOptions, read_options, read_parent
from hotloop.tools.approvals.journal import RunJournal, held
from hotloop.tools.running.caller import Caller
from hotloop.tools.running.job import RunContext
from hotloop.tools.running.progress import remaining
from hotloop.tools.running.result import ToolResult
from hotloop.trace.ledger import Ledger, Usage
from hotloop.trace.recording.recording import WELL, Recording, ending_of
from hotloop.trace.trace import Trace
from hotloop.units import NS_PER_S, clock, ms, ns

if TYPE_CHECKING:
    from hotloop.answering import Answering
    from hotloop.budget.watch import Allowance, Watch
    from hotloop.context.compaction import Compactor, Summarize
    from hotloop.context.estimate import TokenRates
    from hotloop.context.sessions.live import LiveSession
    from hotloop.context.sessions.opened import OpenSessions
    from hotloop.context.sessions.record import SessionStore
    from hotloop.tools.approvals.store import ApprovalStore, PausedRun


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
        """The tokens of all its requests, as far as their services counted them."""
        return self.trace.usage


class Access(NamedTuple):
    """A session, for whom it is opened ("": for anybody), and the instructions that it is given (None: as before)."""

    live: LiveSession
    user: str = ""
    instructions: str | None = None


class Asked(msgspec.Struct, frozen=True):
    """What is asked, for whom, who hears how it goes, and, of a run that was paused, what it may do."""

    prompt: str
    caller: Caller
    emit: Emit = nobody
    background: bool = False
    journal: RunJournal | None = None


class Running(msgspec.Struct):
    """A run that has begun: its ledger, and the search for what is known of the user, once it is known who that is.

    Whoever asked for it has time `until` then, None without a limit.
    """

    asked: Asked
    ledger: Ledger
    recall: Recall | None
    until: int | None = None


Work = Callable[[ProgramCache, Running], Coroutine[Any, Any, Answer]]
Begin = Callable[[], tuple[Program, Conversation]]
Go = Callable[[Program, RunContext], Coroutine[Any, Any, Answer]]


class Runs:
    """The runs of one agent, over its `programs`; `instructions` are the agent's own.

    `waits` tells whether a run waits while another one writes to its session.
    """

    def __init__(
        self,
        name: str,
        programs: Programs,
        instructions: str,
        *,
        budget: Budget | None,
        grants: frozenset[str],
        context: Context,
        perceiving: Perceiving,
        summarize: Summarize,
        answering: Answering | None,
        approvals: str | Path | None,
        sessions: str | Path | SessionStore | None,
        waits: bool,
        recording: Recording,
    ) -> None:
        self.name = name
        self.start = Conversation.of(instructions)
        self._programs = programs
        self._instructions = instructions
        self._budget = budget
        self._limits = budget.limits() if budget else {}
        self._allowance = _allowance(budget) if budget and self._limits else None
        self._grants = grants
        self._context = context
        self._perceiving = perceiving
        self._summarize = summarize
        self._answering = answering
        self._approvals = approvals
        self._kept_in = sessions
        self._waits = waits
        self._recording = recording

    @cached_property
    def sessions(self) -> OpenSessions:
        """The conversations that last."""
        from hotloop.context.sessions.opened import OpenSessions

        return OpenSessions(self.name, self._kept_in, self._instructions, self._context.window, self._compactor)

    async def warm(self) -> None:
        """Open the file of the sessions, if one was named."""
        if self._kept_in is not None:
            await self.sessions.store.load(SessionKey(self.name, ""))

    async def aclose(self) -> None:
        """Close what sessions keep open, and have what ran recorded."""
        await self._recording.flush()
        if "sessions" in self.__dict__:
            await self.sessions.aclose()

    @property
    def approvals(self) -> ApprovalStore:
        """The runs that wait for people's decisions."""
        from hotloop.tools.approvals.store import ApprovalStore

        return ApprovalStore(self._approvals)

    async def ask(self, prompt: str, options: RunOptions, emit: Emit = nobody, session: Access | None = None) -> Result:
        """See `Agent.run` and `Session.run`."""
        run_id, user, given = read_options(options)
        of, owner = ("", "") if session is None else (session.live.key.id, session.user or session.live.state.user)
        position = self._recording.position(run_id, read_parent(options))
        caller = Caller(run_id, self.name, of, user or owner, self._grants if given is None else given, position)
        asked = Asked(prompt, caller, emit, bool(options.get("background")))

        def answer(programs: ProgramCache, run: Running) -> Coroutine[Any, Any, Answer]:
            if session is not None:
                begin = partial(self._begun, programs, session.live, run)
                return self._in_session(session, run, begin, loop.run)
            go = loop.run if self._answering is None else self._answering.answer
            return self._answer(run, programs.for_prompt(prompt), self.start.branch(), go)

        async def answer_if_free(programs: ProgramCache, run: Running) -> Answer:
            if programs.executor.asks:
                await asyncio.to_thread(self.approvals.check_free, run_id)
            return await answer(programs, run)

        return await self._run(asked, answer_if_free if options.get("trace_id") else answer)

    async def resume(self, run_id: str, emit: Emit = nobody, session: Access | None = None) -> Result:
        """See `Agent.resume` and `Session.resume`."""
        store = self.approvals
        async with held(store, run_id):
            paused = await asyncio.to_thread(store.load, run_id)
            known = await asyncio.to_thread(store.results, run_id)
            saved = self._read(paused)
            of = self._session_of(saved, session)
            results = {call_id: msgspec.json.decode(known[call_id], type=ToolResult) for call_id in known}
            go = partial(loop.resume, saved=saved, known=results)
            asked = Asked(saved.prompt, saved.caller, emit, saved.background, RunJournal(store, paused))

            async def answer(programs: ProgramCache, run: Running) -> Answer:
                run.ledger.facts["paused_ms"] = ms((time.time() - paused.paused_at) * NS_PER_S)
                program = programs.with_tools(saved.tools)
                if of is not None:
                    return await self._in_session(of, run, lambda: (program, of.live.resume(saved.conversation)), go)
                return await self._answer(run, program, saved.conversation, go)

            result = await self._run(asked, answer, first=False)
            await asyncio.to_thread(store.finish, run_id)
            return result

    def _session_of(self, saved: loop.Checkpoint, session: Access | None) -> Access | None:
        """The session that a paused run belongs to. Raises ConfigError if it is to be resumed in another one."""
        of = saved.caller.session
        if session is None:
            return Access(self.sessions.get(of)) if of else None
        whose = f"session {of}" if of else "no session"
        here, owner = session.live.key.id, saved.caller.user
        require(session.user in ("", owner), f"Run {saved.caller.run} is of another user than {session.user}.")
        require(of == here, f"Run {saved.caller.run} is one of {whose}, not of {here}.")
        return session

    def _begun(self, programs: ProgramCache, session: LiveSession, run: Running) -> tuple[Program, Conversation]:
        """The program of a session, whose tools stay so that the cached prefix does, and its conversation."""
        program = programs.for_prompt(run.asked.prompt, session.state.tools)
        return program, session.begin(run.asked.prompt, run.ledger)

    async def _in_session(self, access: Access, run: Running, begin: Begin, go: Go) -> Answer:
        """A turn of a session: nobody else writes to it meanwhile, and it is kept whole or not at all."""
        session = access.live
        async with session.store.writing(session.key, wait=self._waits):
            run.ledger.mark("context", "waited for the session")
            await session.load(run.ledger, access.user, access.instructions)
            if not run.asked.caller.user and session.state.user:
                caller = msgspec.structs.replace(run.asked.caller, user=session.state.user)
                run.asked = msgspec.structs.replace(run.asked, caller=caller)
                run.recall = self._perceiving.recall(run.asked.prompt, caller)
            try:
                program, conversation = begin()
                answer = await self._answer(run, program, conversation, go, session)
                await session.commit(run.ledger, run.asked.caller.user, tuple(program.tools))
            except BaseException:
                session.give_up()
                raise
            return answer

    def _answer(
        self, run: Running, program: Program, conversation: Conversation, go: Go, session: LiveSession | None = None
    ) -> Coroutine[Any, Any, Answer]:
        """The answer to what was asked, at the end of this conversation, within the budget; to be awaited."""
        ledger = run.ledger
        ledger.tools = program.tools
        ledger.facts["max_parallel"] = program.executor.policy.max_parallel
        ledger.since = ledger.start if session is None else ledger.at
        watch = None if self._allowance is None else self._allowance.watch(ledger, ledger.since)
        context = self._context_of(run, conversation, session, watch)
        work = self._perceived(run, program, context, go) if self._perceiving.any else go(program, context)
        return work if watch is None else watch.hold(work)

    def _context_of(
        self, run: Running, conversation: Conversation, session: LiveSession | None, watch: Watch | None
    ) -> RunContext:
        asked, ledger = run.asked, run.ledger
        if watch is None:
            deadline = Deadline(self._budget, ledger.since, run.until)
        else:
            deadline = Deadline(self._budget, ledger.since, run.until, watch.left_for_tools)
        compactor = None
        if session is not None or self._context.limit is not None:
            compactor = self._compactor(conversation) if session is None else session.compactor_of(conversation)
        return RunContext(
            ledger,
            asked.emit,
            deadline,
            asked.caller,
            conversation,
            asked.journal,
            asked.prompt,
            asked.background,
            watch,
            tasks=self._context.tasks,
            compactor=compactor,
            new_compactor=self._compactor,
            fetch=None if session is None else partial(session.store.result, session.key),
        )

    async def _perceived(self, run: Running, program: Program, context: RunContext, go: Go) -> Answer:
        """The answer of a run whose requests all end with what is known aside."""
        aside = await self._aside(run, context)
        if context.compactor is not None:
            context.compactor.aside = aside
        return await go(program, msgspec.structs.replace(context, aside=aside))

    async def _aside(self, run: Running, context: RunContext) -> str:
        """What is sent last in each request of the run; facts that come late are left out."""
        watch = context.watch
        if watch is not None:
            watch.doing("memory")
        aside = await self._perceiving.aside(run.recall, run.asked.caller, run.ledger, context.deadline)
        if watch is not None:
            watch.doing("other")
            if run.recall is not None and run.recall.over_budget:
                watch.without_memory()
        return aside

    @cached_property
    def _rates(self) -> TokenRates:
        from hotloop.context.estimate import TokenRates

        return TokenRates(self._context.count_tokens)

    def _compactor(self, conversation: Conversation) -> Compactor:
        from hotloop.context.compaction import Compactor

        return Compactor(conversation, self._context, self._rates, self._summarize)

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

    async def _run(self, asked: Asked, answer: Work, *, first: bool = True) -> Result:
        """Open the ledger, have the answer, close the ledger; a run that pauses is saved before anybody is told."""
        ledger = Ledger(clock(), asked.caller.run, self.name, time.time())
        trace = Trace(ledger, self._limits)
        if asked.caller.position is not None:
            ledger.facts |= asked.caller.position.facts()
        if self._recording.on:
            self._recording.begin(ledger, asked.prompt)
        ending = WELL
        left = None if asked.background else remaining()
        until = None if left is None else ledger.start + ns(left)
        run = Running(asked, ledger, self._perceiving.recall(asked.prompt, asked.caller), until)
        try:
            try:
                programs = self._programs.begin()
                work = self._given(answer, run) if programs is None else answer(programs, run)
                given = await (work if left is None else _within(left, work))
                if ledger.words is not None:
                    ledger.words.answer = given.text
            except loop.Paused as pause:
                raise await self._pause(asked.caller.run, pause, first) from None
        except HotloopError as error:
            ending = ending_of(error)
            error.trace, error.elapsed_ms = trace, ms(ledger.clock() - ledger.start)
            error.stage = ledger.stages[-1].kind if ledger.stages else None
            if isinstance(error, ApprovalRequired):
                ledger.mark("approval", "saved")
            raise
        except BaseException as error:
            ending = ending_of(error)
            raise
        finally:
            if run.recall is not None:
                await run.recall.aclose()
            if self._allowance is not None and ledger.since:
                self._allowance.tell(ledger, ledger.since)
            ledger.close()
            trace.log()
            if ledger.words is not None:
                self._recording.end(ledger, self._limits, asked.caller.session, ending)
        return Result(given.value, trace, given.finish_reason)

    async def _given(self, answer: Work, run: Running) -> Answer:
        """The answer, once all tools are known."""
        programs = await self._programs.listed()
        run.ledger.mark("connect", "tools listed")
        return await answer(programs, run)

    async def _pause(self, run_id: str, pause: loop.Paused, first: bool) -> ApprovalRequired:
        save = partial(self.approvals.pause, run_id, self.name, pause.state, pause.calls, first=first)
        await asyncio.to_thread(save)
        names = ", ".join(dict.fromkeys(call.name for call in pause.calls))
        sentence = f"A person must decide about {names} before run {run_id} can go on."
        return ApprovalRequired(sentence, run_id=run_id, calls=pause.calls)


def _allowance(budget: Budget) -> Allowance:
    from hotloop.budget.watch import Allowance

    return Allowance(budget)


async def _within(seconds: float, work: Coroutine[Any, Any, Answer]) -> Answer:
    from hotloop.budget.watch import within

    return await within(seconds, work)
