"""What runs teach: which patterns are believed and how far, what is written down of them, and for how long."""

from __future__ import annotations

import json
import threading
from itertools import count
from random import Random

import pytest

from hotloop.errors import ConfigError
from hotloop.tools.prefetch import stored
from hotloop.tools.prefetch.history import Ahead, History, history_of
from hotloop.tools.prefetch.kept import Allowance, Learned, learned_at
from hotloop.tools.prefetch.learning import PROVEN
from hotloop.tools.prefetch.past import Past, Seen
from hotloop.tools.prefetch.patterns import Counts, wilson
from hotloop.tools.prefetch.payoff import Payoff, pays
from hotloop.trace.ledger import CallFacts, ToolFacts, TurnFacts
from hotloop.trace.record import Said, TraceRecord

DAY = 86_400.0
_runs = count()


def history(prompt: str, *turns: list[Seen], agent: str = "shop", whose: str = "", at: float = 0.0, **more) -> History:
    """A run that ended with an answer."""
    run = f"run-{next(_runs)}"
    return History(run, agent, whose or run, at, prompt, [*turns, []], **more)


def call(tool: str, result: object = "done", read_only: bool = True, failed: bool = False, **arguments: object) -> Seen:
    content = result if isinstance(result, str) else json.dumps(result)
    return Seen(tool, arguments, content, failed, read_only)


def lookups(number: int, **more) -> History:
    """A run of a user of its own: find the user, then the user's first order."""
    user = {"id": f"u-{number}", "orders": [f"o-{number}-1", f"o-{number}-2"]}
    return history(
        f"Orders of customer {1000 + number}, please",
        [call("find", user, number=str(1000 + number))],
        [call("order", {"status": "sent"}, order=f"o-{number}-1")],
        **more,
    )


@pytest.fixture
def learned(tmp_path) -> Learned:
    return Learned(tmp_path / "prefetch.db")


def expected(learned: Learned, past: Past, least: float = 0.5, now: float = 0.0) -> list[tuple[str, dict]]:
    return [(each.known.pattern.tool, each.arguments) for each in learned.expected("shop", past, least, now)]


# Belief


def test_a_pattern_is_believed_after_some_runs(learned):
    past = Past("Orders of customer 4711, please", [])
    for number in range(PROVEN):
        assert not learned.knows("shop") and expected(learned, past) == []
        learned.learn([lookups(number)])
    assert expected(learned, past, least=0.7) == []
    assert expected(learned, past, least=0.5)[0] == ("find", {"number": "4711"})
    learned.learn([lookups(number) for number in range(10, 20)])
    assert expected(learned, past, least=0.85)[0] == ("find", {"number": "4711"})


def test_what_comes_next_is_filled_in_from_what_has_come(learned):
    learned.learn([lookups(number) for number in range(8)])
    past = Past("Orders of customer 4711, please", [[call("find", {"id": "x", "orders": ["A", "B"]}, number="4711")]])
    assert expected(learned, past) == [("order", {"order": "A"})] * 2  # as the next new one, and as the first
    past.turns.append([call("order", order="A")])
    assert expected(learned, past) == []


@pytest.mark.parametrize(("hits", "chances", "bound"), [(0, 0, 0.0), (3, 3, 0.646), (8, 10, 0.602), (80, 100, 0.744)])
def test_confidence_is_a_lower_bound(hits, chances, bound):
    assert wilson(hits, chances) == pytest.approx(bound, abs=0.001)


def test_the_run_that_shows_a_pattern_first_is_no_evidence_and_an_answer_instead_counts_against_it(learned):
    ask = "Is 4711 there?"
    learned.learn([history(ask, [call("look", number="4711")]) for _ in range(5)])
    learned.learn([history(ask) for _ in range(2)])
    (known, *_) = [each for each in learned.known("shop") if each.context == "^"]
    assert (known.counts.hits, known.counts.chances) == (4, 6)


def test_a_call_that_changes_something_is_never_expected(learned):
    learned.learn(
        [history(f"Cancel {number}", [call("cancel", read_only=False, order=str(number))]) for number in range(9)]
    )
    assert learned.known() == []


def test_a_failure_is_another_past(learned):
    def lost(number: int) -> History:
        return history(
            f"Where is {number}?",
            [call("by_mail", failed=True, mail="a")],
            [call("by_name", name=str(number))],
        )

    learned.learn([lost(number) for number in range(100, 106)])
    found = Past("Where is 200?", [[call("by_mail", mail="a")]])
    assert expected(learned, found) == []
    found.turns[0][0].failed = True
    assert ("by_name", {"name": "200"}) in expected(learned, found)


def test_old_patterns_fade(learned):
    learned.learn([lookups(number, at=DAY) for number in range(12)])
    past = Past("Orders of customer 4711, please", [])
    assert expected(learned, past, 0.8, now=2 * DAY)
    assert not expected(learned, past, 0.8, now=60 * DAY)


