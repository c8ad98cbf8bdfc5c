"""Put cases to an agent, so many at a time, and see what comes of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import aclosing
from typing import TypeVar

import msgspec

from hotloop.agent import Agent
from hotloop.errors import ConfigError, HotloopError, RunError, ToolUseFailed, TruncatedReply
from hotloop.events import CallSealed, ReplyFinished, Reset, RunFinished, ToolFinished, ToolStarted
from hotloop.lab.evaluation.cases import Case
from hotloop.lab.evaluation.judging import Made, fault
from hotloop.lab.evaluation.prices import Price
from hotloop.runs import Result
from hotloop.trace.stats import percentile
from hotloop.trace.trace import Trace
from hotloop.units import clock, ms

T = TypeVar("T", int, float)

_ITS_OWN_DOING = (RunError, ToolUseFailed, TruncatedReply)  # of a model that had its say, and came to no answer


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one case on one route: whether it was `right`, or else `why` not.

    `right` is None if the run failed, by its service or its time, which says nothing about the model's answers.
    `output` is None if there is no answer; tokens and cost are None where they are not known. `answered` is the route
    whose model answered (or a fallback's model), and `confidence` how sure that was, as far as it is known.
    """

    route: str
    prompt: str
    right: bool | None
    why: str = ""
    output: str | None = None
    ms: float
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost: float | None = None
    answered: str = ""
    confidence: float | None = None


class Score(msgspec.Struct, frozen=True, kw_only=True):
    """All outcomes of one route in numbers, all of them but `cases` and `failed` of the runs that did not fail.

    `accuracy` is the share of these that was right; `p50_ms` and `p95_ms` are of those with an answer. None is unknown.
    """

    route: str
    cases: int
    failed: int
    right: int
    accuracy: float | None
    p50_ms: float | None
    p95_ms: float | None
    input_tokens: int | None
    output_tokens: int | None
    cost: float | None


async def evaluate(
    agent: Agent,
    cases: Sequence[Case],
    *,
    route: str = "",
    concurrency: int = 1,
    price: Price | None = None,
    on_outcome: Callable[[Outcome], None] | None = None,
) -> list[Outcome]:
    """The outcome of each case, in the order of the cases, `concurrency` of them at a time.

    A run that ends without an answer by the model's own doing, or waits for a person, is not right; one that fails
    otherwise is neither right nor wrong. `route` is what the outcomes are called,
    `on_outcome` is called as each comes. Raises ConfigError for what is no Case, and a concurrency below 1.
    """
    for case in cases:
        if not isinstance(case, Case):
            raise ConfigError(f"{case!r} is no case; give Case(prompt, equals=...), or what `load_cases` reads.")
    if concurrency < 1:
        raise ConfigError(f"The concurrency is {concurrency!r}; give a number from 1 on.")
    outcomes: dict[int, Outcome] = {}
    due = iter(enumerate(cases))

    async def work(due: Iterator[tuple[int, Case]]) -> None:
        for place, case in due:
            outcomes[place] = outcome = await _outcome(agent, case, route, price)
            if on_outcome:
                on_outcome(outcome)

    async with asyncio.TaskGroup() as workers:
        for _ in range(concurrency):
            workers.create_task(work(due))
    return [outcomes[place] for place in range(len(cases))]


def score(outcomes: Sequence[Outcome]) -> Score:
    """The numbers of the outcomes of one route; a count that one of them has not is unknown.

    Raises ConfigError if there are none.
    """
    if not outcomes:
        raise ConfigError("There are no outcomes to score; put at least one case to an agent.")
    judged = [outcome for outcome in outcomes if outcome.right is not None]
    times = [outcome.ms for outcome in judged if outcome.output is not None]
    right = sum(outcome.right is True for outcome in judged)
    return Score(
        route=outcomes[0].route,
        cases=len(outcomes),
        failed=len(outcomes) - len(judged),
        right=right,
        accuracy=right / len(judged) if judged else None,
        p50_ms=percentile(times, 50) if times else None,
        p95_ms=percentile(times, 95) if times else None,
        input_tokens=_sum([outcome.input_tokens for outcome in judged]),
        output_tokens=_sum([outcome.output_tokens for outcome in judged]),
        cost=_sum([outcome.cost for outcome in judged]),
    )


async def _outcome(agent: Agent, case: Case, route: str, price: Price | None) -> Outcome:
    now = clock()
    begun = now()
    try:
        result, calls = await _run(agent, case.prompt)
    except HotloopError as error:
        why = f"{type(error).__name__}: {error}"
        right = False if isinstance(error, _ITS_OWN_DOING) else None
        return Outcome(route=route, prompt=case.prompt, right=right, why=why, ms=ms(now() - begun))
    text = _text(result)
    why = fault(case, text, calls)
    answered, confidence = _answered(result.trace, route)
    return Outcome(
        route=route,
        prompt=case.prompt,
        right=not why,
        why=why,
        output=text,
        ms=result.trace.end_to_end_ms,
        input_tokens=result.usage.input_tokens,
        output_tokens=result.usage.output_tokens,
        cost=price(result.trace) if price else None,
        answered=answered,
        confidence=confidence,
    )


def _answered(trace: Trace, route: str) -> tuple[str, float | None]:
    """The route whose model answered, or the name of a model that stood in for it; and how sure it was."""
    replies = [each for each in trace.attempts if each.outcome == "ok" and each.why != "prefill"]
    if replies and any(each.why == "fallback" and each.turn == replies[-1].turn for each in trace.attempts):
        return replies[-1].model, None
    routes = trace.facts.get("routes")
    return (routes[-1].answered.route, routes[-1].answered.confidence) if routes else (route, None)


async def _run(agent: Agent, prompt: str) -> tuple[Result, list[Made]]:
    """Run the prompt; its result, and the calls on its way, of replies that held."""
    sealed: list[Made] = []
    held = 0  # how many of them are of replies that are complete
    started: dict[str, Made] = {}  # the steps of a plan are told only so
    async with aclosing(agent.stream(prompt)) as events:
        async for event in events:
            match event:
                case CallSealed(name=name, arguments=arguments):
                    sealed.append((name, arguments))
                case Reset():
                    del sealed[held:]
                case ReplyFinished():
                    held = len(sealed)
                case ToolStarted(call_id=call_id, name=name, arguments=arguments):
                    started[call_id] = (name, arguments)
                case ToolFinished(call_id=call_id, outcome="discarded"):
                    started.pop(call_id, None)
                case RunFinished(result=result):
                    return result, [*sealed, *started.values()]
    raise RunError("It waits for a person to decide, which an evaluation does not do.")


def _text(result: Result) -> str:
    """The answer as text; a typed one as JSON."""
    return result.output if isinstance(result.output, str) else msgspec.json.encode(result.output).decode()


def _sum(values: Sequence[T | None]) -> T | None:
    known = [value for value in values if value is not None]
    return sum(known[1:], known[0]) if known and len(known) == len(values) else None
