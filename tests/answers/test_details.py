import pytest
from questions import GROUPS

from hotloop.answers.details import details

DIFFERENT = [
    ("Where is order 20250101?", "Where is order 20250102?"),
    ("Where is order AB-12?", "Where is order AB-21?"),
    ("Convert 5 EUR.", "Convert 5.0 EUR."),
    ("Convert 3 to 5.", "Convert 5 to 3."),
    ("Is it 20%?", "Is it 20?"),
    ("Give me three ideas.", "Give me four ideas."),
    ("Write to ann@example.com.", "Write to bob@example.com."),
    ("Read src/a.py.", "Read src/b.py."),
    ('Translate "yes".', 'Translate "no".'),
    ("Can I cancel?", "Can I not cancel?"),
    ("I can log in.", "I can't log in."),
    ("I can log in.", "I can’t log in."),
    ("Pay with a card.", "Pay without a card."),
    ("Is it open on Monday?", "Is it open on Sunday?"),
    ("Turn on the alarm.", "Turn off the alarm."),
    ("Is it enabled?", "Is it disabled?"),
    ("Fly from Rome.", "Fly to Rome."),
    ("Does Alice report to Bob?", "Does Bob report to Alice?"),
    ("Who is the CEO?", "Who is the CFO?"),
    ("What is C++?", "What is C?"),
    ("订单 1 在哪里？", "订单 2 在哪里？"),
    ("给我三个建议。", "给我五个建议。"),
    ("可以取消吗？", "不可以取消吗？"),
    ("要发票吗？", "别要发票"),
    ("五月三日的会议", "五月八日的会议"),
    ("今天几点开门？", "明天几点开门？"),
    ("怎么导入数据？", "怎么导出数据？"),
    ("怎么用 CSV？", "怎么用 PDF？"),
    ("错误 1 是什么？", "What is error 1?"),
]
SAME = [
    ("Where is order 20250101?", "order 20250101, where is it"),
    ("How do I turn on the alarm?", "How can I enable the alarm?"),
    ("Is phone support included?", "Do you include phone support?"),
    ("Who's the CEO of Acme?", "Tell me who the CEO of Acme is."),
    ("I cannot log in.", "I can't log in."),
    ("能不能取消？", "可不可以取消？"),
    ("是否支持退货？", "有没有退货？"),
    ("查一下订单 1", "请查询订单 1"),
]


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_details_that_differ(one, other):
    assert details(one) != details(other)


@pytest.mark.parametrize(("one", "other"), SAME)
def test_details_that_are_the_same(one, other):
    assert details(one) == details(other)


def test_any_other_number_is_seen():
    questions = [text for group in GROUPS for text in (group.question, *group.same)]
    for question in questions:
        for place, digit in enumerate(question):
            if digit.isascii() and digit.isdigit():
                other = question[:place] + str((int(digit) + 1) % 10) + question[place + 1 :]
                assert details(question) != details(other), other
        assert details(question) != details(f"{question} 7")


def test_most_ways_to_ask_the_same_have_the_same_details():
    pairs = [(group.question, same) for group in GROUPS for same in group.same]
    alike = sum(details(one) == details(other) for one, other in pairs)
    assert alike / len(pairs) > 0.9
