"""SQLite files of ours: shared by threads, event loops and processes, and left whole whatever happens."""

from __future__ import annotations

import asyncio
import os
import random
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from hotloop.database import Database, state_path
from hotloop.errors import ConfigError
from hotloop.testing import run_virtual

SCHEMA = ("CREATE TABLE notes (text TEXT NOT NULL)",)
ENOUGH = 30  # seconds, for anything on a busy machine
posix = pytest.mark.skipif(sys.platform == "win32", reason="forks, and other users' files")
PROCESS = f"""
import asyncio, os, sqlite3, sys, threading
from pathlib import Path
from hotloop.database import Database

notes = Database(Path(sys.argv[1]), "notes", {SCHEMA!r})

def add(text):
    return lambda db: db.execute("INSERT INTO notes VALUES (?)", (text,)) and None
"""


@pytest.fixture
def notes(tmp_path) -> Iterator[Database]:
    database = database_in(tmp_path)
    yield database
    database.close()


def database_in(folder: Path) -> Database:
    return Database(folder / "notes.db", "notes", SCHEMA)


def add(text: str):
    return lambda db: db.execute("INSERT INTO notes VALUES (?)", (text,)) and None


def read(db: sqlite3.Connection) -> list[str]:
    return [text for (text,) in db.execute("SELECT text FROM notes ORDER BY rowid")]


def started(code: str, path: Path, *arguments: str, before: str = "") -> subprocess.Popen[str]:
    command = [sys.executable, "-W", "error", "-c", before + PROCESS + code, str(path), *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def said(process: subprocess.Popen[str]) -> str:
    """What the process has said, having ended well and without a warning."""
    out, err = process.communicate(timeout=ENOUGH)
    assert (process.returncode, err) == (0, "")
    return out


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("hotloop notes")]


def change_much(db: sqlite3.Connection, seed: int) -> None:
    """Add short and long rows, kept and secret ones, and change some, so that SQLite moves rows between pages."""
    chance = random.Random(seed)
    for number in range(100):
        add(f"{chance.choice(['kept', 'secret'])} {number} " * chance.choice([1, 10, 100, 1000]))(db)
        longer = "UPDATE notes SET text = text || substr(text, 1, ?) WHERE rowid = ?"
        db.execute(longer, (chance.choice([10, 1000]), chance.randint(1, number + 1)))


def delete_secrets(db: sqlite3.Connection) -> int:
    return db.execute("DELETE FROM notes WHERE text LIKE 'secret%'").rowcount


def are_secrets_in(folder: Path) -> bool:
    return any(b"secret" in path.read_bytes() for path in folder.iterdir())


def test_work_is_done_whole_or_not_at_all(notes):
    def breaks(db: sqlite3.Connection) -> None:
        add("half")(db)
        raise ZeroDivisionError

    async def main() -> list[str]:
        await notes.do(add("one"))
        with pytest.raises(ZeroDivisionError):
            await notes.do(breaks)
        notes.do_sync(add("two"))
        return await notes.read(read)

    assert asyncio.run(main()) == ["one", "two"]
    assert run_virtual(notes.read(read)) == ["one", "two"]


def test_all_that_use_a_file_share_one_thread_and_one_connection(tmp_path):
    async def main() -> None:
        several = [database_in(tmp_path) for _ in range(20)]
        connections = await asyncio.gather(*(each.read(lambda db: db) for each in several))
        assert len(set(map(id, connections))) == 1
        assert len(threads()) == 1
        several[0].close()
        assert not threads()
        assert await several[1].read(read) == []
        several[1].close()

    asyncio.run(main())


def test_thread_and_connection_go_with_the_last_that_uses_them(tmp_path):
    async def main() -> sqlite3.Connection:
        return await database_in(tmp_path).read(lambda db: db)

    connection = asyncio.run(main())
    for thread in threads():
        thread.join(ENOUGH)
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        connection.execute("SELECT 1")
    assert [path.name for path in tmp_path.iterdir()] == ["notes.db"]


def test_threads_with_their_own_event_loops_use_it_at_once(notes):
    async def main(name: str) -> None:
        await asyncio.gather(*(notes.do(add(f"{name} {number}")) for number in range(20)))
        notes.do_sync(add(f"{name} sync"))

    users = [threading.Thread(target=lambda name=name: asyncio.run(main(name))) for name in "abcd"]
    for user in users:
        user.start()
    for user in users:
        user.join()
    kept = notes.do_sync(read)
    assert sorted(kept) == sorted(f"{name} {number}" for name in "abcd" for number in [*range(20), "sync"])


