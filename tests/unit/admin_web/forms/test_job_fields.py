"""The form of a job holds every field that is declared."""

from dataclasses import replace
from typing import Any

import pytest
from flask import Flask

from tests.support.console import signed_in
from warren.admin_web.forms.job_fields import FORM_FIELDS, JobForm
from warren.scheduler.expectations import Expectations
from warren.scheduler.jobs.spec import FIELDS, JobSpec
from warren.scheduler.schedules.options import ScheduleOptions

PLAIN = JobSpec(name="nightly", app="reports", handler="report", enabled=False)
#: Values that are no defaults, by type.
OTHER: dict[Any, Any] = {
    str: "other",
    int: 7,
    float: 0.25,
    bool | None: True,
    tuple[str, ...]: ("a", "b"),
    Expectations: Expectations(finish_by="07:00"),
    ScheduleOptions: ScheduleOptions(window="08:00-20:00", begin="2026-12-01"),
}
#: A kind of schedule and its value are asked for together, and scripts have a page of their own.
ELSEWHERE = {
    "schedule_kind",
    "schedule_value",
    "script_language",
    "script_source",
    "script_remark",
    "flow",
}


@pytest.mark.parametrize("name", sorted(FIELDS.keys() - ELSEWHERE - {"enabled"}))
def test_what_the_form_shows_of_a_field_it_reads_back(name: str) -> None:
    spec = replace(PLAIN, **{name: OTHER[FIELDS[name].type]})

    assert JobForm(data=JobForm.values_of(spec)).read() == spec


def test_a_schedule_reads_back() -> None:
    spec = replace(PLAIN, schedule_kind="FIX_RATE", schedule_value="30", timezone="UTC")

    assert JobForm(data=JobForm.values_of(spec)).read() == spec


def test_a_copy_of_an_enabled_job_waits_to_be_started() -> None:
    assert "enabled" not in JobForm.values_of(replace(PLAIN, enabled=True))


def test_the_page_asks_for_every_field(app: Flask) -> None:
    page = signed_in(app, "scripter").get("/jobs/new").text

    form = JobForm()
    names = [form[name].name for name in FORM_FIELDS]
    assert [name for name in names if f'name="{name}"' not in page] == []


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("start_witin: 5m", "unknown option 'start_witin', did you mean 'start_within'?"),
        ("soon", "expected expect to be like 'start_within: 5m, finish_by: 07:00', got: 'soon'"),
    ],
)
def test_an_expectation_that_is_none_is_told_beside_its_field(
    app: Flask, typed: str, told: str
) -> None:
    with app.test_request_context():
        form = JobForm(data=JobForm.values_of(PLAIN) | {"expect": typed})
        form.read()

        assert form.expect.errors == (told,)
