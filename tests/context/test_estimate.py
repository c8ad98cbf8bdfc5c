"""The estimate of a prompt's tokens: learned in three turns, whatever the service counts, and never mad."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable
from typing import NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotloop.context.conversation import Conversation
from hotloop.context.estimate import PromptSize, TokenRates
from hotloop.errors import ConfigError

PIECE = re.compile(r"[A-Za-z]+|[0-9]+|[一-鿿]|\n|[^\sA-Za-z0-9一-鿿]+")
SENTENCE = "the order of a customer has left our warehouse and may arrive tomorrow internationalisation"
CODE = 'def total(orders):\n    """The sum."""\n    return sum(each["price"] * each["count"] for each in orders)\n'
CHINESE = "您的订单已经从仓库发出，预计明天下午送到。如果地址有误，请尽快联系客服。"


class Service(NamedTuple):
    """A service that counts in its own way: letters to a token, digits to one, tokens of a Chinese character."""

    letters: int
    digits: int
    chinese: float
    message: int
    call: int
    front: int

    def text(self, text: str) -> int:
        return math.ceil(sum(map(self._piece, PIECE.findall(text))))

    def _piece(self, piece: str) -> float:
        if piece.isascii() and piece.isalpha():
            return math.ceil(len(piece) / self.letters)
        if piece.isascii() and piece.isdigit():
            return math.ceil(len(piece) / self.digits)
        return self.chinese if "一" <= piece <= "鿿" else 1

    def prompt(self, messages: bytes | bytearray, aside: str = "") -> int:
        tokens = self.front + self.text(aside)
        for message in msgspec.json.decode(b"[%b]" % bytes(messages)):
            calls = [call["function"] for call in message.get("tool_calls", ())]
            texts = [message["content"] or "", *(call[key] for call in calls for key in ("name", "arguments"))]
            tokens += self.message + self.call * len(calls) + sum(map(self.text, texts))
        return tokens


SERVICES = [Service(8, 3, 0.6, 5, 11, 350), Service(6, 1, 1.4, 2, 20, 900), Service(9, 3, 1.0, 4, 6, 20)]


def records(draw: random.Random) -> str:
    days = range(1, draw.randrange(2, 20))
    orders = [{"id": draw.randrange(10**6), "eta": f"2025-01-{day:02}", "paid": True} for day in days]
    return msgspec.json.encode(orders).decode()


KINDS: dict[str, Callable[[random.Random], str]] = {
    "English": lambda draw: " ".join(draw.choices(SENTENCE.split(), k=draw.randrange(5, 200))).capitalize() + ".",
    "Chinese": lambda draw: CHINESE[: draw.randrange(8, 36)] * draw.randrange(1, 8),
    "code": lambda draw: CODE * draw.randrange(1, 12),
    "JSON": records,
}


class Talk:
    """A conversation with a service that reports what it counts."""

    def __init__(self, service: Service, rates: TokenRates | None = None, seed: int = 0) -> None:
        self.service = service
        self.conversation = Conversation.of("You help the customers of a shop. Be brief.")
        self.size = PromptSize(rates or TokenRates())
        self.off: list[list[float]] = []  # how far off the estimates of each turn were
        self.draw = random.Random(seed)

    def turn(self, kinds: list[str], aside: str = "") -> None:
        draw, conversation = self.draw, self.conversation
        self.off.append([])
        conversation.begin(KINDS[draw.choice(kinds)](draw)[:200])
        for _ in range(draw.randrange(3)):
            self.ask(aside)
            ids = [conversation.new_id() for _ in range(draw.randrange(1, 3))]
            conversation.calls([(call_id, "look_up", '{"order":"20250101"}', {}) for call_id in ids])
            for call_id in ids:
                conversation.result(call_id, KINDS[draw.choice(kinds)](draw))
        self.ask(aside)
        conversation.answer(KINDS[draw.choice(kinds)](draw))

    def ask(self, aside: str = "") -> float:
        """Send a prompt; how far off its estimate was."""
        messages = self.conversation.messages
        true = self.service.prompt(messages, aside)
        off = abs(self.size.tokens(messages, aside) - true) / true
        self.size.reported(len(messages), true)
        if self.off:
            self.off[-1].append(off)
        return off


@pytest.mark.parametrize("kinds", [["English"], ["Chinese"], ["code"], ["JSON"], list(KINDS)], ids="-".join)
@pytest.mark.parametrize("service", SERVICES)
def test_after_three_turns_it_is_less_than_three_per_cent_off(service: Service, kinds: list[str]) -> None:
    for seed in range(5):
        talk = Talk(service, seed=seed)
        for _ in range(10):
            talk.turn(kinds)
        assert max(max(off) for off in talk.off[3:]) < 0.03
        assert max(talk.off[-1]) < 0.01


def test_without_any_report_it_is_in_the_right_order() -> None:
    talk = Talk(SERVICES[2])
    for _ in range(3):
        talk.turn(list(KINDS))
    assert PromptSize(TokenRates()).tokens(talk.conversation.messages) == pytest.approx(
        talk.service.prompt(talk.conversation.messages), rel=0.3
    )


def test_what_a_service_was_seen_to_count_holds_for_its_other_conversations_from_the_first_prompt_on() -> None:
    rates = TokenRates()
    for seed in range(3):
        talk = Talk(SERVICES[1], rates, seed)
        for _ in range(4):
            talk.turn(list(KINDS))
    talk = Talk(SERVICES[1], rates)
    talk.conversation.begin("Where is my order?")
    assert talk.ask() < 0.1  # of 900 tokens that nobody has seen, and some


def cut(conversation: Conversation) -> None:
    conversation.forget(len(conversation.turns) - 3)


def summed(conversation: Conversation) -> None:
    conversation.summarize(conversation.turns[-2].start, "They spoke of orders.")


def undone(conversation: Conversation) -> None:
    conversation.undo()


@pytest.mark.parametrize("change", [cut, summed, undone])
@pytest.mark.parametrize("service", SERVICES)
def test_after_a_change_of_the_early_part_it_is_nearly_as_good_and_then_as_before(
    service: Service, change: Callable[[Conversation], None]
) -> None:
    talk = Talk(service)
    for _ in range(8):
        talk.turn(list(KINDS))
    change(talk.conversation)
    talk.size.moved()
    assert talk.ask() < 0.05
    talk.turn(list(KINDS))
    assert max(talk.off[-1]) < 0.02


def test_what_is_said_aside_counts_for_its_prompt_only() -> None:
    for with_aside in (True, False):
        talk = Talk(SERVICES[0])
        for number in range(8):
            talk.turn(list(KINDS), CODE * (number * 7 % 5) if with_aside else "")
        assert max(max(off) for off in talk.off[3:]) < 0.03
    messages = talk.conversation.messages
    alone = talk.size.tokens(messages)
    assert talk.size.tokens(messages, CODE) == pytest.approx(alone + talk.service.text(CODE), rel=0.02)
    assert talk.size.tokens(messages) == alone


texts = st.text(max_size=60)
MESSAGE = msgspec.json.Encoder().encode


def said(*texts: str) -> bytes:
    return b",".join(MESSAGE({"role": "user", "content": text}) for text in texts)


@given(st.lists(st.tuples(texts, st.integers(-(10**6), 10**9)), max_size=20), texts)
def test_no_report_drives_it_mad(reports: list[tuple[str, int]], text: str) -> None:
    rates = TokenRates()
    for told, tokens in reports:
        rates.learn(said(told), tokens)
    likely = TokenRates().count(said(text))
    assert likely / 4 <= rates.count(said(text)) <= likely * 4


@given(st.lists(st.tuples(texts, st.integers(-(10**6), 10**9)), min_size=1, max_size=12))
def test_a_prompt_never_has_fewer_tokens_than_none(reports: list[tuple[str, int]]) -> None:
    conversation, size = Conversation.of("Be brief."), PromptSize(TokenRates())
    for text, tokens in reports:
        conversation.user(text)
        assert size.tokens(conversation.messages) >= 0
        size.reported(len(conversation.messages), tokens)


@pytest.mark.parametrize(("length", "tokens"), [(0, 0), (0, -1), (0, 3), (1, 500), (-1, 500)])
def test_a_report_that_cannot_be_of_the_prompt_is_ignored(length: int, tokens: int) -> None:
    """One of another prompt, or one that has no tokens but those that were not cached."""
    conversation, size = Conversation.of(CODE), PromptSize(TokenRates())
    before = size.tokens(conversation.messages)
    size.reported(len(conversation.messages) + length, tokens)
    assert size.tokens(conversation.messages) == before


@given(st.lists(st.lists(texts, min_size=1, max_size=3), max_size=6))
def test_read_piece_by_piece_it_is_the_same(pieces: list[list[str]]) -> None:
    conversation, size = Conversation(), PromptSize(TokenRates())
    for piece in pieces:
        for text in piece:
            conversation.user(text)
        size.tokens(conversation.messages)
    assert size.tokens(conversation.messages) == PromptSize(TokenRates()).tokens(conversation.messages)


def test_how_a_text_is_escaped_in_json_makes_no_difference() -> None:
    """A service reads the text: two characters of JSON for each of these are one of the text."""
    rates = TokenRates()
    empty = rates.count(said(""))
    quotes, letters = (rates.count(said(text * 50)) - empty for text in ('"', "."))
    assert quotes == letters
    escaped = rb'{"role":"user","content":"\u8ba2\u5355\n\t"}'
    assert rates.count(escaped) == rates.count(msgspec.json.encode(msgspec.json.decode(escaped)))


def test_any_kind_of_bytes_will_do() -> None:
    data, rates = said("Where is my order?", "Here."), TokenRates()
    assert rates.count(data) == rates.count(bytearray(data)) == rates.count(memoryview(data))
    assert rates.count(b"") == 0


def test_of_a_conversation_only_what_is_new_is_read() -> None:
    counted: list[str] = []

    def count_tokens(text: str) -> int:
        counted.append(text)
        return len(text.split())

    conversation, size = Conversation.of("Be brief."), PromptSize(TokenRates(count_tokens))
    for text in ("one", "two", "three"):
        conversation.user(text)
        size.tokens(conversation.messages)
        size.tokens(conversation.messages)
        size.reported(len(conversation.messages), 50)
    assert counted == ["Be brief.", "one", "two", "three"]


@pytest.mark.parametrize("service", SERVICES)
def test_with_a_tokeniser_only_what_is_around_the_texts_is_learned(service: Service) -> None:
    talk = Talk(service, TokenRates(service.text))
    for _ in range(6):
        talk.turn(list(KINDS))
    assert max(max(off) for off in talk.off[2:]) < 0.005


@pytest.mark.parametrize("given", [None, -1, "3", 2.5])
def test_a_tokeniser_that_gives_no_number_of_tokens_is_told_so(given: object) -> None:
    rates = TokenRates(lambda text: given)  # type: ignore[arg-type, return-value]
    with pytest.raises(ConfigError, match=r"^Context\(count_tokens=\.\.\.\) gave .*; let it give how many tokens"):
        rates.count(said("Where is my order?"))
