"""Backfills in the console: made by a form, previewed, steered; gaps filled; dates as a grid."""

import re
from datetime import date

import pytest
from flask import Flask
from sqlalchemy import select

from tests.support.console import Clock, Visit
from tests.support.stored_rows import Rows
from warren.admin_web.pages.backfills import months
from warren.resources.backfills import BackfillDueTime
from warren.resources.instant import Instant
from warren.scheduler.actor import Actor
from warren.scheduler.calendars.calendar_spec import CalendarSpec
from warren.scheduler.commands.calendar_commands import CalendarCommands
from warren.scheduler.commands.command_context import CommandContext
from warren.scheduler.schedules.options import ScheduleOptions
from warren.scheduler.views.backfill_view import FilledState
from warren.sql.models import Backfill
from warren.sql.models.job_tables import BackfillState
from warren.sql.run_status import Kind

NIGHTLY = {"schedule_kind": "CRON", "schedule_value": "0 0 2 * * ?", "timezone": "UTC"}
WEEK = {"from_date": "2026-03-01", "to_date": "2026-03-07", "selection": "missing", "at_once": "2"}
SECOND_MS = 1_772_416_800_000  # 2026-03-02 02:00
DAY_MS = 86_400_000


@pytest.fixture
def job_id(rows: Rows) -> int:
    return rows.job("daily", **NIGHTLY)


def stored(rows: Rows) -> list[Backfill]:
    return rows.database.read(lambda session: list(session.execute(select(Backfill)).scalars()))


def test_a_backfill_is_made_previewed_and_steered(admin: Visit, rows: Rows, job_id: int) -> None:
    rows.run(job_id, SECOND_MS, status="SUCCEEDED")
    assert f"/jobs/{job_id}/backfill" in admin.get(f"/jobs/{job_id}").text
    assert 'name="from_date"' in admin.get(f"/jobs/{job_id}/backfill").text

    preview = admin.post(f"/jobs/{job_id}/backfill/preview", WEEK).text
    assert "6 of 7 due times would run" in preview
    assert "each executor runs 1 at a time" in preview
    assert stored(rows) == []

    page = admin.post(f"/jobs/{job_id}/backfill/make", WEEK, follow_redirects=True).text
    [backfill] = stored(rows)
    assert f"Backfill {backfill.id} is planned." in page
    assert "2026-03-02: to come" in page
    assert f"/backfills/{backfill.id}" in admin.get("/backfills").text

    path = f"/backfills/{backfill.id}"
    assert "paused by admin" in admin.post(f"{path}/pause", {}, follow_redirects=True).text
    assert "continues" in admin.post(f"{path}/resume", {}, follow_redirects=True).text
    page = admin.post(f"{path}/cancel", {"kill": "1"}, follow_redirects=True).text
    assert "cancelled by admin" in page
    assert "2026-03-02: left out" in page
    assert [row.state for row in stored(rows)] == [BackfillState.CANCELLED]
    assert "is already over" in admin.post(f"{path}/pause", {}, follow_redirects=True).text


def test_the_dates_are_those_of_the_calendar(admin: Visit, rows: Rows) -> None:
    context = CommandContext(
        database=rows.database, now_ms=lambda: SECOND_MS, actor=Actor(who="ann")
    )
    commands = CalendarCommands(context)
    spec = CalendarSpec(name="acme", days={date(2026, 3, 4): "off"}, until=date(2027, 12, 31))
    commands.apply("acme", commands.resolved(spec))
    options = ScheduleOptions(calendar="acme").to_json()
    job_id = rows.job("nightly", **NIGHTLY, schedule_options=options)

    page = admin.post(f"/jobs/{job_id}/backfill/make", WEEK, follow_redirects=True).text

    dates = re.findall(r"(2026-03-\d\d): to come", page)
    assert list(dict.fromkeys(dates)) == [f"2026-03-{day}" for day in ("02", "03", "05", "06")]


