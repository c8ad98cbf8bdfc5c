import asyncio
import functools

import numpy as np
import pytest

from hotloop.answers.cache import AnswerCache
from hotloop.answers.fitness import maker_of
from hotloop.errors import ConfigError
from hotloop.lab.virtual import run_virtual
from hotloop.trace.ledger import AttemptFacts, CallFacts, Ledger, TurnFacts
from hotloop.units import clock

SECOND = 1_000_000_000


def spelled(texts):
    """An embedding by letters: questions of the same letters are alike."""
    return [np.array([text.lower().count(letter) for letter in "abcdefghijklmnopqrstuvwxyz"], float) for text in texts]


async def ask(cache, question, *, answer="42", maker="m", user="ann", took=0.3, finish="stop", edit=None, harmless=()):
    """The kept answer and the ledger; a question without one gets `answer` after `took` seconds, and why it is lost."""
    ledger = Ledger(clock(), "req-1")
    asked = await cache.lookup(question, maker, user, ledger)
    if asked.text is not None:
        return asked.text, ledger
    await asyncio.sleep(took)
    if edit:
        edit(ledger)
    cache.store(asked, answer, finish, ledger, harmless)
    return ledger.facts.get("answer_not_kept", ""), ledger


def test_the_same_question_is_answered_at_once():
    async def main():
        cache = AnswerCache(ttl=60)
        assert (await ask(cache, "Where is it?"))[0] == ""
        text, ledger = await ask(cache, "where is it？")
        return text, ledger, cache

    text, ledger, cache = run_virtual(main())
    assert text == "42"
    assert [(stage.kind, stage.note) for stage in ledger.stages] == [("cache", "kept answer")]
    facts = ledger.facts["answer"]
    assert (facts.asked, facts.similarity, facts.saved_ms) == ("Where is it?", 1.0, 300.0)
    assert (cache.hits, cache.misses, cache.reworded, cache.saved_ms) == (1, 1, 0, 300.0)


@pytest.mark.parametrize(
    ("scope", "first", "second", "found"),
    [
        ("user", {}, {}, True),
        ("user", {}, {"user": "bob"}, False),
        ("user", {"user": ""}, {"user": ""}, False),
        ("global", {}, {"user": "bob"}, True),
        ("global", {"user": ""}, {"user": ""}, True),
        ("global", {}, {"maker": "another"}, False),
    ],
)
def test_whose_answer_it_is(scope, first, second, found):
    async def main():
        cache = AnswerCache(ttl=60, scope=scope, embed=spelled)
        await ask(cache, "Where is it?", **first)
        return (await ask(cache, "Where is it?", **second))[0]

    assert (run_virtual(main()) == "42") == found


def test_what_makes_an_answer_has_a_fingerprint():
    made = maker_of("model", b"instructions", ["tool"], {"grant": 1})
    assert made == maker_of("model", b"instructions", ["tool"], {"grant": 1})
    assert len({made, maker_of("model", b"instructions", ["tool"]), maker_of("model2"), maker_of("model", "2")}) == 4


def test_answers_get_old():
    async def main():
        cache = AnswerCache(ttl=10, embed=spelled)
        await ask(cache, "Where is it?")
        await asyncio.sleep(9.99)
        assert (await ask(cache, "Where is it?"))[0] == "42"
        await asyncio.sleep(0.01)
        assert (await ask(cache, "Where is it?"))[0] == ""
        return cache

    cache = run_virtual(main())
    assert (cache.hits, cache.misses) == (1, 2)


def test_the_least_recently_used_goes_first():
    async def main():
        cache = AnswerCache(ttl=60, size=2, embed=spelled)
        for question in ("a", "bb", "a", "ccc"):
            await ask(cache, question)
        return [(await cache.lookup(each, "m", "ann", Ledger(clock(), "r"))).text for each in ("a", "bb", "ccc")], cache

    kept, cache = run_virtual(main())
    assert kept == ["42", None, "42"]
    assert cache.dropped == 1


def test_answers_take_no_more_than_their_bytes(monkeypatch):
    monkeypatch.setattr("hotloop.answers.cache._BYTES", 100_000)

    async def main():
        cache = AnswerCache(ttl=60)
        for question in ("a", "bb", "a", "ccc"):
            await ask(cache, question, answer="x" * 12_000)
        why, _ = await ask(cache, "q" * 10_000)
        return [(await cache.lookup(each, "m", "ann", Ledger(clock(), "r"))).text for each in ("a", "bb", "ccc")], why

    kept, why = run_virtual(main())
    assert [text is not None for text in kept] == [True, False, True]
    assert why == "its question is too long"


def _called(name, outcome):
    return lambda ledger: ledger.turns.append(TurnFacts(0, calls=[CallFacts("c1", name, outcome)]))


