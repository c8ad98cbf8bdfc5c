"""A refund desk in a folder: an agent of which some calls need an approval."""

from __future__ import annotations

from pathlib import Path

from hotloop.testing import call

ONE, TWO = call("refund", order_id="1"), call("refund", order_id="2", note="broken")
TOOLS = '''
from pathlib import Path
from hotloop import tool

EFFECTS = Path(__file__).with_name("effects")

@tool(approval="always", status="Refunding order {order_id}")
def refund(order_id: str, note: str = "") -> str:
    """Pay back."""
    with EFFECTS.open("a") as effects:
        effects.write(order_id)
    return f"{order_id} refunded"

@tool(requires=("books", "cash"))
def close() -> str:
    """Close the desk."""
    return "closed"
'''


def open_desk(folder: Path, url: str) -> Path:
    """The file of an agent whose model is at `url`; what it refunds is written to `effects` beside it."""
    module = f"desk_{folder.name}"  # each folder its own, or the first one's would stay imported
    (folder / f"{module}.py").write_text(TOOLS)
    path = folder / "desk.yaml"
    path.write_text(
        f"name: desk\ninference: {{endpoint: '{url}', model: simulated, retries: 0}}\n"
        f"tools: {{use: ['{module}:refund', '{module}:close'], approvals: waiting.db, audit: audit.jsonl}}\n"
    )
    return path


def refunded(config: Path) -> str:
    """The orders that were refunded, one after the other."""
    effects = config.with_name("effects")
    return effects.read_text() if effects.exists() else ""
