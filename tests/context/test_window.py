"""The window: what is left out, how long the beginning stays, and which earlier turns a request is about."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotloop.context.conversation import Conversation, Turn
from hotloop.context.settings import Window
from hotloop.context.window import Relevance, left_out

NOW = 100_000.0


def turns(*ages: float) -> list[Turn]:
    """Turns that are so many seconds old, each of 10 bytes; the age 0 is not known."""
    return [Turn(place + 1, 10 * place + 1, NOW - age if age else 0.0) for place, age in enumerate(ages)]


def left(turns: list[Turn], window: Window) -> int:
    """How many turns are left."""
    return len(turns) - left_out(turns, window, NOW)


@pytest.mark.parametrize(
    ("window", "there", "left_of_them"),
    [
        (Window(turns=40), 40, 40),
        (Window(turns=40), 41, 30),
        (Window(turns=40), 51, 40),
        (Window(turns=40), 52, 30),
        (Window(turns=4), 5, 3),
        (Window(turns=2), 3, 1),
        (Window(turns=1), 2, 1),
        (Window(turns=1), 0, 0),
        (Window(age=60), 400, 400),
    ],
)
def test_what_is_more_than_the_window_holds_is_cut_back_to_three_quarters_of_it(window, there, left_of_them):
    assert left(turns(*[1.0] * there), window) == left_of_them


@pytest.mark.parametrize(
    ("ages", "left_of_them"),
    [((44, 40), 2), ((61, 40, 30), 2), ((61, 61, 30), 1), ((61, 61, 61), 0), ((0, 61, 30), 3), ((), 0)],
)
def test_none_is_older_than_the_window_allows_and_young_ones_stay(ages, left_of_them):
    assert left(turns(*ages), Window(age=60)) == left_of_them


@given(st.integers(1, 50), st.integers(1, 300), st.floats(1, 1e4), st.lists(st.floats(0, 1e5), max_size=20))
def test_whoever_reads_a_conversation_anew_sees_the_same_turns(most, there, age, later):
    """Otherwise each process that answers one prompt would send another prefix."""
    for window, moments in ((Window(turns=most), [NOW]), (Window(age=age), [NOW + each for each in sorted(later)])):
        whole = [Turn(number, 10 * number, NOW - 5e4 + 300 * number) for number in range(1, there + 1)]
        kept = whole
        for now in moments:
            kept = kept[left_out(kept, window, now) :]
            assert kept == whole[left_out(whole, window, now) :]
            assert all(now - age <= turn.at for turn in kept) or window.age is None


@given(st.floats(10, 1e4), st.floats(0, 1e5))
def test_an_age_cuts_seldom(age, later):
    """What is younger than three quarters of it is always seen."""
    young = Turn(1, 1, NOW + later - 0.74 * age)
    assert left_out([young], Window(age=age), NOW + later) == 0


def test_where_all_turns_are_too_old_nothing_is_left_but_the_instructions(conversation):
    conversation.forget(left_out(conversation.turns, Window(age=50), NOW))
    assert conversation.messages == Conversation.of("Be brief.").messages
    assert conversation.turns == []


@given(st.integers(2, 50), st.integers(1, 300))
def test_the_beginning_stays_for_a_quarter_of_the_window(most, there):
    window, seen, cuts = Window(turns=most), list[Turn](), 0
    for number in range(1, there + 1):
        if count := left_out(seen, window, NOW):
            seen, cuts = seen[count:], cuts + 1
        assert len(seen) <= most
        seen.append(Turn(number, 10 * number))
    assert cuts <= 1 + there / (most / 4)


SAID = [
    ("My parcel to Lyon has not arrived.", "It waits at the customs office."),
    ("Can I pay by invoice?", "Yes, within thirty days."),
    ("How do I return the headphones?", "Print the return label and bring it to a shop."),
    ("红烧肉怎么做？", "五花肉切块，冷水下锅，加冰糖小火炖。"),
    ("Where is order 20250101?", "It was shipped on Monday."),
    ("Does the jacket come in blue?", "Only in green."),
    ("Thanks!", "With pleasure."),
    ("And what about the weather?", "It rains."),
]


@pytest.fixture
def conversation() -> Conversation:
    conversation = Conversation.of("Be brief.")
    for place, (prompt, answer) in enumerate(SAID):
        conversation.begin(prompt, NOW - 100 * (len(SAID) - place))
        conversation.calls([(conversation.new_id(), "look_up", "{}", {})])
        conversation.result(f"call{place + 1:05d}", "A result that speaks of headphones, customs and pork.")
        conversation.answer(answer)
    return conversation


def places(conversation: Conversation, prompt: str, *, most: int = 2, age: float | None = None) -> list[int]:
    return Relevance().places(conversation, Window(turns=2, relevant=most, age=age), prompt, NOW)


@pytest.mark.parametrize(
    ("prompt", "earlier"),
    [
        ("Did the customs let my parcels through?", [0]),
        ("I lost the label for returning my headphones", [2]),
        ("Print an invoice for the headphones", [1, 2]),
        ("五花肉要炖多久", [3]),
        ("Tell me more about 20250101", [4]),
        ("Is it raining?", []),  # only the newest turns speak of that, which are seen anyway
        ("Thank you", []),
        ("", []),
    ],
)
def test_of_the_earlier_turns_those_are_seen_that_a_request_is_about(conversation, prompt, earlier):
    assert places(conversation, prompt) == [*earlier, 6, 7]


def test_no_more_are_seen_than_the_window_says(conversation):
    prompt = "customs, invoice, headphones, order 20250101, a blue jacket"
    assert len(places(conversation, prompt, most=9)) > 5
    assert len(places(conversation, prompt, most=3)) == 5
    assert places(conversation, prompt, most=1, age=350) == [5, 6, 7]
    assert places(conversation, prompt, age=150) == [7]
    assert places(conversation, prompt, age=50) == []


def test_of_turns_that_fit_alike_the_newer_are_seen():
    conversation = Conversation()
    for _ in range(6):
        conversation.begin("Where is my parcel?", NOW)
        conversation.answer("On its way.")
    assert places(conversation, "the parcel") == [2, 3, 4, 5]


def test_what_comes_later_and_what_goes_is_heeded(conversation):
    relevance, window = Relevance(), Window(turns=1, relevant=1)
    assert relevance.places(conversation, window, "the customs", NOW) == [0, 7]
    conversation.begin("The customs again: which forms?", NOW)
    conversation.answer("A declaration.")
    conversation.begin("Hello?", NOW)
    assert relevance.places(conversation, window, "the customs declaration", NOW) == [8, 9]
    conversation.forget(1)
    conversation.summarize(conversation.turns[2].start, "They spoke.")
    assert relevance.places(conversation, window, "the customs declaration", NOW) == [5, 6]


words = st.sampled_from(["parcel", "customs", "invoice", "查询订单", "20250101", "the", ""])


@given(st.lists(st.lists(words).map(" ".join), max_size=12), st.integers(1, 4), st.integers(0, 4), st.lists(words))
def test_any_selection_is_of_turns_in_their_order_with_the_newest(said, newest, most, prompt):
    conversation = Conversation()
    for text in said:
        conversation.begin(text)
        conversation.answer(text)
    found = Relevance().places(conversation, Window(turns=newest, relevant=most), " ".join(prompt), NOW)
    assert found == sorted(set(found))
    assert found[-newest:] == list(range(len(said)))[-newest:]
    assert len(found) <= newest + most
    conversation.select(found)
