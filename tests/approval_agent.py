"""An agent that needs an approval, in a process that is to be killed: `python approval_agent.py WHAT FOLDER ...`.

Its first reply makes three calls, of which one needs an approval, its second one more, its third is the answer: what
the model was told of each. What tools do is a line in FOLDER/effects. At the point named by the last argument the
process says so on stdout, and goes no further.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from hotloop import Agent, RunPaused, tool
from hotloop.testing import ScriptedModel, call

REPLIES = (
    [call("look_up", key="a"), call("refund", order_id="1"), call("note", text="first")],
    [call("note", text="later")],
)


def agent_in(folder: Path, hold: str = "") -> Agent:
    """The agent whose files are in this folder, and that stops at the point `hold`."""

    async def do(what: str) -> None:
        with (folder / "effects").open("a") as effects:
            effects.write(f"{what}\n")
        await at(what)

    async def at(point: str) -> None:
        if point == hold:
            print(point, flush=True)
            await asyncio.Event().wait()

    @tool(read_only=True)
    async def look_up(key: str) -> str:
        """Read something."""
        await do(f"look_up {key}")
        return f"{key} found"

    @tool(approval="always")
    async def refund(order_id: str) -> str:
        """Pay back."""
        await do(f"refund {order_id}")
        return "paid"

    @tool
    async def note(text: str) -> str:
        """Write something down."""
        await do(f"note {text}")
        return "noted"

    class Model(ScriptedModel):
        async def send(self, body: bytes, receiver: Any) -> None:
            turn = sum(message["role"] == "assistant" for message in json.loads(body)["messages"])
            await at(f"turn {turn}")
            await super().send(body, receiver)

    def reply(request: dict[str, Any]) -> Any:
        messages = request["messages"]
        turn = sum(message["role"] == "assistant" for message in messages)
        told = {each["tool_call_id"]: each["content"] for each in messages if each["role"] == "tool"}
        return REPLIES[turn] if turn < len(REPLIES) else json.dumps(told)

    tools = [look_up, refund, note]
    return Agent(name="clerk", model="m", endpoint=Model(reply), tools=tools, approvals=folder / "waiting.db")


async def run(folder: str, hold: str = "") -> None:
    """Run it; say the id of the run that pauses, and wait to be killed."""
    async for event in agent_in(Path(folder), hold).stream("Pay back order 1."):
        if isinstance(event, RunPaused):
            print(event.run_id, flush=True)
    sys.stdin.read()


async def resume(folder: str, run_id: str, hold: str = "") -> None:
    """Go on with a run, and say its answer."""
    print((await agent_in(Path(folder), hold).resume(run_id)).output, flush=True)


if __name__ == "__main__":
    asyncio.run(globals()[sys.argv[1]](*sys.argv[2:]))
