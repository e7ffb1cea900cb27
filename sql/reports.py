"""The report of each day: counted along the index of `trigger_time`, kept in a row of its own.

A run belongs to the day in which it was due. Times are naive UTC, as that column's; a day is
written as its midnight, as XXL-JOB does.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, time
from typing import NamedTuple

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from sql.batch import insert_unless_there
from sql.models import DayReport, Run
from sql.run_status import OPEN, RunStatus

TABLE = DayReport.__tablename__
_BY_TIME = "FORCE INDEX (i_trigger_time)"


class Counts(NamedTuple):
    """Runs by outcome. Each attempt of each shard counts, and what was cancelled does not."""

    running: int = 0
    succeeded: int = 0
    failed: int = 0

    @property
    def total(self) -> int:
        """Return the number of runs."""
        return sum(self)

    def plus(self, other: "Counts") -> "Counts":
        """Return the sums."""
        return Counts(*map(sum, zip(self, other, strict=True)))


def of_statuses(runs: Mapping[str, int]) -> Counts:
    """Return how numbers of runs by status are counted."""
    running = sum(runs.get(status, 0) for status in OPEN)
    succeeded = runs.get(RunStatus.SUCCEEDED, 0)
    counted = sum(runs.values()) - runs.get(RunStatus.CANCELLED, 0)
    return Counts(running, succeeded, counted - running - succeeded)


def count(session: Session, start: datetime, end: datetime) -> Counts:
    """Count the runs that were due in [start, end)."""
    rows = session.execute(
        select(Run.status, func.count())
        .with_hint(Run, _BY_TIME, "mysql")
        .where(Run.trigger_time >= start, Run.trigger_time < end)
        .group_by(Run.status)
    )
    return of_statuses({row[0]: row[1] for row in rows})


def first_due(session: Session, start: datetime, end: datetime) -> datetime | None:
    """Return when the first run in [start, end) was due, None when there is none."""
    found: datetime | None = session.execute(
        select(func.min(Run.trigger_time))
        .with_hint(Run, _BY_TIME, "mysql")
        .where(Run.trigger_time >= start, Run.trigger_time < end)
    ).scalar_one()
    return found


def between(session: Session, first: date, last: date) -> Sequence[DayReport]:
    """Return the reports of the days from `first` to `last` that have one, in order."""
    statement = select(DayReport).where(
        DayReport.trigger_day >= _midnight(first), DayReport.trigger_day <= _midnight(last)
    )
    return session.execute(statement.order_by(DayReport.trigger_day)).scalars().all()


def first_day(session: Session) -> date | None:
    """Return the first day with a report."""
    found: datetime | None = session.execute(select(func.min(DayReport.trigger_day))).scalar_one()
    return found.date() if found else None


def cleared(session: Session, day: date) -> Counts:
    """Return what was cleared of a day's runs so far."""
    row = session.execute(
        select(DayReport.cleared_suc, DayReport.cleared_fail).where(
            DayReport.trigger_day == _midnight(day)
        )
    ).one_or_none()
    return Counts(0, row.cleared_suc, row.cleared_fail) if row else Counts()


def store(
    session: Session, day: date, counted: Counts, *, already_cleared: Counts, at: datetime
) -> bool:
    """Write what was counted of a day, after `already_cleared` had been read.

    Returns False, and writes nothing, when runs of that day were cleared since: nobody knows
    whether they were counted.
    """
    _make(session, [day])
    report = session.execute(
        select(DayReport).where(DayReport.trigger_day == _midnight(day)).with_for_update()
    ).scalar_one()
    if (report.cleared_suc, report.cleared_fail) != already_cleared[1:]:
        return False
    report.running_count, report.suc_count, report.fail_count = counted.plus(already_cleared)
    report.update_time = at
    return True


def note_cleared(session: Session, days: Mapping[date, Counts]) -> None:
    """Note, in the transaction that clears them, how many runs of each day are cleared."""
    _make(session, days)
    for day, gone in sorted(days.items()):
        session.execute(
            update(DayReport)
            .where(DayReport.trigger_day == _midnight(day))
            .values(
                cleared_suc=DayReport.cleared_suc + gone.succeeded,
                cleared_fail=DayReport.cleared_fail + gone.failed,
            ),
            execution_options={"synchronize_session": False},
        )


def _make(session: Session, days: Iterable[date]) -> None:
    nothing = {
        "running_count": 0,
        "suc_count": 0,
        "fail_count": 0,
        "cleared_suc": 0,
        "cleared_fail": 0,
    }
    rows = [
        {"trigger_day": _midnight(day).isoformat(" ", "microseconds")} | nothing
        for day in sorted(days)
    ]
    insert_unless_there(session, TABLE, rows)


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time())
