"""Fills a database for benchmarks: as many jobs and runs as a busy company has after a month.

The server makes the rows itself from MariaDB's sequence tables, many per statement. The runs'
secondary indexes are built afterwards, which takes a fraction of the time.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from sqlalchemy import Index, UniqueConstraint, text
from sqlalchemy.orm import Session

from tests.support.acting import NamedUsers
from warren.scheduler.board.due_time import DueTime
from warren.scheduler.board.history import LENGTH, of, to_text
from warren.sql.accounts.users import Role
from warren.sql.engine import Database
from warren.sql.instants import HOUR_MS
from warren.sql.models import Run
from warren.sql.run_status import RunStatus
from warren.sql.schema import migration

PASSWORD = "only for measuring"
EXECUTORS, DAYS = 50, 30
DAY_MS = 86_400_000
#: Runs per statement and transaction.
BATCH_SIZE = 100_000
#: The last runs are still open: so many running and planned ones.
RUNNING, PLANNED = 300, 700
#: The job with a script, and how many versions it has.
SCRIPT_JOB, VERSIONS = 1, 8
TRAIL = 20_000
#: Minutes of stored load of each executor: a week.
LOAD_MINUTES = 10_080
#: How many different tags there are, one per job; favourites of each user.
TEAMS, FAVOURITES = 40, 60

#: Values for the names in braces in the statements; texts are parts of statements.
_Facts = dict[str, int | str]

_APPS = """
INSERT INTO xxl_job_group (id, app_name, title, address_type)
SELECT seq, CONCAT('app-', seq), CONCAT('App ', seq), 0 FROM seq_1_to_{apps}
"""
_JOBS = """
INSERT INTO xxl_job_info (id, job_group, job_desc, author, add_time, update_time, schedule_type,
 schedule_conf, timezone, misfire_strategy, late_limit, catch_up_within, catch_up_most,
 executor_route_strategy,
 executor_handler, executor_param, executor_block_strategy, executor_timeout,
 executor_fail_retry_count, retry_delay, retry_backoff, retry_most, retry_jitter, delivery,
 concurrency, scope, priority, max_waiting, process, run_date_days, run_date_months,
 run_date_workdays, glue_type,
 trigger_status, trigger_last_time, trigger_next_time, tags)
SELECT seq, 1 + seq MOD {apps}, CONCAT('job-', seq), CONCAT('author-', seq MOD 100),
 UTC_TIMESTAMP(), UTC_TIMESTAMP(), 'CRON',
 CONCAT(seq MOD 60, ' ', seq MOD 60, ' {cron}'), 'UTC', 'DO_NOTHING', 60, 86400, 100, 'ROUND',
 CONCAT('handler-', seq MOD 500), CONCAT('{{"number": ', seq, '}}'), 'SERIAL_EXECUTION',
 0, 0, 0, 'fixed', 0, 0, 'AT_MOST_ONCE', 1, 'executor', 'normal', 0, '', 0, 0, 0,
 IF(seq = {script_job}, 'GLUE_PYTHON', 'BEAN'),
 IF(seq MOD 10, 1, 0), IF(seq MOD 10, {now}, 0), IF(seq MOD 10, {next_tick}, 0),
 CONCAT('team-', seq DIV {apps} MOD {teams})
FROM seq_1_to_{jobs}
"""
_RUNS = """
INSERT INTO xxl_job_log (id, job_group, job_id, executor_address, executor_handler, executor_param,
 executor_fail_retry_count, trigger_time, trigger_code, handle_time, handle_code, handle_msg,
 alarm_status, status, kind, scheduled_at, due_at, origin_id, shard_index, shard_total, attempt,
 starts, redeliveries, routed_at, routed_by, boot_id, sent_at, started_at, finished_at)
SELECT n, 1 + job MOD {apps}, job, address, CONCAT('handler-', job MOD 500), '', 0,
 FROM_UNIXTIME(due DIV 1000), 200, FROM_UNIXTIME(due DIV 1000 + 2),
 IF(state = 'SUCCEEDED', 200, IF(state = 'FAILED', 500, 0)),
 IF(state = 'FAILED', 'ConnectionError: the line is bad', CONCAT(n MOD 1000, ' orders')), 0, state,
 IF(n MOD 40 = 0, 'MANUAL', 'CRON'), due, due, 0, 0, 1, 0, 0, 0,
 IF(state = 'PLANNED', NULL, due), 'scheduler-1', IF(state = 'PLANNED', NULL, 'boot'),
 IF(state = 'PLANNED', NULL, due + 5), IF(state = 'PLANNED', NULL, due + 5 + n MOD 60),
 IF(state IN ('PLANNED', 'RUNNING'), NULL, due + 2000)
