"""Databases with the newest schema and no rows."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from sql import migration
from sql.engine import Database
from sql.models import Model
from tests.support.mariadb import PrivateMariaDB


@pytest.fixture(scope="session")
def _prepared(mariadb: PrivateMariaDB) -> Iterator[Database]:
    """One schema for all tests: on MariaDB making one takes half a second."""
    database = Database(mariadb.create_database())
    migration.upgrade(database)
    yield database
    database.close()


@pytest.fixture
def mariadb_database(_prepared: Database) -> Iterator[Database]:
    database = Database(_prepared.url.render_as_string(hide_password=False))
    database.write(_empty)
    yield database
    database.close()


@pytest.fixture
def sqlite_database(tmp_path: Path) -> Iterator[Database]:
    database = Database(f"sqlite:///{tmp_path / 'warren.db'}")
    migration.upgrade(database)
    yield database
    database.close()


@pytest.fixture(params=["sqlite", "mariadb"])
def database(request: pytest.FixtureRequest) -> Database:
    """The test runs once on SQLite and once on MariaDB."""
    database: Database = request.getfixturevalue(f"{request.param}_database")
    return database


def _empty(session: Session) -> None:
    for table in Model.metadata.sorted_tables:
        if table.name not in ("warren_sequence", "warren_cluster"):
            session.execute(table.delete())
    session.execute(text("UPDATE warren_sequence SET next_id = 1"))
    session.execute(text("UPDATE warren_cluster SET paused_at = 0, paused_by = NULL"))
