"""The work that every contestant does, and the right answer to it. Imports nothing that a contestant would not.

A     a question, three tool calls in one reply, an answer of 96 tokens: two turns
B     a chain of eight tool calls, one a turn, each result about 2 KB of JSON, then 96 tokens: nine turns
T<n>  an answer of n tokens at once, no tool
C     a turn of a conversation: a prompt, one call for a page of the size that is its turn's, an answer of 16 tokens
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

CHAIN = 8
ANSWERS = {"C": 16}  # tokens, where it is not 96
API_KEY = "sk-benchmark"
INSTRUCTIONS = (
    "You are a customer support agent of an online shop. Use the tools to look up the order, its logistics and "
    "the user, in parallel where possible, then answer in a few sentences."
)
QUESTION = "Where is my order 1024? I am user u-7788."
CHAIN_QUESTION = "Follow the chain of records from rec-0000 and summarize it."
ANSWER = (
    "The order 1024 shipped on Monday and is on its way with the carrier . It should arrive within two "
    "days , because the parcel passed the regional hub this morning and no delay was reported ."
)
ITEMS = [
    {
        "id": f"it-{i:03d}",
        "name": f"component {i}",
        "status": "active",
        "qty": i * 3,
        "price": 10.5 + i,
        "note": "checked by the warehouse team",
    }
    for i in range(18)
]

OnText = Callable[[str], None]
Ask = Callable[[OnText], Awaitable[str]]
Converse = Callable[[str, OnText], Awaitable[str]]  # one turn of a conversation


class Tally:
    """How many tools have run in this process."""

    calls = 0


async def query_order_status(order_id: str) -> dict[str, Any]:
    """Query the status of an order.

    Args:
        order_id: The order's number.
    """
    Tally.calls += 1
    return {"order_id": order_id, "status": "shipped", "items": 3}


async def query_logistics(order_id: str) -> dict[str, Any]:
    """Query where the parcel of an order is.

    Args:
        order_id: The order's number.
    """
    Tally.calls += 1
    return {"order_id": order_id, "carrier": "SF", "location": "regional hub", "eta_days": 2}


async def get_user_info(user_id: str) -> dict[str, Any]:
    """Get a user's profile.

    Args:
        user_id: The user's id.
    """
    Tally.calls += 1
    return {"user_id": user_id, "name": "Li Lei", "level": "gold"}


async def fetch_record(record_id: str) -> dict[str, Any]:
    """Fetch one record of the chain.

    Args:
        record_id: The record's id.
    """
    Tally.calls += 1
    return {"record_id": record_id, "items": ITEMS}


class Page:
    """What `fetch_page` gives in this process."""

    text = ""


async def fetch_page(page_id: str) -> dict[str, Any]:
    """Fetch a page of the manual.

    Args:
        page_id: The page's id.
    """
    Tally.calls += 1
    return {"page_id": page_id, "text": Page.text}


@dataclass(frozen=True)
class Task:
    """One workload on one service; `base_url` is the service's OpenAI-compatible base URL."""

    workload: str
    base_url: str

    @property
    def model(self) -> str:
        """The model to ask for: the service plays the workload that its name says."""
        return f"mock-{self.workload}"

    @property
    def question(self) -> str:
        """The user's message."""
        return CHAIN_QUESTION if self.workload == "B" else QUESTION

    @property
    def tools(self) -> list[Callable[..., Awaitable[dict[str, Any]]]]:
        """The functions the model may call; all take one string."""
        by_workload = {"B": [fetch_record], "C": [fetch_page]}
        return by_workload.get(self.workload, [query_order_status, query_logistics, get_user_info])

    @property
    def tool_calls(self) -> int:
        """How many tools one run must run."""
        return {"A": 3, "B": CHAIN, "C": 1}.get(self.workload, 0)

    @property
    def answer_tokens(self) -> int:
        """The length of the answer."""
        return int(self.workload[1:]) if self.workload[0] == "T" else ANSWERS.get(self.workload, 96)

    @property
    def answer(self) -> str:
        """The only right answer."""
        return "".join(answer_tokens(self.answer_tokens))


def answer_tokens(n: int) -> list[str]:
    """The answer of n tokens, token by token."""
    words = ANSWER.split()
    return [(" " if i else "") + words[i % len(words)] for i in range(n)]


def schema(tool: Callable[..., Any]) -> dict[str, Any]:
    """The OpenAI tool schema of one of the functions above."""
    summary, _, described = (tool.__doc__ or "").partition("\n")
    argument = tool.__code__.co_varnames[0]
    meaning = {"type": "string", "description": described.rpartition(": ")[2].strip()}
    parameters = {
        "type": "object",
        "properties": {argument: meaning},
        "required": [argument],
        "additionalProperties": False,
    }
    function = {"name": tool.__name__, "description": summary, "parameters": parameters}
    return {"type": "function", "function": function}
