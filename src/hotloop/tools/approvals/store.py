"""Where paused runs wait for a person: their state, the calls to decide about, what was decided and what was run.

All of it is one SQLite file, and each method one transaction, on the disk when the method returns.
"""

from __future__ import annotations

import hashlib
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import msgspec

from hotloop.database import state_path
from hotloop.errors import ConfigError, RunError
from hotloop.sqlitefile import Layout, connect, explained, make_empty

_SCHEMA = (
    "CREATE TABLE runs (run_id TEXT PRIMARY KEY, agent TEXT NOT NULL, paused_at REAL NOT NULL, state BLOB NOT NULL)",
    """CREATE TABLE calls (
        run_id TEXT NOT NULL REFERENCES runs ON DELETE CASCADE, call_id TEXT NOT NULL, name TEXT NOT NULL,
        arguments TEXT NOT NULL, digest TEXT NOT NULL, UNIQUE (run_id, call_id))""",
    """CREATE TABLE decisions (
        run_id TEXT NOT NULL REFERENCES runs ON DELETE CASCADE, call_id TEXT NOT NULL, digest TEXT NOT NULL,
        approved INTEGER NOT NULL, decided_by TEXT NOT NULL, reason TEXT NOT NULL, decided_at REAL NOT NULL,
        PRIMARY KEY (run_id, call_id, digest))""",
    """CREATE TABLE executions (
        run_id TEXT NOT NULL REFERENCES runs ON DELETE CASCADE, call_id TEXT NOT NULL, result BLOB,
        PRIMARY KEY (run_id, call_id))""",
)
_LAYOUT = Layout("paused runs", _SCHEMA)
_PRAGMAS = ("synchronous = EXTRA", "foreign_keys = ON")  # FULL may lose the last commit when the power goes
_PAUSE = """
    INSERT INTO runs (run_id, agent, paused_at, state) VALUES (?, ?, ?, ?) ON CONFLICT (run_id) DO UPDATE
    SET agent = excluded.agent, paused_at = excluded.paused_at, state = excluded.state"""
_RUN = "SELECT agent, paused_at, state FROM runs WHERE run_id = ?"
_CALLS = """
    SELECT call_id, name, arguments, digest, approved, decided_by, reason, decided_at, executions.run_id IS NOT NULL
    FROM calls LEFT JOIN decisions USING (run_id, call_id, digest) LEFT JOIN executions USING (run_id, call_id)
    WHERE calls.run_id = ? ORDER BY calls.rowid"""
_CLAIM = """
    INSERT INTO executions (run_id, call_id)
    SELECT run_id, call_id FROM calls JOIN decisions USING (run_id, call_id, digest)
    WHERE run_id = ? AND call_id = ? AND digest = ? AND approved ON CONFLICT DO NOTHING"""
_BEGIN = "INSERT INTO executions (run_id, call_id) VALUES (?, ?) ON CONFLICT DO NOTHING"
_RECORD = """
    INSERT INTO executions (run_id, call_id, result) VALUES (?, ?, ?) ON CONFLICT (run_id, call_id) DO UPDATE
    SET result = excluded.result WHERE result IS NULL"""
_RESULTS = "SELECT call_id, result FROM executions WHERE run_id = ? AND result IS NOT NULL ORDER BY rowid"


class PendingCall(msgspec.Struct, frozen=True):
    """A call that a person is asked about.

    `arguments` is JSON text, `digest` what `digest_of` makes of the call.
    """

    call_id: str
    name: str
    arguments: str
    digest: str


class Decision(msgspec.Struct, frozen=True):
    """What a person said, who and why ("" where they did not say), and when, in Unix seconds."""

    approved: bool
    by: str
    reason: str
    at: float


class DecidedCall(msgspec.Struct, frozen=True):
    """A pending call with its decision, None until there is one.

    A call that is `claimed` was begun or has a result, and can never be claimed again. Without a result, the process
    that began it is still at it or died, and then nobody knows what came of it.
    """

    call: PendingCall
    decision: Decision | None
    claimed: bool


class PausedRun(msgspec.Struct, frozen=True):
    """A run that waits: what it needs to go on (`state`), since when (Unix seconds), and the calls it waits for."""

    run_id: str
    agent: str
    paused_at: float
    state: bytes
    calls: list[DecidedCall]

    def __repr__(self) -> str:
        calls = ", ".join(decided.call.name for decided in self.calls)
        return f"<PausedRun {self.run_id} of {self.agent!r}, waits for {calls or 'nobody'}>"  # its state is private


