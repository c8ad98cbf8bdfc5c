"""hotloop: the millisecond agent runtime for Python.

Besides the names here, `hotloop.errors` has every error and `hotloop.testing` what tests of agents need.
"""

import typing

from msgspec import Meta

from hotloop.agent import Agent
from hotloop.budget import Budget, Degrade
from hotloop.context.sessions.record import SessionInfo, SessionKey, SessionStore
from hotloop.context.settings import Context, Task, Window
from hotloop.errors import (
    ApprovalRequired,
    BudgetExceeded,
    ConfigError,
    HotloopError,
    ModelError,
    RunError,
    SessionBusy,
    SessionConflict,
    ToolError,
)
from hotloop.events import (
    ApprovalNeeded,
    CallOpened,
    CallSealed,
    Event,
    OutputPartial,
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
from hotloop.models.model import Model
from hotloop.models.policy.policy import Breaker, Policy
from hotloop.models.rejection import empty_answer, refused_tool
from hotloop.models.routing.classifier import RouteClassifier
from hotloop.models.routing.router import Cascade, Router
from hotloop.models.routing.rules import Rule
from hotloop.models.transport import Transport
from hotloop.runs import Result
from hotloop.session import Session
from hotloop.tools.defining.define import tool
from hotloop.tools.defining.tool import Tool
from hotloop.tools.prefetch.settings import Prefetch
from hotloop.tools.running.progress import caller, remaining, report
from hotloop.trace.declared import Owners
from hotloop.trace.ledger import AttemptFacts, CallFacts, Stage, TurnFacts, Usage
from hotloop.trace.record import TraceRecord
from hotloop.trace.recording.recording import Traces
from hotloop.trace.trace import BudgetRow, ToolTimes, Trace

if typing.TYPE_CHECKING:
    from hotloop.answers.cache import AnswerCache
    from hotloop.context.memory.fact import Fact
    from hotloop.context.memory.memory import Memory
    from hotloop.tools.approvals.store import ApprovalStore
    from hotloop.tools.mcp import MCPServer
    from hotloop.tools.openapi import tools_from_openapi
    from hotloop.tools.remembering import memory_tools
    from hotloop.tools.sandbox import SandboxLimits
    from hotloop.trace.alerts.alerts import Alerts
    from hotloop.trace.alerts.rule import AlertRule
    from hotloop.trace.alerts.webhook import Webhook
    from hotloop.trace.otel.exporter import OTelExporter
    from hotloop.trace.prometheus.exporter import PrometheusExporter
    from hotloop.trace.recording.recorder import Exporter
    from hotloop.trace.store import TraceStore, Which

_LATE = {  # imported when they are asked for, since few programs do
    "AlertRule": "hotloop.trace.alerts.rule",
    "Alerts": "hotloop.trace.alerts.alerts",
    "AnswerCache": "hotloop.answers.cache",
    "ApprovalStore": "hotloop.tools.approvals.store",
    "Exporter": "hotloop.trace.recording.recorder",
    "Fact": "hotloop.context.memory.fact",
    "MCPServer": "hotloop.tools.mcp",
    "Memory": "hotloop.context.memory.memory",
    "OTelExporter": "hotloop.trace.otel.exporter",
    "PrometheusExporter": "hotloop.trace.prometheus.exporter",
    "SandboxLimits": "hotloop.tools.sandbox",
    "TraceStore": "hotloop.trace.store",
    "Which": "hotloop.trace.store",
    "Webhook": "hotloop.trace.alerts.webhook",
    "memory_tools": "hotloop.tools.remembering",
    "tools_from_openapi": "hotloop.tools.openapi",
}

__all__ = [
    "Agent",
    "AlertRule",
    "Alerts",
    "AnswerCache",
    "ApprovalNeeded",
    "ApprovalRequired",
    "ApprovalStore",
    "AttemptFacts",
    "Breaker",
    "Budget",
    "BudgetExceeded",
    "BudgetRow",
    "CallFacts",
    "CallOpened",
    "CallSealed",
    "Cascade",
    "ConfigError",
    "Context",
    "Degrade",
    "Event",
    "Exporter",
    "Fact",
    "HotloopError",
    "MCPServer",
    "Memory",
    "Meta",
    "Model",
    "ModelError",
    "OTelExporter",
    "OutputPartial",
    "Owners",
    "Policy",
    "Prefetch",
    "PrometheusExporter",
    "ReasoningDelta",
    "ReplyFinished",
    "Reset",
    "Result",
    "Retrying",
    "RouteClassifier",
    "Router",
    "Rule",
    "RunError",
    "RunFinished",
    "RunPaused",
    "SandboxLimits",
    "Session",
    "SessionBusy",
    "SessionConflict",
    "SessionInfo",
    "SessionKey",
    "SessionStore",
    "Stage",
    "Task",
    "TextDelta",
    "Tool",
    "ToolError",
    "ToolFinished",
    "ToolStarted",
    "ToolStatus",
    "ToolTimes",
    "Trace",
    "TraceRecord",
    "TraceStore",
    "Traces",
    "Transport",
    "TurnFacts",
    "Usage",
    "Webhook",
    "Which",
    "Window",
    "caller",
    "empty_answer",
    "memory_tools",
    "refused_tool",
    "remaining",
    "report",
    "tool",
    "tools_from_openapi",
]


def __getattr__(name: str) -> typing.Any:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_LATE[name]), name)
