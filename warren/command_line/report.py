"""`warren report`: how many runs of each day ended how."""

from collections.abc import Sequence
from zoneinfo import ZoneInfo

import click

from warren.command_options import as_json, examples, takes_settings
from warren.connect import connect
from warren.resources.reports import Day
from warren.settings.settings import Settings
from warren.sql.instants import moment
from warren.terminal.output import print_struct, print_table, read_instant

#: Headers after the day.
_HEADERS = ("total", "succeeded", "failed", "skipped", "running", "success")


@click.command(epilog=examples("warren report", "warren report --since 30d --json"))
@click.option(
    "--since", metavar="T", default="6d", show_default=True, help="First day: ISO 8601, or 30d ago."
)
@as_json
@takes_settings("database_url", "timezone")
def report(settings: Settings, since: str, as_json: bool) -> None:
    """Show how many runs of each day succeeded, failed, were skipped and are running."""
    with connect(settings) as client:
        timezone = client.report_days().timezone  # days are the cluster's
        zone = ZoneInfo(timezone)
        first = moment(read_instant(since, now_ms=client.now_ms(), zone=zone), zone).date()
        days = client.report_days(since=first, empty=True).items
    if as_json:
        for day in days:
            print_struct(day)
        return
    nothing = "no report for these days yet; is a scheduler running?"
    print_table((f"DAY ({timezone})", *_HEADERS), report_lines(days), nothing=nothing)


def report_lines(days: Sequence[Day]) -> list[tuple[str, ...]]:
    """Return a line per day and one with the totals, with numbers aligned right."""
    rows = [(f"{day.day} {day.day:%a}", *_cells(day)) for day in days]
    if len(days) > 1:
        rows.append(("all", *_cells(*days)))
    widths = [
        max(len(header), *(len(row[column]) for row in rows)) if rows else 0
        for column, header in enumerate(_HEADERS, 1)
    ]
    return [
        (row[0], *(cell.rjust(width) for cell, width in zip(row[1:], widths, strict=True)))
        for row in rows
    ]


def _cells(*days: Day) -> tuple[str, ...]:
    succeeded, failed = sum(day.succeeded for day in days), sum(day.failed for day in days)
    skipped, running = sum(day.skipped for day in days), sum(day.running for day in days)
    total = sum(day.total for day in days)
    numbers = (total, succeeded, failed, skipped, running)
    return (*(f"{number:,}" for number in numbers), share(succeeded, failed))


def share(succeeded: int, failed: int) -> str:
    """Return the share of successes among finished runs; 100 % only if none failed."""
    over = succeeded + failed
    if not over:
        return ""
    percent = 100 * succeeded / over
    return f"{min(percent, 99.9) if failed else percent:.1f} %"
