"""`warren report`: how many runs of each day succeeded, failed and were skipped."""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any
from zoneinfo import ZoneInfo

import click
from sqlalchemy.orm import Session

from warren.command_options import as_json, examples, takes_settings
from warren.database_access import now_ms, open_database
from warren.scheduler.membership.self_health import cluster_zone
from warren.scheduler.retention.clearing_criteria import CalendarDays, days_between
from warren.settings.settings import Settings
from warren.sql.instants import at, epoch_ms, iso
from warren.sql.models import DayReport
from warren.sql.runs import day_reports
from warren.sql.runs.day_reports import Counts
from warren.views.instants import read_instant
from warren.views.terminal import print_json, print_table

#: Headers after the day.
HEADERS = ("total", "succeeded", "failed", "skipped", "running", "success")


@click.command(epilog=examples("warren report", "warren report --since 30d --json"))
@click.option(
    "--since", metavar="T", default="6d", show_default=True, help="First day: ISO 8601, or 30d ago."
)
@as_json
@takes_settings("database_url", "timezone")
def report(settings: Settings, since: str, as_json: bool) -> None:
    """Show how many runs of each day succeeded, failed, were skipped and are running."""
    with open_database(settings) as database:
        zone = database.read(lambda session: cluster_zone(session, settings.timezone))
        days, now = CalendarDays(zone), now_ms(database)
        first = days.of(at(read_instant(since, now_ms=now, zone=ZoneInfo(zone))))
        today = days.of(at(now))
        rows = database.read(lambda session: _read(session, first, today))
    if as_json:
        for day, row in rows.items():
            print_json(day_json(day, row, zone))
        return
    counts = {day: counts_of(row) for day, row in rows.items()}
    nothing = "no report for these days yet; is a scheduler running?"
    print_table((day_header(zone), *HEADERS), lines(counts), nothing=nothing)


def _read(session: Session, first: date, last: date) -> dict[date, DayReport | None]:
    """Return the reports of these days, from the first one stored; None for days without one."""
    known = {
        row.day.date(): row
        for row in day_reports.between(session, first, last)
        if row.day is not None
    }
    earliest = day_reports.first_day(session)
    if earliest is None:
        return {}
    return {day: known.get(day) for day in days_between(max(first, earliest), last)}


def counts_of(row: DayReport | None) -> Counts:
    """Return a day report's counts; zeros if there is no report."""
    return Counts(row.running, row.succeeded, row.failed, row.skipped) if row else Counts()


def day_header(timezone: str) -> str:
    """Return the header of the day column, with its time zone."""
    return f"DAY ({timezone})"


def day_json(day: date, row: DayReport | None, timezone: str) -> dict[str, Any]:
    """Return a day's report as a JSON object; the share is null if no run is over."""
    counts = counts_of(row)
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
        "counted_at": iso(epoch_ms(row.update_time)) if row and row.update_time else None,
    }


def lines(days: Mapping[date, Counts]) -> list[tuple[str, ...]]:
    """Return a line per day and one with the totals; numbers are aligned right."""
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