def test_what_is_no_longer_so_is_soon_believed_no_longer():
    counts = Counts()
    for _ in range(5_000):
        counts.chance(True, 0.0)
    assert counts.chances <= 129
    for _ in range(100):
        counts.chance(False, 0.0)
    assert counts.confidence(0.0) < 0.6


def test_a_context_keeps_a_bounded_number_of_patterns(learned):
    learned.learn([history("x", [call(f"tool_{number}", key=None)]) for number in range(300) for _ in range(PROVEN)])
    assert len(learned.known("shop")) <= 64
    assert "tool_299" in {each.pattern.tool for each in learned.known("shop")}


# What is written down


def written(learned: Learned) -> bytes:
    learned.close()
    return b"".join(path.read_bytes() for path in learned.path.parent.glob("prefetch.db*"))


def test_no_value_of_a_prompt_or_a_result_is_ever_written(learned):
    for number in range(12):
        secret = f"Ottilie-{number}"
        learned.learn(
            [
                history(
                    f"I am {secret} of Kleinkleckersdorf, code 90{number:03}",
                    [call("find", {"mail": f"{secret}@mail.example", "ids": [f"id{number}x"]}, name=secret)],
                    [call("get", {"note": "gehe-heim"}, mail=f"{secret}@mail.example", code=f"90{number:03}")],
                    [call("more", "bye-bye", note="gehe-heim", key=f"id{number}x")],
                    whose=f"person-{number}",
                )
            ]
        )
    assert {each.pattern.tool for each in learned.known()} == {"find", "get", "more"}
    content = written(learned)
    for value in (
        b"Ottilie",
        b"Kleinkleckersdorf",
        b"mail.example",
        b"90003",
        b"gehe-heim",
        b"bye-bye",
        b"id3x",
        b"person",
    ):
        assert value not in content, value


@pytest.mark.parametrize(
    ("people", "value", "kept"),
    [(6, "celsius", True), (1, "celsius", False), (1, True, True), (2, "celsius", False)],
)
def test_a_constant_is_written_only_if_it_is_that_of_several_people(learned, people, value, kept):
    runs = [history("x", [call("weather", unit=value)], whose=f"person-{number % people}") for number in range(8)]
    learned.learn(runs)
    assert bool(learned.known()) is kept
    assert (b"celsius" in written(learned)) is (kept and value == "celsius")


def test_names_that_a_model_makes_up_are_kept_nowhere():
    record = recorded([("made_up_by_ann", {"key": "k"}, "error")], tools=("look",))
    found = history_of(record)
    assert found is not None and [each.tool for each in found.turns[0]] == ["?"]


# Files and processes


def test_it_is_there_after_a_restart_and_for_whoever_uses_the_file(learned):
    learned.learn([lookups(number) for number in range(4)])
    other = Learned(learned.path)
    other.learn([lookups(number) for number in range(4, 8)])
    counts = {each.name: each.counts.chances for each in Learned(learned.path).known("shop") if each.context == "^"}
    assert set(counts.values()) == {7.0}
    assert learned_at(learned.path) is learned_at(str(learned.path))


