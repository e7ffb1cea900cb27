"""Calendars in the console and the API: a year, the jobs that use them, options of schedules."""

import re
from dataclasses import replace
from datetime import date
from urllib.parse import urlencode

import pytest

from tests.support.console import Visit
from warren.scheduler.actor import Actor
from warren.scheduler.calendars.calendar_spec import CalendarSpec
from warren.scheduler.commands.calendar_commands import CalendarCommands
from warren.scheduler.commands.command_context import CommandContext
from warren.scheduler.schedules.reading import NotTaken
from warren.sql.engine import Database

#: The tests' clock stands in January 2027.
NOW_MS = 1_800_000_000_000
DAYS = {date(2027, 3, 3): "off Founders' <day>", date(2027, 3, 6): "work"}


def store(database: Database, until: date = date(2028, 12, 31)) -> None:
    context = CommandContext(database=database, now_ms=lambda: NOW_MS, actor=Actor(who="ann"))
    commands = CalendarCommands(context)
    commands.apply("acme", commands.resolved(CalendarSpec(name="acme", days=DAYS, until=until)))


def form(**fields: str) -> dict[str, str]:
    return {
        "app": "reports",
        "name": "nightly",
        "handler": "noop",
        "schedule_kind": "CRON",
        "cron": "0 0 9 * * ?",
        "concurrency": "1",
        "late_limit": "60",
        "timeout": "0",
        "retries": "0",
        "retry_delay": "0",
        "retry_most": "0",
        "retry_jitter": "0",
        "run_date_days": "0",
        "run_date_months": "0",
        "run_date_workdays": "0",
    } | fields


def test_a_year_shows_moved_working_days_and_holidays(admin: Visit, database: Database) -> None:
    assert "There is no calendar yet." in admin.get("/calendars").text
    store(database)

    listed = admin.get("/calendars").text
    year = admin.get("/calendars/acme?year=2027").text

    assert 'href="/calendars/acme"' in listed
    assert "Founders&#39; &lt;day&gt;" in year
    assert len(re.findall(r'<td class="calendar-day [^"]*"', year)) == 365
    assert len(re.findall(r'class="calendar-day off special"', year)) == 1
    assert len(re.findall(r'<td class="calendar-day work special"', year)) == 1
    assert admin.client.get("/calendars/acme?year=2040").status_code == 422
    assert admin.client.get("/calendars/other").status_code == 404
    assert admin.client.get("/calendars/acme?year=0&version=99").status_code == 404


def test_a_year_says_which_events_of_its_feed_are_not_taken(
    admin: Visit, database: Database
) -> None:
    context = CommandContext(database=database, now_ms=lambda: NOW_MS, actor=Actor(who="ann"))
    commands = CalendarCommands(context)
    noted = NotTaken(timed=2, unreadable=1, line=7, first="<Lunch>")
    days = commands.resolved(CalendarSpec(name="acme", days=DAYS, until=date(2028, 12, 31)))
    commands.apply("acme", replace(days, not_taken=noted))

    year = admin.get("/calendars/acme?year=2027").text

    assert (
        "with hours 2, observances 0, unreadable 1. The first is on line 7: &lt;Lunch&gt;" in year
    )


def test_the_form_saves_options_and_shows_them_again(admin: Visit, database: Database) -> None:
    store(database)
    options = {
        "calendar": "acme",
        "on_holiday": "next",
        "window": "08:00-20:00",
        "jitter": "5m",
        "begin": "2027-02-01",
        "until": "2027-06-30",
    }

    saved = admin.post("/jobs/create", form(**options))

    assert saved.status_code == 303, saved.text
    page = admin.get(saved.location).text
    for words in ("move to the next working day", "08:00-20:00", "2027-06-30"):
        assert words in page
    again = admin.get(f"{saved.location}/edit").text
    assert 'value="2027-02-01"' in again
    assert re.search(r'<option selected value="acme">', again)


def test_the_preview_of_a_schedule_says_what_clock_changes_do(admin: Visit) -> None:
    asked = {"schedule_kind": "CRON", "timezone": "Europe/Berlin"}

    told = {
        cron: admin.get(f"/jobs/preview?{urlencode(asked | {'cron': cron})}").text
        for cron in ("0 30 2 * * ?", "0 30 9 * * ?")
    }

    assert "the clock leaves out 02:00 to 03:00: nothing runs for that time" in told["0 30 2 * * ?"]
    assert "runs the second time only" in told["0 30 2 * * ?"]
    assert "the clock leaves out" not in told["0 30 9 * * ?"]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"window": "20:00"}, "expected window to be two times of day"),
        ({"window": "10:00-11:00"}, "leaves no due time"),
        ({"begin": "2027-02-02", "until": "2027-02-01"}, "expected from not to be after until"),
        ({"calendar": "other"}, "unknown calendar &#39;other&#39;"),
        ({"schedule_kind": "WORKDAY", "workday": "3"}, "expected workday to be 1 to 23"),
        ({"run_date_workdays": "-1"}, "expected a calendar, because workdays is set"),
    ],
)
def test_a_wrong_option_is_shown_beside_its_field(
    admin: Visit, fields: dict[str, str], words: str
) -> None:
    answer = admin.post("/jobs/create", form(**fields))

    assert answer.status_code == 422
    assert words in answer.text


def test_the_preview_of_a_schedule_counts_days_off(admin: Visit, database: Database) -> None:
    store(database)
    asked = "schedule_kind=CRON&cron=0+0+9+*+3+?&timezone=UTC&calendar=acme&on_holiday=skip"

    preview = admin.get(f"/jobs/preview?{asked}").text

    assert "2027-03-02" in preview
    assert "2027-03-03" not in preview
    assert "2027-03-06" in preview


def test_a_jobs_page_says_when_its_calendar_ends(admin: Visit, database: Database) -> None:
    store(database, until=date(2027, 2, 10))

    saved = admin.post("/jobs/create", form(calendar="acme"))

    page = admin.get(saved.location).text
    assert "Calendar acme ends on 2027-02-10. Then this job stops." in page


def test_a_list_of_jobs_shows_the_next_due_time_by_the_calendar(
    admin: Visit, database: Database
) -> None:
    store(database)
    admin.post(
        "/jobs/create", form(calendar="acme", enabled="y", cron="0 0 9 ? 3 WED", timezone="UTC")
    )

    assert "2027-03-10" in admin.get("/jobs").text