def test_who_is_cancelled_has_done_all_or_nothing(notes):
    async def main() -> list[str]:
        begun, go_on = asyncio.Event(), threading.Event()
        loop = asyncio.get_running_loop()

        def slow(db: sqlite3.Connection) -> None:
            loop.call_soon_threadsafe(begun.set)
            go_on.wait(ENOUGH)
            add("begun")(db)

        running, waiting = asyncio.create_task(notes.do(slow)), asyncio.create_task(notes.do(add("waited")))
        await begun.wait()
        for task in (running, waiting):
            task.cancel()
        await asyncio.wait([running, waiting])
        assert running.cancelled() and waiting.cancelled()
        go_on.set()
        return await notes.read(read)

    assert asyncio.run(main()) == ["begun"]


def test_closing_waits_for_what_was_asked_for(notes):
    async def main() -> None:
        tasks = [asyncio.create_task(notes.do(add(str(number)))) for number in range(5)]
        await asyncio.sleep(0)
        notes.close()
        await asyncio.gather(*tasks)

    asyncio.run(main())
    assert notes.do_sync(read) == ["0", "1", "2", "3", "4"]


def test_what_is_overwritten_is_no_longer_where_it_was(notes, tmp_path):
    async def main() -> None:
        await notes.do(add("kept"))
        await notes.do(add("secret" * 5000))
        assert are_secrets_in(tmp_path)
        assert await notes.overwrite(delete_secrets) == 1
        assert not are_secrets_in(tmp_path)
        assert await notes.read(read) == ["kept"]

    asyncio.run(main())


def test_what_is_erased_is_nowhere_in_the_file_however_it_was_moved_about(notes, tmp_path):
    async def main() -> None:
        for seed in range(12):
            await notes.do(partial(change_much, seed=seed))
            kept = [text for text in await notes.read(read) if text.startswith("kept")]
            assert are_secrets_in(tmp_path)
            assert await notes.erase(delete_secrets) > 0
            assert not are_secrets_in(tmp_path), seed
            assert await notes.read(read) == kept

    asyncio.run(main())