FROM (
 SELECT seq AS n, 1 + (seq * 7919) MOD {jobs} AS job,
  {now} - ({runs} - seq) * {apart} DIV 1000 AS due,
  CONCAT('exec-', seq MOD {executors}) AS address,
  CASE WHEN seq > {runs} - {planned} THEN 'PLANNED'
   WHEN seq > {runs} - {planned} - {running} THEN 'RUNNING'
   WHEN seq MOD 50 = 0 THEN 'FAILED' WHEN seq MOD 997 = 0 THEN 'TIMED_OUT'
   WHEN seq MOD 4999 = 0 THEN 'LOST' ELSE 'SUCCEEDED' END AS state
 FROM seq_{first}_to_{last}
) AS made
"""
_BELONGING = (
    "UPDATE warren_sequence SET next_id = {runs} + 1",
    """
INSERT INTO xxl_job_log_report (trigger_day, running_count, suc_count, fail_count, cleared_suc,
 cleared_fail, skip_count, cleared_skip)
SELECT DATE(UTC_TIMESTAMP()) - INTERVAL seq DAY, 0, {runs} DIV {days}, {runs} DIV {days} DIV 50,
 0, 0, 0, 0
FROM seq_0_to_400
""",
    """
INSERT INTO warren_app_day (app_id, trigger_day, running_count, suc_count, fail_count, cleared_suc,
 cleared_fail, skip_count, cleared_skip)
SELECT app.seq, DATE(UTC_TIMESTAMP()) - INTERVAL day.seq DAY, 0, {runs} DIV {days} DIV {apps},
 {runs} DIV {days} DIV {apps} DIV 50, 0, 0, 0, 0
FROM seq_1_to_{apps} AS app JOIN seq_0_to_400 AS day
""",
    """
INSERT INTO warren_history (job_id, changed_at, changed_by, watermark, enabled, schedule_type,
 schedule_conf, timezone, misfire_strategy, late_limit, anchor)
SELECT id, {now}, 'bench', {now}, trigger_status, schedule_type, schedule_conf, timezone,
 misfire_strategy, late_limit, {now}
FROM xxl_job_info
""",
)
_AROUND = (
    """
INSERT INTO xxl_job_registry (registry_group, registry_key, registry_value, update_time, boot_id,
 boot_at, beat_at, `load`, draining, drain_asked_at)
SELECT 'EXECUTOR', CONCAT('app-', 1 + seq MOD {apps}), CONCAT('exec-', seq), UTC_TIMESTAMP(),
 'boot', {now}, {now} + {day_ms},
 '{{"cpu_percent":40,"memory_percent":60,"slots":8,"running":3,"waiting":0}}', 0, 0
FROM seq_1_to_{executors}
""",
    """
INSERT INTO xxl_job_registry (registry_group, registry_key, registry_value, update_time, boot_id,
 boot_at, beat_at, draining, drain_asked_at)
SELECT 'ADMIN', 'scheduler', CONCAT('scheduler-', seq), UTC_TIMESTAMP(), 'boot', {now},
 {now} + {day_ms}, 0, 0
FROM seq_1_to_3
""",
    """
INSERT INTO xxl_job_logglue (job_id, glue_type, glue_source, glue_remark, author, add_time,
 update_time, number)
SELECT {script_job}, 'GLUE_PYTHON', REPEAT('print("a line of a script")\\n', 200 + seq),
 CONCAT('version ', seq), 'bench', UTC_TIMESTAMP(), UTC_TIMESTAMP(), seq
FROM seq_1_to_{versions}
""",
    """
UPDATE xxl_job_info SET glue_updatetime = UTC_TIMESTAMP(), glue_remark = 'the last one',
 glue_id = (SELECT MAX(id) FROM xxl_job_logglue),
 glue_source = (SELECT glue_source FROM xxl_job_logglue ORDER BY id DESC LIMIT 1)
WHERE id = {script_job}
""",
    """
INSERT INTO warren_trail (at, who, origin, action, kind, object_id, name, `before`, `after`)
SELECT {now} - ({trail} - seq) * 1000, CONCAT('author-', seq MOD 100), '10.0.0.9', 'job.update',
 'job', 1 + seq MOD {jobs}, CONCAT('app-1/job-', seq MOD {jobs}), '{{"param":"old"}}',
 '{{"param":"new"}}'
