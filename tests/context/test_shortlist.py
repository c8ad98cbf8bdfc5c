"""The shortlist of tools: what a plain text match finds, in English and in Chinese."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotloop.context.shortlist import ToolText, shortlist, strong_matches

TOOLS = [
    ToolText("query_order_status", "Current status of an order, by its order number. 查询订单状态"),
    ToolText(
        "query_logistics",
        "Where the parcel of an order is now: logistics, shipping, delivery. 查询订单的物流、快递、配送信息",
    ),
    ToolText("cancel_order", "Cancel an order that has not been shipped. 取消订单"),
    ToolText("refund_payment", "Refund a payment to the customer. 退款"),
    ToolText("get_weather", "Weather forecast for a city: temperature, rain, wind. 查询城市天气预报"),
    ToolText("convert_currency", "Convert money from one currency to another at today's exchange rate. 货币汇率换算"),
    ToolText("search_flights", "Flights between two cities on a day, with prices. 搜索航班机票"),
    ToolText("book_hotel", "Book a hotel room for some nights. 预订酒店房间"),
    ToolText("send_email", "Send an email message to a person. 发送电子邮件"),
    ToolText("create_calendar_event", "Put a meeting or appointment into the calendar. 创建日历日程会议"),
    ToolText("translate_text", "Translate text into another language. 翻译文本"),
    ToolText("stock_level", "How many pieces of a product are in the warehouse. 查询商品库存数量"),
    ToolText("list_invoices", "Invoices of a customer, with amounts and due dates. 查询客户发票"),
    ToolText("reset_password", "Reset the password of an account and send a link. 重置账户密码"),
    ToolText("open_ticket", "Open a support ticket for a problem. 创建客服工单"),
    ToolText("play_music", "Play a song, album or playlist. 播放音乐歌曲"),
]

REQUESTS = [
    ("What is the status of order 20250101, and where is it now (logistics)?", "query_order_status query_logistics"),
    ("查询订单 20250101 的状态，同时查一下物流信息", "query_order_status query_logistics"),
    ("Has order 20240917 been shipped yet?", "query_logistics"),
    ("我的快递到哪里了？订单号 20250101", "query_logistics"),
    ("Please cancel my order 10000001", "cancel_order"),
    ("帮我取消订单 10000001", "cancel_order"),
    ("I want my money back for payment 7731, refund it", "refund_payment"),
    ("申请退款，支付编号 7731", "refund_payment"),
    ("Will it rain in Berlin tomorrow?", "get_weather"),
    ("北京明天天气怎么样？", "get_weather"),
    ("How much is 100 dollars in euros at the current exchange rate?", "convert_currency"),
    ("100 美元换算成人民币是多少？", "convert_currency"),
    ("Find me a cheap flight from Oslo to Rome", "search_flights"),
    ("查一下上海到北京的航班", "search_flights"),
    ("Book a hotel in Rome for three nights", "book_hotel"),
    ("预订杭州的酒店，两个晚上", "book_hotel"),
    ("Email Ann that I will be late", "send_email"),
    ("给张三发一封电子邮件", "send_email"),
    ("Schedule a meeting with Bob on Friday", "create_calendar_event"),
    ("明天下午三点创建一个会议日程", "create_calendar_event"),
    ("Translate this invoice reminder and email it to Bob", "translate_text send_email"),
    ("取消订单 20250101 并退款", "cancel_order refund_payment"),
    ("Thank you, that was helpful!", ""),
    ("你好，你是谁？", ""),
    ("Could you tell me whether the parcel with my order arrives before Friday?", "query_logistics"),
    ("订单 31415926 付款成功了吗？状态是什么", "query_order_status"),
    ("Any strong wind expected in Lyon this evening?", "get_weather"),
    ("上海今天的气温和天气预报", "get_weather"),
    ("We need two rooms at a hotel near the station", "book_hotel"),
    ("欧元对人民币的汇率", "convert_currency"),
    ("How many blue lamps are left in the warehouse?", "stock_level"),
    ("这款耳机的库存还有几件", "stock_level"),
    ("Show the unpaid invoices of Miller Ltd", "list_invoices"),
    ("把上个月的发票列出来", "list_invoices"),
    ("I cannot log in, my password does not work any more", "reset_password"),
    ("账户密码忘了", "reset_password"),
    ("Say 'see you tomorrow' in another language, Spanish", "translate_text"),
    ("翻译一下这句话", "translate_text"),
    ("The printer is on fire, open a ticket with support", "open_ticket"),
    ("播放一首歌曲放松一下", "play_music"),
    ("Put on the new album by Adele", "play_music"),
    ("What is the weather in Rome, and are there flights from Oslo?", "get_weather search_flights"),
    ("查一下杭州的天气，并预订酒店", "get_weather book_hotel"),
    ("Who wrote Faust?", ""),
    ("讲个笑话吧", ""),
]


def names(places: list[int]) -> set[str]:
    return {TOOLS[place].name for place in places}


def rates(found: list[set[str]]) -> tuple[float, float]:
    """Precision and recall over all requests."""
    pairs = [(set(wanted.split()), names) for (_, wanted), names in zip(REQUESTS, found, strict=True)]
    hits = sum(len(wanted & names) for wanted, names in pairs)
    return hits / sum(len(names) for _, names in pairs), hits / sum(len(wanted) for wanted, _ in pairs)


def test_strong_matches_are_nearly_always_what_is_meant() -> None:
    found = [names(strong_matches(request, TOOLS)) for request, _ in REQUESTS]
    precision, recall = rates(found)
    exact = sum(set(wanted.split()) == each for (_, wanted), each in zip(REQUESTS, found, strict=True))
    assert precision >= 0.92
    assert recall >= 0.97
    assert exact >= 41  # of 45


def test_a_shortlist_of_three_of_sixteen_keeps_every_tool_that_is_needed() -> None:
    _, recall = rates([names(shortlist(request, TOOLS, 3)) for request, _ in REQUESTS])
    assert recall == 1.0


@pytest.mark.parametrize("text", ["Thank you, that was helpful!", "你好，你是谁？", "Who wrote Faust?", "", "20250101"])
def test_nothing_matches_small_talk(text: str) -> None:
    assert strong_matches(text, TOOLS) == []


def test_both_order_tools_are_meant_whether_others_are_there_or_not() -> None:
    request = "What is the status of order 20250101, and where is it now (logistics)?"
    assert strong_matches(request, TOOLS[:2]) == strong_matches(request, TOOLS) == [0, 1]


def test_a_single_tool_is_meant_if_it_matches_at_all() -> None:
    assert strong_matches("Will it rain?", [TOOLS[4]]) == [0]
    assert strong_matches("Sing for me", [TOOLS[4]]) == []


def test_tools_that_match_equally_keep_their_order() -> None:
    tools = [(f"tool_{letter}", "No word in common.") for letter in "abcdef"]
    assert shortlist("Something else entirely", tools, 4) == [0, 1, 2, 3]


def test_names_in_camel_case_are_words_too() -> None:
    assert strong_matches("refund the payment", [("listUsers", ""), ("refundPayment", "")]) == [1]


def test_endings_make_no_difference() -> None:
    assert strong_matches("the order was shipped", [("a", "Billing."), ("b", "Shipping of orders.")]) == [1]


@given(st.text(), st.lists(st.tuples(st.text(), st.text()), max_size=8), st.integers(0, 10))
def test_any_text_gives_distinct_places(text: str, tools: list[tuple[str, str]], limit: int) -> None:
    listed = shortlist(text, tools, limit)
    assert len(set(listed)) == len(listed) == min(limit, len(tools))
    assert set(strong_matches(text, tools)) <= set(range(len(tools)))


@given(st.sampled_from([request for request, _ in REQUESTS]), st.permutations(range(len(TOOLS))))
def test_what_is_meant_does_not_depend_on_the_order_of_the_tools(text: str, order: list[int]) -> None:
    shuffled = [TOOLS[place] for place in order]
    found = {order[place] for place in strong_matches(text, shuffled)}
    assert names(sorted(found)) == names(strong_matches(text, TOOLS))
