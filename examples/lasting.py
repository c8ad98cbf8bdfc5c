"""What the assistant of lasting.yaml can do and knows of now: it remembers facts about whom it talks to.

hotloop sim --port 8000        (in another terminal: it stands in for the model)
hotloop run examples/lasting.yaml "I take my tea without milk." --session ann-1 --user ann
hotloop run examples/lasting.yaml "Which tea do you have?" --session ann-2 --user ann
hotloop session show ann-1 --agent-file examples/lasting.yaml
hotloop memory list --user ann --agent-file examples/lasting.yaml
"""

from __future__ import annotations

from datetime import datetime

from hotloop import Memory, memory_tools

remember, *_ = memory_tools(Memory())  # the same file as that of the agent


def now() -> str:
    """What is true only now."""
    return f"It is {datetime.now():%A, %d %B %Y, %H:%M}."
