"""Fills a database for benchmarks: as many jobs and runs as a busy company has after a month.

The server makes the rows itself from numbers, many per statement. The runs' secondary indexes are
built afterwards, which takes a fraction of the time.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, cast

from sqlalchemy import Index, Table, UniqueConstraint, text
from sqlalchemy.orm import Session

from tests.support.acting import NamedUsers
from warren.scheduler.board.history import LENGTH, DueTime, of, to_text
from warren.sql.accounts.users import Role
from warren.sql.engine import Database
from warren.sql.instants import HOUR_MS
from warren.sql.models import App, Job, Run
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
_Facts = dict[str, object]


class _Numbers:
    """What `{numbers:1,9,made}` becomes: a table `made` with the column `seq`, from 1 to 9."""

    def __init__(self, form: str) -> None:
        self._form = form

    def __format__(self, spec: str) -> str:
        first, last, name = spec.split(",")
        return self._form.format(first=first, last=last, name=name)


#: How databases say the same: numbers, division and type of whole ones, times, quotes of names.
_WORDS: dict[str, _Facts] = {
    "mysql": {
        "numbers": _Numbers("seq_{first}_to_{last} AS {name}"),
        "div": "DIV",
        "whole": "SIGNED",
        "time": "FROM_UNIXTIME",
        "quote": "`",
    },
    "postgresql": {
        "numbers": _Numbers("generate_series({first}::bigint, {last}::bigint) AS {name} (seq)"),
        "div": "/",
        "whole": "INTEGER",
        "time": "to_timestamp",
        "quote": '"',
    },
}

_APPS = """
INSERT INTO xxl_job_group (id, app_name, title, address_type)
SELECT seq, CONCAT('app-', seq), CONCAT('App ', seq), 0 FROM {numbers:1,{apps},made}
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
SELECT seq, 1 + seq % {apps}, CONCAT('job-', seq), CONCAT('author-', seq % 100),
 CURRENT_TIMESTAMP, CURRENT_TIMESTAMP, 'CRON',
 CONCAT(seq % 60, ' ', seq % 60, ' {cron}'), 'UTC', 'DO_NOTHING', 60, 86400, 100, 'ROUND',
 CONCAT('handler-', seq % 500), CONCAT('{{"number": ', seq, '}}'), 'SERIAL_EXECUTION',
 0, 0, 0, 'fixed', 0, 0, 'AT_MOST_ONCE', 1, 'executor', 'normal', 0, '', 0, 0, 0,
 CASE WHEN seq = {script_job} THEN 'GLUE_PYTHON' ELSE 'BEAN' END,
 CASE WHEN seq % 10 > 0 THEN 1 ELSE 0 END, CASE WHEN seq % 10 > 0 THEN {now} ELSE 0 END,
 CASE WHEN seq % 10 > 0 THEN {next_tick} ELSE 0 END,
 CONCAT('team-', seq {div} {apps} % {teams})
FROM {numbers:1,{jobs},made}
"""
_RUNS = """
INSERT INTO xxl_job_log (id, job_group, job_id, executor_address, executor_handler, executor_param,
 executor_fail_retry_count, trigger_time, trigger_code, handle_time, handle_code, handle_msg,
 alarm_status, status, kind, scheduled_at, due_at, origin_id, shard_index, shard_total, attempt,
 starts, redeliveries, routed_at, routed_by, boot_id, sent_at, started_at, finished_at)
SELECT n, 1 + job % {apps}, job, address, CONCAT('handler-', job % 500), '', 0,
 {time}(due {div} 1000), 200, {time}(due {div} 1000 + 2),
 CASE state WHEN 'SUCCEEDED' THEN 200 WHEN 'FAILED' THEN 500 ELSE 0 END,
 CASE WHEN state = 'FAILED' THEN 'ConnectionError: the line is bad'
  ELSE CONCAT(n % 1000, ' orders') END,
 0, state,
 CASE WHEN n % 40 = 0 THEN 'MANUAL' ELSE 'CRON' END, due, due, 0, 0, 1, 0, 0, 0,
 CASE WHEN state <> 'PLANNED' THEN due END, 'scheduler-1',
 CASE WHEN state <> 'PLANNED' THEN 'boot' END, CASE WHEN state <> 'PLANNED' THEN due + 5 END,
 CASE WHEN state <> 'PLANNED' THEN due + 5 + n % 60 END,
 CASE WHEN state NOT IN ('PLANNED', 'RUNNING') THEN due + 2000 END
