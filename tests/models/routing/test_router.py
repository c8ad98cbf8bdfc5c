import asyncio

import pytest
from thinkers import FakeThinker, ask_of, reply_of, router_of

from hotloop.errors import ConfigError, Overloaded, ReplyTimeout
from hotloop.events import ReplyFinished, Reset, TextDelta
from hotloop.lab.virtual import run_virtual
from hotloop.models.reply import Call
from hotloop.models.routing.classifier import RouteClassifier
from hotloop.models.routing.routed import RoutedThinker
from hotloop.models.routing.router import Cascade, Router
from hotloop.models.routing.rules import Rule
from hotloop.trace.ledger import Usage

DONE = ReplyFinished("stop", 0)


def think(router, thinkers, turns=1, **options):
    """Replies of so many turns of one run, its ledger, and what its reader was told."""

    async def main():
        ask, told = ask_of(**options)
        thinker = RoutedThinker(router, thinkers)
        replies = []
        for turn in range(turns):
            ask.ledger.turn = turn
            replies.append(await thinker.think(ask))
        return replies, ask.ledger, told

    return run_virtual(main())


def tried(ledger):
    return [(each.route, each.outcome, each.reason) for facts in ledger.facts["routes"] for each in facts.tried]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"default": "c"}, "no model 'c'; there are a, b"),
        ({"rules": [Rule("aa", pattern="x")]}, "no model 'aa'"),
        (
            {"classifier": RouteClassifier(routes=("a", "z"), bias=(0, 0), weights={})},
            "learned a route 'z', which is none of its models: a, b",
        ),
        ({"per": "day"}, r'Router\(per=...\): expected "request" or "turn"'),
        ({"default": 3}, r"Router\(default=...\): expected text"),
        ({"rules": Rule("a", pattern="x")}, "give a list of Rule"),
        ({"rules": [("a", "x")]}, "give a list of Rule"),
        ({"classifier": "routes.json"}, "make it with RouteClassifier"),
        ({"cascade": True}, "make it with Cascade"),
    ],
)
def test_names_that_are_no_routes_are_refused(options, sentence):
    with pytest.raises(ConfigError, match=sentence):
        router_of("a", "b", **options)


def test_a_router_without_models_is_refused():
    with pytest.raises(ConfigError, match="needs models by name"):
        Router(models={}, default="a")
    with pytest.raises(ConfigError, match="needs models by name"):
        Router(models={"a": "gpt"}, default="a")
    with pytest.raises(ConfigError, match="needs models by name"):
        Router(models=["a"], default="a")


def test_confidence_is_asked_for_where_it_may_matter():
    names = ("a", "b", "c")
    assert [router_of(*names, cascade=Cascade(confidence=0.5)).scored(name) for name in names] == [True, True, False]
    assert not any(router_of(*names, cascade=Cascade()).scored(name) for name in names)


@pytest.mark.parametrize(
    "options", [{"confidence": 1.5}, {"confidence": 0}, {"confidence": "x"}, {"reject": None}, {"reject": len}]
)
def test_a_cascade_that_cannot_be_is_refused(options):
    with pytest.raises(ConfigError, match=rf"Cascade\({next(iter(options))}="):
        Cascade(**options)


def test_a_run_stays_with_the_model_that_answered_first():
    router = router_of("fast", "strong", cascade=Cascade())
    thinkers = {"fast": FakeThinker(""), "strong": FakeThinker("yes")}
    replies, ledger, _ = think(router, thinkers, turns=3)
    assert [each.text for each in replies] == ["yes"] * 3
    assert len(thinkers["fast"].whys) == 1
    assert [each.why for each in ledger.facts["routes"]] == ["default", "the run is with it", "the run is with it"]


def test_each_turn_can_be_decided_anew():
    rules = [Rule("strong", when=lambda question: question.turn == 0)]
    router = router_of("fast", "strong", rules=rules, per="turn")
    replies, _, _ = think(router, {name: FakeThinker(name) for name in router.models}, turns=3)
    assert [each.text for each in replies] == ["strong", "fast", "fast"]


def test_a_good_reply_is_taken_and_told_once():
    thinkers = {"fast": FakeThinker("yes"), "strong": FakeThinker("no")}
    (reply,), ledger, told = think(router_of("fast", "strong", cascade=Cascade()), thinkers)
    assert (reply.text, told) == ("yes", [TextDelta("yes"), DONE])
    assert thinkers["strong"].whys == []
    assert tried(ledger) == [("fast", "ok", "")]


def _bad_call(reply):
    return "amount is missing" if reply.calls else ""


