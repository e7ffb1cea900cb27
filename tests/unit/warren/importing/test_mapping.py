"""Every column of every version has a rule, and what is carried over makes a difference."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tests.support.xxl_job_tables import VERSIONS, columns
from warren.importing.xxl_job.command import plain, status_of
from warren.importing.xxl_job.mapping import map_tables
from warren.importing.xxl_job.source_tables import (
    GLUE,
    GROUP,
    INFO,
    READ_WHOLE,
    REPORT,
    RULES,
    USER,
    Row,
    Rule,
    known_as,
)
from warren.scheduler.imports.items import ImportItems
from warren.sql.run_status import RunStatus

NOW_MS = 1_772_301_600_000

#: One row of each table, and for each column another value that must make a difference.
ROWS: Mapping[str, Mapping[str, tuple[str | None, str]]] = {
    GROUP: {
        "id": ("1", "1"),
        "app_name": ("shop", "store"),
        "name": ("Shop", "Store"),
        "address_type": ("1", "0"),
        "address_list": ("http://10.0.0.1:9999/", "http://10.0.0.2:9999/"),
    },
    INFO: {
        "id": ("7", "7"),
        "job_group": ("1", "2"),
        "name": ("nightly", "daily"),
        "author": ("olga", "ivan"),
        "alarm_email": ("a@example.com", "b@example.com"),
        "schedule_type": ("CRON", "NONE"),
        "schedule_conf": ("0 0 2 * * ?", "0 0 3 * * ?"),
        "schedule_timezone": ("", "Asia/Tokyo"),
        "misfire_strategy": ("DO_NOTHING", "FIRE_ONCE_NOW"),
        "executor_route_strategy": ("FIRST", "LAST"),
        "executor_handler": ("h", "i"),
        "executor_param": ("p", "q"),
        "executor_block_strategy": ("SERIAL_EXECUTION", "COVER_EARLY"),
        "executor_timeout": ("0", "5"),
        "executor_fail_retry_count": ("0", "3"),
        "glue_type": ("GLUE_SHELL", "GLUE_PHP"),
        "glue_source": ("date", "ls"),
        "glue_remark": ("first", "second"),
        "child_jobid": (None, "8"),
        "trigger_status": ("0", "1"),
        "trigger_next_time": ("0", "1772388000000"),
        "add_time": ("2024-01-01 00:00:00", "2024-01-02 00:00:00"),
        "update_time": ("2024-01-01 00:00:00", "2024-01-02 00:00:00"),
    },
    GLUE: {
        "id": ("1", "1"),
        "job_id": ("7", "99"),
        "glue_type": ("GLUE_SHELL", "GLUE_PHP"),
        "glue_source": ("before", "earlier"),
        "glue_remark": ("zero", "null"),
        "add_time": ("2024-01-01 00:00:00", "2024-01-02 00:00:00"),
    },
    USER: {
        "id": ("1", "1"),
        "username": ("olga", "ivan"),
        "role": ("0", "1"),
        "permission": ("1", "1,2"),
    },
    REPORT: {
        "id": ("1", "1"),
        "trigger_day": ("2024-01-01 00:00:00", "2024-01-02 00:00:00"),
        "running_count": ("0", "1"),
        "suc_count": ("0", "1"),
        "fail_count": ("0", "1"),
    },
}


def arrive(table: str = "", **changed: str | None) -> dict[str, Any]:
    """Return what the rows become, one of them with other values."""
    tables = {}
    for name in READ_WHOLE:
        values = {column: pair[0] for column, pair in ROWS[name].items()}
        tables[name] = [Row(name, values | (changed if name == table else {}))]
    items = map_tables(tables, zone=ZoneInfo("Asia/Shanghai"), now_ms=NOW_MS)
    assert isinstance(items, ImportItems)
    return asdict(items)


def test_no_name_of_a_job_has_invisible_characters() -> None:
    items = arrive(INFO, name="night\u200bly \u202ejob\ufeff")

    [job] = items["jobs"]
    assert job["spec"]["name"] == "nightly job"
    [finding] = [each for each in items["findings"] if each["column"] == "name"]
    assert finding["words"] == "it is 'nightly job' here"


@pytest.mark.parametrize("version", VERSIONS)
def test_every_column_of_a_version_has_a_rule(version: str) -> None:
    unruled = [
        f"{table}.{column}"
        for table, described in columns(version).items()
        if table in RULES
        for column in described
        if known_as(table, column) not in RULES[table]
    ]

    assert unruled == []


@pytest.mark.parametrize(
    ("table", "column"),
    [
        (table, column)
        for table in READ_WHOLE
        for column, rule in RULES[table].items()
        if rule is Rule.MAPPED and column != "job_cron"
    ],
)
def test_column_that_is_carried_over_makes_a_difference(table: str, column: str) -> None:
    extra = {"glue_type": "BEAN"} if column == "executor_handler" else {}
    before = arrive(table, **extra)

    after = arrive(table, **extra | {column: ROWS[table][column][1]})

    assert after != before


@pytest.mark.parametrize(
    ("table", "column"),
    [
        (table, column)
        for table in READ_WHOLE
        for column, rule in RULES[table].items()
        if rule is Rule.LEFT
    ],
)
def test_column_that_is_left_makes_none_and_is_never_shown(table: str, column: str) -> None:
    after = arrive(table, **{column: "a secret"})

    assert after == arrive()
    assert "a secret" not in repr(after)


def test_a_group_named_like_a_path_of_the_api_gets_a_name_of_its_own() -> None:
    items = arrive(GROUP, app_name="By_Id")

    [app] = items["apps"]
    assert app["spec"]["name"] == "app-1-by-id"


def test_jobs_keep_the_source_s_limit_for_late_runs() -> None:
    assert [job["spec"]["late_limit"] for job in arrive()["jobs"]] == [5]


def test_everything_may_be_null() -> None:
    for table in READ_WHOLE:
        nothing = dict.fromkeys([name for name in ROWS[table] if name != "id"])

        assert arrive(table, **nothing)


@pytest.mark.parametrize(
    ("trigger_code", "handle_code", "status"),
    [
        (200, 200, RunStatus.SUCCEEDED),
        (200, 500, RunStatus.FAILED),
        (200, 502, RunStatus.TIMED_OUT),
        (200, 7, RunStatus.FAILED),
        (500, 0, RunStatus.UNDELIVERED),
        (200, 0, None),
        (0, 0, None),
    ],
)
def test_codes_of_a_run_become_its_status(
    trigger_code: int, handle_code: int, status: RunStatus | None
) -> None:
    assert status_of(trigger_code, handle_code) is status


def test_marks_of_a_message_become_plain_text() -> None:
    assert plain("a<br><br/>b <span style='x'>c</span> 1 &lt; 2 < 3") == "a\n\nb c 1 < 2 < 3"