def digest_of(run_id: str, call_id: str, name: str, arguments: str) -> str:
    """What an approval is bound to: a SHA-256, as hex, of exactly this call of this run with these arguments."""
    return hashlib.sha256(msgspec.json.encode([run_id, call_id, name, arguments])).hexdigest()


class ApprovalStore:
    """The paused runs in the file at `path`, for any number of threads and processes; made when it is first used.

    Every method raises ConfigError when the file cannot be used, and, if it takes a run, when that run is not in it.
    Nothing goes by itself: a run stays until `finish`.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self.path = (Path(path).expanduser() if path else state_path("approvals.db")).absolute()

    def pause(
        self, run_id: str, agent: str, state: bytes, calls: Sequence[PendingCall], *, first: bool = False
    ) -> None:
        """Keep a run with the calls that it waits for, instead of what was kept of its state and its calls before.

        Decisions about the same calls with the same arguments stay, and so does all that was begun and recorded.
        Raises ConfigError if two calls have the same id, and, for a run that pauses `first`, if one with its id waits.
        """
        if len({call.call_id for call in calls}) < len(calls):
            raise ConfigError(f"Run {run_id} cannot wait for two calls with the same id; give each its own.")
        with self._transaction() as db:
            if first:
                _check_free(db, run_id)
            db.execute(_PAUSE, (run_id, agent, time.time(), state))
            db.execute("DELETE FROM calls WHERE run_id = ?", (run_id,))
            rows = [(run_id, *msgspec.structs.astuple(call)) for call in calls]
            db.executemany("INSERT INTO calls VALUES (?, ?, ?, ?, ?)", rows)

    def check_free(self, run_id: str) -> None:
        """Raise ConfigError if a run with this id waits already."""
        with self._transaction() as db:
            _check_free(db, run_id)

    def load(self, run_id: str) -> PausedRun:
        """The run as it was paused, with what was decided since."""
        with self._transaction(run_id) as db:
            return _paused_run(db, run_id)

    def runs(self) -> list[PausedRun]:
        """All runs that wait, oldest first."""
        with self._transaction() as db:
            rows = db.execute("SELECT run_id FROM runs ORDER BY paused_at, rowid").fetchall()
            return [_paused_run(db, run_id) for (run_id,) in rows]

    def decide(self, run_id: str, call_id: str, digest: str, approved: bool, by: str = "", reason: str = "") -> None:
        """Keep what a person said about a call; saying the same again changes nothing.

        Raises ConfigError when `approved` is neither True nor False, when `digest` is not the call's, so that the
        person has seen other arguments, when the opposite was decided before, and when the call has been run.
        """
        if not isinstance(approved, bool):  # "no" would count as true
            raise ConfigError(f"approved is {approved!r}; give True or False.")
        with self._transaction(run_id) as db:
            decided = _decided_call(db, run_id, call_id)
            if decided.call.digest != digest:
                raise ConfigError(f"Call {call_id} is not what was shown; look at its arguments again and then decide.")
            if decided.claimed:
                raise ConfigError(f"Call {call_id} has been run already; there is nothing left to decide.")
            if decided.decision is None:
                row = (run_id, call_id, digest, approved, by, reason, time.time())
                db.execute("INSERT INTO decisions VALUES (?, ?, ?, ?, ?, ?, ?)", row)
            elif decided.decision.approved != approved:
                said = "approved" if decided.decision.approved else "refused"
                who = f" by {decided.decision.by}" if decided.decision.by else ""
                raise ConfigError(f"Call {call_id} was {said} already{who}, and that is final.")

    def claim(self, run_id: str, call_id: str, digest: str) -> bool:
        """Use up the approval of a call: True means that the caller, and nobody else ever, may run it now.

        False: it was claimed before, refused or not decided, or the approval is not for the call with this digest.
        """
        with self._transaction(run_id) as db:
            return db.execute(_CLAIM, (run_id, call_id, digest)).rowcount == 1

    def begin(self, run_id: str, call_id: str) -> bool:
        """Note that a call that needs no approval is about to run; False if that was noted before.

        Raises ConfigError for a call that a person must decide about: that takes `claim`.
        """
        with self._transaction(run_id) as db:
            if any(each.call.call_id == call_id for each in _decided_calls(db, run_id)):
                raise ConfigError(f"Call {call_id} needs an approval; claim it with its digest.")
            return db.execute(_BEGIN, (run_id, call_id)).rowcount == 1

    def record(self, run_id: str, call_id: str, result: bytes) -> None:
        """Keep the result of a call, begun before or not; the first one stays."""
        with self._transaction(run_id) as db:
            db.execute(_RECORD, (run_id, call_id, result))

    def results(self, run_id: str) -> dict[str, bytes]:
        """The results that were recorded, by call id."""
        with self._transaction(run_id) as db:
            return dict(db.execute(_RESULTS, (run_id,)).fetchall())

    def finish(self, run_id: str) -> None:
        """Forget a run that has ended or is given up; call it within the run's lease."""
        with self._transaction(run_id) as db:
            db.execute("DELETE FROM runs WHERE run_id = ?", (run_id,))

    @contextmanager
    def lease(self, run_id: str) -> Iterator[None]:
        """Hold a run while resuming it; whoever else asks meanwhile, in any thread or process, gets a RunError at once.

        It is free again at the end of the block, or when the process ends in whatever way.
        """
        path = self.path.with_name(f"{self.path.name}-{_short_hash(run_id)}.lease")
        with ExitStack() as held:
            # Only within transactions, thus one at a time, are lease files made, tried and removed: nobody comes to
            # hold a file that another has just removed.
            with self._transaction(run_id):
                lock = held.enter_context(_open_lease(path))
                if not _locks(lock):
                    raise RunError(f"Run {run_id} is being resumed already; wait for its end, or stop it")
            try:
                yield
            finally:
                with self._transaction():
                    lock.close()
                    path.unlink(missing_ok=True)

    @contextmanager
    def _transaction(self, run_id: str | None = None) -> Iterator[sqlite3.Connection]:
        """The write lock on the file, and on this run, which must be there; committed at the end, or rolled back."""
        with explained(self.path, _LAYOUT.what), closing(connect(self.path, _LAYOUT, *_PRAGMAS)) as db, db:
            db.execute("BEGIN IMMEDIATE")
            if run_id is not None:
                self._require(db, run_id)
            yield db

    def _require(self, db: sqlite3.Connection, run_id: str) -> None:
        if db.execute("SELECT 1 FROM runs WHERE run_id = ?", (run_id,)).fetchone() is None:
            raise ConfigError(f"No run {run_id!r} waits in {self.path}: it has ended, was given up, or never paused.")


