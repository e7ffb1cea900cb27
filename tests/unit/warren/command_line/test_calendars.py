"""`warren calendars`, and what a job file says of calendars and finer schedules."""

import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.support.stored_rows import Rows
from warren.cli import root
from warren.jobfile.export import job_file
from warren.jobfile.reader import read_job_files
from warren.jobfile.sources import Source

YEAR = datetime.now(UTC).year
#: A weekday and a Saturday of next year, as MM-DD.
_WEDNESDAY = next(
    day for day in (date(YEAR + 1, 3, each) for each in range(1, 8)) if day.weekday() == 2
)
DAY_OFF, WEEKEND = f"{_WEDNESDAY:%m-%d}", f"{_WEDNESDAY + timedelta(days=3):%m-%d}"
FILE = f"""
apps: [{{name: mails}}]
calendars:
  - name: acme
    weekend: [SAT, SUN]
    days: {{{YEAR + 1}-{DAY_OFF}: off Founders' day, {YEAR + 1}-{WEEKEND}: off}}
    until: {YEAR + 2}-12-31
jobs:
  - name: hourly
    app: mails
    handler: send
    enabled: true
    schedule: {{cron: "0 0 9 * * ?", timezone: UTC, calendar: acme, on_holiday: next}}
"""
ICS = f"""BEGIN:VCALENDAR
VERSION:2.0
BEGIN:VEVENT
DTSTART;VALUE=DATE:{YEAR + 1}0215
DTEND;VALUE=DATE:{YEAR + 1}0218
SUMMARY:春节 休
END:VEVENT
BEGIN:VEVENT
DTSTART;VALUE=DATE:{YEAR + 1}0221
SUMMARY:春节 补班
END:VEVENT
BEGIN:VEVENT
DTSTART;VALUE=DATE:{YEAR + 1}0222
SUMMARY:Moved
X-APPLE-SPECIAL-DAY:ALTERNATE-WORKDAY
END:VEVENT
BEGIN:VEVENT
DTSTART;VALUE=DATE:{YEAR}0501
SUMMARY:Labour Day
RRULE:FREQ=YEARLY
END:VEVENT
BEGIN:VEVENT
DTSTART:{YEAR + 1}0601T080000Z
SUMMARY:A meeting
END:VEVENT
END:VCALENDAR
"""


@pytest.fixture
def warren(sqlite_schema_url: str) -> Iterator[Callable[..., Result]]:
    rows = Rows(sqlite_schema_url)
    url = "--database-url", sqlite_schema_url

    def call(*arguments: str, given: str = "") -> Result:
        return CliRunner().invoke(root, [*arguments, *url], input=given)

    yield call
    rows.database.close()


def lines(result: Result) -> list[dict[str, object]]:
    assert result.exception is None, result.output
    return [json.loads(line) for line in result.output.splitlines() if line.startswith("{")]


def test_a_job_file_brings_its_calendars_and_repeating_it_changes_nothing(
    warren: Callable[..., Result],
) -> None:
    planned = warren("jobs", "apply", "-", "--dry-run", given=FILE)
    done = warren("jobs", "apply", "-", given=FILE)
    again = warren("jobs", "apply", "-", given=FILE)

    assert "would create calendar acme, version 1, known until" in planned.output
    assert "created calendar acme, version 1" in done.output
    assert "created job mails/hourly" in done.output
    assert "0 changed" in again.output


def test_a_changed_calendar_lists_what_it_moves_before_it_asks(
    warren: Callable[..., Result],
) -> None:
    weekdays = FILE.replace("9 * * ?", "9 ? * MON-FRI")
    warren("jobs", "apply", "-", given=weekdays)
    [due] = lines(warren("jobs", "next", "hourly", "--count", "1", "--json"))
    day = str(due["fires_at"])[:10]
    changed = weekdays.replace("days: {", f"days: {{{day}: off Typhoon, ")

    refused = warren("calendars", "apply", "-", given=changed)
    kept = lines(warren("calendars", "list", "--json"))
    warren("calendars", "apply", "-", "--yes", given=changed)
    told = warren("jobs", "next", "hourly", "--count", "1", "--why")

    assert refused.exit_code == 1
    assert f"mails/hourly: next {day} 09:00:00 UTC -> " in refused.output
    assert [one["version"] for one in kept] == [1]
    assert [one["version"] for one in lines(warren("calendars", "list", "--json"))] == [2]
    assert "a day off in calendar 'acme' Typhoon" in told.output


