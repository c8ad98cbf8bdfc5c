"""hotloop: the millisecond agent runtime for Python.

Besides the names here, `hotloop.errors` has every error and `hotloop.testing` what tests of agents need.
"""

from msgspec import Meta

from hotloop.agent import Agent, Result
from hotloop.budget import Budget
from hotloop.errors import ApprovalRequired, ConfigError, HotloopError, ModelError, RunError, ToolError
from hotloop.events import (
    ApprovalNeeded,
    CallOpened,
    CallSealed,
    Event,
    ReasoningDelta,
    ReplyFinished,
    Reset,
    Retrying,
    RunFinished,
    RunPaused,
    TextDelta,
    ToolFinished,
    ToolStarted,
    ToolStatus,
)
from hotloop.models.transport import Transport
from hotloop.session import Session
from hotloop.tools.define import tool
from hotloop.tools.progress import report
from hotloop.tools.tool import Tool
from hotloop.trace.ledger import CallFacts, Stage, TurnFacts, Usage
from hotloop.trace.trace import BudgetRow, ToolTimes, Trace

__all__ = [
    "Agent",
    "ApprovalNeeded",
    "ApprovalRequired",
    "Budget",
    "BudgetRow",
    "CallFacts",
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
    "RunPaused",
    "Session",
    "Stage",
    "TextDelta",
    "Tool",
    "ToolError",
    "ToolFinished",
    "ToolStarted",
    "ToolStatus",
    "ToolTimes",
    "Trace",
    "Transport",
    "TurnFacts",
    "Usage",
    "report",
    "tool",
]
