"""No contestant, but a measure: a conversation that costs nothing but one copy of its bytes for each request."""

from __future__ import annotations

from workload import Converse, OnText, Page, Tally, Task

REQUESTS = 2  # of a turn: one is answered with a call, one with text


def converse(task: Task) -> Converse:
    """Turns that add about what a turn adds."""
    body = bytearray()

    async def turn(prompt: str, on_text: OnText) -> str:
        body.extend(f"{prompt}{Page.text}{task.answer}".encode())
        Tally.calls += 1
        for _ in range(REQUESTS):
            bytes(body)
        return task.answer

    return turn
