"""`warren import celery` and `… django-celery-beat`: the schedule of Celery beat as a job file.

That of an app is read from its configuration; that in Django's database from the tables of MySQL,
MariaDB or SQLite, or from what `manage.py dumpdata django_celery_beat` prints.
"""

import contextlib
import importlib
import itertools
import json
import math
import re
import sqlite3
import sys
import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from warren.contrib.celery import retry_of, task_names
from warren.errors import CommandError
from warren.executor.handlers.declarations import Retry
from warren.importing.foreign import ForeignJobs, is_url, open_foreign
from warren.jobfile.five_fields import BOTH_DAYS, listed, weekdays_and_times
from warren.scheduler.cron.wall_clock import load_zone
from warren.scheduler.jobs.rules import check_app_name, problems
from warren.scheduler.jobs.spec import JobSpec
from warren.scheduler.names import without_invisible
from warren.scheduler.problems import Problem
from warren.scheduler.schedules.registry import CronSchedule, FixedRate, OneTime
from warren.settings.settings import Settings
from warren.sql.dialects.database_url import parse

_CONTROL = re.compile(r"[/\x00-\x1f\x7f-\x9f]+")
_NAME_LENGTH = 255
_DATABASE_SCHEDULER = "DatabaseScheduler"
_LIMITS = ("time_limit", "soft_time_limit")
_KNOWN = {"task", "schedule", "args", "kwargs", "options", "relative"}
_PREFIX = "django_celery_beat_"
_TASKS, _CRONTABS, _INTERVALS, _CLOCKED = (
    "periodictask",
    "crontabschedule",
    "intervalschedule",
    "clockedschedule",
)
_TABLES = (_TASKS, _CRONTABS, _INTERVALS, _CLOCKED)
_SECONDS = {"days": 86_400, "hours": 3_600, "minutes": 60, "seconds": 1}
#: Columns of a task that say how Celery sends it.
_SENDING = ("queue", "exchange", "routing_key", "priority", "expires", "expire_seconds")
_SQLITE = "sqlite:///"

_Row = Mapping[str, Any]
_Tables = Mapping[str, Mapping[int, _Row]]


def print_beat_schedule(place: str, *, app: str) -> None:
    """Print a Celery app's schedule as a job file, and remarks on standard error."""
    check_app_name(app)
    now_ms = time.time_ns() // 1_000_000
    with contextlib.redirect_stdout(sys.stderr):  # the project's own output is not for the file
        beat_schedule = read_beat_schedule(load_app(place), app=app, now_ms=now_ms)
    beat_schedule.print(app)


def load_app(place: str) -> Any:
    """Import a Celery app, named MODULE:NAME, from the current folder or installed packages.

    Raises:
        CommandError: there is none.

    """
    module, _, name = place.partition(":")
    sys.path.insert(0, str(Path.cwd()))
    try:
        celery = getattr(importlib.import_module(module), name or "app")
    except Exception as error:
        raise CommandError(f"cannot import {place}: {type(error).__name__}: {error}") from error
    if not (hasattr(celery, "conf") and hasattr(celery, "tasks")):
        raise CommandError(f"expected {place} to be a Celery app, got: {type(celery).__name__}")
    return celery


def read_beat_schedule(celery: Any, *, app: str, now_ms: int) -> ForeignJobs:
    """Return the jobs in an app's `beat_schedule`."""
    tasks, zone = set(task_names(celery)), _zone(celery)

    def read(key: str, entry: Any) -> JobSpec:
        spec = _spec(key, entry, app, zone)
        task = celery.tasks.get(spec.handler)
        return replace(
            spec, timeout=_timeout(celery, spec.handler, entry), **_retry_columns(retry_of(task))
        )

    def remarks(entry: Any, spec: JobSpec) -> Iterator[str]:
        yield from _remarks(entry, spec, tasks)
        yield from _remarks_about_task(celery, spec.handler, entry)

    beat_schedule = read_entries(celery.conf.beat_schedule or {}, read, remarks, now_ms=now_ms)
    if _DATABASE_SCHEDULER in str(getattr(celery.conf, "beat_scheduler", "")):
        beat_schedule.remarks.append(
            "its beat_scheduler keeps entries in a database, which are not in the file: "
            "use `warren import django-celery-beat`"
        )
    return beat_schedule