def test_times_that_are_left_out_alike_are_one_line(warren: Callable[..., Result]) -> None:
    narrow = """
apps: [{name: mails}]
jobs:
  - {name: hourly, app: mails, handler: h,
     schedule: {cron: "0 0 * * * ?", window: "08:00-09:30", timezone: UTC}}
"""
    warren("jobs", "apply", "-", given=narrow)

    told = warren("jobs", "next", "hourly", "--count", "3", "--why")
    each = lines(warren("jobs", "next", "hourly", "--count", "3", "--why", "--json"))

    words = "left out, 22 times       outside of the window 08:00-09:30"
    between, *_ = [line for line in told.output.splitlines() if words in line]
    assert re.match(r"\d{4}-\d\d-\d\d 10:00:00 UTC to \d{4}-\d\d-\d\d 07:00:00 UTC  ", between)
    assert len(each) > 2 * len(told.output.splitlines())


def test_a_year_says_its_special_days(warren: Callable[..., Result]) -> None:
    warren("jobs", "apply", "-", given=FILE)

    [year] = lines(warren("calendars", "show", "acme", "--year", str(YEAR + 1), "--json"))
    shown = warren("calendars", "show", "acme", "--year", str(YEAR + 1))
    late = warren("calendars", "show", "acme", "--year", str(YEAR + 9))
    missing = warren("calendars", "show", "acmee")

    assert year["jobs"] == ["mails/hourly"]
    [special] = year["days"]  # type: ignore[misc]
    assert special == {"date": f"{YEAR + 1}-{DAY_OFF}", "working": False, "name": "Founders' day"}
    assert "working days" in shown.output
    assert f"'acme' ends on {YEAR + 2}-12-31, asked for: {YEAR + 9}" in str(late.exception)
    assert "no calendar named 'acmee'" in str(missing.exception)


def test_a_country_is_loaded_by_its_name(warren: Callable[..., Result]) -> None:
    done = warren("calendars", "apply", "--name", "de", "--from", "holidays:DE-BY", "--yes")

    assert "created calendar de, version 1" in done.output
    [year] = lines(warren("calendars", "show", "de", "--year", str(YEAR + 1), "--json"))
    assert year["weekend"] == ["SAT", "SUN"]


def test_events_of_an_ical_file_are_days_off_or_moved_working_days(
    warren: Callable[..., Result], tmp_path: Path
) -> None:
    file, ics = tmp_path / "calendars.yaml", tmp_path / "cn.ics"
    file.write_text("calendars: [{name: cn, from: cn.ics, weekend: []}]")
    ics.write_text(ICS)

    alone = warren("calendars", "apply", str(file), "--yes")
    applied = warren("calendars", "apply", str(file), str(ics), "--yes")
    [year] = lines(warren("calendars", "show", "cn", "--year", str(YEAR + 1), "--json"))

    assert ":1: expected from to be like holidays:CN, or the name of an .ics file" in str(
        alone.exception
    )
    shown = warren("calendars", "show", "cn").output
    off = [day["date"] for day in year["days"]]  # type: ignore[attr-defined]
    assert off == [f"{YEAR + 1}-{day}" for day in ("02-15", "02-16", "02-17", "05-01")]
    counted = "with hours 1, observances 0, unreadable 0"
    left = f"events not taken: {counted}; the first in line 22: A meeting"
    assert left in applied.output
    assert left in warren("calendars", "apply", str(file), str(ics), "--yes").output
    assert left in shown
    assert year["not_taken"] == left


