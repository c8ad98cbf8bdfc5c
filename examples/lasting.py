"""What the assistant of lasting.yaml can do and knows of now: it remembers facts about whom it talks to.

hotloop sim --port 8000        (in another terminal: it stands in for the model)
hotloop run examples/lasting.yaml "I take my tea without milk." --session ann-1 --user ann
hotloop run examples/lasting.yaml "Which tea do you have?" --session ann-2 --user ann
hotloop session show ann-1 --agent-file examples/lasting.yaml
hotloop memory list --user ann --agent-file examples/lasting.yaml
"""

from __future__ import annotations

from datetime import datetime

from hotloop import Memory, ToolError, caller, tool

facts = Memory()  # the same file as that of the agent


@tool(status="Noting: {fact}")
def remember(fact: str) -> str:
    """Keep a fact about the user, in one sentence, for later conversations."""
    if not caller().user:
        raise ToolError("It is not known who the user is.")
    facts.remember(fact, user=caller().user)
    return "noted"


def now() -> str:
    """What is true only now."""
    return f"It is {datetime.now():%A, %d %B %Y, %H:%M}."
