"""`warren import django-celery-beat`: the schedule in Django's database as a job file.

Reads the tables of a MySQL, MariaDB or SQLite database, or what `manage.py dumpdata
django_celery_beat` prints, whatever the database.
"""

import json
import sqlite3
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from warren.errors import CommandError
from warren.importing.celery_beat import BeatSchedule, expression, job_name, read_entries
from warren.importing.foreign import is_url, open_foreign
from warren.jobfile.export import jobs_of_app
from warren.jobfile.five_fields import weekdays_and_times
from warren.scheduler.cron.wall_clock import load_zone
from warren.scheduler.jobs.rules import check_app_name
from warren.scheduler.jobs.spec import JobSpec
from warren.scheduler.schedules.registry import CronSchedule, FixedRate, OneTime
from warren.settings.settings import Settings
from warren.sql.dialects.database_url import parse
from warren.views.terminal import warn

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


def print_periodic_tasks(
    settings: Settings, place: str, *, app: str, password_file: Path | None
) -> None:
    """Print the periodic tasks as a job file, and remarks on standard error."""
    check_app_name(app)
    tables = read_tables(settings, place, password_file)
    beat_schedule = read_periodic_tasks(tables, app=app, now_ms=time.time_ns() // 1_000_000)
    print(jobs_of_app(app, beat_schedule.specs), end="")
    for words in beat_schedule.remarks:
        warn(words)


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


def read_periodic_tasks(tables: _Tables, *, app: str, now_ms: int) -> BeatSchedule:
    """Return the jobs made of periodic tasks."""
    tasks = {str(row["name"]): row for _, row in sorted(tables[_TASKS].items())}

    def read(key: str, row: _Row) -> JobSpec:
        kind, value, zone = _schedule(row, tables)
        return JobSpec(
            name=job_name(key),
            app=app,
            handler=str(row["task"] or ""),
            schedule_kind=kind,
            schedule_value=value,
            timezone=zone,
            param=_param(row),
        )

    return read_entries(tasks, read, _remarks, now_ms=now_ms)


def _schedule(row: _Row, tables: _Tables) -> tuple[str, str, str]:
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


def _param(row: _Row) -> str:
    given: dict[str, Any] = {}
    for name, kind in (("args", list), ("kwargs", dict)):
        value = json.loads(str(row.get(name) or "null"))
        if value is not None and not isinstance(value, kind):
            raise ValueError(f"expected {name} to be JSON {kind.__name__}, got: {row[name]!r}")
        if value:
            given[name] = value
    return json.dumps(given, ensure_ascii=False) if given else ""


def _remarks(row: _Row, _spec: JobSpec) -> Iterator[str]:
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