JOB = """jobs:
  - name: a
    app: mails
    handler: send
    schedule:
      {SCHEDULE}
"""
REFUSED = [
    ("cron: '0 0 2 * * ?', window: '08:00-20:00'", "window '08:00-20:00' leaves no due time"),
    (
        "cron: '0 0 2 * * ?', from: 2030-01-02, until: 2030-01-01",
        "expected from not to be after until, got: 2030-01-02 and 2030-01-01",
    ),
    ("every: 60, jitter: 2m", "expected jitter to be less than the 60 s between two due times"),
    ("delay: 60, window: '08:00-20:00'", "expected no window with delay"),
    ("workday: 3", "expected a calendar, because workday is set"),
    ("cron: '0 0 2 * * ?', time: '18:30'", "expected no 'time' with 'cron'"),
    ("cron: '0 0 2 * * ?', on_holiday: next", "expected a calendar, because on_holiday is set"),
    ("cron: '0 0 2 * * ?', calendar: cn", "unknown calendar 'cn'"),
    ("unix_cron: '0 0 2 * * ?'", "expected a crontab line to have 5 fields"),
]


@pytest.mark.parametrize(("schedule", "words"), REFUSED)
def test_what_a_schedule_cannot_be_is_named_with_its_line(
    warren: Callable[..., Result], schedule: str, words: str
) -> None:
    text = "apps: [{name: mails}]\n" + JOB.replace("{SCHEDULE}", f"{{{schedule}}}")

    refused = warren("jobs", "apply", "-", given=text)

    assert str(refused.exception).startswith(("standard input:6: ", "standard input:7: "))
    assert words in str(refused.exception)
    assert len(str(refused.exception).splitlines()) == 1


BAD_CALENDARS = [
    ("{name: cn, from: 'holidays:XX'}", "unknown country 'holidays:XX'"),
    (
        "{name: cn, weekend: [MON, TUE, WED, THU, FRI, SAT, SUN]}",
        "calendar 'cn' has no working day from today to",
    ),
    ("{name: cn, days: {2030-02-30: off}}", "expected a date as YYYY-MM-DD"),
    ("{name: cn, days: {2030-02-03: holiday}}", "expected 2030-02-03 to be work, off, or off with"),
    ("{name: cn, until: 2020-12-31}", "calendar 'cn' ended on 2020-12-31"),
    ("{name: cn, day: {}}", "unknown field 'day', did you mean 'days'?"),
    ("{weekend: [SAT]}", "missing field 'name'"),
]


@pytest.mark.parametrize(("calendar", "words"), BAD_CALENDARS)
def test_what_a_calendar_cannot_be_is_named_with_its_line(
    warren: Callable[..., Result], calendar: str, words: str
) -> None:
    refused = warren("calendars", "apply", "-", "--yes", given=f"calendars:\n  - {calendar}\n")

    assert str(refused.exception).startswith("standard input:2: ")
    assert words in str(refused.exception)


SCHEDULES = [
    '{cron: "0 30 18 L * ?", timezone: Asia/Shanghai, from: 2030-01-01, until: 2031-06-30}',
    '{cron: "0 30 18 L * ?", calendar: cn, on_holiday: previous, gap: run_after, jitter: 5m}',
    '{unix_cron: "0 2 * * MON-FRI"}',
    '{workday: -1, time: "18:30", calendar: cn}',
    '{every: 3600, window: "22:00-06:00"}',
]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_what_an_export_says_is_read_back(schedule: str) -> None:
    text = JOB.replace("{SCHEDULE}", schedule)
    [spec] = read_job_files([Source("a.yaml", text)], now_ms=1_790_000_000_000).specs

    exported = "\n".join(job_file([], [spec]))

    [again] = read_job_files([Source("b.yaml", exported)], now_ms=1_790_000_000_000).specs
    assert again == spec


