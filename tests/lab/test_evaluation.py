import asyncio

import pytest

from hotloop import Agent, AnswerCache, Policy, Router, tool
from hotloop.errors import ConfigError
from hotloop.lab.evaluation import Case, ExpectedCall, candidates, evaluate, load_cases, score
from hotloop.lab.evaluation.judging import fault
from hotloop.lab.evaluation.prices import price_of
from hotloop.models.model import Model
from hotloop.testing import ScriptedModel, call, raw, run_virtual, say


@tool(read_only=True)
def order_status(order_id: str) -> str:
    """Status of an order."""
    return f"order {order_id}: shipped"


@tool(approval="always")
def refund(order_id: str) -> str:
    """Give the money back."""
    return "done"


def run(replies, *cases, tools=(), concurrency=1, **model):
    async def main():
        declared = Model(name="m", endpoint=ScriptedModel(replies, ttft=0.02, tpot=0.01), **model)
        agent = Agent(model=declared, tools=tools, retries=0)
        return await evaluate(agent, cases, route="m", concurrency=concurrency, price=price_of([declared]))

    return run_virtual(main())


@pytest.mark.parametrize(
    ("case", "right", "wrong"),
    [
        (Case("q", equals="42"), " 42. ", "43"),
        (Case("q", equals="Yes"), "YES!", "yes, it is"),
        (Case("q", equals="the answer is 6"), "The answer is 6!", "The answer is 6²"),
        (Case("q", equals="ＯＫ"), "ok", "o k"),
        (Case("q", contains_any=("no", "closed")), "No, it is.", "I do not know."),
        (Case("q", contains_any=("can",)), "You can.", "You can't."),
        (Case("q", contains=("ship",)), "We ship.", "It is shipped."),
        (Case("q", contains=("Ann",)), "It is Ann's.", "It is Anna's."),
        (Case("q", contains=("two weeks",)), "In two\nweeks.", "In two weekdays."),
        (Case("q", contains=("4",)), "It is 4.", "It is 4.5."),
        (Case("q", contains=("42",)), "**42**", "It is 1,42."),
        (Case("q", contains=("C++",)), "In C++17.", "In C."),
        (Case("q", contains=("发货",)), "已发货了", "已发了货"),
        (Case("q", contains=("발송",)), "발송됩니다", "발표"),
        (Case("q", contains=("Paris", "2024")), "in paris, 2024", "in Paris"),
        (Case("q", contains_any=("yes", "sure")), "Sure.", "no"),
        (Case("q", matches=r"\d{4}-\d\d"), "on 2024-05", "in May"),
        (Case("q", json={"a": {"b": [1, {"c": 2}]}}), '{"a":{"b":[1,{"c":2,"d":3}],"e":0}}', '{"a":{"b":[1]}}'),
        (Case("q", json={"a": True}), '```json\n{"a": true}\n```', '{"a": 1}'),
        (Case("q", json={"a": 1}), '{"a": 1.0}', "a is 1"),
        (Case("q", contains=("a",), equals="a b"), "a b", "a c"),
    ],
)
def test_what_is_right_and_what_is_not(case, right, wrong):
    assert fault(case, right, []) == ""
    assert fault(case, wrong, []) != ""


@pytest.mark.parametrize(
    ("calls", "why"),
    [
        ([("pay", '{"to":"ann","amount":3}')], ""),
        ([("other", "{}"), ("pay", '{"amount":3}')], ""),
        ([("pay", '{"amount":4}')], 'pay {"amount":3} was not called; called was pay {"amount":4}'),
        ([("pay", "{broken")], 'pay {"amount":3} was not called; called was pay {broken'),
        ([], 'pay {"amount":3} was not called; called was nothing'),
    ],
)
def test_calls_must_have_been_made(calls, why):
    assert fault(Case("q", calls=(ExpectedCall("pay", {"amount": 3}),)), "done", calls) == why


def test_outcomes_tell_time_tokens_and_cost():
    usage = {"prompt_tokens": 1000, "completion_tokens": 10}
    (outcome,) = run([say("Paris", usage=usage)], Case("Capital?", equals="paris"), price_in=2.0, price_out=50.0)
    assert (outcome.right, outcome.why, outcome.output, outcome.ms) == (True, "", "Paris", 20.0)
    assert (outcome.input_tokens, outcome.output_tokens) == (1000, 10)
    assert outcome.cost == pytest.approx(0.0025)
    (outcome,) = run([say("Paris", usage=usage)], Case("Capital?", equals="paris"), price_in=2.0)
    assert outcome.cost is None


def test_calls_on_the_way_are_known():
    replies = [call("order_status", order_id="7"), "It is shipped."]
    wanted = Case("Where is 7?", contains=("shipped",), calls=(ExpectedCall("order_status", {"order_id": "7"}),))
    (outcome,) = run(replies, wanted, tools=[order_status])
    assert outcome.right