FROM (
 SELECT seq AS n, 1 + (seq * 7919) % {jobs} AS job,
  {now} - ({runs} - seq) * {apart} {div} 1000 AS due,
  CONCAT('exec-', seq % {executors}) AS address,
  CASE WHEN seq > {runs} - {planned} THEN 'PLANNED'
   WHEN seq > {runs} - {planned} - {running} THEN 'RUNNING'
   WHEN seq % 50 = 0 THEN 'FAILED' WHEN seq % 997 = 0 THEN 'TIMED_OUT'
   WHEN seq % 4999 = 0 THEN 'LOST' ELSE 'SUCCEEDED' END AS state
 FROM {numbers:{first},{last},made}
) AS made
"""
_BELONGING = (
    "UPDATE warren_sequence SET next_id = {runs} + 1",
    """
INSERT INTO xxl_job_log_report (trigger_day, running_count, suc_count, fail_count, cleared_suc,
 cleared_fail, skip_count, cleared_skip)
SELECT {time}({today} - seq * 86400), 0, {runs} {div} {days}, {runs} {div} {days} {div} 50,
 0, 0, 0, 0
FROM {numbers:0,400,made}
""",
    """
INSERT INTO warren_app_day (app_id, trigger_day, running_count, suc_count, fail_count, cleared_suc,
 cleared_fail, skip_count, cleared_skip)
SELECT app.seq, {time}({today} - day.seq * 86400), 0, {runs} {div} {days} {div} {apps},
 {runs} {div} {days} {div} {apps} {div} 50, 0, 0, 0, 0
FROM {numbers:1,{apps},app} JOIN {numbers:0,400,day} ON TRUE
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
 boot_at, beat_at, {quote}load{quote}, draining, drain_asked_at)
SELECT 'EXECUTOR', CONCAT('app-', 1 + seq % {apps}), CONCAT('exec-', seq), CURRENT_TIMESTAMP,
 'boot', {now}, {now} + {day_ms},
 '{{"cpu_percent":40,"memory_percent":60,"slots":8,"running":3,"waiting":0}}', 0, 0
FROM {numbers:1,{executors},made}
""",
    """
INSERT INTO xxl_job_registry (registry_group, registry_key, registry_value, update_time, boot_id,
 boot_at, beat_at, draining, drain_asked_at)
SELECT 'ADMIN', 'scheduler', CONCAT('scheduler-', seq), CURRENT_TIMESTAMP, 'boot', {now},
 {now} + {day_ms}, 0, 0
FROM {numbers:1,3,made}
""",
    """
INSERT INTO xxl_job_logglue (job_id, glue_type, glue_source, glue_remark, author, add_time,
 update_time, number)
SELECT {script_job}, 'GLUE_PYTHON',
 REPEAT('print("a line of a script")\n', CAST(200 + seq AS {whole})),
 CONCAT('version ', seq), 'bench', CURRENT_TIMESTAMP, CURRENT_TIMESTAMP, seq
FROM {numbers:1,{versions},made}
""",
    """
UPDATE xxl_job_info SET glue_updatetime = CURRENT_TIMESTAMP, glue_remark = 'the last one',
 glue_id = (SELECT MAX(id) FROM xxl_job_logglue),
 glue_source = (SELECT glue_source FROM xxl_job_logglue ORDER BY id DESC LIMIT 1)
WHERE id = {script_job}
""",
    """
INSERT INTO warren_trail (at, who, origin, action, kind, object_id, name, {quote}before{quote},
 {quote}after{quote})