@pytest.mark.parametrize(
    "calendar",
    [
        '{name: work, from: "holidays:CN"}',
        '{name: work, from: "holidays:CN", days: {2099-10-10: off}, until: 2099-12-31}',
        "{name: work, weekend: [FRI], days: {2099-10-09: work, 2099-10-10: off A, the day}}",
    ],
)
def test_a_calendar_is_exported_with_its_jobs_and_found_unchanged(
    warren: Callable[..., Result], tmp_path: Path, calendar: str
) -> None:
    job = "{name: daily, app: reports, handler: x, schedule: {cron: 0 0 2 * * ?, calendar: work}}"
    text = f"apps: [{{name: reports}}]\ncalendars:\n  - {calendar}\njobs:\n  - {job}\n"
    (tmp_path / "jobs.yaml").write_text(text.replace("off A, the day", '"off A, the day"'))
    assert warren("jobs", "apply", str(tmp_path / "jobs.yaml")).exit_code == 0

    exported = warren("jobs", "export").stdout

    (tmp_path / "again.yaml").write_text(exported)
    again = warren("jobs", "apply", str(tmp_path / "again.yaml"))
    assert "calendars:" in exported
    assert again.exit_code == 0, again.output
    assert "created" not in again.output
    assert "updated" not in again.output


OVER = f"""
apps: [{{name: mails}}]
calendars:
  - {{name: old, until: {YEAR - 1}-12-31}}
jobs:
  - name: theirs
    app: mails
    handler: x
    enabled: true
    schedule: {{cron: 0 0 9 * * ?, calendar: old}}
  - {{name: other, app: mails, handler: x, enabled: true, schedule: {{cron: 0 0 9 * * ?}}}}
"""
LATE = f"calendar 'old' ended on {YEAR - 1}-12-31"


def test_a_calendar_whose_days_have_passed_blocks_no_other_job(
    warren: Callable[..., Result], tmp_path: Path
) -> None:
    (tmp_path / "jobs.yaml").write_text(OVER)
    (tmp_path / "later.yaml").write_text(
        "jobs: [{name: later, app: mails, handler: x, enabled: true,"
        " schedule: {cron: 0 0 9 * * ?, calendar: old}}]"
    )

    checked = CliRunner().invoke(root, ["jobs", "check", str(tmp_path / "jobs.yaml")])
    done = warren("jobs", "apply", str(tmp_path / "jobs.yaml"))
    later = warren("jobs", "apply", str(tmp_path / "later.yaml"))
    again = warren("jobs", "apply", str(tmp_path / "jobs.yaml"))
    alone = warren("calendars", "apply", str(tmp_path / "jobs.yaml"), "--yes")

    for result in (checked, done, later, again):
        assert result.exit_code == 0, result.output
    for result in (checked, done, again):
        assert f"jobs.yaml:4: {LATE}: give it a" in result.output
    assert "created job mails/other\n" in done.output
    assert "created job mails/theirs, stopped (its calendar has ended)\n" in done.output
    assert f"job 'mails/theirs': it has no due time: {LATE}" in done.output
    assert f"job 'mails/later': it has no due time: {LATE}" in later.output
    assert "0 changed" in again.output
    assert f":4: {LATE}" in str(alone.exception)
    enabled = {job["name"]: job["enabled"] for job in lines(warren("jobs", "list", "--json"))}
    assert enabled == {"theirs": False, "later": False, "other": True}


def test_jobs_start_once_their_calendar_has_days_again(
    warren: Callable[..., Result], tmp_path: Path
) -> None:
    file = tmp_path / "jobs.yaml"
    file.write_text(OVER)
    warren("jobs", "apply", str(file))

    file.write_text(OVER.replace(f"{YEAR - 1}-12-31", f"{YEAR + 1}-12-31"))
    done = warren("jobs", "apply", str(file))
    file.write_text(OVER)
    kept = warren("jobs", "apply", str(file))

    assert "started job mails/theirs" in done.output
    # A description that is over does not replace days that are known.
    assert "0 changed" in kept.output
    [calendar] = lines(warren("calendars", "list", "--json"))
    assert (calendar["version"], calendar["until"]) == (2, f"{YEAR + 1}-12-31")