def test_calls_of_a_reply_that_came_to_nothing_do_not_count():
    async def main():
        function = rb'{"name":"order_status","arguments":"{\"order_id\":\"7\"}"}'
        calls = b'[{"index":0,"id":"a","function":%b},{"index":1}]' % function
        cut = raw(b'data: {"choices":[{"index":0,"delta":{"tool_calls":%b}}]}\n\n' % calls, cut=True)
        agent = Agent(model="m", endpoint=ScriptedModel([cut, "No idea."]), tools=[order_status], retries=1)
        return await evaluate(agent, [Case("q", calls=(ExpectedCall("order_status"),))])

    (outcome,) = run_virtual(main())
    assert outcome.why == "order_status was not called; called was nothing"


def test_a_run_that_fails_is_neither_right_nor_wrong():
    failed, answered = run([raw(b"{}", status=500), "yes"], Case("a", equals="yes"), Case("b", equals="yes"))
    assert (failed.right, failed.output, answered.right) == (None, None, True)
    assert failed.why.startswith("Overloaded: ")
    (late,) = run(["yes"], Case("a", equals="yes"), policy=Policy(first_token=0.01))
    assert late.right is None and late.why.startswith("ReplyTimeout: ")


def test_a_model_that_comes_to_no_answer_is_wrong():
    async def main():
        agent = Agent(model="m", endpoint=ScriptedModel(["Forty-two."] * 2), output=int)
        return await evaluate(agent, [Case("6 times 7?", json={"value": 42})])

    (outcome,) = run_virtual(main())
    assert outcome.right is False and outcome.why.startswith("OutputInvalid: ")


def test_a_run_that_waits_is_not_right(tmp_path):
    async def main():
        model = ScriptedModel([call("refund", order_id="7")])
        agent = Agent(model="m", endpoint=model, tools=[refund], approvals=tmp_path / "runs")
        return await evaluate(agent, [Case("refund 7", contains=("done",))])

    (outcome,) = run_virtual(main())
    assert outcome.right is False and "waits for a person" in outcome.why


def test_cases_run_side_by_side_and_keep_their_order():
    told = []

    async def main():
        agent = Agent(model="m", endpoint=ScriptedModel(lambda request: request["messages"][-1]["content"], ttft=0.1))
        cases = [Case(str(number), equals=str(number)) for number in range(6)]
        outcomes = await evaluate(agent, cases, concurrency=3, on_outcome=told.append)
        return outcomes, asyncio.get_running_loop().time()

    outcomes, ended = run_virtual(main())
    assert [outcome.prompt for outcome in outcomes] == [outcome.output for outcome in outcomes] == list("012345")
    assert ended == pytest.approx(1.2)  # the clock begins at one second
    assert sorted(told, key=lambda each: each.prompt) == outcomes


def test_scores_are_of_the_runs_that_did_not_fail():
    usage = {"prompt_tokens": 10, "completion_tokens": 1}
    replies = [say("yes", usage=usage), say("no", usage=usage), raw(b"{}", status=400), say("yes", usage=usage)]
    outcomes = run(replies, *[Case(f"q{number}", equals="yes") for number in range(4)], price_in=1.0, price_out=1.0)
    scored = score(outcomes)
    assert (scored.route, scored.cases, scored.failed, scored.right, scored.accuracy) == ("m", 4, 1, 2, 2 / 3)
    assert (scored.p50_ms, scored.p95_ms) == (20.0, 20.0)
    assert (scored.input_tokens, scored.cost) == (30, pytest.approx(33e-6))
    none = score(outcomes[2:3])
    assert (none.failed, none.accuracy, none.p50_ms, none.cost) == (1, None, None, None)
    (unpriced,) = run([say("yes", usage=usage)], Case("q", equals="yes"))
    assert score([outcomes[0], unpriced]).cost is None


def test_what_cannot_be_evaluated_is_refused():
    agent = Agent(model="m", endpoint=ScriptedModel(["yes"]))
    with pytest.raises(ConfigError, match="'q' is no case"):
        run_virtual(evaluate(agent, ["q"]))
    with pytest.raises(ConfigError, match="concurrency is 0"):
        run_virtual(evaluate(agent, [Case("q", equals="yes")], concurrency=0))
    with pytest.raises(ConfigError, match="no outcomes to score"):
        score([])


def test_an_agent_without_a_router_stands_alone():
    model = ScriptedModel(["yes"])
    (named,) = candidates({"model": "m", "endpoint": model})
    assert named.route == "m"
    (declared,) = candidates({"model": Model(name="n", endpoint=model, price_in=1, price_out=1)})
    assert declared.route == "n"


@pytest.mark.parametrize("declared", ["name", "model", "router", "fallback"])
def test_each_case_is_asked_however_many_failed_before_it(declared):
    endpoint = ScriptedModel(lambda request: raw(b"{}", status=500))
    model = Model(name="m", endpoint=endpoint)
    arguments = {
        "name": {"model": "m", "endpoint": endpoint},
        "model": {"model": model},
        "router": {"model": Router(models={"m": model}, default="m")},
        "fallback": {"model": "first", "endpoint": endpoint, "fallback": [model]},
    }[declared]

    async def main():
        return [await evaluate(each.agent, [Case("q", equals="yes")] * 12) for each in candidates(arguments)]

    for outcomes in run_virtual(main()):
        assert {outcome.why.partition(":")[0] for outcome in outcomes} == {"Overloaded"}


