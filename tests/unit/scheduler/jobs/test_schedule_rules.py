"""By which rule a stored schedule is read, and when it gets the newest one."""

from typing import Any

import pytest

from warren.scheduler.commands.job_edits import edit_of, is_as_described
from warren.scheduler.jobs.spec import JobSpec, columns_of
from warren.sql.models import Job

CRONTAB = {"schedule_kind": "UNIX_CRON", "schedule_value": "*/30 * * * *"}
NEWEST = '{"rule":2}'


def spec_of(**fields: Any) -> JobSpec:
    return JobSpec(name="half-hourly", app="reports", **CRONTAB | fields)


def stored_by_0_1_0(**fields: Any) -> Job:
    spec = spec_of(**fields)
    row = columns_of(spec) | {"schedule_options": spec.schedule_options.by_rule(1).to_json()}
    return Job(script_type="BEAN", is_enabled=1, **row)


def stored_after(job: Job, spec: JobSpec) -> str | None:
    """Return the options that an edit leaves in the row."""
    edit = edit_of(job, spec)
    changed = columns_of(edit.spec, edit.fields)
    return changed.get("schedule_options", job.schedule_options)  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("fields", "stored"),
    [
        ({}, NEWEST),
        ({"schedule_kind": "CRON", "schedule_value": "0 0 2 * * ?"}, None),
        ({"schedule_kind": "FIX_RATE", "schedule_value": "60"}, None),
        ({"schedule_kind": "NONE", "schedule_value": ""}, None),
    ],
)
def test_only_a_kind_with_several_rules_stores_one(
    fields: dict[str, Any], stored: str | None
) -> None:
    assert columns_of(spec_of(**fields))["schedule_options"] == stored


def test_the_same_schedule_changes_nothing_and_keeps_its_rule() -> None:
    job = stored_by_0_1_0()

    edit = edit_of(job, spec_of())

    assert is_as_described(job, spec_of())
    assert (list(edit.fields), edit.words, edit.reschedules) == ([], (), False)
    assert edit.spec.schedule_options.rule == 1


def test_an_edit_of_something_else_keeps_the_rule() -> None:
    job = stored_by_0_1_0()

    edit = edit_of(job, spec_of(timeout=30))

    assert [field.name for field in edit.fields] == ["timeout"]
    assert edit.spec.schedule_options.rule == 1


@pytest.mark.parametrize(
    "fields", [{"schedule_value": "*/20 * * * *"}, {"timezone": "Europe/Berlin"}]
)
def test_an_edited_schedule_gets_the_newest_rule(fields: dict[str, Any]) -> None:
    job = stored_by_0_1_0()

    assert stored_after(job, spec_of(**fields)) == NEWEST
    # Also one that was made of the stored row.
    assert stored_after(job, spec_of(**fields).by_rule(1)) == NEWEST


def test_a_schedule_of_another_kind_loses_the_rule() -> None:
    job = Job(script_type="BEAN", is_enabled=1, **columns_of(spec_of()))
    cron = spec_of(schedule_kind="CRON", schedule_value="0 0 2 * * ?")

    assert stored_after(job, cron) is None