@pytest.mark.parametrize(
    ("fast", "cascade", "options", "reason"),
    [
        ("", Cascade(), {}, "the answer is empty"),
        ("I cannot do that.", Cascade(), {}, "it refuses to help"),
        ("Answer: 3", Cascade(reject=[lambda reply: "no unit" * ("3" in reply.text)]), {}, "no unit"),
        (reply_of("", calls=[Call("pay", "{}")]), Cascade(), {"check": _bad_call}, "amount is missing"),
        (
            reply_of("maybe", confidence=0.42),
            Cascade(confidence=0.6),
            {},
            "the model was 42% sure, less than 60%",
        ),
    ],
)
def test_a_reply_that_does_not_do_is_taken_back(fast, cascade, options, reason):
    fast = reply_of(fast) if isinstance(fast, str) else fast
    thinkers = {"fast": FakeThinker(fast), "strong": FakeThinker("yes")}
    (reply,), ledger, told = think(router_of("fast", "strong", cascade=cascade), thinkers, **options)
    assert reply.text == "yes"
    assert told == [TextDelta(fast.text), Reset(reason), TextDelta("yes"), DONE]
    assert tried(ledger) == [("fast", "rejected", reason), ("strong", "ok", "")]
    assert [(each.why, each.outcome, each.reason) for each in ledger.attempts] == [
        ("first", "rejected", reason),
        ("escalation", "ok", ""),
    ]
    assert ledger.attempts[0].usage == Usage(10, 10)
    assert len(ledger.turns) == 1


@pytest.mark.parametrize("confidence", [None, 0.6])
def test_confidence_that_is_unknown_or_enough_does_not_matter(confidence):
    thinkers = {"fast": FakeThinker(reply_of("yes", confidence=confidence)), "strong": FakeThinker("no")}
    (reply,), _, _ = think(router_of("fast", "strong", cascade=Cascade(confidence=0.6)), thinkers)
    assert reply.text == "yes"


def test_a_failure_escalates_and_the_last_one_is_raised():
    router = router_of("fast", "strong", cascade=Cascade())
    busy = Overloaded("no capacity")
    (reply,), ledger, told = think(router, {"fast": FakeThinker(busy), "strong": FakeThinker("yes")})
    assert (reply.text, told) == ("yes", [TextDelta("half"), Reset("no capacity"), TextDelta("yes"), DONE])
    assert tried(ledger) == [("fast", "failed", "no capacity"), ("strong", "ok", "")]
    with pytest.raises(ReplyTimeout):
        think(router, {"fast": FakeThinker(busy), "strong": FakeThinker(ReplyTimeout("too late"))})


CALL = reply_of("", calls=[Call("pay", "{}")])


@pytest.mark.parametrize(
    ("fast", "cascade", "options", "reason"),
    [
        (reply_of("maybe", confidence=0.4), Cascade(confidence=0.6), {}, "the model was 40% sure, less than 60%"),
        (reply_of("3"), Cascade(reject=[lambda reply: "no unit" * ("km" not in reply.text)]), {}, "no unit"),
        (reply_of("I cannot do that."), Cascade(), {}, "it refuses to help"),
        (CALL, Cascade(), {"check": _bad_call}, "amount is missing"),
    ],
)
@pytest.mark.parametrize("strong", [[Overloaded("busy")], [""]], ids=["fails", "says nothing"])
def test_a_reply_is_not_lost_when_the_stronger_ones_have_none(fast, cascade, options, reason, strong):
    thinkers = {"fast": FakeThinker(fast), "strong": FakeThinker(*strong)}
    (reply,), ledger, told = think(router_of("fast", "strong", cascade=cascade), thinkers, **options)
    assert reply == fast
    assert [event for event in told if isinstance(event, ReplyFinished)] == [ReplyFinished("stop", len(fast.calls))]
    last_reset = max(place for place, event in enumerate(told) if isinstance(event, Reset))
    assert told[last_reset + 1 :] == [TextDelta(fast.text), ReplyFinished("stop", len(fast.calls))]
    assert tried(ledger)[0] == ("fast", "kept", reason)
    assert (ledger.attempts[0].outcome, ledger.attempts[0].reason) == ("ok", reason)
    assert [facts.usage for facts in ledger.turns] == [fast.usage]
    assert ledger.facts["routes"][0].answered.route == "fast"


def test_the_run_stays_with_the_model_whose_reply_was_taken_after_all():
    thinkers = {"fast": FakeThinker(reply_of("maybe", confidence=0.4)), "strong": FakeThinker(Overloaded("busy"))}
    _, ledger, _ = think(router_of("fast", "strong", cascade=Cascade(confidence=0.6)), thinkers, turns=2)
    assert [facts.route for facts in ledger.facts["routes"]] == ["fast", "fast"]


@pytest.mark.parametrize(("replies", "taken"), [(("s", "m"), "m"), (("s", ""), "s"), (("s", Overloaded("busy")), "s")])
def test_of_several_replies_the_newest_that_can_be_used_is_taken(replies, taken):
    doubt = Cascade(reject=[lambda reply: "no" if reply.text != "yes" else ""])
    thinkers = {name: FakeThinker(each) for name, each in zip("sm", replies, strict=True)}
    router = router_of("s", "m", "l", cascade=doubt)
    (reply,), _, _ = think(router, thinkers | {"l": FakeThinker(ReplyTimeout("late"))})
    assert reply.text == taken


