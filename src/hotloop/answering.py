"""How a run gets its answer: one that was kept for the same question, or a new one from the loop."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from hotloop import loop
from hotloop.answers.cache import AnswerCache
from hotloop.answers.fitness import maker_of
from hotloop.events import ReplyFinished, TextDelta
from hotloop.loop import Program
from hotloop.models.reply import Reply
from hotloop.output.reading import Answer, read_answer
from hotloop.tools.defining.tool import Tool
from hotloop.tools.running.job import RunContext
from hotloop.trace.ledger import Usage


class Answering:
    """Runs without a history, answered from `cache` where that may be. `models` stands for who answers otherwise."""

    def __init__(self, cache: AnswerCache, models: str) -> None:
        self._cache = cache
        self._models = models
        self._made: WeakKeyDictionary[Program, str] = WeakKeyDictionary()

    async def answer(self, program: Program, run: RunContext) -> Answer:
        """The answer to the run's prompt. Raises what `loop.run` raises."""
        loop.require_prompt(run.prompt)
        asked = await self._cache.lookup(run.prompt, self._maker(program, run), run.caller.user, run.ledger)
        if asked.text is not None and (kept := _read(program, asked.text)) is not None:
            run.emit([TextDelta(asked.text), ReplyFinished("stop", 0)])
            return kept
        answer = await loop.run(program, run)
        self._cache.store(asked, answer.text, answer.finish_reason, run.ledger, _harmless(program))
        return answer

    def _maker(self, program: Program, run: RunContext) -> str:
        """A fingerprint of all that makes the answer but the question: the program, and the run's grants and aside."""
        made = self._made.get(program)
        if made is None:
            definitions = [tool.definition.decode() for tool in _tools(program)]
            schema = program.output.schema if program.output is not None else None
            start = bytes(run.conversation.messages).decode()
            made = self._made[program] = maker_of(self._models, start, definitions, schema)
        return maker_of(made, sorted(run.caller.grants), run.aside)


def _read(program: Program, text: str) -> Answer | None:
    """A kept answer; None for one that no longer has the form that is asked for."""
    if program.output is None:
        return Answer(text, text)
    found = read_answer(program.output, Reply(text, [], "stop", Usage()))
    return found if isinstance(found, Answer) else None


def _harmless(program: Program) -> list[str]:
    """Tools whose use changes nothing and needs nobody's approval."""
    own = [tool.name for tool in _tools(program) if tool.read_only and tool.approval == "never"]
    return [*own, *program.executor.built_in]


def _tools(program: Program) -> list[Tool]:
    return [program.executor.prepared[name].tool for name in program.tools]
