"""Celery's schedule becomes a job file, and a run's param the arguments of a task."""

import sys
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import yaml

from warren.contrib.celery import arguments
from warren.errors import CommandError
from warren.importing.celery_beat import (
    load_app,
    print_beat_schedule,
    read_beat_schedule,
)
from warren.importing.foreign import ForeignJobs

NOW_MS = 1_772_301_600_000
ALL = {
    "minute": set(range(60)),
    "hour": set(range(24)),
    "day_of_month": set(range(1, 32)),
    "month_of_year": set(range(1, 13)),
    "day_of_week": set(range(7)),
}

#: A Celery app, as far as it is looked at, that prints when it is imported and when it finds tasks.
TALKATIVE = """
from types import MappingProxyType, SimpleNamespace

print("loading settings")
app = SimpleNamespace(
    conf=SimpleNamespace(beat_schedule={"nightly": {"task": "proj.add", "schedule": 60}}),
    tasks={"proj.add": None},
    timezone="UTC",
    loader=SimpleNamespace(import_default_modules=lambda: print("loading tasks")),
    finalize=lambda: None,
)
"""


def crontab(**fields: Any) -> SimpleNamespace:
    """What `celery.schedules.crontab` has of its fields."""
    return SimpleNamespace(**ALL | fields)


def read(timezone: str = "UTC", **entry: Any) -> ForeignJobs:
    entries = {"nightly/one": {"task": "proj.add", "schedule": 60} | entry}
    return read_beat_schedule(_celery(entries, timezone), app="mails", now_ms=NOW_MS)


def _celery(
    entries: Mapping[str, Any],
    timezone: str = "UTC",
    task: Mapping[str, Any] = MappingProxyType({}),
    **conf: Any,
) -> SimpleNamespace:
    return SimpleNamespace(
        conf=SimpleNamespace(beat_schedule=entries, **conf),
        tasks={"proj.add": SimpleNamespace(**task), "celery.ping": None},
        timezone=timezone,
        loader=SimpleNamespace(import_default_modules=lambda: None),
        finalize=lambda: None,
    )


@pytest.mark.parametrize(
    ("schedule", "kind", "value", "timezone"),
    [
        (crontab(), "CRON", "0 * * * * ?", "Asia/Tokyo"),
        (crontab(minute={0, 30}, hour={7}), "CRON", "0 0,30 7 * * ?", "Asia/Tokyo"),
        (crontab(minute={0}, day_of_week={0, 6}), "CRON", "0 0 * ? * 1,7", "Asia/Tokyo"),
        (
            crontab(minute=set(range(0, 60, 2)), day_of_month=set(range(1, 32, 2))),
            "CRON",
            "0 0-58/2 * 1-31/2 * ?",
            "Asia/Tokyo",
        ),
        (crontab(minute={0}, day_of_month={1}), "CRON", "0 0 * 1 * ?", "Asia/Tokyo"),
        (timedelta(minutes=5), "FIX_RATE", "300", ""),
        (SimpleNamespace(run_every=timedelta(seconds=10)), "FIX_RATE", "10", ""),
        (30.0, "FIX_RATE", "30", ""),
    ],
)
def test_schedules_that_have_an_equal_here(
    schedule: Any, kind: str, value: str, timezone: str
) -> None:
    found = read("Asia/Tokyo", schedule=schedule, args=(1,), kwargs={"to": "奥尔加"})

    [spec] = found.specs
    assert (spec.name, spec.app, spec.handler) == ("nightly_one", "mails", "proj.add")
    assert (spec.schedule_kind, spec.schedule_value, spec.timezone) == (kind, value, timezone)
    assert arguments(spec.param) == ([1], {"to": "奥尔加"})
    assert found.remarks == []


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"schedule": 0.5}, "expected whole seconds, got: 0.5"),
        ({"schedule": SimpleNamespace(event="dawn")}, "a schedule of type SimpleNamespace has no"),
        ({"schedule": None}, "a schedule of type NoneType has no equivalent here"),
        (
            {"schedule": crontab(day_of_month={1}, day_of_week={1})},
            "it needs the day of the month and the weekday to match together",
        ),
        ({"schedule": crontab(day_of_month={31}, month_of_year={2})}, "never fires again"),
        ({"schedule": float("inf")}, "expected whole seconds, got: inf"),
        ({"schedule": float("nan")}, "expected whole seconds, got: nan"),
        ({"args": (object(),)}, "its arguments are not JSON"),
        ({"args": (float("nan"),)}, "its arguments are not JSON"),
        ({"task": ""}, "handler"),
    ],
)
def test_entry_that_has_no_equal_is_left_out_and_named(
    entry: Mapping[str, Any], words: str
) -> None:
    found = read(**entry)

    assert found.specs == []
    [told] = found.remarks
    assert told.startswith("nightly/one is left out: ")
    assert words in told


