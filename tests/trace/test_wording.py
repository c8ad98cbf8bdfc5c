from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotloop.trace.recording.wording import own_words


@pytest.mark.parametrize(
    "text",
    [
        "",
        "kept",
        "tools done",
        "retry after RateLimited",
        "a place at the service: its rate limit (requests) is used up",
        "3 facts",
        "late, left out",
        "cut: no summary within 2.5 s",
        "cut: the summary failed: ConnectError",
        "rule 12",
        "classifier, 98% sure",
        "Only the budget's answer reserve was left.",
        "No more than 10 turns may have calls.",
        "the model was 51% sure, less than 80%",
        "over the budget: total 1,700 ms of 1,500 ms, turn.model 0.42 ms of 0.40 ms",
    ],
)
def test_our_own_words_stay(text):
    assert own_words(text) == text


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("failed, left out: canary", "failed, left out…"),
        ("canary may have had effects, or needed an approval", "… may have had effects, or needed an approval"),
        ("default: the classifier is 12% sure of canary", "default: the classifier is 12% sure…"),
        (
            "The model made the same call of canary 3 times and it failed each time: no\ncanary",
            "The model made the same call… 3 times and it failed each time…",
        ),
        ("The service answered 429 (canary): canary. It asks to wait 2 s.", "The service answered 429…"),
        ("The service sent a chunk that is not JSON (canary): 'canary'.", "The service sent a chunk that is not JSON…"),
        (
            'The prompts diverge at byte 1,234, in messages[0].content (system): "a canary" became "…canary". It looks '
            "like a clock or a date. Put the time at the end.",
            "The prompts diverge at byte 1,234, in messages[0]… It looks like a clock or a date. Put the time at the "
            "end.",
        ),
        (
            'The prompts diverge at byte 9, in messages[2].content (user): "said "canary" became "more". Canary" '
            'became "x". Only a number differs.',
            "The prompts diverge at byte 9, in messages[2]… Only a number differs.",
        ),
        ("canary", "…"),
        ("kept canary", "…"),
        ("retry after canary bird", "…"),
    ],
)
def test_what_others_say_does_not(text, left):
    assert own_words(text) == left


@given(st.text(min_size=1, alphabet="xyz ."))
def test_nothing_else_gets_through(text):
    assert own_words(text) == "…"
