"""Day reports by the API."""

from datetime import date, datetime
from functools import partial

from tests.support.api import Program
from tests.support.stored_rows import Rows
from warren.sql.engine import Database
from warren.sql.runs import day_reports
from warren.sql.runs.day_reports import Cleared, Counts

FRIDAY, SUNDAY = date(2026, 11, 20), date(2026, 11, 22)


def test_a_day_is_told_with_when_it_was_counted_and_empty_days_on_request(
    admin: Program, database: Database, rows: Rows
) -> None:
    counts = {rows.app("reports"): Counts(1, 3, 1, 2)}
    for day in (FRIDAY, SUNDAY):
        counted_at = datetime.combine(day, datetime.min.time())
        database.write(
            partial(
                day_reports.store, day=day, counted=counts, already_cleared=Cleared(), at=counted_at
            )
        )
    days = "/reports/days?since=2001-01-01&until=2026-11-22"

    listed = admin.get(days).get_json()["items"]
    every = admin.get(f"{days}&empty=true").get_json()["items"]

    assert [day["day"] for day in listed] == ["2026-11-20", "2026-11-22"]
    assert [day["day"] for day in every] == ["2026-11-20", "2026-11-21", "2026-11-22"]
    assert every[0] == {
        "day": "2026-11-20",
        "timezone": "UTC",
        "total": 7,
        "succeeded": 3,
        "failed": 1,
        "skipped": 2,
        "running": 1,
        "success_share": 0.75,
        "counted_at": "2026-11-20T00:00:00.000+00:00",
    }
    empty = every[1]
    assert (empty["total"], empty["success_share"], empty["counted_at"]) == (0, None, None)