def test_keys_whose_jobs_would_have_one_name_are_both_named_and_both_kept() -> None:
    entry = {"task": "proj.add", "schedule": 60}

    found = read_beat_schedule(
        _celery(dict.fromkeys(("a/b", "a_b", "a//b"), entry)), app="mails", now_ms=NOW_MS
    )

    assert [spec.name for spec in found.specs] == ["a_b", "a_b #2", "a_b #3"]
    assert found.remarks == [
        f"{key}: its job is {name!r} here, because 'a/b' is already 'a_b'; to choose the names, "
        "rename one of the two in the job file"
        for key, name in (("a_b", "a_b #2"), ("a//b", "a_b #3"))
    ]


def test_no_name_has_invisible_characters() -> None:
    entries = {"a\u200bb\u202e/c": {"task": "proj.add", "schedule": 60}}

    [spec] = read_beat_schedule(_celery(entries), app="mails", now_ms=NOW_MS).specs

    assert spec.name == "ab_c"


def test_entry_that_is_no_dict_is_left_out_and_named() -> None:
    found = read_beat_schedule(_celery({"odd": 60}), app="mails", now_ms=NOW_MS)

    assert found.remarks == ["odd is left out: expected a dict, got: int"]


def test_what_has_no_effect_here_is_named() -> None:
    found = read(options={"queue": "q", "expires": 3}, relative=True, task="proj.gone", odd=1)

    assert len(found.specs) == 1
    assert found.remarks == [
        "nightly/one: the app has no task proj.gone",
        "nightly/one: its options have no effect here: queue, expires",
        "nightly/one: relative has no effect here",
        "nightly/one: unknown and without effect: odd",
    ]


@pytest.mark.parametrize(
    ("options", "task", "conf", "timeout", "words"),
    [
        ({"time_limit": 90}, {"time_limit": 5}, {"task_time_limit": 7}, 90, []),
        ({}, {"time_limit": 4.5}, {"task_time_limit": 7}, 5, []),
        ({}, {}, {"task_time_limit": 7}, 7, []),
        (
            {"soft_time_limit": 3},
            {"time_limit": 9},
            {},
            9,
            ["soft_time_limit 3 has no effect here; the timeout is time_limit 9"],
        ),
        (
            {},
            {"soft_time_limit": 3},
            {},
            3,
            ["the timeout is soft_time_limit 3; the task gets SIGTERM, no exception"],
        ),
        ({}, {"rate_limit": "10/m"}, {}, 0, ["rate_limit 10/m has no effect here"]),
        ({}, {}, {"task_default_rate_limit": 5}, 0, ["rate_limit 5 has no effect here"]),
        (
            {},
            {"retry_backoff": True},
            {},
            0,
            [
                (
                    "retry_backoff True has no effect here: the task retries at once; for pauses, "
                    "give the job retries and retry_delay"
                )
            ],
        ),
    ],
)
def test_limits_of_a_task_become_its_timeout_or_are_named(
    options: Mapping[str, Any],
    task: Mapping[str, Any],
    conf: Mapping[str, Any],
    timeout: int,
    words: list[str],
) -> None:
    entries = {"one": {"task": "proj.add", "schedule": 60, "options": options}}

    found = read_beat_schedule(_celery(entries, task=task, **conf), app="mails", now_ms=NOW_MS)

    assert [spec.timeout for spec in found.specs] == [timeout]
    assert found.remarks == [f"one: {line}" for line in words]