FROM seq_1_to_{trail}
""",
    # Families of ten jobs of an app: each starts the next one, and half of them also the one after.
    """
INSERT INTO warren_job_child (job_id, position, child_id)
SELECT seq, 0, seq + {apps} FROM seq_1_to_{jobs}
WHERE seq DIV {apps} MOD 10 < 9 AND seq + {apps} <= {jobs}
""",
    """
INSERT INTO warren_job_child (job_id, position, child_id)
SELECT seq, 1, seq + 2 * {apps} FROM seq_1_to_{jobs}
WHERE seq DIV {apps} MOD 10 < 5 AND seq + 2 * {apps} <= {jobs}
""",
    """
INSERT INTO warren_executor_load (executor_id, minute_at, slots, running, waiting, cpu_percent,
 memory_percent)
SELECT executor.id, ({now} DIV 60000 - minute.seq) * 60000, 8, minute.seq MOD 9, minute.seq MOD 3,
 minute.seq MOD 100, 60
FROM xxl_job_registry AS executor JOIN seq_1_to_{load_minutes} AS minute
WHERE executor.registry_group = 'EXECUTOR'
""",
)
#: One job in FAILING fails, with one of ERRORS errors, and as many again have recovered.
FAILING, ERRORS = 50, 200
_BOARD = (
    """
INSERT INTO warren_job_state (job_id, trouble, failing_since, failing_count, error_key, error_since,
 error_count, error_text, error_run_id, good_at, newest_at, newest_status, newest_run_id, took_ms,
 usual_ms, skipped_since, skipped_count, waiting_count, waiting_since, long_since, strip)
SELECT seq, IF(fails, 1, 9), IF(fails, {now} - 10800000, 0), IF(fails, 3, 0),
 IF(fails, CONCAT('error-', seq MOD {errors}), ''), IF(fails, {now} - 10800000, 0),
 IF(fails, 3, 0), IF(fails, 'ConnectionError: the line is bad', ''), IF(fails, seq, 0),
 {now} - 14400000, {now} - seq MOD 3600 * 1000, IF(fails, 'FAILED', 'SUCCEEDED'), seq, 2000, 2000,
 0, 0, 0, 0, 0, IF(fails, '{bad_strip}', '{good_strip}')
FROM (SELECT seq, seq MOD {failing} = 0 AS fails FROM seq_1_to_{jobs}) AS made
""",
    """
INSERT INTO warren_error (job_id, error_key, text, since_at, last_at, count, run_id)
SELECT seq, CONCAT('error-', seq MOD {errors}), 'ConnectionError: the line is bad',
 {now} - 10800000, {now} - 7200000, 3, seq
FROM seq_1_to_{jobs} WHERE seq MOD ({failing} DIV 2) = 0
""",
    """
INSERT INTO warren_quarter (quarter_at, app_id, succeeded, failed, skipped)
SELECT ({now} DIV 900000 - quarter.seq) * 900000, app.seq, 900, 9, quarter.seq MOD 3
FROM seq_1_to_{apps} AS app JOIN seq_0_to_191 AS quarter
""",
    """
INSERT INTO warren_board (id, job_id, jobs_until, quarter_at, quarters_until)
VALUES (1, {jobs}, {jobs}, {now}, {now})
""",
    """
INSERT INTO warren_event (kind, app_id, subject, since_at, until_at, runs)
SELECT 'executor', 1 + seq MOD {apps}, CONCAT('exec-', seq), {now} - seq * 600000,
 {now} - seq * 600000 + 300000, seq
