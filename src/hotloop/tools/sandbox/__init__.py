"""Tools in a process of their own: what they may use there, how they come to an end, and what comes back."""

from hotloop.tools.sandbox.call import check_sandboxed, run_sandboxed
from hotloop.tools.sandbox.wire import SandboxLimits

__all__ = ["SandboxLimits", "check_sandboxed", "run_sandboxed"]
