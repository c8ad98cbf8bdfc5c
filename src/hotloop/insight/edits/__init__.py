"""What could be changed about an agent, as changes of the graphs of its runs; they compose, one after the other."""

from hotloop.insight.edits.acting import Eager, Parallel
from hotloop.insight.edits.caching import Cache, SeenCache, SingleFlight
from hotloop.insight.edits.context import ContextCap
from hotloop.insight.edits.edit import Change, Edit
from hotloop.insight.edits.guessing import Hedge, Prefetch
from hotloop.insight.edits.plan import Plan
from hotloop.insight.edits.prompts import PrefixReuse, ShapedResults
from hotloop.insight.edits.service import Service
from hotloop.insight.edits.steps import ToolTime, Without

__all__ = [
    "Cache",
    "Change",
    "ContextCap",
    "Eager",
    "Edit",
    "Hedge",
    "Parallel",
    "Plan",
    "Prefetch",
    "PrefixReuse",
    "SeenCache",
    "Service",
    "ShapedResults",
    "SingleFlight",
    "ToolTime",
    "Without",
]
