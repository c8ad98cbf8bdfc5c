"""hotloop: the millisecond agent runtime for Python.

Besides the names here, `hotloop.errors` has every error and `hotloop.testing` what tests of agents need.
"""

from msgspec import Meta

from hotloop.agent import Agent, Result, Session
from hotloop.budget import Budget
from hotloop.errors import ConfigError, HotloopError, ModelError, RunError, ToolError
from hotloop.events import (
    CallOpened,
    CallSealed,
    Event,
    ReasoningDelta,
    ReplyFinished,
    Reset,
    Retrying,
    RunFinished,
    TextDelta,
    ToolFinished,
    ToolStarted,
    ToolStatus,
)
from hotloop.models.transport import Transport
from hotloop.tools.define import tool
from hotloop.tools.progress import report
from hotloop.tools.tool import Tool
from hotloop.trace.ledger import Stage, TurnFacts, Usage
from hotloop.trace.trace import BudgetRow, Trace

__all__ = [
    "Agent",
    "Budget",
    "BudgetRow",
    "CallOpened",
    "CallSealed",
    "ConfigError",
    "Event",
    "HotloopError",
    "Meta",
    "ModelError",
    "ReasoningDelta",
    "ReplyFinished",
    "Reset",
    "Result",
    "Retrying",
    "RunError",
    "RunFinished",
    "Session",
    "Stage",
    "TextDelta",
    "Tool",
    "ToolError",
    "ToolFinished",
    "ToolStarted",
    "ToolStatus",
    "Trace",
    "Transport",
    "TurnFacts",
    "Usage",
    "report",
    "tool",
]
