"""Processes that share a store of approvals, to be killed: `python approval_process.py WHAT FILE ...`.

Each says on stdout what it has done, one line each, after it was done.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from itertools import count
from pathlib import Path

from hotloop.errors import RunError
from hotloop.tools.approvals.store import ApprovalStore, PendingCall, digest_of
from killing import die_at

STEPS = ("pause", "decide", "claim", "record", "finish")


def pending(run_id: str, call_id: str, arguments: str = "{}") -> PendingCall:
    """A call as a run would ask about it."""
    return PendingCall(call_id, "refund", arguments, digest_of(run_id, call_id, "refund", arguments))


def take_step(store: ApprovalStore, run_id: str, step: str) -> None:
    """One step in the life of a run that waits for two calls."""
    call = pending(run_id, "a")
    match step:
        case "pause":
            store.pause(run_id, "clerk", b"state of " + run_id.encode(), [call, pending(run_id, "b")])
        case "decide":
            store.decide(run_id, "a", call.digest, True, by="ann")
        case "claim":
            assert store.claim(run_id, "a", call.digest)
        case "record":
            store.record(run_id, "a", b"done")
        case "finish":
            store.finish(run_id)


def work(store: ApprovalStore, prefix: str) -> None:
    """Take runs through all steps until killed."""
    for number in count():
        for step in STEPS:
            take_step(store, f"{prefix}-{number}", step)
            print(number, step, flush=True)


def die_at_each_statement(store: ApprovalStore, step: str) -> None:
    """Take a step in children that are killed at its first SQL statement, its second and so on, until one survives."""
    for number in count():
        run_id = f"{step}-{number}"
        for before in STEPS[: STEPS.index(step)]:
            take_step(store, run_id, before)
        if (child := os.fork()) == 0:
            die_at(number)
            take_step(store, run_id, step)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        print(run_id, "survived" if status == 0 else "died", flush=True)
        if status == 0:
            return
        assert os.WTERMSIG(status) == signal.SIGKILL


def race(store: ApprovalStore, run_id: str) -> None:
    """Claim every call of a run, once all racers are ready."""
    calls = [each.call for each in store.load(run_id).calls]
    print("ready", flush=True)
    sys.stdin.readline()
    print(*(call.call_id for call in calls if store.claim(run_id, call.call_id, call.digest)), flush=True)


def hold(store: ApprovalStore, run_id: str) -> None:
    """Hold a run's lease until stdin ends, and leave a child that lives as long."""
    with store.lease(run_id):
        if os.fork() == 0:
            sys.stdin.read()
            os._exit(0)
        print("held", flush=True)
        sys.stdin.read()


def add(store: ApprovalStore, run_id: str, counter: str, times: str) -> None:
    """Add to a number in a file, in steps that only a lease makes one."""
    file, added = Path(counter), 0
    while added < int(times):
        with suppress(RunError), store.lease(run_id):
            file.write_text(str(int(file.read_text()) + 1))
            added += 1


if __name__ == "__main__":
    globals()[sys.argv[1]](ApprovalStore(sys.argv[2]), *sys.argv[3:])
