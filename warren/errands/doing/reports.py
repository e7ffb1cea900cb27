"""The day report: how many runs of each day succeeded, failed and were skipped."""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from sqlalchemy.orm import Session

from warren.errands.desk import Desk
from warren.scheduler.retention.clearing_criteria import CalendarDays, days_between
from warren.sql.instants import at, epoch_ms, iso
from warren.sql.runs import day_reports
from warren.sql.runs.day_reports import Counts
from warren.views.instants import read_instant

#: Headers after the day.
HEADERS = ("total", "succeeded", "failed", "skipped", "running", "success")


class Day(NamedTuple):
    """The counts of a day, and when they were counted: None = not yet, or not known."""

    counts: Counts
    counted_at: int | None


def report_days(desk: Desk, *, since: str, as_json: bool = False) -> None:
    """Show how many runs of each day succeeded, failed, were skipped and are running."""
    zone, now = desk.zone_of_jobs(), desk.now_ms()
    calendar = CalendarDays(zone)
    first = calendar.of(at(read_instant(since, now_ms=now, zone=ZoneInfo(zone))))
    days = desk.database.read(lambda session: _read(desk, session, first, calendar.of(at(now))))
    if as_json:
        for day, report in days.items():
            desk.record(day_json(day, report, zone))
        return
    counts = {day: report.counts for day, report in days.items()}
    nothing = "no report for these days yet; is a scheduler running?"
    desk.table((day_header(zone), *HEADERS), lines(counts), nothing)


def _read(desk: Desk, session: Session, first: date, last: date) -> dict[date, Day]:
    """Return the reports of these days, from the first one stored; zeros for days without one."""
    earliest = day_reports.first_day(session)
    if earliest is None:
        return {}
    first = max(first, earliest)
    app_ids = desk.actor.app_ids
    by_day = day_reports.of_days(session, app_ids, first, last)
    counted = {
        row.day.date(): epoch_ms(row.update_time)
        for row in day_reports.between(session, first, last)
        if row.day is not None and row.update_time
    }
    return {
        day: Day(by_day.get(day, Counts()), counted.get(day)) for day in days_between(first, last)
    }


def day_header(timezone: str) -> str:
    """Return the header of the day column, with its time zone."""
    return f"DAY ({timezone})"


def day_json(day: date, report: Day, timezone: str) -> dict[str, Any]:
    """Return a day's report as a JSON object; the share is null if no run is over."""
    counts = report.counts
    over = counts.succeeded + counts.failed
    return {
        "day": day.isoformat(),
        "timezone": timezone,
        "total": counts.total,
        "succeeded": counts.succeeded,
        "failed": counts.failed,
        "skipped": counts.skipped,
        "running": counts.running,
        "success_share": round(counts.succeeded / over, 4) if over else None,
        "counted_at": iso(report.counted_at),
    }


def lines(days: Mapping[date, Counts]) -> list[tuple[str, ...]]:
    """Return a line per day and one with the totals, with numbers aligned right."""
    if not days:
        return []
    total = Counts()
    for counts in days.values():
        total = total.plus(counts)
    rows = [(f"{day.isoformat()} {day:%a}", *_cells(counts)) for day, counts in days.items()]
    if len(rows) > 1:
        rows.append(("all", *_cells(total)))
    return _flush_right(rows)


def _cells(counts: Counts) -> tuple[str, ...]:
    numbers = (counts.total, counts.succeeded, counts.failed, counts.skipped, counts.running)
    return (*(f"{number:,}" for number in numbers), share(counts))


def share(counts: Counts) -> str:
    """Return the share of successes among finished runs; 100 % only if none failed."""
    over = counts.succeeded + counts.failed
    if not over:
        return ""
    percent = 100 * counts.succeeded / over
    if counts.failed:
        percent = min(percent, 99.9)
    return f"{percent:.1f} %"


def _flush_right(rows: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    widths = [
        max(len(header), *(len(row[column]) for row in rows))
        for column, header in enumerate(HEADERS, 1)
    ]
    return [
        (row[0], *(cell.rjust(width) for cell, width in zip(row[1:], widths, strict=True)))
        for row in rows
    ]
