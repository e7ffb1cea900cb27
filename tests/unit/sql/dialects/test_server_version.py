"""Servers that are too old, or databases made badly, are refused in one line."""

import pytest
from sqlalchemy.dialects.mysql.pymysql import MySQLDialect_pymysql
from sqlalchemy.dialects.postgresql.base import PGDialect

from warren.sql.dialects.mysql import MySQL
from warren.sql.dialects.supported import named


@pytest.mark.parametrize(
    ("is_mariadb", "version", "complaint"),
    [
        (True, (10, 6, 0), None),
        (True, (10, 11, 19), None),
        (True, (11, 8), None),
        (True, (10, 5, 28), "expected MariaDB to be 10.6 or newer, got: 10.5.28"),
        (True, (5, 5, 68), "expected MariaDB to be 10.6 or newer, got: 5.5.68"),
        (False, (8, 0, 36), None),
        (False, (9, 1, 0), None),
        (False, (5, 7, 44), "expected MySQL to be 8.0 or newer, got: 5.7.44"),
    ],
)
def test_a_server_is_old_or_good(
    is_mariadb: bool, version: tuple[int, ...], complaint: str | None
) -> None:
    dialect = MySQLDialect_pymysql(is_mariadb=is_mariadb)
    dialect.server_version_info = version

    assert MySQL().version_problem(dialect) == complaint


CREATE = "create it with: CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0"


@pytest.mark.parametrize(
    ("version", "encoding", "has_all_scripts", "complaint"),
    [
        ((15, 18), "UTF8", True, None),
        ((18, 1), "UTF8", True, None),
        ((14, 9), "UTF8", True, "expected PostgreSQL to be 15 or newer, got: 14.9"),
        (
            (16, 2),
            "LATIN1",
            True,
            f"expected the encoding of the database to be UTF8, got: LATIN1; {CREATE}",
        ),
        (
            (16, 2),
            "UTF8",
            False,
            "expected PostgreSQL to have the collation und-x-icu, but it was built without ICU",
        ),
    ],
)
def test_a_postgresql_is_old_badly_made_or_good(
    version: tuple[int, ...], encoding: str, has_all_scripts: bool, complaint: str | None
) -> None:
    pytest.importorskip("psycopg")
    connected = PGDialect()
    connected.server_version_info = version
    vars(connected).update(server_encoding=encoding, has_all_scripts=has_all_scripts)

    assert named("postgresql").version_problem(connected) == complaint
