import pytest

from hotloop.answers.normal import normalized


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Where is it?", "  where   is it "),
        ("Is it in Paris?", "is it in paris"),
        ("Where is it?", "Ｗhere is it？"),
        ("order 123.", "order １２３"),
        ("订单在哪里？", "订单在哪里。"),
        ("What's new?", "what's new"),
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
        ("Is coupon aB12 valid?", "Is coupon Ab12 valid?"),
        ("Is it in order B7?", "Is it in order b7?"),
        ("How long do 5 Mb take?", "How long do 5 MB take?"),
        ("How long do 5 MB take?", "How long do 5 mb take?"),
        ("What is 3 M in m?", "What is 3 m in M?"),
        ("Is it in the US?", "Is it in the us?"),
        ("What is getURL?", "What is geturl?"),
        ("Is plan B good?", "Is plan b good?"),
        ("if a:\n  b()\nc()", "if a:\n  b()\n  c()"),
        ("  if a:\n  b()", "if a:\n  b()"),
        ("a\nb", "a b"),
        ("a\tb", "a b"),
        ("Which line is too long?\nFoo\nbar", "Which line is too long?\nfoo\nbar"),
        ('Translate "Polish" for me.', 'Translate "polish" for me.'),
        ('How long is "a  b"?', 'How long is "a b"?'),
    ],
)
def test_meaning_makes_a_difference(one, other):
    assert normalized(one) != normalized(other)
