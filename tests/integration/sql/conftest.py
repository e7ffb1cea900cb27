"""Databases with the newest schema and no rows."""

from collections.abc import Iterator

import pytest

from warren.sql.engine import Database


@pytest.fixture
def mariadb_database(mariadb_schema_url: str) -> Iterator[Database]:
    database = Database(mariadb_schema_url)
    yield database
    database.close()


@pytest.fixture
def sqlite_database(sqlite_schema_url: str) -> Iterator[Database]:
    database = Database(sqlite_schema_url)
    yield database
    database.close()


@pytest.fixture
def postgresql_database(postgresql_schema_url: str) -> Iterator[Database]:
    database = Database(postgresql_schema_url)
    yield database
    database.close()


@pytest.fixture(params=["sqlite", "mariadb"])
def database(request: pytest.FixtureRequest) -> Database:
    """The test runs once on SQLite and once on MariaDB."""
    database: Database = request.getfixturevalue(f"{request.param}_database")
    return database
