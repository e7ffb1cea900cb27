"""Many rows by one statement, whatever they hold."""

from collections.abc import Iterator

import pytest
from sqlalchemy import text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from tests.support.sql_rows import statements
from warren.sql.batch import CHUNK, CHUNK_CHARACTERS, Guard, insert_or_ignore, update_each
from warren.sql.engine import Database

HOSTILE = [
    "plain",
    "",
    None,
    "quotes ' \" ` and \\ backslash \\' end",
    "per cent %s %(x)s %% and ? :name",
    "line\nfeed\r\ttab \x00 NUL",
    "ключ 鍵 🔑 \U0010ffff",
]
HOLDS = "numbers.state = 'open'"


class Root(DeclarativeBase):
    pass


class Number(Root):
    __tablename__ = "numbers"

    id: Mapped[int] = mapped_column(primary_key=True)
    state: Mapped[str]
    words: Mapped[str | None] = mapped_column("note")
    amount: Mapped[int]


@pytest.fixture
def table(any_database_url: str) -> Iterator[Database]:
    database = Database(any_database_url)
    note, options = "TEXT", ""
    if database.dialect.name == "mysql":
        note, options = "MEDIUMTEXT", "DEFAULT CHARSET utf8mb4"
    columns = f"id INTEGER PRIMARY KEY, state VARCHAR(9), note {note}, amount BIGINT"
    create = f"CREATE TABLE numbers ({columns}) {options}"
    database.write(lambda session: session.execute(text(create)))
    yield database
    database.close()


def fill(database: Database, count: int, **values: object) -> None:
    facts = {"state": "open", "words": "old", "amount": 1} | values
    rows = [{"id": number, **facts} for number in range(count)]
    database.write(lambda session: insert_or_ignore(session, Number, rows))


def change(database: Database, rows: list[dict[str, object]], guard: str = HOLDS) -> int:
    return database.write(lambda session: update_each(session, Number, rows, guard=Guard(guard)))


def content(database: Database) -> list[tuple[object, ...]]:
    query = text("SELECT id, state, note, amount FROM numbers ORDER BY id")
    return database.read(lambda session: [tuple(row) for row in session.execute(query)])


def test_each_row_gets_values_of_its_own(table: Database) -> None:
    fill(table, 4)

    count = change(table, [{"id": 1, "words": "one"}, {"id": 3, "words": "three"}])

    assert count == 2
    assert [row[2] for row in content(table)] == ["old", "one", "old", "three"]


def test_values_arrive_as_they_are(table: Database) -> None:
    fill(table, len(HOSTILE))

    change(table, [{"id": number, "words": note} for number, note in enumerate(HOSTILE)])

    stored = [note and note.replace("\0", table.dialect.nul) for note in HOSTILE]
    assert [row[2] for row in content(table)] == stored


@pytest.mark.parametrize("amounts", [[None, 2**53], [2**53, None], [None, None], [-1, 2**40]])
def test_nothing_and_large_numbers_mix(table: Database, amounts: list[int | None]) -> None:
    fill(table, 2)

    change(table, [{"id": number, "amount": amount} for number, amount in enumerate(amounts)])

    assert [row[3] for row in content(table)] == amounts


def test_a_row_that_the_guard_holds_back_is_neither_changed_nor_counted(table: Database) -> None:
    fill(table, 3)
    change(table, [{"id": 1, "state": "closed"}])

    count = change(table, [{"id": number, "words": "new"} for number in (0, 1, 2, 99)])

    assert count == 2
    assert [row[2] for row in content(table)] == ["new", "old", "new"]


def test_a_row_counts_though_its_values_were_there_already(table: Database) -> None:
    fill(table, 2)

    assert change(table, [{"id": 0, "words": "old"}, {"id": 1, "words": "old"}]) == 2


def test_many_rows_go_in_chunks(table: Database) -> None:
    fill(table, 2 * CHUNK + 203)
    rows: list[dict[str, object]] = [
        {"id": number, "amount": number * 2} for number in range(2 * CHUNK + 203)
    ]

    with statements(table) as sent:
        count = change(table, rows)

    assert count == len(rows)
    assert sum(words.startswith("UPDATE") for words, _ in sent) == 3
    assert [row[3] for row in content(table)] == [row["amount"] for row in rows]


def test_long_texts_go_in_statements_that_a_packet_holds(table: Database) -> None:
    fill(table, 10)
    half = "🔑" * (CHUNK_CHARACTERS // 2 - 10)
    short = [{"id": number, "words": str(number)} for number in range(5, 10)]

    with statements(table) as sent:
        count = change(table, [{"id": number, "words": half} for number in range(5)] + short)

    assert count == 10
    assert sum(words.startswith("UPDATE") for words, _ in sent) == 3
    assert [row[2] for row in content(table)] == [half] * 5 + ["5", "6", "7", "8", "9"]


def test_no_rows_are_no_statement(table: Database) -> None:
    with statements(table) as sent:
        assert change(table, []) == 0

    assert not any("numbers" in words for words, _ in sent)


def test_a_row_that_is_there_stays_and_the_others_are_inserted(table: Database) -> None:
    fill(table, 2)

    fill(table, 4, words="new")

    assert [row[2] for row in content(table)] == ["old", "old", "new", "new"]