def test_who_erases_waits_for_another_process_that_reads(notes, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr("hotloop.sqlitefile.BUSY_SECONDS", 0)  # SQLite itself does not wait
    tries = []

    def traced(statement: str) -> None:
        if "checkpoint" in statement:
            tries.append(statement)
            if len(tries) == 3:
                reader.commit()

    def delete(db: sqlite3.Connection) -> int:
        db.set_trace_callback(traced)
        return delete_secrets(db)

    notes.do_sync(add("secret"))
    with closing(sqlite3.connect(notes.path, check_same_thread=False)) as reader:
        reader.execute("BEGIN")
        assert read(reader) == ["secret"]
        assert asyncio.run(notes.erase(delete)) == 1
        assert not are_secrets_in(tmp_path)
    assert (len(tries), caplog.text) == (3, "")


def test_what_somebody_still_reads_is_said_not_to_be_erased_yet(notes, tmp_path, monkeypatch, caplog):
    for module in ("database", "sqlitefile"):
        monkeypatch.setattr(f"hotloop.{module}.BUSY_SECONDS", 0)
    notes.do_sync(add("secret"))
    with closing(sqlite3.connect(notes.path)) as reader:
        reader.execute("BEGIN")
        assert read(reader) == ["secret"]
        assert asyncio.run(notes.erase(delete_secrets)) == 1
    told = f"What was deleted of the notes is still in {notes.path} or in its log: another process has been reading"
    assert told in caplog.text and are_secrets_in(tmp_path)
    assert asyncio.run(notes.erase(delete_secrets)) == 0
    assert not are_secrets_in(tmp_path)


# Files that cannot be used


def _text(path: Path) -> None:
    path.write_text("Dear diary, this is no database. " * 40)


def _foreign(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE bookmarks (url TEXT)")


def _foreign_with_our_version(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA user_version = 1")


def _other_content(path: Path) -> None:
    Database(path, "memory", SCHEMA).do_sync(read)


def _newer(path: Path) -> None:
    Database(path, "notes", SCHEMA, 2).do_sync(read)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (_text, "The notes cannot be kept in {}: file is not a database. Give another path, or move that file away."),
        (_foreign, "{} is the database of another program; give another path."),
        (_foreign_with_our_version, "{} is the database of another program; give another path."),
        (_other_content, "{} is the database of another program; give another path."),
        (_newer, "{} was written by a newer hotloop (layout 2); update this one."),
    ],
)
def test_file_that_is_not_ours_is_left_alone(notes, make, sentence):
    make(notes.path)
    before = notes.path.read_bytes()
    with pytest.raises(ConfigError) as caught:
        notes.do_sync(read)
    assert str(caught.value) == sentence.format(notes.path)
    assert notes.path.read_bytes() == before
    notes.path.unlink()
    assert notes.do_sync(read) == []


def test_corrupt_file_is_a_sentence_until_it_is_replaced(notes):
    for number in range(200):
        notes.do_sync(add(f"{number} " * 100))
    notes.close()
    whole = notes.path.read_bytes()
    notes.path.write_bytes(whole[:8192] + os.urandom(len(whole) - 8192))
    with pytest.raises(ConfigError, match=r"malformed\. Move that file away, or put an earlier copy in its place"):
        notes.do_sync(read)
    notes.path.write_bytes(whole)
    assert len(notes.do_sync(read)) == 200


def test_full_disk_is_a_sentence_and_loses_nothing(notes):
    notes.do_sync(add("before"))
    notes.do_sync(lambda db: db.execute("PRAGMA max_page_count = 4").close())
    with pytest.raises(ConfigError, match=r"is full\. Make room on its disk"):
        notes.do_sync(add("x" * 100_000))
    assert notes.do_sync(read) == ["before"]
    notes.do_sync(add("after"))
    assert notes.do_sync(read) == ["before", "after"]


@pytest.fixture
def unprivileged_folder() -> Iterator[Path]:
    """A folder of somebody who is not root, who may write everywhere."""
    with TemporaryDirectory() as folder:
        if os.geteuid():
            yield Path(folder)
            return
        os.chown(folder, 65534, -1)
        os.seteuid(65534)
        yield Path(folder)
        os.seteuid(0)


@posix
def test_file_that_cannot_be_written_is_a_sentence(unprivileged_folder):
    notes = database_in(unprivileged_folder)
    notes.do_sync(add("one"))
    notes.close()
    notes.path.chmod(0o400)
    with pytest.raises(ConfigError, match=r"readonly database\. Give a path where you may write"):
        notes.do_sync(add("two"))


@posix
def test_file_where_nothing_may_be_written_is_read(unprivileged_folder):
    notes = database_in(unprivileged_folder)
    notes.do_sync(add("one"))
    notes.close()
    notes.path.chmod(0o400)
    unprivileged_folder.chmod(0o500)
    assert notes.read_sync(read) == ["one"]
    with pytest.raises(ConfigError, match=r"readonly database\. Give a path where you may write"):
        notes.do_sync(add("two"))
    unprivileged_folder.chmod(0o700)
    notes.path.chmod(0o600)
    notes.close()
    notes.do_sync(add("two"))
    assert notes.read_sync(read) == ["one", "two"]


@pytest.mark.parametrize("path", ["", "file/notes.db"])
def test_path_that_can_be_no_file_is_a_sentence(tmp_path, path):
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"The notes cannot be kept in .* Give a path where you may write"):
        Database(tmp_path / path, "notes", SCHEMA).do_sync(read)


def test_odd_text_is_a_sentence(notes):
    with pytest.raises(ConfigError, match=r"'\\udcff' is no text that can be kept: it is not valid Unicode"):
        notes.do_sync(add("\udcff"))
    with pytest.raises(ConfigError, match=r"'/a\\x00b' can be no path of a file"):
        Database(Path("/a\0b"), "notes", SCHEMA)


def test_file_that_another_keeps_busy_is_a_sentence_for_who_writes(notes, monkeypatch):
    monkeypatch.setattr("hotloop.sqlitefile.BUSY_SECONDS", 0)
    notes.do_sync(add("one"))
    with closing(sqlite3.connect(notes.path)) as db:
        db.execute("BEGIN IMMEDIATE")
        with pytest.raises(ConfigError, match="Another process has kept it busy for 10 s; try again"):
            notes.do_sync(add("two"))
        assert asyncio.run(notes.read(read)) == ["one"]
    notes.do_sync(add("two"))
    assert notes.do_sync(read) == ["one", "two"]