def read_entries(
    entries: Mapping[Any, Any],
    read: Callable[[str, Any], JobSpec],
    remarks: Callable[[Any, JobSpec], Iterable[str]],
    *,
    now_ms: int,
) -> ForeignJobs:
    """Return the jobs made of entries, by their keys; `read` may raise ValueError or Problem."""
    beat_schedule = ForeignJobs()
    keys: dict[str, str] = {}
    for key, entry in entries.items():
        try:
            spec = read(str(key), entry)
            for problem in problems(spec, now_ms=now_ms):
                raise problem
        except (ValueError, Problem) as problem:
            beat_schedule.remarks.append(f"{key} is left out: {problem}")
            continue
        beat_schedule.remarks += [f"{key}: {words}" for words in remarks(entry, spec)]
        if spec.name in keys:
            name = _numbered(spec.name, keys)
            beat_schedule.remarks.append(
                f"{key}: its job is {name!r} here, because {keys[spec.name]!r} is already "
                f"{spec.name!r}; to choose the names, rename one of the two in the job file"
            )
            spec = replace(spec, name=name)
        keys[spec.name] = str(key)
        beat_schedule.specs.append(spec)
    return beat_schedule


def _numbered(name: str, taken: Container[str]) -> str:
    """Return a name that is not taken: with the next free number after it."""
    return next(
        numbered
        for number in itertools.count(2)
        if (numbered := f"{name[: _NAME_LENGTH - 8]} #{number}") not in taken
    )


def _spec(key: str, entry: Any, app: str, zone: str) -> JobSpec:
    if not isinstance(entry, Mapping):
        raise ValueError(f"expected a dict, got: {type(entry).__name__}")  # noqa: TRY004 - as all else
    schedule = entry.get("schedule")
    kind, value = _schedule(schedule)
    return JobSpec(
        name=job_name(key),
        app=app,
        handler=str(entry.get("task") or ""),
        schedule_kind=kind,
        schedule_value=value,
        timezone=_own_zone(schedule) or zone if kind == CronSchedule.kind else "",
        param=_param(entry),
    )


def job_name(key: str) -> str:
    """Return the name of an entry's job."""
    return without_invisible(_CONTROL.sub("_", key)).strip()[:_NAME_LENGTH]


def _own_zone(crontab: Any) -> str:
    """Return the zone of a crontab's `nowfun`; empty if the crontab has its app's zone.

    Raises:
        ValueError: it has no name.

    """
    now = getattr(crontab, "nowfun", None)
    if now is None:
        return ""
    given = getattr(now(), "tzinfo", None)
    zone = getattr(given, "key", "") or getattr(given, "zone", "")  # the latter is pytz's
    if not zone:
        raise ValueError("its nowfun has no time zone with a name")
    load_zone(zone)
    return str(zone)


