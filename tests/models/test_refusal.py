import pytest

from hotloop.models.rejection import refused_tool
from hotloop.models.reply import Call, Reply
from hotloop.trace.ledger import Usage


def judged(words, calls=()):
    return refused_tool(Reply(words, list(calls), "stop", Usage()))


@pytest.mark.parametrize(
    "words",
    [
        "I cannot help with that.",
        "I CAN’T do this",
        "\n I'm sorry, but I can't access your orders.",
        "Unfortunately, I am not able to check the status of an order.",
        "I’m unable to assist you there.",
        "As an AI language model, I cannot browse the web.",
        "Sorry! I don't have direct access to the database.",
        "I'm afraid I do not have the ability to do so.",
        "抱歉，我没有权限",
        "很抱歉，我无法帮您查询订单。",
        "我不能访问这个网站。",
    ],
)
def test_replies_that_refuse(words):
    assert judged(words) == "it refuses to help"
    assert judged(words, [Call("f", "{}")]) == ""


@pytest.mark.parametrize(
    "words",
    [
        "",
        "The order is shipped.",
        "I can't wait to help you! Your order ships tomorrow.",
        "Your plan is paid until May, so I cannot say when it renews.",
        "The order is shipped; I cannot help with more.",
        "I can't help but notice that it was shipped twice.",
        "I cannot find an order with this number: please check it.",
        "I cannot cancel it, for it was shipped yesterday.",
        "I don't have to check: it is shipped.",
        "Sorry for the delay! It ships tomorrow.",
        "我不能吃花生。",
        "订单已发货，我无法再取消。",
    ],
)
def test_answers_that_only_sound_like_it(words):
    assert judged(words) == ""