def test_two_that_learn_at_the_same_time_lose_nothing(tmp_path):
    both = [Learned(tmp_path / "prefetch.db") for _ in range(2)]
    threads = [
        threading.Thread(target=lambda each=each, start=start: [each.learn([lookups(start + n)]) for n in range(20)])
        for start, each in enumerate(both)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    known = Learned(tmp_path / "prefetch.db").known()
    assert max(each.counts.chances for each in known) >= 37  # each begins to count with the first that it sees itself


def test_no_run_is_learned_from_twice(learned):
    runs = [lookups(number) for number in range(6)]
    assert (learned.learn(runs), learned.learn(runs)) == (6, 0)


def test_forgetting(learned):
    learned.learn([lookups(number) for number in range(6)])
    learned.learn([lookups(number, agent="desk") for number in range(6)])
    assert learned.forget("shop") > 0
    assert not learned.knows("shop") and learned.knows("desk")
    assert learned.forget() > 0 and Learned(learned.path).known() == []


def test_a_file_holds_so_much_and_forgets_the_oldest(learned, monkeypatch):
    monkeypatch.setitem(stored._MOST, "patterns", 200)
    for number in range(60):
        learned.learn(
            [lookups(1000 * number + run, agent=f"agent-{number}", at=float(number)) for run in range(PROVEN)]
        )
    known = learned.known()
    assert len(known) <= 200 and {each.agent for each in known} <= {f"agent-{number}" for number in range(30, 60)}
    assert learned.knows("agent-59") and not learned.knows("agent-0")


def test_a_file_that_is_none_is_told(tmp_path):
    (tmp_path / "other.db").write_text("no database at all, but long enough to be looked at as one")
    with pytest.raises(ConfigError, match="learned calls cannot be kept in"):
        Learned(tmp_path / "other.db")


# Records


def recorded(
    *turns: list[tuple[str, dict, str]], tools=("find", "order"), outcome="ok", text=True, **more
) -> TraceRecord:
    """A record of a run with an answer, with what was said in it or without."""
    ids = count()
    facts, said = [], {}
    for number, calls in enumerate(turns):
        named = [(f"c{next(ids)}", *call) for call in calls]
        facts.append(TurnFacts(number, calls=[CallFacts(call_id, name, how) for call_id, name, _, how in named]))
        said |= {
            call_id: Said(text=json.dumps(arguments) if text else None, result='{"a": 1}')
            for call_id, _, arguments, _ in named
        }
    facts.append(TurnFacts(len(turns)))
    prompt = Said(text="Orders of 1001" if text else None)
    known = {name: ToolFacts(read_only=name != "cancel") for name in tools}
    run = {"trace_id": f"run-{next(_runs)}", "name": "shop", "start": 0, "end": 1, "outcome": outcome}
    return TraceRecord(**run, turns=facts, said=said, prompt=prompt, tools=known, **more)


def test_a_record_with_what_was_said_teaches_what_the_run_did(learned):
    learned.export([recorded([("find", {"number": "1001"}, "ok")]) for _ in range(6)])
    assert expected(learned, Past("Orders of 1234", []))[0] == ("find", {"number": "1234"})
    learned.export([recorded([("order", {"number": "1001"}, "ok")], text=False) for _ in range(6)])
    assert {each.pattern.tool for each in learned.known()} == {"find"}


@pytest.mark.parametrize(("outcome", "turns"), [("ok", 2), ("cancelled", 1), ("failed", 1)])
def test_a_run_that_broke_off_tells_nothing_of_the_turn_in_which_it_did(outcome, turns):
    found = history_of(recorded([("find", {"number": "1001"}, "ok")], outcome=outcome))
    assert found is not None and len(found.turns) == turns


@pytest.mark.parametrize(
    ("how", "failed"), [("prefetched", False), ("cached", False), ("error", True), ("refused", True)]
)
def test_what_came_of_a_call(how, failed):
    found = history_of(recorded([("find", {}, how)]))
    assert found is not None and found.turns[0][0].failed is failed


def test_learning_from_runs_as_they_end_takes_a_bounded_time():
    allowance = Allowance(0.0, 0.0)
    with allowance as some:
        assert not some
    with Allowance(0.0, 1.0) as some:
        assert some


# What it brings


def ahead(used: bool, name: str, won: float = 0.0, took: float = 100.0) -> Ahead:
    return Ahead("ahead0", "find", 0, 0.0, took, "^", name, used, won_ms=won)


def test_what_calls_begun_ahead_brought_is_known_of_each_pattern(learned):
    learned.learn([lookups(number) for number in range(5)])
    name = next(each.name for each in learned.known() if each.context == "^")
    tried = [ahead(True, name, won=80.0), ahead(False, name)]
    learned.learn([lookups(number, ahead=tried) for number in range(5, 10)])
    counts = next(each.counts for each in learned.known() if each.name == name and each.context == "^")
    assert (counts.started, counts.used, counts.won, counts.wasted) == (10, 5, 400.0, 500.0)
    assert not pays(counts)


@pytest.mark.parametrize(
    ("started", "won", "wasted", "verdict"),
    [(7, 0, 900, True), (8, 100, 100, True), (8, 100, 101, False), (8, 4, 0, False), (0, 0, 0, True)],
)
def test_a_pattern_pays_if_it_wins_more_than_it_wastes_and_a_millisecond_a_call(started, won, wasted, verdict):
    assert pays(Counts(started=started, won=won, wasted=wasted)) is verdict


def test_one_that_does_not_pay_is_tried_again_now_and_then():
    payoff, counts = Payoff(), Counts(started=10, wasted=1000)
    tries = [payoff.worth_trying("name", counts) for _ in range(320)]
    assert sum(tries) == 10


@pytest.mark.parametrize(("took", "off"), [(90, False), (130, True)])
def test_an_agent_whose_turns_are_slower_with_it_goes_without_for_a_while(took, off):
    payoff, noise = Payoff(), Random(7)

    def chances(number: int) -> int:
        """In how many of so many turns something is begun ahead."""
        begun = 0
        for _ in range(number):
            ahead = payoff.choose()
            payoff.took(ahead, (took if ahead else 100) + noise.randint(-10, 10))
            begun += ahead
        return begun

    assert chances(96) == 90
    assert payoff.off is off
    assert chances(64) == (0 if off else 60)
    assert chances(256) >= 6  # by then it has been tried again
