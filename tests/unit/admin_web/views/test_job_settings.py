"""The settings on a job's page follow the one declaration of a job's fields."""

from dataclasses import fields

from flask import Flask

from warren.admin_web.pages.job_pages import read_settings
from warren.scheduler.expectations.expectations import Expectations
from warren.scheduler.jobs.spec import JobSpec
from warren.scheduler.schedules.options import ScheduleOptions

SECRET = "https://hooks.example.com/very-secret"
OTHERS = JobSpec(
    name="nightly",
    app="reports",
    author="ann",
    schedule_kind="CRON",
    schedule_value="0 0 2 * * ?",
    schedule_options=ScheduleOptions(window="08:00-20:00"),
    timezone="Asia/Shanghai",
    run_date_days=-1,
    run_date_months=-2,
    run_date_workdays=-3,
    run_date_calendar="cn",
    handler="report.daily",
    param="a=1",
    param_template="{{ run_date }}",
    tags=("night", "billing"),
    route="ROUND",
    block="DISCARD_LATER",
    misfire="CATCH_UP",
    catch_up_within=3_600,
    catch_up_most=12,
    delivery="AT_LEAST_ONCE",
    concurrency=2,
    timeout=30,
    retries=4,
    retry_delay=7,
    retry_backoff="exponential",
    retry_most=70,
    retry_jitter=0.25,
    process="job",
    children=("next",),
    alarm_emails=("a@example.com", "b@example.com"),
    alarm_webhook=SECRET,
    alarm_style="slack",
    webhook_url=f"{SECRET}/ended",
    webhook_when="success",
    expect=Expectations(finish_by="07:00"),
    scope="cluster",
    limits=("warehouse",),
    priority="high",
    max_waiting=9,
)
#: What the page shows in another place, as its title or beside its schedule, or never.
ELSEWHERE = {"name", "app", "schedule_kind", "schedule_value", "timezone", "enabled", "flow"}
ELSEWHERE |= {"alarm_secret"}
SCRIPT = {"script_language", "script_source", "script_remark"}


def shown(app: Flask, spec: JobSpec, *, may_see_secrets: bool = True) -> list[str]:
    with app.test_request_context():
        return [one.value for one in read_settings(spec, may_see_secrets=may_see_secrets)]


def test_each_declared_field_has_its_line(app: Flask) -> None:
    values = shown(app, OTHERS)

    assert len(values) == len(fields(JobSpec)) - len(ELSEWHERE | SCRIPT)
    assert {
        "ann",
        "report.daily",
        "a=1",
        "2",
        "30",
        "4",
        "7",
        "70",
        "exponential",
        "0.25",
        "kept for this job",
        SECRET,
        "slack",
    } <= {*values}
    assert "a@example.com, b@example.com" in values
    assert {"round robin", "after each success", f"{SECRET}/ended"} <= {*values}
    assert {"night, billing", "next"} <= {*values}


def test_what_is_not_set_has_none(app: Flask) -> None:
    values = shown(app, JobSpec(name="nightly", app="reports", handler="report"))

    assert values == [
        "report",
        "default",
        "queue",
        "skip",
        "60",
        "at most once",
        "1",
        "on each executor",
        "normal",
        "fixed",
        "default",
    ]


def test_of_a_secret_only_that_there_is_one_is_shown(app: Flask) -> None:
    values = shown(app, OTHERS, may_see_secrets=False)

    assert SECRET not in "".join(values)
    assert "yes" in values