def test_a_task_with_autoretry_for_gives_its_job_retries_and_a_backoff() -> None:
    entries = {"one": {"task": "proj.add", "schedule": 60}}
    task = {
        "autoretry_for": (OSError,),
        "max_retries": 4,
        "retry_backoff": 5,
        "retry_backoff_max": 90,
        "retry_jitter": True,
    }

    found = read_beat_schedule(_celery(entries, task=task), app="mails", now_ms=NOW_MS)

    [spec] = found.specs
    assert (spec.retries, spec.retry_delay, spec.retry_backoff) == (4, 5, "exponential")
    assert (spec.retry_most, spec.retry_jitter) == (90, 1.0)
    assert found.remarks == []


def test_crontab_with_a_zone_of_its_own_keeps_it() -> None:
    def now() -> datetime:
        return datetime(2026, 1, 1, tzinfo=ZoneInfo("Asia/Tokyo"))

    found = read("UTC", schedule=crontab(minute={0}, nowfun=now))

    assert [spec.timezone for spec in found.specs] == ["Asia/Tokyo"]


@pytest.mark.parametrize("zone", [None, timezone(timedelta(hours=3)), UTC])
def test_crontab_whose_own_zone_has_no_name_is_left_out(zone: Any) -> None:
    now = datetime(2026, 1, 1, tzinfo=zone)

    found = read("UTC", schedule=crontab(minute={0}, nowfun=lambda: now))

    assert found.remarks == ["nightly/one is left out: its nowfun has no time zone with a name"]


def test_schedule_that_is_relative_itself_is_named() -> None:
    found = read(schedule=SimpleNamespace(run_every=timedelta(seconds=60), relative=True))

    assert found.remarks == ["nightly/one: relative has no effect here"]


def test_entries_in_a_database_are_named() -> None:
    celery = _celery({}, beat_scheduler="django_celery_beat.schedulers:DatabaseScheduler")

    [words] = read_beat_schedule(celery, app="mails", now_ms=NOW_MS).remarks

    assert words.endswith("use `warren import django-celery-beat`")


@pytest.mark.parametrize("param", ["x", "[1]", '{"a": 1}', '{"args": 1}', '{"kwargs": []}'])
def test_param_that_calls_no_task_is_refused(param: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        arguments(param)


def test_no_param_calls_without_arguments() -> None:
    assert arguments(" ") == ([], {})


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("no_such_module:app", "cannot import no_such_module:app: ModuleNotFoundError"),
        ("json:app", "cannot import json:app: AttributeError"),
        ("json:dumps", "expected json:dumps to be a Celery app, got: function"),
    ],
)
def test_what_is_no_celery_app_is_named(
    place: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.path", ["/nowhere"])

    with pytest.raises(CommandError) as raised:
        load_app(place)

    assert words in str(raised.value)


def test_what_a_project_prints_is_no_part_of_the_job_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "talkative.py").write_text(TALKATIVE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", list(sys.path))

    print_beat_schedule("talkative:app", app="mails")

    printed, told = capsys.readouterr()
    assert yaml.safe_load(printed)["jobs"][0]["name"] == "nightly"
    assert told == "loading settings\nloading tasks\n"


def test_zone_that_is_unknown_here_is_told() -> None:
    found = read("UTC+08:00", schedule=crontab(minute={0}))

    assert found.specs[0].timezone == ""
    [words] = found.remarks
    assert words.startswith("nightly/one: the app's time zone is unknown here")