def _doubted(ledger):
    ledger.attempts.append(AttemptFacts(0, "service", "fast", "first", 0, 1, "ok", reason="42% sure"))


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"answer": " "}, "it is empty"),
        ({"answer": "x" * 70_000}, "it is too long"),
        ({"finish": "length"}, "it ended with length"),
        ({"edit": _called("pay", "ok")}, "pay may have had effects, or needed an approval"),
        ({"edit": _called("look", "error"), "harmless": {"look"}}, "look ended with error"),
        ({"edit": _called("look", "fallback"), "harmless": {"look"}}, "look ended with fallback"),
        ({"edit": lambda ledger: ledger.facts.update(stopped="no turns left")}, "the run was cut short"),
        ({"edit": _doubted}, "it was not good enough: 42% sure"),
        ({"user": ""}, "the run names no user whose it is"),
    ],
)
def test_an_answer_that_came_from_more_than_the_question_is_not_kept(options, why):
    async def main():
        cache = AnswerCache(ttl=60)
        assert (await ask(cache, "Where is it?", **options))[0] == why
        return (await ask(cache, "Where is it?"))[0]

    assert run_virtual(main()) == ""


def test_a_cache_that_nobody_can_use_warns_until_somebody_can():
    async def main():
        cache = AnswerCache(ttl=60)
        return [(await ask(cache, "q", user=user))[1].facts.get("warnings") for user in ("", "", "ann", "")]

    first, second, named, later = run_virtual(main())
    assert (
        first
        == second
        == ['No answer is ever kept: no run names its user. Give run(..., user=...), or AnswerCache(scope="global").']
    )
    assert named is later is None


@pytest.mark.parametrize("outcome", ["ok", "cached", "joined"])
def test_an_answer_from_harmless_tools_is_kept(outcome):
    async def main():
        return (await ask(AnswerCache(ttl=60), "q", edit=_called("look", outcome), harmless={"look"}))[0]

    assert run_virtual(main()) == ""


def test_a_question_in_other_words_is_found_if_it_means_the_same():
    async def main():
        cache = AnswerCache(ttl=60, embed=spelled, similarity=0.9)
        await ask(cache, "Where is order 12?", answer="the answer")
        other, ledger = await ask(cache, "Where is the order 12, please?", took=0)
        number, _ = await ask(cache, "Where is order 21?")
        negated, _ = await ask(cache, "Where isn't order 12?")
        return other, ledger, number, negated, cache

    other, ledger, number, negated, cache = run_virtual(main())
    assert (other, number, negated) == ("the answer", "", "")
    assert ledger.facts["answer"].asked == "Where is order 12?"
    assert 0.9 <= ledger.facts["answer"].similarity < 1
    assert (cache.hits, cache.reworded, cache.misses) == (1, 1, 3)


def test_similarity_has_to_reach_its_bound():
    def angled(texts):
        return [[1, 0] if texts == ["an answer"] else [0.85, 0.527]]

    async def main():
        found = []
        for similarity in (0.8, 0.9):
            cache = AnswerCache(ttl=60, embed=angled, similarity=similarity)
            await ask(cache, "an answer")
            found.append((await ask(cache, "the answer"))[0])
        return found

    assert run_virtual(main()) == ["42", ""]


def test_long_questions_are_not_meant_by_others():
    async def main():
        cache = AnswerCache(ttl=60, embed=spelled, similarity=0.5)
        await ask(cache, "a" * 301)
        return (await ask(cache, "a" * 302))[0]

    assert run_virtual(main()) == ""


def test_an_embedding_that_fails_leaves_the_words(caplog):
    def broken(texts):
        raise OSError("no network")

    async def main():
        cache = AnswerCache(ttl=60, embed=broken)
        await ask(cache, "Where is it?")
        return (await ask(cache, "where is it"))[0]

    assert run_virtual(main()) == "42"
    assert "only its own words count" in caplog.text


@pytest.mark.parametrize("later", [[1.0, 0.0], [1.0, 0.0, 0.0, 0.0], [[1.0, 0.0, 0.0]], [], [float("nan"), 0.0, 0.0]])
def test_vectors_of_another_form_leave_the_words(later, caplog):
    vectors = {"an answer": [1.0, 0.0, 0.0], "the answer": later}

    async def main():
        cache = AnswerCache(ttl=60, embed=lambda texts: [vectors[text] for text in texts])
        await ask(cache, "an answer")
        return (await ask(cache, "the answer"))[0], (await ask(cache, "the answer"))[0]

    assert run_virtual(main()) == ("", "42")
    assert "a vector of 3 finite numbers was expected" in caplog.text


async def _later(texts):
    return texts


class _Later:
    async def __call__(self, texts):
        return texts


@pytest.mark.parametrize("embed", [_later, _Later(), functools.partial(_later)])
def test_an_embedding_that_would_have_to_be_awaited_is_refused(embed):
    with pytest.raises(ConfigError, match="none that is async"):
        AnswerCache(ttl=60, embed=embed)


@pytest.mark.parametrize(
    "options",
    [
        {"ttl": 0},
        {"ttl": float("inf")},
        {"ttl": "60"},
        {"size": 0},
        {"size": 1.5},
        {"similarity": "x"},
        {"scope": "team"},
        {"embed": "cloud"},
        {"similarity": 1.1},
    ],
)
def test_options_that_cannot_be_are_refused(options):
    with pytest.raises(ConfigError, match=next(iter(options))):
        AnswerCache(**{"ttl": 60} | options)
