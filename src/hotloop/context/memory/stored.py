"""Facts in SQLite: the tables, and everything that is done with them.

`postings` is the index of their terms, ordered by whose they are, so that a search reads nothing of anybody else, and
how facts rank does not depend on others' facts. FTS5 has one index for all, with which neither holds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from sqlite3 import Connection
from typing import TYPE_CHECKING, Any, NamedTuple

from hotloop.context.memory.fact import Fact, fact_terms
from hotloop.context.memory.ranking import Match

if TYPE_CHECKING:
    from numpy.typing import NDArray

SCHEMA = (
    "CREATE TABLE clock (latest INTEGER NOT NULL, erased INTEGER NOT NULL)",
    "INSERT INTO clock VALUES (0, 0)",
    """CREATE TABLE scopes (
        number INTEGER PRIMARY KEY, user TEXT NOT NULL, session TEXT NOT NULL, changed INTEGER NOT NULL,
        UNIQUE (user, session))""",
    "CREATE INDEX changes ON scopes (changed)",
    """CREATE TABLE facts (
        number INTEGER PRIMARY KEY AUTOINCREMENT, scope INTEGER NOT NULL REFERENCES scopes ON DELETE CASCADE,
        id TEXT NOT NULL, text TEXT NOT NULL, at REAL NOT NULL, length INTEGER NOT NULL, UNIQUE (scope, id))""",
    "CREATE INDEX times ON facts (scope, at, length)",
    """CREATE TABLE postings (
        scope INTEGER NOT NULL REFERENCES scopes ON DELETE CASCADE, term TEXT NOT NULL, fact INTEGER NOT NULL,
        length INTEGER NOT NULL, PRIMARY KEY (scope, term, fact)) WITHOUT ROWID""",
    """CREATE TABLE vectors (
        scope INTEGER NOT NULL REFERENCES scopes ON DELETE CASCADE, fact INTEGER NOT NULL, maker TEXT NOT NULL,
        vector BLOB NOT NULL, PRIMARY KEY (scope, fact)) WITHOUT ROWID""",
)
_SCOPE = """
    INSERT INTO scopes (user, session, changed) VALUES (?, ?, ?)
    ON CONFLICT (user, session) DO UPDATE SET changed = excluded.changed"""
_FACT = """
    INSERT INTO facts (scope, id, text, at, length) VALUES (?, ?, ?, ?, ?)
    ON CONFLICT (scope, id) DO UPDATE SET text = excluded.text, at = excluded.at"""
_SCOPE_NUMBER = "SELECT number FROM scopes WHERE user = ? AND session = ?"
_FACT_NUMBER = "SELECT number FROM facts WHERE scope = ? AND id = ?"
_POSTING = "INSERT OR IGNORE INTO postings VALUES (?, ?, ?, ?)"
_FACTS = """
    SELECT id, text, user, session, at, vector FROM scopes JOIN facts ON facts.scope = scopes.number
    LEFT JOIN vectors ON vectors.scope = facts.scope AND fact = facts.number AND maker = ?
    WHERE user = ? ORDER BY facts.number LIMIT ?"""
_UNKNOWN = """
    SELECT facts.number, id, text FROM scopes JOIN facts ON facts.scope = scopes.number
    LEFT JOIN vectors ON vectors.scope = facts.scope AND fact = facts.number
    WHERE user = ? AND maker IS NOT ? LIMIT ?"""
_VECTOR = "INSERT OR REPLACE INTO vectors SELECT scope, number, ?, ? FROM facts WHERE number = ?"
_MANY = 1000


class Changes(NamedTuple):
    """What has changed since the change of a number: the number of the `latest`, and the users whose facts it were.

    None stands for all users: there are many, somebody was deleted, or it is another file.
    """

    latest: int
    users: list[str] | None


def add(db: Connection, facts: Iterable[Fact]) -> int:
    """Keep these facts, new or told again; the number of this change."""
    change = _change(db)
    for fact in facts:
        found = fact_terms(fact.text)
        db.execute(_SCOPE, (fact.user, fact.session, change))
        (scope,) = db.execute(_SCOPE_NUMBER, (fact.user, fact.session)).fetchone()
        db.execute(_FACT, (scope, fact.id, fact.text, fact.at, len(found)))
        (number,) = db.execute(_FACT_NUMBER, (scope, fact.id)).fetchone()
        db.executemany(_POSTING, [(scope, term, number, len(found)) for term in found])
    return change


def changes(db: Connection, since: int) -> Changes:
    """What has changed since the change of this number."""
    latest, erased = db.execute("SELECT latest, erased FROM clock").fetchone()
    found = db.execute("SELECT user FROM scopes WHERE changed > ? LIMIT ?", (since, _MANY)).fetchall()
    if latest < since or erased > since or len(found) == _MANY:
        return Changes(latest, None)
    return Changes(latest, list({user for (user,) in found}))


def facts_of(db: Connection, user: str, maker: str = "", most: int = -1) -> list[tuple[Fact, bytes | None]]:
    """All facts of a user, or `most` of them, in the order in which they were first told, with vectors of `maker`."""
    rows = db.execute(_FACTS, (maker, user, most))
    return [(Fact(*fact), vector) for *fact, vector in rows]


def forget(db: Connection, user: str, fact_id: str) -> bool:
    """Delete one fact of a user; False if there is none with this id."""
    query = "SELECT facts.number, scope FROM scopes JOIN facts ON scope = scopes.number WHERE user = ? AND id = ?"
    found = db.execute(query, (user, fact_id)).fetchall()
    for number, scope in found:
        for table in ("postings", "vectors"):
            db.execute(f"DELETE FROM {table} WHERE scope = ? AND fact = ?", (scope, number))
        db.execute("DELETE FROM facts WHERE number = ?", (number,))
        db.execute("UPDATE scopes SET changed = ? WHERE number = ?", (_change(db), scope))
    return bool(found)


def delete(db: Connection, user: str) -> int:
    """Delete all that is kept of a user; how many facts that were."""
    query = "SELECT count(*) FROM scopes JOIN facts ON scope = scopes.number WHERE user = ?"
    (count,) = db.execute(query, (user,)).fetchone()
    db.execute("DELETE FROM scopes WHERE user = ?", (user,))
    db.execute("UPDATE clock SET erased = ?", (_change(db),))
    return int(count)


def without_vectors(db: Connection, user: str, maker: str, most: int) -> list[tuple[int, str, str]]:
    """The numbers, ids and texts of facts of a user that have no vector of this maker, at most so many."""
    return db.execute(_UNKNOWN, (user, maker, most)).fetchall()


def add_vectors(db: Connection, user: str, maker: str, vectors: Mapping[int, bytes]) -> int:
    """Keep the vectors of facts, by their numbers, as far as they are still there; the number of this change."""
    change = _change(db)
    db.execute("UPDATE scopes SET changed = ? WHERE user = ?", (change, user))
    db.executemany(_VECTOR, [(maker, vector, number) for number, vector in vectors.items()])
    return change


class StoredFacts:
    """The facts in the file that a request of this session may see, to be ranked: see `Facts`; keys are numbers."""

    def __init__(self, db: Connection, user: str, session: str, maker: str = "") -> None:
        self._db = db
        self._maker = maker
        found = db.execute("SELECT number FROM scopes WHERE user = ? AND session IN ('', ?)", (user, session))
        self._scopes = [scope for (scope,) in found]

    def size(self) -> tuple[int, int]:
        query = f"SELECT count(*), coalesce(sum(length), 0) FROM facts WHERE scope IN {_marks(self._scopes)}"
        count, terms = self._db.execute(query, self._scopes).fetchone()
        return count, terms

    def sharing(self, asked: Set[str]) -> list[Match]:
        within = f"scope IN {_marks(self._scopes)} AND term IN {_marks(asked)}"
        query = f"SELECT fact, term, length FROM postings WHERE {within}"
        shared: dict[int, list[str]] = {}
        lengths: dict[int, int] = {}
        for fact, term, length in self._db.execute(query, (*self._scopes, *asked)):
            shared.setdefault(fact, []).append(term)
            lengths[fact] = length
        return [Match(fact, shared[fact], lengths[fact]) for fact in sorted(shared, reverse=True)]

    def nearest(self, direction: NDArray[Any], limit: int) -> list[int]:
        from hotloop.context.memory.meaning import nearest

        query = f"SELECT fact, vector FROM vectors WHERE scope IN {_marks(self._scopes)} AND maker = ?"
        rows = sorted(self._db.execute(query, (*self._scopes, self._maker)), reverse=True)
        return [rows[place][0] for place in nearest([vector for _, vector in rows], direction, limit)]

    def newest(self, limit: int) -> list[int]:
        query = f"SELECT number FROM facts WHERE scope IN {_marks(self._scopes)} ORDER BY at DESC, number DESC LIMIT ?"
        return [number for (number,) in self._db.execute(query, (*self._scopes, limit))]

    def read(self, keys: Sequence[int]) -> list[Fact]:
        query = f"""SELECT facts.number, id, text, user, session, at FROM facts JOIN scopes ON scope = scopes.number
            WHERE facts.number IN {_marks(keys)}"""
        found = {number: Fact(*fact) for number, *fact in self._db.execute(query, keys)}
        return [found[key] for key in keys]


def _marks(values: Collection[object]) -> str:
    """Places for these values in a statement."""
    return f"({', '.join('?' * len(values))})"


def _change(db: Connection) -> int:
    """The number of a change that is about to be made."""
    db.execute("UPDATE clock SET latest = latest + 1")
    (latest,) = db.execute("SELECT latest FROM clock").fetchone()
    return int(latest)
