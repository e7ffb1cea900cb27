"""A calendar's versions and the jobs that use it, on SQLite and on MariaDB."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from tests.support.acting import acting
from tests.support.stored_rows import Rows
from warren.scheduler.calendars.calendar_spec import CalendarSpec
from warren.scheduler.schedules.reading import load_calendars
from warren.sql.jobs import calendars

TODAY = datetime.now(UTC).date()
OPTIONS = '{"calendar":"x","on_holiday":"next"}'


@pytest.fixture
def rows(any_schema_url: str) -> Iterator[Rows]:
    rows = Rows(any_schema_url)
    yield rows
    rows.database.close()


def test_each_change_is_a_version_and_replans_the_jobs_that_use_it(rows: Rows) -> None:
    cron = {"schedule_kind": "CRON", "schedule_value": "0 0 9 * * ?", "timezone": "UTC"}
    using = rows.job("uses", **cron, schedule_options=OPTIONS, is_enabled=1)
    rows.job("uses-another", **cron, schedule_options='{"calendar":"xx"}', is_enabled=1)
    dated = rows.job("dated", run_date_workdays=-1, run_date_calendar="x")
    commands = acting(rows.database).calendars

    changes = []
    for days in ({}, {}, {TODAY + timedelta(days=3): "off 春节"}):
        spec = CalendarSpec(name="x", days=days, until=TODAY + timedelta(days=90))
        changes.append(commands.apply("x", commands.resolved(spec)))

    assert [change.number for change in changes] == [1, 0, 2]
    assert [moved.job for moved in changes[0].moved] == ["uses"]
    known = rows.database.read(lambda session: load_calendars(session, ["x", "xx", ""]))
    assert list(known) == ["x"]
    assert [version.number for version in known["x"].versions] == [1, 2]
    assert list(known["x"].newest.names.values()) == ["春节"]
    found = rows.database.read(
        lambda session: [job.id for job in calendars.users(session, "x", None)]
    )
    assert found == [using, dated]
    locked = rows.database.write(
        lambda session: [
            [user.id for user in calendars.users_to_plan(session, "x", lock=True)],
            [row.number for row in calendars.lock_newest(session, ["x", "y"]).values()],
        ]
    )
    assert locked == [[using], [2]]