FROM seq_1_to_{executors}
""",
)
_FAVOURITES = """
INSERT INTO warren_favourite (user_id, job_id)
SELECT id, 1 + {apps} * seq FROM xxl_job_user JOIN seq_1_to_{favourites}
"""


class Size(NamedTuple):
    """How many rows there are."""

    jobs: int
    runs: int
    apps: int


def fill(database: Database, size: Size, now_ms: int, say: Callable[[str], None]) -> None:
    """Fill an empty database for the console; the users `admin` and `operator` have PASSWORD.

    Its jobs are due within the hour, some runs are still open, and there are executors.
    """
    hourly = {"cron": "* * * ?", "next_tick": f"{now_ms} + (seq * 7919) MOD 3600000"}
    facts = _facts(size, now_ms) | hourly | {"running": RUNNING, "planned": PLANNED}
    _fill(database, size, facts, say)
    facts |= {"failing": FAILING, "errors": ERRORS}
    facts |= {"good_strip": _strip(now_ms, failed=0), "bad_strip": _strip(now_ms, failed=3)}
    for statement in (*_AROUND, *_BOARD):
        _do(database, statement, facts)
    users = NamedUsers(database, who="bench")
    users.add("admin", PASSWORD, role=Role.ADMINISTRATOR, app_names=())
    users.add("operator", PASSWORD, role=Role.OPERATOR, app_names=("app-1", "app-2"))
    _do(database, _FAVOURITES, facts)


def _strip(now_ms: int, *, failed: int) -> str:
    """Return the last due times of a job, one an hour, of which the last have failed."""
    runs = [
        DueTime(
            at=now_ms - (LENGTH - number) * HOUR_MS,
            status=RunStatus.FAILED if number >= LENGTH - failed else RunStatus.SUCCEEDED,
            run_id=number + 1,
            took_ms=2_000,
            error="error-1" if number >= LENGTH - failed else "",
        )
        for number in range(LENGTH)
    ]
    return to_text(of(runs))


def fill_at_rest(database: Database, size: Size, now_ms: int, say: Callable[[str], None]) -> None:
    """Fill an empty database with jobs that are not due for months, and finished runs."""
    due = datetime.fromtimestamp(now_ms / 1000, UTC).replace(day=1) + timedelta(days=184)
    hour_ms = int(datetime(due.year, due.month, 1, 3, tzinfo=UTC).timestamp() * 1000)
    yearly = {"cron": f"3 1 {due.month} ?", "next_tick": f"{hour_ms} + seq MOD 60 * 61000"}
    _fill(database, size, _facts(size, now_ms) | yearly | {"running": 0, "planned": 0}, say)


def _fill(database: Database, size: Size, facts: _Facts, say: Callable[[str], None]) -> None:
    migration.upgrade(database)
    for statement in (_APPS, _JOBS):
        _do(database, statement, facts)
    _fill_runs(database, size, facts, say)
    for statement in _BELONGING:
        _do(database, statement, facts)
    say("indexes are analysed")
    _do(database, "ANALYZE TABLE xxl_job_log, xxl_job_info PERSISTENT FOR ALL", {})


def _facts(size: Size, now_ms: int) -> _Facts:
    return {
        "jobs": size.jobs,
        "runs": size.runs,
        # Microseconds between two due times.
        "apart": DAYS * DAY_MS * 1000 // size.runs,
        "now": now_ms,
        "apps": size.apps,
        "executors": EXECUTORS,
        "days": DAYS,
        "day_ms": DAY_MS,
        "script_job": SCRIPT_JOB,
        "versions": VERSIONS,
        "trail": TRAIL,
        "teams": TEAMS,
        "favourites": FAVOURITES,
        "load_minutes": min(LOAD_MINUTES, size.runs // 10),
    }


def _fill_runs(database: Database, size: Size, facts: _Facts, say: Callable[[str], None]) -> None:
    keys = list(_keys())
    _alter(database, [f"DROP KEY {name}" for name, _ in keys])
    for first in range(1, size.runs + 1, BATCH_SIZE):
        last = min(first + BATCH_SIZE - 1, size.runs)
        _do(database, _RUNS, facts | {"first": first, "last": last})
        say(f"{last:,} of {size.runs:,} runs")
    say("indexes of runs are made")
    _alter(database, [f"ADD {definition}" for _, definition in keys])


def _keys() -> list[tuple[str, str]]:
    """Return the secondary keys of runs, as declared in the tables."""
    found = [one for one in Run.__table__.constraints if isinstance(one, UniqueConstraint)]
    keys: list[tuple[UniqueConstraint | Index, str]] = [(one, "UNIQUE KEY") for one in found]
    keys += [(one, "KEY") for one in Run.__table__.indexes]  # type: ignore[attr-defined]
    return [
        (str(one.name), f"{kind} {one.name} ({', '.join(column.name for column in one.columns)})")
        for one, kind in keys
    ]


def _alter(database: Database, changes: list[str]) -> None:
    _do(database, f"ALTER TABLE xxl_job_log {', '.join(changes)}", {})


def _do(database: Database, statement: str, facts: _Facts) -> None:
    def unit(session: Session) -> None:
        # A colon in a text would be a bind parameter.
        session.execute(text(statement.format(**facts).replace(":", r"\:")))

    database.write(unit)
