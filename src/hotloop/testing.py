"""For tests of agents: models and services that say what they are told to, with faults, and virtual time."""

from hotloop.lab import faults
from hotloop.lab.faultproxy import FaultProxy
from hotloop.lab.faults import FaultyTransport
from hotloop.lab.script import call, raw, say
from hotloop.lab.scripted import ScriptedModel
from hotloop.lab.sim import SimulatedService
from hotloop.lab.simtransport import SimulatedTransport
from hotloop.lab.virtual import run_virtual

__all__ = [
    "FaultProxy",
    "FaultyTransport",
    "ScriptedModel",
    "SimulatedService",
    "SimulatedTransport",
    "call",
    "faults",
    "raw",
    "run_virtual",
    "say",
]
