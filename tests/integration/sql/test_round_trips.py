"""What is sent to MariaDB besides the statements."""

import pytest
from sqlalchemy import literal, select, text, update
from sqlalchemy.exc import ProgrammingError

from tests.support.sent_statements import sent_statements
from tests.support.server_words import only_mysql
from warren.sql.engine import Database
from warren.sql.models import App

pytestmark = only_mysql

ONE = text("SELECT 1")
NOTHING = update(App).where(App.name == "nobody's").values(title="")


@pytest.fixture
def sent(mariadb_database: Database, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is sent from now on, on connections that stand."""
    mariadb_database.read(lambda session: session.execute(ONE))
    mariadb_database.update_autocommit(NOTHING, {})
    return sent_statements(monkeypatch)


def test_the_server_of_a_new_connection_is_checked_by_one_statement_in_place_of_another(
    mariadb_schema_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = Database(mariadb_schema_url)
    database.read(lambda session: session.execute(ONE))
    database.engine.dispose()
    sent = sent_statements(monkeypatch)

    database.read(lambda session: session.execute(ONE))

    assert [each for each in sent if "server" in each] == [
        "SELECT CONCAT(@@server_id, '/', @@global.read_only)"
    ]
    # SQLAlchemy would send this again.
    assert len([each for each in sent if each.startswith("SET NAMES")]) == 1
    database.close()


def test_a_transaction_that_was_committed_is_not_rolled_back(
    mariadb_database: Database, sent: list[str]
) -> None:
    mariadb_database.write(lambda session: session.execute(ONE))

    assert sent == ["SELECT 1", "COMMIT"]


def test_what_was_only_read_or_failed_is_rolled_back(
    mariadb_database: Database, sent: list[str]
) -> None:
    mariadb_database.read(lambda session: session.execute(ONE))
    with pytest.raises(ProgrammingError):
        mariadb_database.write(lambda session: session.execute(text("SELEKT 1")))

    assert sent == ["SELECT 1", "ROLLBACK", "SELEKT 1", "ROLLBACK"]


def test_a_single_statement_has_no_transaction_around_it(
    mariadb_database: Database, sent: list[str]
) -> None:
    glanced = mariadb_database.select_one(select(literal(1)), {})
    changed = mariadb_database.update_autocommit(NOTHING, {})

    assert (tuple(glanced), changed) == ((1,), 0)
    assert [words.split()[0] for words in sent] == ["SELECT", "UPDATE"]


def test_a_few_selects_need_no_transaction_around_them(
    mariadb_database: Database, sent: list[str]
) -> None:
    looked = mariadb_database.read_autocommit(
        lambda session: [session.execute(select(literal(n))).scalar_one() for n in (1, 2)]
    )

    assert looked == [1, 2]
    assert [words.split()[0] for words in sent] == ["SELECT", "SELECT"]


def test_a_single_change_is_there_for_all_who_look(mariadb_database: Database) -> None:
    mariadb_database.write(lambda session: session.add(App(name="shop", title="")))

    changed = mariadb_database.update_autocommit(update(App).values(title="the shop"), {})

    titles = mariadb_database.read(lambda s: s.execute(select(App.title)).scalars().all())
    assert (changed, titles) == (1, ["the shop"])
