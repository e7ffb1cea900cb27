"""A database as 0.1.0 left it: its schema, with rows in every table, among them many runs.

The rows are plain values by the columns of the tables themselves, never of today's models.
"""

from datetime import date, datetime
from itertools import islice
from typing import Any

from alembic import command
from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Date,
    DateTime,
    Double,
    Integer,
    MetaData,
    Numeric,
    StaticPool,
    Table,
    create_engine,
    inspect,
)
from sqlalchemy.orm import Session

from warren.sql.engine import Database
from warren.sql.schema import migration

RUNS = 2_000
_NOW_MS = 1_790_000_000_000
#: How the jobs of the seed differ: each kind of schedule, script, policy and route.
_JOBS: tuple[dict[str, Any], ...] = (
    {"schedule_type": "CRON", "schedule_conf": "0 0 2 * * ?", "glue_type": "BEAN"},
    {"schedule_type": "UNIX_CRON", "schedule_conf": "*/5 * * * *", "misfire_strategy": "CATCH_UP"},
    {"schedule_type": "FIX_RATE", "schedule_conf": "30", "misfire_strategy": "FIRE_ONCE_NOW"},
    {"schedule_type": "FIX_DELAY", "schedule_conf": "60", "delivery": "AT_LEAST_ONCE"},
    {"schedule_type": "AT", "schedule_conf": "2026-12-01T08:00:00+08:00"},
    {"schedule_type": "WORKDAY", "schedule_conf": "-1", "schedule_options": '{"calendar":"cn"}'},
    {"schedule_type": "NONE", "glue_type": "GLUE_SHELL", "glue_source": "echo $1", "glue_id": 1},
    {"schedule_type": "NONE", "glue_type": "FLOW", "flow": '{"nodes":{"a":{"job":"job-1"}}}'},
    {"schedule_type": "NONE", "executor_route_strategy": "SHARDING_BROADCAST", "child_jobid": "1"},
)
_STATUSES = (
    *("PLANNED", "ROUTED", "SENT", "RUNNING", "SUCCEEDED", "SKIPPED", "FAILED", "TIMED_OUT"),
    *("KILLED", "REFUSED", "LOST", "UNDELIVERED", "CANCELLED"),
)
_KINDS = ("CRON", "MISFIRE", "MANUAL", "API", "RETRY", "PARENT", "RERUN", "NODE", "BACKFILL")
_KEEP = {"alembic_version", "warren_cluster", "warren_uptime"}


def seed(database: Database) -> dict[str, list[dict[str, Any]]]:
    """Make the schema of 0.1.0 in an empty database, fill it, and return its rows by table."""

    def unit(session: Session) -> dict[str, list[dict[str, Any]]]:
        connection = session.connection()
        _make(connection)
        tables = _tables(connection)
        for table in tables:
            if table.name not in _KEEP:
                count = {"xxl_job_log": RUNS, "xxl_job_info": len(_JOBS)}.get(table.name, 3)
                connection.execute(table.insert(), [_row(table, number) for number in range(count)])
        return _rows(connection, tables)

    return database.write(unit)


def take_back(database: Database) -> None:
    """Make the schema that of 0.1.0: drop all tables and columns that later versions have added."""
    first = create_engine("sqlite://", poolclass=StaticPool)
    with first.begin() as connection:
        _make(connection)
        known = {
            table: {column["name"] for column in inspect(connection).get_columns(table)}
            for table in inspect(connection).get_table_names()
        }
    first.dispose()

    def unit(session: Session) -> None:
        connection = session.connection()
        found = inspect(connection)
        for table in found.get_table_names():
            if table not in known:
                connection.exec_driver_sql(f"DROP TABLE {table}")
                continue
            for column in found.get_columns(table):
                if column["name"] not in known[table]:
                    connection.exec_driver_sql(f"ALTER TABLE {table} DROP COLUMN {column['name']}")
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '0001'")

    database.write(unit)


def make(database: Database, revision: str) -> None:
    """Make the schema of a revision in an empty database."""
    database.write(lambda session: _make(session.connection(), revision))


def _make(connection: Connection, revision: str = "0001") -> None:
    config = migration._config()
    config.attributes["connection"] = connection
    command.upgrade(config, revision)


def rows(database: Database) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of all tables that the database has now."""

    def look(session: Session) -> dict[str, list[dict[str, Any]]]:
        return _rows(session.connection(), _tables(session.connection()))

    return database.read(look)


def _tables(connection: Connection) -> list[Table]:
    metadata = MetaData()
    metadata.reflect(connection)
    return [table for table in metadata.sorted_tables if table.name != "sqlite_sequence"]


def _rows(connection: Connection, tables: list[Table]) -> dict[str, list[dict[str, Any]]]:
    return {
        table.name: [
            dict(row)
            for row in connection.execute(table.select().order_by(*table.primary_key)).mappings()
        ]
        for table in tables
    }


def _row(table: Table, number: int) -> dict[str, Any]:
    row = {column.name: _value(column, number) for column in table.columns}
    if table.name == "xxl_job_info":
        return row | {"job_group": 1, "job_desc": f"job-{number}"} | _JOBS[number]
    if table.name == "xxl_job_log":
        status = _STATUSES[number % len(_STATUSES)]
        kind = _KINDS[number % len(_KINDS)]
        job_id = 1 + number % len(_JOBS)
        row |= {"status": status, "kind": kind, "job_id": job_id, "shard_index": number % 3}
        return row | dict.fromkeys(islice(_nullable(table), number % 40))
    if table.name == "warren_sequence":
        return {"name": f"counter-{number}", "next_id": RUNS + 1}
    return row


def _nullable(table: Table) -> list[str]:
    return [column.name for column in table.columns if column.nullable]


def _value(column: Column[Any], number: int) -> Any:
    kind = column.type
    if isinstance(kind, DateTime):
        return datetime(2026, 11, 1 + number % 28, 2, 30)  # noqa: DTZ001 - XXL-JOB's have no zone
    if isinstance(kind, Date):
        return date(2026, 11, 1 + number % 28)
    if isinstance(kind, (Numeric, Double)):
        return number + 0.5
    if isinstance(kind, BigInteger) and not column.name.endswith("id"):
        return _NOW_MS + number
    if isinstance(kind, Integer):
        return 1 + number
    return f"text-{number} 中文"[: getattr(kind, "length", None) or 100]
