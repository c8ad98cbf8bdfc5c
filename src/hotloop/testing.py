"""For tests of agents: a model that answers from a script, a service over real sockets, and virtual time."""

from hotloop.lab.script import call, raw, say
from hotloop.lab.scripted import ScriptedModel
from hotloop.lab.sim import SimulatedService
from hotloop.lab.virtual import run_virtual

__all__ = ["ScriptedModel", "SimulatedService", "call", "raw", "run_virtual", "say"]