def test_what_is_wrong_with_the_last_reply_is_said():
    cascade = Cascade(reject=[lambda reply: "no unit" * ("km" not in reply.text)])
    _, ledger, _ = think(
        router_of("fast", "strong", cascade=cascade), {"fast": FakeThinker("3"), "strong": FakeThinker("4")}
    )
    assert tried(ledger)[-1] == ("strong", "ok", "no unit")
    assert [(each.outcome, each.reason) for each in ledger.attempts] == [("rejected", "no unit"), ("ok", "no unit")]


def test_without_a_cascade_nothing_escalates():
    (reply,), _, _ = think(router_of("fast", "strong"), {"fast": FakeThinker(""), "strong": FakeThinker("yes")})
    assert reply.text == ""
    with pytest.raises(Overloaded):
        think(router_of("fast", "strong"), {"fast": FakeThinker(Overloaded("busy")), "strong": FakeThinker("yes")})


def test_it_goes_up_one_model_after_the_other():
    router = router_of("s", "m", "l", cascade=Cascade())
    thinkers = {"s": FakeThinker(""), "m": FakeThinker(""), "l": FakeThinker("")}
    (reply,), ledger, _ = think(router, thinkers)
    assert reply.text == ""  # nobody is left to do better
    assert [outcome for _, outcome, _ in tried(ledger)] == ["rejected", "rejected", "ok"]


def test_it_begins_where_the_rules_say():
    router = router_of("s", "m", "l", default="m", cascade=Cascade())
    thinkers = {"s": FakeThinker("s"), "m": FakeThinker(""), "l": FakeThinker("l")}
    (reply,), _, _ = think(router, thinkers)
    assert (reply.text, thinkers["s"].whys) == ("l", [])


@pytest.mark.parametrize(("left", "answer"), [(1.5, "yes"), (1.2, "")])
def test_it_escalates_only_while_the_stronger_one_has_time(left, answer):
    """The strong model takes a second, the fast one 0.2; the router has seen that in an earlier run."""
    router = router_of("fast", "strong", cascade=Cascade())
    thinkers = {"fast": FakeThinker("", seconds=0.2), "strong": FakeThinker("yes", seconds=1.0)}

    async def main():
        thinker = RoutedThinker(router, thinkers)
        first, _ = ask_of()
        await thinker.think(first)
        ask, told = ask_of(left=left)
        return await thinker.think(ask), ask.ledger, told

    reply, ledger, told = run_virtual(main())
    assert reply.text == answer
    assert tried(ledger)[0] == ("fast", "rejected" if answer else "kept", "the answer is empty")
    assert told[-1] == DONE


def test_agents_with_the_same_models_share_what_is_known_of_their_times():
    one = router_of("fast", "strong", cascade=Cascade())
    other = Router(models=one.models, default="fast", cascade=Cascade())
    thinkers = {"fast": FakeThinker("", seconds=0.2), "strong": FakeThinker("yes", seconds=1.0)}

    async def main():
        first, _ = ask_of()
        await RoutedThinker(one, thinkers).think(first)
        hurried, _ = ask_of(left=1.1)
        return await RoutedThinker(other, thinkers).think(hurried), len(thinkers["strong"].whys)

    assert run_virtual(main())[1] == 1


def test_a_model_that_is_cut_by_the_deadline_is_not_asked_in_vain_for_ever():
    """The time that is left differs a little from run to run; after five minutes it is tried once more."""
    fast, strong = FakeThinker("maybe", seconds=0.1), FakeThinker(ReplyTimeout("the run's time is over"), seconds=0.9)
    router = router_of("fast", "strong", cascade=Cascade(reject=[lambda reply: "doubt"]))
    thinkers = {"fast": fast, "strong": strong}

    async def main():
        asked = []
        for spare in (0.0, 0.02, 0.05, 0.1):
            ask, _ = ask_of(left=1.0 + spare)
            strong.seconds = 0.9 + spare
            await RoutedThinker(router, thinkers).think(ask)
            asked.append(len(strong.whys))
        await asyncio.sleep(300)
        await RoutedThinker(router, thinkers).think(ask_of(left=1.0)[0])
        return asked, len(strong.whys)

    assert run_virtual(main()) == ([1, 1, 1, 1], 2)


def test_a_failure_without_time_for_another_is_raised():
    router = router_of("fast", "strong", cascade=Cascade())
    thinkers = {"fast": FakeThinker(Overloaded("busy"), seconds=0.5), "strong": FakeThinker("yes")}
    with pytest.raises(Overloaded):
        think(router, thinkers, left=0.5)


def test_calls_begun_for_a_rejected_reply_are_discarded():
    class Listener:
        discarded = 0

        async def discard(self):
            self.discarded += 1

    listener = Listener()
    thinkers = {"fast": FakeThinker(""), "strong": FakeThinker("yes")}
    think(router_of("fast", "strong", cascade=Cascade()), thinkers, listener=listener)
    assert listener.discarded == 1
