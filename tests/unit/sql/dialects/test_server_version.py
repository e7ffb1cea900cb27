"""Servers without SKIP LOCKED are refused by name and version."""

import pytest
from sqlalchemy.dialects.mysql.pymysql import MySQLDialect_pymysql

from warren.sql.dialects.mysql import MySQL


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
