import pytest
from thinkers import FakeThinker, ask_of, router_of

from hotloop.errors import ConfigError
from hotloop.lab.virtual import run_virtual
from hotloop.models.routing.routed import RoutedThinker
from hotloop.models.routing.rules import Question, Rule


@pytest.mark.parametrize(
    ("rule", "fitting", "other"),
    [
        (Rule("x", pattern="refund|law"), {"prompt": "A REFUND, please"}, {"prompt": "where is it?"}),
        (Rule("x", pattern="[\u4e00-\u9fff]"), {"prompt": "订单 1"}, {"prompt": "order 1"}),
        (Rule("x", min_tokens=100), {"tokens": 100}, {"tokens": 99}),
        (Rule("x", max_tokens=100), {"tokens": 100}, {"tokens": 101}),
        (Rule("x", max_left=0.5), {"left": 0.4}, {"left": 0.5}),
        (Rule("x", max_left=0.5), {"left": 0.4}, {"left": None}),
        (Rule("x", background=True), {"background": True}, {"background": False}),
        (Rule("x", when=lambda question: question.turn > 0), {"turn": 1}, {"turn": 0}),
        (Rule("x", pattern="a", max_tokens=5), {"prompt": "a", "tokens": 5}, {"prompt": "a", "tokens": 6}),
    ],
)
def test_a_rule_is_about_what_it_says(rule, fitting, other):
    assert rule.fits(Question(**{"prompt": ""} | fitting))
    assert not rule.fits(Question(**{"prompt": ""} | other))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, "fits everything"),
        ({"pattern": "("}, "no regular expression"),
        ({"when": 3}, "give a function"),
        ({"pattern": 3}, "expected text"),
        ({"pattern": ""}, "expected some text"),
        ({"max_left": "2s"}, "expected a number"),
        ({"min_tokens": -1}, "expected a whole number >= 0"),
        ({"background": 1}, "expected true or false"),
        ({"min_tokens": 5, "max_tokens": 3}, "no more than 3"),
    ],
)
def test_a_rule_that_cannot_be_is_refused(options, sentence):
    with pytest.raises(ConfigError, match=sentence):
        Rule("x", **options)


def test_the_first_rule_that_fits_decides():
    rules = [Rule("b", pattern="one"), Rule("c", pattern="one|two")]
    router = router_of("a", "b", "c", rules=rules)

    async def main():
        chosen = []
        for prompt in ("one", "two", "three"):
            ask, _ = ask_of(prompt)
            thinkers = {name: FakeThinker(name) for name in router.models}
            reply = await RoutedThinker(router, thinkers).think(ask)
            facts = ask.ledger.facts["routes"]
            chosen.append((reply.text, [(each.turn, each.route, each.why) for each in facts]))
        return chosen

    assert run_virtual(main()) == [
        ("b", [(0, "b", "rule 1")]),
        ("c", [(0, "c", "rule 2")]),
        ("a", [(0, "a", "default")]),
    ]


def test_a_rule_sees_the_request():
    seen = []
    router = router_of("a", "b", rules=[Rule("b", when=lambda question: seen.append(question) or True)])

    async def main():
        ask, _ = ask_of("x" * 372, left=2.0, session="s", background=True, tools=False)
        await RoutedThinker(router, {"a": FakeThinker("a"), "b": FakeThinker("b")}).think(ask)

    run_virtual(main())
    assert seen == [Question(prompt="x" * 372, turn=0, tokens=100, tools=False, left=2.0, session="s", background=True)]