def test_file_that_is_moved_away_is_begun_anew(notes):
    notes.do_sync(add("old"))
    elsewhere = notes.path.parent / "elsewhere"
    elsewhere.mkdir()
    for path in notes.path.parent.glob("notes.db*"):
        path.rename(elsewhere / path.name)
    notes.do_sync(add("new"))
    assert notes.do_sync(read) == ["new"]
    assert database_in(elsewhere).do_sync(read) == ["old"]


@posix
def test_file_is_for_its_owner_only_and_in_the_state_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    path = state_path("notes.db")
    Database(path, "notes", SCHEMA).do_sync(read)
    assert path == tmp_path / "state" / "hotloop" / "notes.db"
    assert [stat.S_IMODE(each.stat().st_mode) for each in (path, path.parent)] == [0o600, 0o700]
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert state_path("notes.db") == tmp_path / ".local" / "state" / "hotloop" / "notes.db"


# Processes


@posix
def test_process_ends_at_once_and_without_a_warning_though_nothing_was_closed(notes):
    process = started(
        """
async def main():
    await notes.do(add("one"))
    asyncio.get_running_loop().run_in_executor(None, notes.do_sync, add("two"))

asyncio.run(main())
print(threading.active_count())
""",
        notes.path,
    )
    assert said(process) == "2\n"
    assert [path.name for path in notes.path.parent.iterdir()] == ["notes.db"]
    assert notes.do_sync(read) == ["one", "two"]


def test_what_is_written_while_the_process_ends_is_kept_whoever_wants_it_written(notes):
    process = started(
        """
import atexit  # which calls what was registered last first

notes.do_sync(add("before"))
atexit.register(lambda: notes.do_sync(add("at the end")))
""",
        notes.path,
        before="import atexit; atexit.register(lambda: [notes.do_sync(add('last')), notes.do_sync(add('very last'))])",
    )
    assert said(process) == ""
    assert [path.name for path in notes.path.parent.iterdir()] == ["notes.db"]
    assert notes.do_sync(read) == ["before", "at the end", "last", "very last"]


@posix
def test_forked_child_has_a_connection_and_a_thread_of_its_own(notes):
    process = started(
        """
def both(who):
    asyncio.run(notes.do(add(who)))
    notes.do_sync(add(who + " sync"))

both("before")
children = []
for number in range(3):
    if (child := os.fork()) == 0:
        both(f"child {number}")
        sys.exit()
    both(f"parent {number}")
    children.append(child)
print(*(os.waitpid(child, 0)[1] for child in children))
both("after")
""",
        notes.path,
    )
    assert said(process) == "0 0 0\n"
    names = ["before", "after", *(f"{who} {number}" for who in ("child", "parent") for number in range(3))]
    assert sorted(notes.do_sync(read)) == sorted(name + end for name in names for end in ("", " sync"))


@posix
def test_what_a_forked_child_commits_stays_when_its_parent_closes_the_file(notes):
    process = started(
        """
notes.do_sync(add("parent"))
reads, closed = os.pipe(), os.pipe()
if os.fork() == 0:
    notes.do_sync(id)
    os.write(reads[1], b"!")
    os.read(closed[0], 1)
    notes.do_sync(add("child"))
    os._exit(0)
os.read(reads[0], 1)
notes.close()
os.write(closed[1], b"!")
print(os.wait()[1])
""",
        notes.path,
    )
    assert said(process) == "0\n"
    assert notes.do_sync(read) == ["parent", "child"]


@posix
def test_fork_beside_busy_threads_hangs_neither_process(notes):
    process = started(
        """
def work():
    for number in range(100):
        notes.do_sync(add("parent"))

threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads:
    thread.start()
children = []
for number in range(10):
    if (child := os.fork()) == 0:
        notes.do_sync(add("child"))
        os._exit(0)
    children.append(child)
print([os.waitpid(child, 0)[1] for child in children] == [0] * 10)
for thread in threads:
    thread.join()
""",
        notes.path,
    )
    assert said(process) == "True\n"
    kept = notes.do_sync(read)
    assert (kept.count("parent"), kept.count("child")) == (300, 10)


def test_processes_that_make_the_file_at_once_all_find_it_whole(notes):
    code = """
for number in range(20):
    notes.do_sync(add(f"{sys.argv[2]} {number}"))
"""
    for process in [started(code, notes.path, name) for name in "abcd"]:
        said(process)
    assert sorted(notes.do_sync(read)) == sorted(f"{name} {number}" for name in "abcd" for number in range(20))
