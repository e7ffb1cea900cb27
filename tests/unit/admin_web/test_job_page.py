"""What the page of a job shows: its family graph, and its settings."""

from dataclasses import fields

from flask import Flask

from warren.admin_web.pages.job_pages import (
    BOX_WIDTH,
    MAX_BOXES,
    FamilyGraph,
    draw,
    generations,
    read_settings,
)
from warren.scheduler.expectations import Expectations
from warren.scheduler.jobs.spec import JobSpec
from warren.scheduler.schedules.options import ScheduleOptions
from warren.sql.listings.run_relations import Family


def picture(*links: tuple[int, int], name: str = "a/job") -> FamilyGraph:
    """Return the drawing of job 1 among these links of parent and child."""
    names = {job_id: f"a/{job_id:02}" for link in links for job_id in link} | {1: name}
    found = draw(1, Family(names=names, links=list(links), is_cut=False))
    assert found is not None
    return found


def test_a_job_alone_has_no_picture() -> None:
    assert draw(1, Family(names={1: "reports/alone"}, links=[], is_cut=False)) is None


def test_parents_stand_to_the_left_and_children_to_the_right() -> None:
    found = picture((2, 1), (1, 3), (1, 4))

    x = {box.job_id: box.x for box in found.relatives}
    assert x[2] < found.job.x < x[3] == x[4]
    assert len(found.arrows) == 3
    assert x[3] + BOX_WIDTH <= found.width
    assert len({box.y for box in found.relatives if box.job_id in (3, 4)}) == 2


def test_grandchildren_stand_behind_all_of_their_parents() -> None:
    found = picture((1, 2), (2, 3), (1, 3), (3, 4), (5, 6), (6, 1), (5, 1))

    x = {box.job_id: box.x for box in found.relatives}
    assert x[5] < x[6] < found.job.x < x[2] < x[3] < x[4]
    assert len(found.arrows) == 7


def test_a_circle_ends() -> None:
    assert generations(1, [(1, 2), (2, 3), (3, 2), (3, 1)]).keys() == {1, 2, 3}
    assert picture((1, 2), (2, 1)).width > 0


def test_a_picture_fits_as_long_as_its_texts_can_be_read() -> None:
    assert picture((1, 2), (2, 3), (3, 4)).fits
    assert not picture((1, 2), (2, 3), (3, 4), (4, 5)).fits


def test_boxes_stay_within_the_picture() -> None:
    found = picture(*[(1, number) for number in range(2, 9)])

    assert all(0 <= box.y <= found.height - box.height for box in found.relatives)


def test_too_many_are_counted() -> None:
    found = picture(*[(number, 1) for number in range(2, 42)])

    assert len(found.relatives) == MAX_BOXES
    assert (found.relatives[-1].job_id, found.relatives[-1].name) == (0, "+ 29")


def test_a_long_name_shows_its_end() -> None:
    found = picture((2, 1), name="reports/" + "x" * 60 + "-end")

    assert found.job.short_name.startswith("…")
    assert found.job.short_name.endswith("-end")


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
