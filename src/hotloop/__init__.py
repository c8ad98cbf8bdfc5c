"""hotloop: the millisecond agent runtime for Python."""

from msgspec import Meta

from hotloop.agent import Agent, Result, Session
from hotloop.budget import Budget
from hotloop.errors import HotloopError, ToolError
from hotloop.tools.progress import report
from hotloop.tools.tool import Tool, tool
from hotloop.trace.ledger import Usage
from hotloop.trace.trace import Trace

__all__ = [
    "Agent",
    "Budget",
    "HotloopError",
    "Meta",
    "Result",
    "Session",
    "Tool",
    "ToolError",
    "Trace",
    "Usage",
    "report",
    "tool",
]
