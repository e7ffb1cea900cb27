"""Databases with the newest schema."""

from collections.abc import Iterator

import pytest

from sql import schema
from sql.engine import Database


def _upgraded(url: str) -> Iterator[Database]:
    database = Database(url)
    schema.upgrade(database)
    yield database
    database.close()


@pytest.fixture
def database(any_database_url: str) -> Iterator[Database]:
    """The test runs once on SQLite and once on MariaDB."""
    yield from _upgraded(any_database_url)


@pytest.fixture
def mariadb_database(mariadb_url: str) -> Iterator[Database]:
    yield from _upgraded(mariadb_url)


@pytest.fixture
def sqlite_database(sqlite_url: str) -> Iterator[Database]:
    yield from _upgraded(sqlite_url)