SELECT {now} - ({trail} - seq) * 1000, CONCAT('author-', seq % 100), '10.0.0.9', 'job.update',
 'job', 1 + seq % {jobs}, CONCAT('app-1/job-', seq % {jobs}), '{{"param":"old"}}',
 '{{"param":"new"}}'
FROM {numbers:1,{trail},made}
""",
    # Families of ten jobs of an app: each starts the next one, and half of them also the one after.
    """
INSERT INTO warren_job_child (job_id, position, child_id)
SELECT seq, 0, seq + {apps} FROM {numbers:1,{jobs},made}
WHERE seq {div} {apps} % 10 < 9 AND seq + {apps} <= {jobs}
""",
    """
INSERT INTO warren_job_child (job_id, position, child_id)
SELECT seq, 1, seq + 2 * {apps} FROM {numbers:1,{jobs},made}
WHERE seq {div} {apps} % 10 < 5 AND seq + 2 * {apps} <= {jobs}
""",
    """
INSERT INTO warren_executor_load (executor_id, minute_at, slots, running, waiting, cpu_percent,
 memory_percent)
SELECT executor.id, ({now} {div} 60000 - minute.seq) * 60000, 8, minute.seq % 9, minute.seq % 3,
 minute.seq % 100, 60
FROM xxl_job_registry AS executor JOIN {numbers:1,{load_minutes},minute} ON TRUE
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
SELECT seq, CASE WHEN fails THEN 1 ELSE 9 END, CASE WHEN fails THEN {now} - 10800000 ELSE 0 END,
 CASE WHEN fails THEN 3 ELSE 0 END,
 CASE WHEN fails THEN CONCAT('error-', seq % {errors}) ELSE '' END,
 CASE WHEN fails THEN {now} - 10800000 ELSE 0 END, CASE WHEN fails THEN 3 ELSE 0 END,
 CASE WHEN fails THEN 'ConnectionError: the line is bad' ELSE '' END,
 CASE WHEN fails THEN seq ELSE 0 END, {now} - 14400000, {now} - seq % 3600 * 1000,
 CASE WHEN fails THEN 'FAILED' ELSE 'SUCCEEDED' END, seq, 2000, 2000,
 0, 0, 0, 0, 0, CASE WHEN fails THEN '{bad_strip}' ELSE '{good_strip}' END
FROM (SELECT seq, seq % {failing} = 0 AS fails FROM {numbers:1,{jobs},made}) AS made
""",
    """
INSERT INTO warren_error (job_id, error_key, text, since_at, last_at, count, run_id)
SELECT seq, CONCAT('error-', seq % {errors}), 'ConnectionError: the line is bad',
 {now} - 10800000, {now} - 7200000, 3, seq
FROM {numbers:1,{jobs},made} WHERE seq % ({failing} {div} 2) = 0
""",
    """
INSERT INTO warren_quarter (quarter_at, app_id, succeeded, failed, skipped)
SELECT ({now} {div} 900000 - quarter.seq) * 900000, app.seq, 900, 9, quarter.seq % 3
FROM {numbers:1,{apps},app} JOIN {numbers:0,191,quarter} ON TRUE
""",
    """
INSERT INTO warren_board (id, job_id, jobs_until, quarter_at, quarters_until)
VALUES (1, {jobs}, {jobs}, {now}, {now})
""",
    """
INSERT INTO warren_event (kind, app_id, subject, since_at, until_at, runs)
SELECT 'executor', 1 + seq % {apps}, CONCAT('exec-', seq), {now} - seq * 600000,
 {now} - seq * 600000 + 300000, seq