def test_a_form_sent_twice_makes_one(admin: Visit, rows: Rows, job_id: int) -> None:
    once = {"once": "k" * 22}

    for _ in range(2):
        admin.post(f"/jobs/{job_id}/backfill/make", WEEK | once)

    assert len(stored(rows)) == 1


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"to_date": "2026-02-01"}, "begins before it ends"),
        ({"to_date": "2999-01-01"}, "the newest that has begun"),
        ({"at_once": "0"}, "Enter a number from 1 to 100."),
        ({"from_date": "soon"}, "Enter a date like 2026-01-31."),
    ],
)
def test_what_is_wrong_stands_at_its_field(
    admin: Visit, rows: Rows, job_id: int, change: dict[str, str], words: str
) -> None:
    answer = admin.post(f"/jobs/{job_id}/backfill/make", WEEK | change)

    assert answer.status_code == 422
    assert words in answer.text
    assert stored(rows) == []


def test_gaps_that_are_ticked_are_filled_and_tell_by_which_run(
    admin: Visit, rows: Rows, job_id: int
) -> None:
    rows.skip(job_id, SECOND_MS, SECOND_MS + DAY_MS, count=2, reason="misfired")
    rows.skip(job_id, SECOND_MS + 3 * DAY_MS, count=1, reason="misfired")
    page = admin.get(f"/jobs/{job_id}/gaps").text
    ids = re.findall(r'name="skip" value="(\d+)"', page)
    assert len(ids) == 2

    refused = admin.post(f"/jobs/{job_id}/gaps/fill", {"at_once": "1"})
    assert (refused.status_code, "Select what should run." in refused.text) == (422, True)
    page = admin.post(
        f"/jobs/{job_id}/gaps/fill", {"at_once": "1", "skip": ids[1]}, follow_redirects=True
    ).text

    [backfill] = stored(rows)
    assert backfill.ticks == 2
    assert "2026-03-02: to come" in page
    run_id = rows.run(
        job_id,
        SECOND_MS,
        status="SUCCEEDED",
        kind=Kind.BACKFILL,
        origin_id=backfill.id,
        backfill_id=backfill.id,
    )
    gaps = admin.get(f"/jobs/{job_id}/gaps").text
    assert "1 of 2 made good, last by" in gaps
    assert f"/runs/{run_id}" in gaps


def test_its_page_links_each_date_to_its_run(admin: Visit, rows: Rows, job_id: int) -> None:
    admin.post(f"/jobs/{job_id}/backfill/make", WEEK)
    [backfill] = stored(rows)
    run_id = rows.run(
        job_id,
        SECOND_MS - DAY_MS,
        status="FAILED",
        kind=Kind.BACKFILL,
        origin_id=backfill.id,
        backfill_id=backfill.id,
    )

    def begin(session: object) -> None:
        row = session.get_one(Backfill, backfill.id)  # type: ignore[attr-defined]
        row.decided, row.open_ticks = 1, f"[{SECOND_MS - DAY_MS}]"

    rows.database.write(begin)
    page = admin.get(f"/backfills/{backfill.id}").text

    assert "2026-03-01: failed" in page
    assert re.search(rf'class="badge bad" href="[^"]*/runs/{run_id}"', page)
    assert f"/backfills/{backfill.id}" in admin.get(f"/runs/{run_id}").text


def due_time(number: int, day: date, state: str, run_id: int | None) -> BackfillDueTime:
    return BackfillDueTime(
        number=number, scheduled_at=Instant.of(number), run_date=day, state=state, run_id=run_id
    )


def test_a_date_with_several_due_times_shows_the_worst(app: Flask, clock: Clock) -> None:
    del app, clock
    states = [FilledState.SUCCEEDED, FilledState.FAILED, FilledState.SUCCEEDED]
    ticks = [
        due_time(number, date(2026, 3, 31), state, number) for number, state in enumerate(states, 1)
    ]
    ticks.append(due_time(4, date(2026, 4, 1), FilledState.TO_COME, None))

    first, second = months(ticks)

    assert (first.name, second.name) == ("2026-03", "2026-04")
    [cell] = first.cells
    assert (cell.day, cell.state, cell.ticks, cell.run_id) == ("31", FilledState.FAILED, 3, 2)
