"""A database in which many jobs and runs are stored, few of them due or open; made by the server.

Tests of what a statement reads ask it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import text
from sqlalchemy.orm import Session

from tests.support.mariadb import PrivateMariaDB
from tests.support.postgresql import PrivatePostgreSQL
from tests.support.sql_rows import NODE, NOW_MS
from warren.sql.alarms.alarms import MAIL, AlarmStatus
from warren.sql.engine import Database
from warren.sql.run_status import RunStatus
from warren.sql.schema import migration

T = TypeVar("T")

#: Runs by status: mostly over, as in a database that has worked for a while.
RUNS = {
    RunStatus.SUCCEEDED: 40_000,
    RunStatus.FAILED: 2_000,
    RunStatus.PLANNED: 3_000,
    RunStatus.ROUTED: 200,
    RunStatus.SENT: 400,
    RunStatus.RUNNING: 400,
}
JOBS = 20_000
#: Alarms that are ready to be sent.
MAILS, WEBHOOKS = 3_000, 200
_TABLES = ("xxl_job_info", "xxl_job_log", "warren_alarm")


class _Words(NamedTuple):
    numbers: str
    time: str


_WORDS = {
    "mysql": _Words("seq_{}_to_{}", "FROM_UNIXTIME"),
    "postgresql": _Words("generate_series({}, {}) AS made (seq)", "to_timestamp"),
}


@contextmanager
def crowd(server: PrivateMariaDB | PrivatePostgreSQL) -> Iterator[Database]:
    """Yield the database; it is dropped with the block."""
    url = server.create_database()
    name = url.rpartition("/")[2]
    # On a machine that stands still for long, the server ends a connection in the middle of a read.
    database = Database(url, retry_seconds=60)
    migration.upgrade(database)
    database.write(lambda session: _fill(session, _WORDS[database.dialect.name]))
    if isinstance(server, PrivatePostgreSQL):
        server.execute("VACUUM ANALYZE", database=name)
    else:
        for table in _TABLES:
            server.execute(f"ANALYZE TABLE {table} PERSISTENT FOR ALL", database=name)
    yield database
    database.close()
    server.drop_database(name)


def counting_rows(session: Session, work: Callable[[Session], T]) -> tuple[T, int]:
    """Return what the work gives, and how many rows of tables and indexes were read for it."""
    before = _rows_read(session)
    found = work(session)
    return found, _rows_read(session) - before


def _rows_read(session: Session) -> int:
    if session.connection().dialect.name == "postgresql":
        counted = text(
            "SELECT sum(pg_stat_get_xact_tuples_returned(oid)) FROM pg_class"
            " WHERE relnamespace = 'public'::regnamespace".replace("::", r"\:\:")
        )
        return int(session.execute(counted).scalar_one())
    counts = session.execute(text("SHOW SESSION STATUS LIKE 'Handler_read%'"))
    # Those of a union's own temporary table are counted apart, as rnd.
    return sum(int(count) for name, count in counts if "rnd" not in name)


def _fill(session: Session, words: _Words) -> None:
    def insert(rows: str, first: int, last: int, **values: Any) -> None:
        numbers = words.numbers.format(first, last)
        session.execute(text(f"INSERT INTO {rows} FROM {numbers}"), values)

    insert(
        "xxl_job_group (id, app_name, title, address_type) SELECT seq, CONCAT('app-', seq), '', 0",
        *(1, 5),
    )
    insert(
        "xxl_job_info (id, job_group, job_desc, schedule_type, misfire_strategy,"
        " late_limit, catch_up_within, catch_up_most, executor_route_strategy,"
        " executor_block_strategy, executor_timeout,"
        " executor_fail_retry_count, retry_delay, retry_backoff, retry_most, retry_jitter,"
        " delivery, concurrency, scope, priority, max_waiting, process, run_date_days,"
        " run_date_months, run_date_workdays, glue_type, trigger_status, trigger_last_time,"
        " trigger_next_time)"
        " SELECT seq, 1 + seq % 5, CONCAT('job-', seq), 'CRON', 'DO_NOTHING', 60, 86400,"
        " 100, 'FIRST',"
        " 'SERIAL_EXECUTION', 0, 0, 0, 'fixed', 0, 0, 'AT_MOST_ONCE', 1, 'executor', 'normal',"
        " 0, '', 0, 0, 0, 'BEAN', 1, 0, :now + seq * 1000",
        *(1, JOBS),
        now=NOW_MS,
    )
    first = 1
    for status, count in RUNS.items():
        insert(
            "xxl_job_log (id, job_group, job_id, executor_fail_retry_count,"
            " trigger_code, handle_code, alarm_status, status, kind, scheduled_at, due_at,"
            " origin_id, shard_index, shard_total, attempt, starts, redeliveries, executor_address,"
            " boot_id, routed_by, routed_at, trigger_time, kill_requested_at)"
            " SELECT seq, 1 + seq % 5, 1 + seq % 500, 0, 0, 0, 0, :status, 'CRON',"
            " :now + seq, :now + seq, 0, 0, 1, 0, 0, 0, CONCAT('exec-', seq % 20), 'boot', :node,"
            f" :now, {words.time}(floor((:now + seq) / 1000)),"
            " CASE WHEN seq % 97 = 0 THEN :now END",
            *(first, first + count - 1),
            status=status,
            now=NOW_MS,
            node=NODE,
        )
        first += count
    for status, channel, count in (
        (AlarmStatus.SENT, "json", 4_000),
        (AlarmStatus.READY, MAIL, MAILS),
        (AlarmStatus.READY, "slack", WEBHOOKS),
    ):
        insert(
            "warren_alarm (subject_key, channel, target, target_hash, status, job_id,"
            " app_id, run_id, content, created_at, next_try_at, tries)"
            f" SELECT CONCAT('{status}', seq), :channel, '', '', :status, 1 + seq % 500, 1, seq,"
            " '', :now - seq, :now - seq, 0",
            *(1, count),
            status=status,
            channel=channel,
            now=NOW_MS,
        )
