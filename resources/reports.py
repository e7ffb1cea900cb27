"""Day reports: how the runs of each day ended."""

from datetime import date, datetime

import msgspec

from warren.resources.operation import Scope, operation


class Day(msgspec.Struct, kw_only=True, frozen=True):
    """How many runs of a day succeeded, failed, were skipped, or are still open.

    `success_share` is null until a run is over; `counted_at` is null if nobody has counted them.
    """

    day: date
    timezone: str = ""  # older APIs do not say it
    total: int
    succeeded: int
    failed: int
    skipped: int
    running: int
    success_share: float | None
    counted_at: datetime | None = None  # older APIs do not say it


class DaysAnswer(msgspec.Struct, kw_only=True, frozen=True):
    """Days with a report, in the cluster's time zone."""

    timezone: str
    items: list[Day]


class DaysQuery(msgspec.Struct, kw_only=True):
    """Which days, both included. Default: the last seven.

    With `empty`, there is also each day without a report after the first that has one.
    """

    since: date | None = None
    until: date | None = None
    empty: bool = False


@operation("GET", "/reports/days", Scope.READ, query=DaysQuery, needs_whole_apps=True)
def report_days(
    *, since: date | None = None, until: date | None = None, empty: bool = False
) -> DaysAnswer:
    """Count the runs of each day by outcome."""
