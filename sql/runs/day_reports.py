"""The rows of the day report, and the counts they come from.

A run belongs to the day on which it was due. Times are naive UTC, like `Run.due_second`; a day is
stored as its midnight, as in XXL-JOB. Each day has XXL-JOB's row for all apps and one row for each
app. Every writer first locks the day's row.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date, datetime
from types import MappingProxyType
from typing import Any, NamedTuple

from sqlalchemy import and_, func, select
from sqlalchemy.orm import Session

from warren.sql.batch import insert_or_ignore
from warren.sql.dialects.supported import of, use_index
from warren.sql.instants import midnight
from warren.sql.models import AppDay, DayReport, Run
from warren.sql.models.run_tables import BY_DUE_SECOND
from warren.sql.run_status import OPEN, RunStatus

_NO_RUNS = dict.fromkeys(
    (
        *("running", "succeeded", "failed", "skipped"),
        *("cleared_succeeded", "cleared_failed", "cleared_skipped"),
    ),
    0,
)


class Counts(NamedTuple):
    """Runs by outcome; each attempt of each shard counts, cancelled runs do not."""

    running: int = 0
    succeeded: int = 0
    failed: int = 0
    skipped: int = 0

    @property
    def total(self) -> int:
        """Return the number of runs."""
        return sum(self)

    def plus(self, other: "Counts") -> "Counts":
        """Return the sum of two counts."""
        return Counts(*map(sum, zip(self, other, strict=True)))


#: Counts by app id; apps without runs are absent.
ByApp = Mapping[int, Counts]


class Cleared(NamedTuple):
    """How many of a day's runs were deleted; runs deleted before schema 3 are in the total only."""

    total: Counts = Counts()
    by_app: ByApp = MappingProxyType({})


def of_statuses(runs: Mapping[str, int]) -> Counts:
    """Return the counts for the numbers of runs by status."""
    running = sum(runs.get(status, 0) for status in OPEN)
    succeeded, skipped = runs.get(RunStatus.SUCCEEDED, 0), runs.get(RunStatus.SKIPPED, 0)
    counted = sum(runs.values()) - runs.get(RunStatus.CANCELLED, 0)
    return Counts(running, succeeded, counted - running - succeeded - skipped, skipped)


def of_apps(runs: Iterable[tuple[int, str, int]]) -> dict[int, Counts]:
    """Return the counts by app for tuples of app id, status and number of runs."""
    statuses: dict[int, Counter[str]] = defaultdict(Counter)
    for app_id, status, number in runs:
        statuses[app_id][status] += number
    counted = {app_id: of_statuses(numbers) for app_id, numbers in statuses.items()}
    return {app_id: counts for app_id, counts in counted.items() if counts.total}


def add_counts(*parts: ByApp) -> dict[int, Counts]:
    """Return the sum of several counts by app."""
    sums: dict[int, Counts] = {}
    for part in parts:
        for app_id, counts in part.items():
            sums[app_id] = sums[app_id].plus(counts) if app_id in sums else counts
    return sums


def count(session: Session, start: datetime, end: datetime) -> dict[int, Counts]:
    """Count the runs that were due in [start, end), by app."""
    rows = session.execute(
        use_index(select(Run.app_id, Run.status, func.count()), Run, BY_DUE_SECOND)
        .where(Run.due_second >= start, Run.due_second < end)
        .group_by(Run.app_id, Run.status)
    )
    return of_apps(rows)


def first_due(session: Session, start: datetime, end: datetime) -> datetime | None:
    """Return when the first run in [start, end) was due; None if there is none."""
    due: datetime | None = session.execute(
        use_index(select(func.min(Run.due_second)), Run, BY_DUE_SECOND).where(
            Run.due_second >= start, Run.due_second < end
        )
    ).scalar_one()
    return due


def between(session: Session, first: date, last: date) -> Sequence[DayReport]:
    """Return the reports of the days from `first` to `last` that have one, in order."""
    statement = select(DayReport).where(
        DayReport.day >= midnight(first), DayReport.day <= midnight(last)
    )
    return session.execute(statement.order_by(DayReport.day)).scalars().all()


