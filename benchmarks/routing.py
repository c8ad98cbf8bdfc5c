"""What routing saves, and what it costs: a mixed workload on two simulated services, in virtual time.

    python benchmarks/routing.py

The fast model answers easy requests right and hard ones wrong: a third of those wrongly in form, which a predicate
sees, a third in doubt, which its log-probabilities show, and a third with conviction, which nothing shows. One easy
request in twelve is hard after all, and the other way round; of what it answers right, one in twenty it doubts. The
strong one is right, but for one request in fifty. What is tested is about none of the subjects that the classifier has
learned from, and half of it is asked in ways that it has not seen. The rules name a few words, as one would guess them.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from zlib import crc32

import msgspec

from hotloop import Agent, Cascade, Model, Router, Rule
from hotloop.lab.evaluation import Case, Outcome, Score, evaluate, score
from hotloop.lab.evaluation.prices import price_of
from hotloop.models.routing.classifier import RouteClassifier
from hotloop.models.routing.records import Record, good_enough
from hotloop.models.routing.training import train
from hotloop.testing import ScriptedModel, raw, run_virtual
from hotloop.units import show_ms

SUBJECTS = (
    "the laptop stand",
    "order 20250101",
    "the annual plan",
    "our Berlin office",
    "the return of a gift",
    "invoice 7712",
    "the mobile app",
    "a delayed parcel",
    "a team of twelve",
    "the warranty",
    "the loyalty points",
    "the newsletter",
    "发票 7712",
    "会员积分",
    "退货流程",
    "年度套餐",
)
# ways to ask: of each kind, the first half is learned from, and all are tested
EASY = (
    "What is the status of {}?",
    "Where do I find {}?",
    "Who is responsible for {}?",
    "{}在哪里可以看到？",
    "How much is {}?",
    "Is there a phone number for {}?",
    "When was {} last changed?",
    "{}多少钱？",
)
HARD = (
    "Compare the options for {} and explain which one fits a small company best.",
    "Draft a formal complaint about {} that refers to the law.",
    "Find the contradiction in what I was told about {}, and argue both sides.",
    "请分析{}的利弊，并给出详细的理由。",
    "Plan the next three months around {}, week by week, with the risks.",
    "Explain step by step why {} costs more than it seems to.",
    "Write a contract clause about {} that holds in two countries.",
    "请比较{}的两种方案，并说明各自的风险。",
)
GREETINGS = ("", "Hello! ", "A quick question: ")
UNLIKELY = 12  # one in so many is not as hard as it looks
TOKENS = 40


def prompts(ways: Sequence[str], subjects: Sequence[str], greetings: Sequence[str] = GREETINGS) -> list[str]:
    asked = itertools.product(greetings, ways, subjects)
    return [greeting + way.format(subject) for greeting, way, subject in asked]


def chance(prompt: str, what: str, of: int) -> int:
    """A number below `of` that is always the same for this prompt."""
    return crc32(f"{what} {prompt}".encode()) % of


def hard(prompt: str) -> bool:
    looks = any(way.split("{}")[0] in prompt for way in HARD)
    return looks != (chance(prompt, "surprise", UNLIKELY) == 0)


def right(prompt: str) -> str:
    return f'{{"answer":{chance(prompt, "right", 10_000)}}}'


def fast(prompt: str) -> tuple[str, float]:
    """The fast model's answer, and the log-probability of its doubtful tokens."""
    if not hard(prompt):
        return right(prompt), -1.5 if chance(prompt, "doubt", 20) == 0 else -0.05
    how = chance(prompt, "how", 3)
    wrong = '{"answer":-1}'
    return [("It should be about a hundred", -0.05), (wrong, -1.5), (wrong, -0.05)][how]


def strong(prompt: str) -> tuple[str, float]:
    return ('{"answer":-1}' if chance(prompt, "slip", 50) == 0 else right(prompt)), -0.05


