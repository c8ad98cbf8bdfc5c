import pytest

from hotloop.answers.normal import normalized


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Where is it?", "  where   is IT "),
        ("Where is it?", "Ｗhere is it？"),
        ("order 123.", "order １２３"),
        ("订单在哪里？", "订单在哪里。"),
        ("a\nb", "a b"),
        ("Straße", "STRASSE"),
        ("café", "cafe\u0301"),
        ("Stop it!", "stop it"),
        ("why???", "why"),
    ],
)
def test_writing_makes_no_difference(one, other):
    assert normalized(one) == normalized(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("What is 5!", "What is 5"),
        ("What is x²?", "What is x2?"),
        ("What is 3½?", "What is 31/2?"),
        ("C++", "C"),
        ("order 1.5", "order 15"),
        ("-5", "5"),
        ("do it", "do not it"),
        ("?", "!!"),
    ],
)
def test_meaning_makes_a_difference(one, other):
    assert normalized(one) != normalized(other)
