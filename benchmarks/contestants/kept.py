"""hotloop without a network, its sessions kept in a file: what keeping costs is the difference to `unsent`."""

from __future__ import annotations

import atexit
import tempfile

from workload import Converse, Task

from contestants import unsent


def converse(task: Task) -> Converse:
    """The runs of a session in a new file, which is gone with the process."""
    folder = tempfile.TemporaryDirectory(prefix="hotloop-")
    atexit.register(folder.cleanup)
    return unsent.converse(task, f"{folder.name}/sessions.db")