def served(model: object, ttft: float, tpot: float) -> ScriptedModel:
    """A service of this model: a reply of 40 tokens, with log-probabilities and counts."""

    def answer(request: dict) -> object:
        prompt = request["messages"][-1]["content"]
        text, doubtful = model(prompt)
        pieces = [text, *[" "] * (TOKENS - 1)]
        usage = {"prompt_tokens": 400 + len(prompt) // 4, "completion_tokens": TOKENS}
        last = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": usage}
        logprobs = [doubtful if place % 10 == 0 else -0.01 for place in range(TOKENS)]
        chunks = [_chunk(piece, logprob) for piece, logprob in zip(pieces, logprobs, strict=True)]
        return raw(*chunks[:-1], chunks[-1] + _frame(last) + b"data: [DONE]\n\n")

    return ScriptedModel(answer, ttft=ttft, tpot=tpot)


def _chunk(text: str, logprob: float) -> bytes:
    scores = {"content": [{"token": text, "logprob": logprob}]}
    return _frame({"choices": [{"index": 0, "delta": {"content": text}, "logprobs": scores}]})


def _frame(value: object) -> bytes:
    return b"data: " + msgspec.json.encode(value) + b"\n\n"


FAST = Model(name="fast", endpoint=served(fast, 0.040, 0.002), dialect="vllm", price_in=0.10, price_out=0.40)
STRONG = Model(name="strong", endpoint=served(strong, 0.300, 0.015), price_in=2.0, price_out=8.0)
MODELS = {"fast": FAST, "strong": STRONG}


def no_json(reply: object) -> str:
    return "" if reply.text.lstrip().startswith("{") else "it is no JSON"


CASCADE = Cascade(reject=[no_json], confidence=0.5)
RULES = [Rule("strong", pattern="compare|draft|contract|分析"), Rule("strong", min_tokens=60)]


def evaluated(model: Model | Router, name: str, questions: list[str]) -> list[Outcome]:
    cases = [Case(prompt, equals=right(prompt)) for prompt in questions]
    price = price_of(model.models.values() if isinstance(model, Router) else [model])
    agent = Agent(model=model)
    return run_virtual(evaluate(agent, cases, route=name, concurrency=8, price=price))


def learned(questions: list[str]) -> RouteClassifier:
    outcomes = [outcome for name, model in MODELS.items() for outcome in evaluated(model, name, questions)]
    return train(good_enough(Record(each.prompt, each.route, each.right) for each in outcomes)).classifier


def ways(classifier: RouteClassifier) -> dict[str, Model | Router]:
    return {
        "always fast": FAST,
        "always strong": STRONG,
        "rules": Router(models=MODELS, rules=RULES, default="fast"),
        "classifier": Router(models=MODELS, classifier=classifier, default="strong"),
        "cascade": Router(models=MODELS, cascade=CASCADE, default="fast"),
        "classifier + cascade": Router(models=MODELS, classifier=classifier, cascade=CASCADE, default="fast"),
    }


def main() -> None:
    known = prompts([*EASY[:4], *HARD[:4]], SUBJECTS[::2])
    tested = prompts(EASY, SUBJECTS[1::2]) + prompts(HARD, SUBJECTS[1::2], GREETINGS[:2])
    classifier = learned(known)
    print(
        f"{len(known)} requests to learn from, {len(tested)} others to test on, {sum(map(hard, tested))} of them hard"
    )
    print(f"\n{'':20}  accuracy       p50       p95  cost of 1,000  strong asked")
    for name, model in ways(classifier).items():
        outcomes = evaluated(model, name, tested)
        told(score(outcomes), sum(each.answered in ("strong", "always strong") for each in outcomes))


def told(each: Score, escalated: int) -> None:
    times = f"{show_ms(each.p50_ms or 0):>8}  {show_ms(each.p95_ms or 0):>8}"
    cost = 1000 * (each.cost or 0) / each.cases
    print(f"{each.route:20}  {each.accuracy:8.1%}  {times}  {cost:13.3f}  {escalated / each.cases:12.1%}")


if __name__ == "__main__":
    main()