USAGE = {"prompt_tokens": 10, "completion_tokens": 10}
BUSY = raw(b"{}", status=503)


def priced(name, replies, price):
    policy = Policy(retries=0, breaker=None)
    return Model(name=name, endpoint=ScriptedModel(replies), price_in=price, price_out=price, policy=policy)


@pytest.mark.parametrize(
    ("fast", "cost"),
    [
        ([say("yes", usage=USAGE)], 20),
        ([BUSY], 2000),  # what failed costs nothing
        ([say("", usage=USAGE)], 2020),  # what was not good enough does
    ],
)
@pytest.mark.parametrize("routed", [True, False])
def test_each_request_costs_what_its_model_costs(fast, cost, routed):
    """Also that of a fallback, and of a router whose models have all failed before it."""
    cheap, strong = priced("fast", fast, 1.0), priced("strong", [say("yes", usage=USAGE)], 100.0)
    model = Router(models={"fast": cheap}, default="fast") if routed else cheap

    async def main():
        last = candidates({"model": model, "fallback": [strong]})[-1]
        return await evaluate(last.agent, [Case("q", equals="yes")], route="fast", price=last.price)

    (outcome,) = run_virtual(main())
    assert (outcome.right, outcome.answered) == (True, "strong" if cost > 1000 else "fast")
    assert outcome.cost == pytest.approx(cost / 1e6)


def test_a_kept_answer_costs_nothing():
    async def main():
        model = priced("m", [say("yes", usage=USAGE)], 1.0)
        agent = Agent(model=model, answers=AnswerCache(ttl=60, scope="global"))
        return await evaluate(agent, [Case("q", equals="yes")] * 2, price=price_of([model]))

    assert [outcome.cost for outcome in run_virtual(main())] == [pytest.approx(20e-6), 0]


def test_a_model_without_a_price_makes_the_cost_unknown():
    async def main():
        strong = Model(name="strong", endpoint=ScriptedModel([say("yes", usage=USAGE)]))
        (only,) = candidates({"model": priced("fast", [BUSY], 1.0), "fallback": [strong]})
        return await evaluate(only.agent, [Case("q", equals="yes")], price=only.price)

    assert run_virtual(main())[0].cost is None


CASES = """
- prompt: Capital of France?
  contains: [Paris]
- prompt: Where is order 7?
  calls: [{name: order_status, arguments: {order_id: "7"}}]
"""


def test_cases_from_files(tmp_path):
    listed, lines = tmp_path / "cases.yaml", tmp_path / "cases.jsonl"
    listed.write_text(CASES)
    lines.write_text(
        '{"prompt":"Capital of France?","contains":["Paris"]}\n\n'
        '{"prompt":"Where is order 7?","calls":[{"name":"order_status","arguments":{"order_id":"7"}}]}\n'
    )
    assert load_cases(listed) == load_cases(lines)
    assert load_cases(listed)[1].calls == (ExpectedCall("order_status", {"order_id": "7"}),)


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("cases.yaml", "", "has to be a list of cases"),
        ("cases.yaml", "[]", "has no cases"),
        ("cases.yaml", "- [", r"yaml:1: not valid YAML: "),
        ("cases.yaml", "- prompt: a\n", "yaml:1: it does not say what is right"),
        ("cases.yaml", "- {prompt: a, equals: b}\n- {prompt: ' ', equals: b}", "yaml:2: its prompt is empty"),
        ("cases.yaml", "- {prompt: a, equal: b}", r"yaml:1: equal: unknown key; did you mean equals\?$"),
        ("cases.yaml", "- {prompt: a, contains: b}", "yaml:1: contains: expected a list, got text"),
        ("cases.yaml", "- prompt: a\n  equals: 42", "yaml:2: equals: expected text, got a whole number"),
        ("cases.yaml", "- prompt: a\n  calls:\n  - {}", r"yaml:2: calls\[0\]: missing key name"),
        ("cases.yaml", "- just a question", "yaml:1: a case has keys: prompt, equals, "),
        ("cases.yaml", "- {prompt: a, matches: '('}", "matches is no regular expression"),
        ("cases.json", '[{"prompt":"a"},\n{"prompt":1}]', r"json:1: it does not .*\n.*json:2: prompt: expected text"),
        ("cases.yaml", "- prompt: a\n  equals: 1\n  contain: b", r"yaml:2: equals: .*\n.*yaml:3: contain: unknown key"),
        ("cases.jsonl", '{"prompt":"a","equals":"b"}\n{', r"cases\.jsonl:2: not valid JSON"),
        (
            "cases.jsonl",
            '\n{"equals":"b"}\n{"prompt":1}',
            r"jsonl:2: missing key prompt.\n.*jsonl:3: prompt: expected text",
        ),
    ],
)
def test_files_that_are_wrong_say_where(tmp_path, name, text, sentence):
    (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError, match=sentence):
        load_cases(tmp_path / name)
