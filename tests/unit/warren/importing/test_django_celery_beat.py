"""Periodic tasks in Django's database become a job file, from its tables or from a dump."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from warren.contrib.celery import arguments
from warren.errors import CommandError
from warren.importing.celery_beat import read_periodic_tasks, read_tables
from warren.importing.foreign import ForeignJobs
from warren.settings.settings import read_settings

NOW_MS = 1_772_301_600_000
CRONTAB = {
    "minute": "*/15",
    "hour": "8-18",
    "day_of_month": "*",
    "month_of_year": "*",
    "day_of_week": "mon-fri",
    "timezone": "Asia/Tokyo",
}
TASK = {
    "name": "nightly/one",
    "task": "proj.add",
    "interval": None,
    "crontab": None,
    "solar": None,
    "clocked": None,
    "args": "[]",
    "kwargs": "{}",
    "queue": None,
    "headers": "{}",
    "one_off": False,
    "enabled": True,
    "start_time": None,
}


def read(folder: Path, *tasks: dict[str, Any], **schedules: dict[str, Any]) -> ForeignJobs:
    """Return what a dump with these tasks, and the schedules that they name, becomes."""
    items = [
        {"model": f"django_celery_beat.{kind}schedule", "pk": 1, "fields": fields}
        for kind, fields in schedules.items()
    ] + [
        {"model": "django_celery_beat.periodictask", "pk": number, "fields": TASK | task}
        for number, task in enumerate(tasks, 1)
    ]
    path = folder / "beat.json"
    path.write_text(json.dumps(items))
    tables = read_tables(read_settings({}), str(path), None)
    return read_periodic_tasks(tables, app="mails", now_ms=NOW_MS)


@pytest.mark.parametrize(
    ("schedule", "kind", "value", "timezone"),
    [
        ({"crontab": CRONTAB}, "CRON", "0 0-45/15 8-18 ? * 2-6", "Asia/Tokyo"),
        ({"interval": {"every": 5, "period": "minutes"}}, "FIX_RATE", "300", ""),
        (
            {"clocked": {"clocked_time": "2026-12-01T08:00:00.5Z"}},
            "AT",
            "2026-12-01T08:00:00+00:00",
            "",
        ),
    ],
)
def test_task_becomes_a_job(
    tmp_path: Path, schedule: dict[str, Any], kind: str, value: str, timezone: str
) -> None:
    task = dict.fromkeys(schedule, 1) | {"args": "[1]", "kwargs": '{"to": "奥尔加"}'}

    found = read(tmp_path, task, **schedule)

    [spec] = found.specs
    assert (spec.name, spec.app, spec.handler) == ("nightly_one", "mails", "proj.add")
    assert (spec.schedule_kind, spec.schedule_value, spec.timezone) == (kind, value, timezone)
    assert arguments(spec.param) == ([1], {"to": "奥尔加"})
    assert found.remarks == []


DAILY = {"every": 5, "period": "days"}


@pytest.mark.parametrize(
    ("task", "schedule", "words"),
    [
        ({}, {}, "it has no schedule"),
        ({"solar": 1}, {}, "a solar schedule has no equivalent here"),
        ({"crontab": 7}, {}, "its crontab_id 7 is not there"),
        ({"interval": 1}, {"every": 5, "period": "microseconds"}, "expected whole seconds"),
        ({"interval": 1, "one_off": True}, DAILY, "it runs only once"),
        ({"interval": 1, "args": "{}"}, DAILY, "expected args to be JSON"),
        ({"interval": 1, "args": "x"}, DAILY, "Expecting value"),
        ({"interval": 1, "task": ""}, DAILY, "handler"),
    ],
)
def test_task_that_has_no_equal_is_left_out_and_named(
    tmp_path: Path, task: dict[str, Any], schedule: dict[str, Any], words: str
) -> None:
    found = read(tmp_path, task, **({"interval": schedule} if schedule else {}))

    [told] = found.remarks
    assert told.startswith("nightly/one is left out: ")
    assert words in told


def test_what_has_no_effect_here_is_named(tmp_path: Path) -> None:
    task = {"enabled": False, "start_time": "2027-01-01", "queue": "q", "headers": '{"a": 1}'}

    found = read(tmp_path, task | {"interval": 1}, interval={"every": 1, "period": "hours"})

    assert found.remarks == [
        "nightly/one: it is disabled there",
        "nightly/one: start_time 2027-01-01 has no effect here",
        "nightly/one: without effect here: queue, headers",
    ]


def test_tables_of_sqlite_are_read(tmp_path: Path) -> None:
    path = tmp_path / "db.sqlite3"
    with closing(sqlite3.connect(path)) as file:
        for table, columns in (
            ("crontabschedule", "id"),
            ("clockedschedule", "id"),
            ("intervalschedule", "id, every, period"),
            ("periodictask", "id, name, task, interval_id, args, kwargs, one_off, enabled"),
        ):
            file.execute(f"CREATE TABLE django_celery_beat_{table} ({columns})")
        file.execute("INSERT INTO django_celery_beat_intervalschedule VALUES (3, 2, 'hours')")
        file.execute(
            "INSERT INTO django_celery_beat_periodictask "
            "VALUES (1, 'two', 'proj.add', 3, '[]', '{}', 0, 1)"
        )
        file.commit()

    tables = read_tables(read_settings({}), f"sqlite:///{path}", None)

    [spec] = read_periodic_tasks(tables, app="mails", now_ms=NOW_MS).specs
    assert (spec.name, spec.schedule_value) == ("two", "7200")


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("postgresql://db/x", "manage.py dumpdata django_celery_beat"),
        ("sqlite:///nowhere", "nowhere: there is no such file"),
        ("{folder}/list.json", "has no table django_celery_beat_periodictask"),
        ("{folder}/odd.json", "expected what `manage.py dumpdata django_celery_beat` prints"),
        ("sqlite:///{folder}/odd.json", "cannot read it"),
        ("mysql+pymysql://u:secret@db/x", "expected a URL without a password"),
    ],
)
def test_source_that_cannot_be_read_is_named(tmp_path: Path, place: str, words: str) -> None:
    (tmp_path / "list.json").write_text("[]")
    (tmp_path / "odd.json").write_text("[1]")

    with pytest.raises(CommandError) as raised:
        read_tables(read_settings({}), place.format(folder=tmp_path), None)

    assert words in str(raised.value)