def _limits(celery: Any, task: str, entry: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return the hard and the soft time limit: the entry's, else its task's, else the app's."""
    options = entry.get("options") or {}

    def limit(name: str) -> Any:
        own = getattr(celery.tasks.get(task), name, None)
        return options.get(name) or own or getattr(celery.conf, f"task_{name}", None)

    return limit("time_limit"), limit("soft_time_limit")


def _timeout(celery: Any, task: str, entry: Mapping[str, Any]) -> int:
    """Return the timeout in seconds; 0 for none."""
    hard, soft = _limits(celery, task, entry)
    limit = hard or soft or 0
    if not isinstance(limit, int | float) or not 0 <= limit < math.inf:
        raise ValueError(f"expected a time limit in seconds, got: {limit!r}")
    return math.ceil(limit)


def _retry_columns(retry: Retry | None) -> dict[str, Any]:
    """Return the columns of a job whose task is tried again so."""
    if retry is None:
        return {}
    return {
        "retries": retry.times,
        "retry_delay": math.ceil(float(retry.delay)),
        "retry_backoff": retry.backoff,
        "retry_most": math.ceil(float(retry.most)),
        "retry_jitter": retry.jitter,
    }


def _remarks_about_task(celery: Any, task: str, entry: Mapping[str, Any]) -> Iterator[str]:
    hard, soft = _limits(celery, task, entry)
    if soft and hard:
        yield f"soft_time_limit {soft} has no effect here; the timeout is time_limit {hard}"
    elif soft:
        yield f"the timeout is soft_time_limit {soft}; the task gets SIGTERM, no exception"
    declared = celery.tasks.get(task)
    if rate := getattr(declared, "rate_limit", None) or _rate_of_all(celery):
        yield f"rate_limit {rate} has no effect here"
    backoff = getattr(declared, "retry_backoff", None)
    if backoff and retry_of(declared) is None:
        yield (
            f"retry_backoff {backoff} has no effect here: the task retries at once; "
            "for pauses, give the job retries and retry_delay"
        )


def _rate_of_all(celery: Any) -> Any:
    return getattr(celery.conf, "task_default_rate_limit", None)


def _schedule(given: Any) -> tuple[str, str]:
    if all(hasattr(given, name) for name in ("minute", "hour", "day_of_week", "month_of_year")):
        return CronSchedule.kind, expression(given)
    period = getattr(given, "run_every", given)
    seconds = period.total_seconds() if isinstance(period, timedelta) else period
    if type(seconds) not in (int, float):
        raise ValueError(f"a schedule of type {type(given).__name__} has no equivalent here")
    if not math.isfinite(seconds) or seconds != int(seconds) or seconds < 1:
        raise ValueError(f"expected whole seconds, got: {seconds}")
    return FixedRate.kind, str(int(seconds))


def expression(given: Any) -> str:
    """Return the cron expression of a `crontab`, in which both day fields must match."""
    weekdays = listed({day % 7 + 1 for day in given.day_of_week}, 7)
    days = listed(set(given.day_of_month), 31)
    if "*" not in (days, weekdays):
        raise ValueError(BOTH_DAYS)
    day_fields = f"{days} {{}} ?" if weekdays == "*" else f"? {{}} {weekdays}"
    months = listed(set(given.month_of_year), 12)
    time_fields = f"0 {listed(set(given.minute), 60)} {listed(set(given.hour), 24)}"
    return f"{time_fields} {day_fields.format(months)}"


def _param(entry: Mapping[str, Any]) -> str:
    given = {name: entry[name] for name in ("args", "kwargs") if entry.get(name)}
    try:
        return json.dumps(given, ensure_ascii=False, allow_nan=False) if given else ""
    except (TypeError, ValueError) as error:
        raise ValueError(f"its arguments are not JSON: {error}") from error


def _remarks(entry: Mapping[str, Any], spec: JobSpec, tasks: set[str]) -> Iterator[str]:
    if spec.handler not in tasks:
        yield f"the app has no task {spec.handler}"
    if options := [str(name) for name in entry.get("options") or () if name not in _LIMITS]:
        yield f"its options have no effect here: {', '.join(options)}"
    if spec.schedule_kind == CronSchedule.kind and not spec.timezone:
        yield "the app's time zone is unknown here, so the schedulers' time zone applies: set it"
    if entry.get("relative") or getattr(entry.get("schedule"), "relative", False):
        yield "relative has no effect here"
    if further := sorted(map(str, entry.keys() - _KNOWN)):
        yield f"unknown and without effect: {', '.join(further)}"


def _zone(celery: Any) -> str:
    """Return the time zone of the app's crontabs; empty if it is not known here."""
    name = str(celery.timezone or "")
    try:
        load_zone(name)
    except Problem:
        return ""
    return name


def print_periodic_tasks(
    settings: Settings, place: str, *, app: str, password_file: Path | None
) -> None:
    """Print the periodic tasks as a job file, and remarks on standard error."""
    check_app_name(app)
    tables = read_tables(settings, place, password_file)
    beat_schedule = read_periodic_tasks(tables, app=app, now_ms=time.time_ns() // 1_000_000)
    beat_schedule.print(app)


def read_tables(settings: Settings, place: str, password_file: Path | None) -> _Tables:
    """Return the rows of the tables by id.

    Raises:
        CommandError: they are not there.

    """
    if place.startswith(_SQLITE):
        return _tables(place, _read_sqlite(place.removeprefix(_SQLITE)))
    if is_url(place):
        try:
            parse(place)
            return _tables(place, _read_database(settings, place, password_file))
        except ValueError as error:
            raise CommandError(
                f"{error}; from other databases, import what `manage.py dumpdata "
                "django_celery_beat` prints"
            ) from error
    return _tables(place, _read_dump(place))


def _read_database(
    settings: Settings, place: str, password_file: Path | None
) -> Mapping[str, Sequence[_Row]]:
    with open_foreign(place, password_file, settings) as database:
        columns = database.columns()
        names = [f"{_PREFIX}{name}" for name in _TABLES]
        wanted = {name: columns[name] for name in names if name in columns}
        return database.rows(wanted) if wanted else {}


def _read_sqlite(path: str) -> Mapping[str, list[_Row]]:
    if not Path(path).is_file():
        raise CommandError(f"{path}: there is no such file")
    try:
        with closing(
            sqlite3.connect(f"{Path(path).absolute().as_uri()}?mode=ro", uri=True)
        ) as file:
            file.row_factory = sqlite3.Row
            return {
                f"{_PREFIX}{name}": [
                    dict(row)
                    for row in file.execute(f"SELECT * FROM {_PREFIX}{name}")  # noqa: S608 - ours
                ]
                for name in _TABLES
            }
    except sqlite3.Error as error:
        raise CommandError(f"{path}: cannot read it: {error}") from error


def _read_dump(place: str) -> Mapping[str, list[_Row]]:
    try:
        text = sys.stdin.read() if place == "-" else Path(place).read_text(encoding="utf-8")
        items = json.loads(text)
        tables_: dict[str, list[_Row]] = {}
        for item in items:
            table = f"{_PREFIX}{item['model'].rpartition('.')[2]}"
            row = {"id": item["pk"], **item["fields"]}
            links = ("crontab", "interval", "solar", "clocked")
            row |= {f"{name}_id": row[name] for name in links if name in row}
            tables_.setdefault(table, []).append(row)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise CommandError(
            f"{place}: expected what `manage.py dumpdata django_celery_beat` prints"
        ) from error
    return tables_


def _tables(place: str, rows: Mapping[str, Sequence[_Row]]) -> _Tables:
    if f"{_PREFIX}{_TASKS}" not in rows:
        raise CommandError(f"{place} has no table {_PREFIX}{_TASKS}")
    return {
        name: {int(row["id"]): row for row in rows.get(f"{_PREFIX}{name}", ())} for name in _TABLES
    }


def read_periodic_tasks(tables: _Tables, *, app: str, now_ms: int) -> ForeignJobs:
    tasks = {str(row["name"]): row for _, row in sorted(tables[_TASKS].items())}

    def read(key: str, row: _Row) -> JobSpec:
        kind, value, zone = _task_schedule(row, tables)
        return JobSpec(
            name=job_name(key),
            app=app,
            handler=str(row["task"] or ""),
            schedule_kind=kind,
            schedule_value=value,
            timezone=zone,
            param=_task_param(row),
        )

    return read_entries(tasks, read, _task_remarks, now_ms=now_ms)


def _task_schedule(row: _Row, tables: _Tables) -> tuple[str, str, str]:
    for column, table, read in (
        ("crontab_id", _CRONTABS, _crontab),
        ("interval_id", _INTERVALS, _interval),
        ("clocked_id", _CLOCKED, _clocked),
    ):
        if (number := row.get(column)) is not None:
            if table is not _CLOCKED and _is_true(row.get("one_off")):
                raise ValueError("it runs only once (one_off); trigger it here instead")
            schedule = tables[table].get(int(number))
            if schedule is None:
                raise ValueError(f"its {column} {number} is not there")
            return read(schedule)
    if row.get("solar_id") is not None:
        raise ValueError("a solar schedule has no equivalent here")
    raise ValueError("it has no schedule")


def _crontab(row: _Row) -> tuple[str, str, str]:
    names = ("minute", "hour", "day_of_month", "month_of_year", "day_of_week")
    values = weekdays_and_times([str(row[name]).replace(" ", "") for name in names])
    zone = str(row.get("timezone") or "UTC")
    load_zone(zone)
    given = SimpleNamespace(**dict(zip(names, values, strict=True)))
    return CronSchedule.kind, expression(given), zone


def _interval(row: _Row) -> tuple[str, str, str]:
    period, every = str(row["period"]), int(row["every"])
    if period not in _SECONDS:
        raise ValueError(f"expected whole seconds, got: {every} {period}")
    return FixedRate.kind, str(every * _SECONDS[period]), ""


def _clocked(row: _Row) -> tuple[str, str, str]:
    at = datetime.fromisoformat(str(row["clocked_time"]))
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return OneTime.kind, at.astimezone(UTC).replace(microsecond=0).isoformat(), ""


def _task_param(row: _Row) -> str:
    given: dict[str, Any] = {}
    for name, kind in (("args", list), ("kwargs", dict)):
        value = json.loads(str(row.get(name) or "null"))
        if value is not None and not isinstance(value, kind):
            raise ValueError(f"expected {name} to be JSON {kind.__name__}, got: {row[name]!r}")
        if value:
            given[name] = value
    return json.dumps(given, ensure_ascii=False) if given else ""


def _task_remarks(row: _Row, _spec: JobSpec) -> Iterator[str]:
    if not _is_true(row.get("enabled")):
        yield "it is disabled there"
    if row.get("start_time"):
        yield f"start_time {row['start_time']} has no effect here"
    sending = [name for name in _SENDING if row.get(name) not in (None, "")]
    if row.get("headers") not in (None, "", "{}"):
        sending.append("headers")
    if sending:
        yield f"without effect here: {', '.join(sending)}"


def _is_true(value: Any) -> bool:
    """Whether a boolean is true; databases return it as a number or a text."""
    return str(value).lower() in ("1", "true")