def of_days(
    session: Session, app_ids: Collection[int] | None, first: date, last: date
) -> dict[date, Counts]:
    """Return the counts of the days that have a report, for these apps; None = all apps."""
    if app_ids is None:
        return {
            row.day.date(): Counts(row.running, row.succeeded, row.failed, row.skipped)
            for row in between(session, first, last)
            if row.day is not None
        }
    of_the_apps = and_(AppDay.day == DayReport.day, AppDay.app_id.in_(sorted(app_ids)))
    columns = (AppDay.running, AppDay.succeeded, AppDay.failed, AppDay.skipped)
    counts = map(of(session).sum_of, columns)
    rows = session.execute(
        select(DayReport.day, *counts)
        .outerjoin(AppDay, of_the_apps)
        .where(DayReport.day.between(midnight(first), midnight(last)))
        .group_by(DayReport.day)
    )
    return {day.date(): Counts(*counted) for day, *counted in rows if day}


def first_day(session: Session) -> date | None:
    day: datetime | None = session.execute(select(func.min(DayReport.day))).scalar_one()
    return day.date() if day else None


def cleared(session: Session, day: date) -> Cleared:
    """Return how many of a day's runs were deleted so far."""
    # The day's row first, so that `store` notices what is deleted between the two reads.
    row = session.execute(
        select(*_cleared_of(DayReport)).where(DayReport.day == midnight(day))
    ).one_or_none()
    if row is None:
        return Cleared()
    apps = session.execute(
        select(AppDay.app_id, *_cleared_of(AppDay)).where(
            AppDay.day == midnight(day), sum(_cleared_of(AppDay)) > 0
        )
    )
    by_app = {app_id: Counts(0, *counted) for app_id, *counted in apps}
    return Cleared(Counts(0, *row), by_app)


def store(
    session: Session, day: date, counted: ByApp, *, already_cleared: Cleared, at: datetime
) -> bool:
    """Store the counts of a day; `already_cleared` was read before counting.

    Returns False, and writes nothing, if runs of that day were deleted since: they may or may not
    be among the counted ones.
    """
    report = _lock(session, day)
    if _cleared_of(report) != already_cleared.total[1:]:
        return False
    total = already_cleared.total
    for counts in counted.values():
        total = total.plus(counts)
    report.running, report.succeeded, report.failed, report.skipped = total
    report.update_time = at
    by_app = add_counts(counted, already_cleared.by_app)
    for app_id, row in _app_days(session, day, by_app).items():
        row.running, row.succeeded, row.failed, row.skipped = by_app.get(app_id, Counts())
    return True


def note_cleared(session: Session, days: Mapping[date, ByApp]) -> None:
    """Add to the numbers of deleted runs, in the transaction that deletes them."""
    for day, by_app in sorted(days.items()):
        report = _lock(session, day)
        rows = _app_days(session, day, by_app)
        for app_id, counts in by_app.items():
            for row in (report, rows[app_id]):
                row.cleared_succeeded += counts.succeeded
                row.cleared_failed += counts.failed
                row.cleared_skipped += counts.skipped


def _cleared_of(report: Any) -> tuple[Any, ...]:
    """Return the deleted runs by outcome of a row, or their columns of its class."""
    return report.cleared_succeeded, report.cleared_failed, report.cleared_skipped


def _lock(session: Session, day: date) -> DayReport:
    """Lock and return the row of a day; insert it if it is missing."""
    _insert_missing(session, day)
    query = select(DayReport).where(DayReport.day == midnight(day)).with_for_update()
    return session.execute(query.execution_options(populate_existing=True)).scalar_one()


def _app_days(session: Session, day: date, app_ids: Iterable[int]) -> dict[int, AppDay]:
    """Return all app rows of a locked day; add the missing ones of `app_ids`."""
    query = select(AppDay).where(AppDay.day == midnight(day)).with_for_update()
    rows = session.execute(query.execution_options(populate_existing=True)).scalars()
    by_app = {row.app_id: row for row in rows}
    for app_id in sorted(set(app_ids) - by_app.keys()):
        by_app[app_id] = AppDay(app_id=app_id, day=midnight(day), **_NO_RUNS)
        session.add(by_app[app_id])
    return by_app


def _insert_missing(session: Session, day: date) -> None:
    row = {"day": midnight(day)} | _NO_RUNS
    insert_or_ignore(session, DayReport, [row])
