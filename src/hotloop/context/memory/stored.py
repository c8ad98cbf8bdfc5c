"""Facts in SQLite: the tables, and everything that is done with them.

`postings` is the index of their terms, ordered by whose they are, so that a search reads nothing of anybody else, and
how facts rank does not depend on others' facts. FTS5 has one index for all, with which neither holds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from sqlite3 import Connection

from hotloop.context.memory.fact import Fact, fact_terms
from hotloop.context.memory.ranking import Candidates, Match, Search

SCHEMA = (
    """CREATE TABLE scopes (
        number INTEGER PRIMARY KEY, user TEXT NOT NULL, session TEXT NOT NULL, UNIQUE (user, session))""",
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
_SCOPE = "INSERT OR IGNORE INTO scopes (user, session) VALUES (?, ?)"
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


def add(db: Connection, facts: Iterable[Fact]) -> None:
    """Keep these facts, new or told again."""
    for fact in facts:
        found = fact_terms(fact.text)
        db.execute(_SCOPE, (fact.user, fact.session))
        (scope,) = db.execute(_SCOPE_NUMBER, (fact.user, fact.session)).fetchone()
        db.execute(_FACT, (scope, fact.id, fact.text, fact.at, len(found)))
        (number,) = db.execute(_FACT_NUMBER, (scope, fact.id)).fetchone()
        db.executemany(_POSTING, [(scope, term, number, len(found)) for term in found])


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
    return bool(found)


def delete(db: Connection, user: str) -> int:
    """Delete all that is kept of a user; how many facts that were."""
    query = "SELECT count(*) FROM scopes JOIN facts ON scope = scopes.number WHERE user = ?"
    (count,) = db.execute(query, (user,)).fetchone()
    db.execute("DELETE FROM scopes WHERE user = ?", (user,))
    return int(count)


def without_vectors(db: Connection, user: str, maker: str, most: int) -> list[tuple[int, str, str]]:
    """The numbers, ids and texts of facts of a user that have no vector of this maker, at most so many."""
    return db.execute(_UNKNOWN, (user, maker, most)).fetchall()


def add_vectors(db: Connection, maker: str, vectors: Mapping[int, bytes]) -> None:
    """Keep the vectors of facts, by their numbers, as far as they are still there."""
    db.executemany(_VECTOR, [(maker, vector, number) for number, vector in vectors.items()])


def candidates(db: Connection, search: Search) -> Candidates:
    """Those that may fit, of what is in the file; a key is the number of a fact."""
    found = db.execute("SELECT number FROM scopes WHERE user = ? AND session IN ('', ?)", search[:2])
    scopes = [scope for (scope,) in found]
    size = f"SELECT count(*), coalesce(sum(length), 0) FROM facts WHERE scope IN {_marks(scopes)}"
    count, terms = db.execute(size, scopes).fetchone()
    sharing = _sharing(db, scopes, search.terms)
    newest = [] if len(sharing) >= search.limit else _newest(db, scopes, search.limit)
    return Candidates(count, terms, sharing, _nearest(db, scopes, search), newest)


def read(db: Connection, numbers: Sequence[int]) -> list[Fact]:
    """The facts of these numbers."""
    query = f"""SELECT facts.number, id, text, user, session, at FROM facts JOIN scopes ON scope = scopes.number
        WHERE facts.number IN {_marks(numbers)}"""
    found = {number: Fact(*fact) for number, *fact in db.execute(query, numbers)}
    return [found[number] for number in numbers]


def _sharing(db: Connection, scopes: Sequence[int], asked: Set[str]) -> list[Match]:
    query = f"SELECT fact, term, length FROM postings WHERE scope IN {_marks(scopes)} AND term IN {_marks(asked)}"
    shared: dict[int, list[str]] = {}
    lengths: dict[int, int] = {}
    for fact, term, length in db.execute(query, (*scopes, *asked)):
        shared.setdefault(fact, []).append(term)
        lengths[fact] = length
    return [Match(fact, shared[fact], lengths[fact]) for fact in sorted(shared, reverse=True)]


def _newest(db: Connection, scopes: Sequence[int], limit: int) -> list[int]:
    query = f"SELECT number FROM facts WHERE scope IN {_marks(scopes)} ORDER BY at DESC, number DESC LIMIT ?"
    return [number for (number,) in db.execute(query, (*scopes, limit))]


def _nearest(db: Connection, scopes: Sequence[int], search: Search) -> list[int]:
    if search.direction is None:
        return []
    from hotloop.context.memory.meaning import nearest

    query = f"SELECT fact, vector FROM vectors WHERE scope IN {_marks(scopes)} AND maker = ?"
    rows = sorted(db.execute(query, (*scopes, search.maker)), reverse=True)
    return [rows[place][0] for place in nearest([vector for _, vector in rows], search.direction, search.limit)]


def _marks(values: Collection[object]) -> str:
    """Places for these values in a statement."""
    return f"({', '.join('?' * len(values))})"