def _check_free(db: sqlite3.Connection, run_id: str) -> None:
    if db.execute("SELECT 1 FROM runs WHERE run_id = ?", (run_id,)).fetchone():
        raise ConfigError(f"A run {run_id} waits already; resume it, or give this one another trace_id.")


def _paused_run(db: sqlite3.Connection, run_id: str) -> PausedRun:
    agent, paused_at, state = db.execute(_RUN, (run_id,)).fetchone()
    return PausedRun(run_id, agent, paused_at, state, _decided_calls(db, run_id))


def _decided_calls(db: sqlite3.Connection, run_id: str) -> list[DecidedCall]:
    calls = []
    for *call, approved, by, reason, at, claimed in db.execute(_CALLS, (run_id,)):
        decision = None if approved is None else Decision(bool(approved), by, reason, at)
        calls.append(DecidedCall(PendingCall(*call), decision, bool(claimed)))
    return calls


def _decided_call(db: sqlite3.Connection, run_id: str, call_id: str) -> DecidedCall:
    calls = {each.call.call_id: each for each in _decided_calls(db, run_id)}
    if call_id not in calls:
        raise ConfigError(f"Run {run_id} waits for no call {call_id!r}; it waits for {', '.join(calls) or 'none'}.")
    return calls[call_id]


def _short_hash(run_id: str) -> str:
    return hashlib.sha256(run_id.encode(errors="surrogatepass")).hexdigest()[:32]


def _open_lease(path: Path) -> closing[sqlite3.Connection]:
    # A lock of SQLite's: unlike flock it is not inherited by children, who may outlive this process.
    make_empty(path)
    return closing(sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False))


def _locks(lease: sqlite3.Connection) -> bool:
    try:
        lease.execute("PRAGMA journal_mode = MEMORY")
        lease.execute("BEGIN EXCLUSIVE")
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
            raise
        return False
    return True
