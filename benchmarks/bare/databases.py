"""The bare pipeline's table and statements, on each database by its driver alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
import pymysql
from sqlalchemy.engine import URL, make_url

_TABLE = """
CREATE TABLE bare (
    id BIGINT PRIMARY KEY, status VARCHAR(16) NOT NULL, due_at BIGINT NOT NULL,
    job_id INT NOT NULL, handler VARCHAR(255), param {text}, result {text},
    finished_at BIGINT
)
"""
_INDEX = "CREATE INDEX bare_due ON bare (status, due_at)"


@dataclass(frozen=True, slots=True)
class Words:
    """What is said in a database's own words: rows of answers `v` are its id, result and time."""

    text: str
    finish: str
    first_row: str
    other_row: str

    def tables(self) -> Sequence[str]:
        """Return the statements that make the table anew."""
        return ("DROP TABLE IF EXISTS bare", _TABLE.format(text=self.text), _INDEX)

    def finishing(self, count: int) -> str:
        """Return the statement that stores this many answers."""
        return self.finish.format(rows=self.first_row + self.other_row * (count - 1))


_MARIADB = Words(
    text="MEDIUMTEXT",
    finish="UPDATE bare JOIN ({rows}) v ON v.id = bare.id"
    " SET status = 'SUCCEEDED', bare.result = v.result, finished_at = v.at WHERE status = 'SENT'",
    first_row="SELECT %s AS id, %s AS result, %s AS at",
    other_row=" UNION ALL SELECT %s, %s, %s",
)
_POSTGRESQL = Words(
    text="TEXT",
    finish="UPDATE bare SET status = 'SUCCEEDED', result = v.result, finished_at = v.at"
    " FROM (VALUES {rows}) AS v (id, result, at) WHERE v.id = bare.id AND status = 'SENT'",
    first_row="(%s::bigint, %s::text, %s::bigint)",
    other_row=", (%s, %s, %s)",
)


def connect(database_url: str) -> tuple[Any, Words]:
    """Return a connection that reads committed rows, and what is said there."""
    url = make_url(database_url)
    if url.get_backend_name() == "postgresql":
        return _to_postgresql(url), _POSTGRESQL
    connection: pymysql.Connection[Any] = pymysql.connect(
        host=url.host, port=url.port or 0, user=url.username, password=str(url.password),
        database=url.database,
    )  # fmt: skip
    connection.cursor().execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
    return connection, _MARIADB


def _to_postgresql(url: URL) -> "psycopg.Connection[Any]":
    return psycopg.connect(
        host=url.host, port=url.port, user=url.username, password=str(url.password),
        dbname=url.database, sslmode="disable",
    )  # fmt: skip
