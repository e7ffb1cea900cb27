"""SQLite for everything in one process, with a command line beside it in another."""

import subprocess
import sys
import threading
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from tests.support.sql_rows import side_by_side, statements
from warren.sql.engine import Database
from warren.sql.errors import DatabaseUnavailable
from warren.sql.models import App

_COUNT_TO_100 = """
import sys
from warren.sql.engine import Database
from tests.integration.sql.test_sqlite import add_one

database = Database(sys.argv[1])
for _ in range(100):
    database.write(add_one)
"""


def add_one(session: Session) -> None:
    value = session.execute(text("SELECT next_id FROM warren_sequence")).scalar_one()
    session.execute(text("UPDATE warren_sequence SET next_id = :v"), {"v": value + 1})


def counted(database: Database) -> int:
    query = text("SELECT next_id - 1 FROM warren_sequence")
    return database.read(lambda session: session.execute(query).scalar_one())


def test_two_processes_and_two_threads_write_at_once_and_lose_nothing(
    sqlite_database: Database,
) -> None:
    url = sqlite_database.url.render_as_string()
    command = [sys.executable, "-c", _COUNT_TO_100, url]
    root = Path(__file__).parents[3]

    def count() -> int:
        return subprocess.run(command, cwd=root, timeout=60, check=True).returncode

    def count_here() -> int:
        for _ in range(100):
            sqlite_database.write(add_one)
        return 0

    side_by_side(count, count, count_here, count_here)

    assert counted(sqlite_database) == 400


def test_a_unit_that_writes_begins_as_a_writer(sqlite_database: Database) -> None:
    with statements(sqlite_database) as sent:
        sqlite_database.write(lambda session: session.connection())
        sqlite_database.read(lambda session: session.connection())

    assert [words for words, _ in sent] == ["BEGIN IMMEDIATE", "BEGIN"]


def test_a_reader_does_not_wait_for_a_writer(sqlite_database: Database) -> None:
    written, read = threading.Event(), threading.Event()

    def write(session: Session) -> None:
        session.add(App(name="demo", title="Demo"))
        session.flush()
        written.set()
        assert read.wait(30)

    def look() -> int:
        assert written.wait(30)
        found = sqlite_database.read(lambda session: session.query(App).count())
        read.set()
        return found

    _, found = side_by_side(lambda: sqlite_database.write(write), look)

    assert found == 0
    assert sqlite_database.read(lambda session: session.query(App).count()) == 1


def test_what_a_read_changes_is_not_kept(sqlite_database: Database) -> None:
    sqlite_database.read(
        lambda session: session.execute(text("UPDATE warren_sequence SET next_id = 7"))
    )

    assert counted(sqlite_database) == 0


def test_a_unit_that_raises_leaves_nothing(sqlite_database: Database) -> None:
    def unit(session: Session) -> None:
        session.execute(text("UPDATE warren_sequence SET next_id = 7"))
        session.execute(text("INSERT INTO warren_sequence VALUES ('run', 1)"))

    with pytest.raises(IntegrityError):
        sqlite_database.write(unit)

    assert counted(sqlite_database) == 0


def test_a_locked_file_is_waited_for(sqlite_database: Database) -> None:
    other = Database(sqlite_database.url.render_as_string())
    locked, tries = threading.Event(), 0

    def hold(session: Session) -> None:
        session.execute(text("UPDATE warren_sequence SET next_id = next_id + 1"))
        locked.set()
        session.execute(text("SELECT 1"))

    def unit(session: Session) -> None:
        nonlocal tries
        tries += 1
        session.execute(text("UPDATE warren_sequence SET next_id = next_id + 1"))

    def wait() -> None:
        assert locked.wait(30)
        sqlite_database.write(unit)

    side_by_side(lambda: other.write(hold), wait)

    assert (tries, counted(sqlite_database)) == (1, 2)
    other.close()


@pytest.mark.parametrize(
    ("content", "words"),
    [(None, "unable to open database file"), (b"x" * 5_000, "file is not a database")],
)
def test_a_file_that_cannot_be_used_is_named_in_one_line(
    tmp_path: Path, content: bytes | None, words: str
) -> None:
    file = tmp_path / "absent" / "warren.db" if content is None else tmp_path / "warren.db"
    if content is not None:
        file.write_bytes(content)
    database = Database(f"sqlite:///{file}")

    with pytest.raises(DatabaseUnavailable, match=words) as caught:
        database.write(lambda session: session.execute(text("SELECT 1")))

    assert str(file) in str(caught.value)
    assert "\n" not in str(caught.value)
    database.close()