FROM {numbers:1,{executors},made}
""",
)
_FAVOURITES = """
INSERT INTO warren_favourite (user_id, job_id)
SELECT id, 1 + {apps} * seq FROM xxl_job_user JOIN {numbers:1,{favourites},made} ON TRUE
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
    hourly = {"cron": "* * * ?", "next_tick": f"{now_ms} + (seq * 7919) % 3600000"}
    facts = _facts(database, size, now_ms) | hourly | {"running": RUNNING, "planned": PLANNED}
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
    yearly = {"cron": f"3 1 {due.month} ?", "next_tick": f"{hour_ms} + seq % 60 * 61000"}
    _fill(
        database, size, _facts(database, size, now_ms) | yearly | {"running": 0, "planned": 0}, say
    )


def _fill(database: Database, size: Size, facts: _Facts, say: Callable[[str], None]) -> None:
    migration.upgrade(database)
    for statement in (_APPS, _JOBS):
        _do(database, statement, facts)
    with database.engine.begin() as connection:
        for model in (App, Job):
            database.dialect.skip_given_ids(connection, cast("Table", model.__table__))
    _fill_runs(database, size, facts, say)
    for statement in _BELONGING:
        _do(database, statement, facts)
    say("indexes are analysed")
    _do(database, _ANALYSE[database.dialect.name], {})


_ANALYSE = {
    "mysql": "ANALYZE TABLE xxl_job_log, xxl_job_info PERSISTENT FOR ALL",
    "postgresql": "ANALYZE",
}


def _facts(database: Database, size: Size, now_ms: int) -> _Facts:
    return {
        **_WORDS[database.dialect.name],
        "jobs": size.jobs,
        "runs": size.runs,
        # Microseconds between two due times.
        "apart": DAYS * DAY_MS * 1000 // size.runs,
        "now": now_ms,
        # Midnight, in epoch seconds.
        "today": now_ms // DAY_MS * DAY_MS // 1000,
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
    keys = _keys()
    for statement in _without(keys, database.dialect.name):
        _do(database, statement, {})
    for first in range(1, size.runs + 1, BATCH_SIZE):
        last = min(first + BATCH_SIZE - 1, size.runs)
        _do(database, _RUNS, facts | {"first": first, "last": last})
        say(f"{last:,} of {size.runs:,} runs")
    say("indexes of runs are made")
    for statement in _with(keys, database.dialect.name):
        _do(database, statement, {})


class _Key(NamedTuple):
    """A secondary key of runs."""

    name: str
    columns: str
    is_unique: bool


def _keys() -> list[_Key]:
    """Return the secondary keys of runs, as declared in the tables."""
    unique = [one for one in Run.__table__.constraints if isinstance(one, UniqueConstraint)]
    found: list[UniqueConstraint | Index] = [*unique, *Run.__table__.indexes]  # type: ignore[attr-defined]
    return [
        _Key(str(one.name), ", ".join(column.name for column in one.columns), one in unique)
        for one in found
    ]


def _without(keys: Sequence[_Key], kind: str) -> list[str]:
    """Return what drops the keys: where it can be one statement, which reads the table once."""
    if kind == "mysql":
        return [f"ALTER TABLE xxl_job_log {', '.join(f'DROP KEY {key.name}' for key in keys)}"]
    return [
        f"ALTER TABLE xxl_job_log DROP CONSTRAINT {key.name}"
        if key.is_unique
        else f"DROP INDEX {key.name}"
        for key in keys
    ]


def _with(keys: Sequence[_Key], kind: str) -> list[str]:
    """Return what makes the keys again."""
    if kind == "mysql":
        added = (f"ADD {'UNIQUE ' * key.is_unique}KEY {key.name} ({key.columns})" for key in keys)
        return [f"ALTER TABLE xxl_job_log {', '.join(added)}"]
    return [
        f"ALTER TABLE xxl_job_log ADD CONSTRAINT {key.name} UNIQUE ({key.columns})"
        if key.is_unique
        else f"CREATE INDEX {key.name} ON xxl_job_log ({key.columns})"
        for key in keys
    ]


def _do(database: Database, statement: str, facts: _Facts) -> None:
    def unit(session: Session) -> None:
        # A colon in a text would be a bind parameter.
        session.execute(text(statement.format(**facts).replace(":", r"\:")))

    database.write(unit)
