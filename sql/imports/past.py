"""What went before an import: the ids that runs had, their days, and those that are over."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, time
from typing import Any

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from sql.batch import insert_unless_there
from sql.models import DayReport, Run
from sql.models import Sequence as Counter


def raise_run_ids(session: Session, above: int) -> None:
    """Let no run have an id up to this one from now on."""
    session.execute(
        update(Counter)
        .where(Counter.name == "run", Counter.next_id <= above)
        .values(next_id=above + 1)
    )


def known_days(session: Session, days: Sequence[date]) -> set[date]:
    """Return those of the days that have a report."""
    if not days:
        return set()
    between = DayReport.day.between(_midnight(min(days)), _midnight(max(days)))
    found = session.execute(select(DayReport.day).where(between)).scalars()
    return {day.date() for day in found if day is not None}


def add_days(session: Session, days: Mapping[date, tuple[int, int, int]], *, at: datetime) -> None:
    """Write the final reports of days that have none: running, succeeded and failed runs."""
    rows = [
        {
            "day": _midnight(day).isoformat(" ", "microseconds"),
            "running": counts[0],
            "succeeded": counts[1],
            "failed": counts[2],
            "cleared_succeeded": 0,
            "cleared_failed": 0,
            "update_time": at.isoformat(" ", "microseconds"),
        }
        for day, counts in sorted(days.items())
    ]
    insert_unless_there(session, DayReport, rows)


def known_run_ids(session: Session, run_ids: Sequence[int]) -> set[int]:
    """Return those of up to some hundred ids that runs have."""
    return set(session.execute(select(Run.id).where(Run.id.in_(run_ids))).scalars())


def add_runs(session: Session, rows: Iterable[Mapping[str, Any]]) -> None:
    """Insert runs that are over; one whose id is taken is left out."""
    insert_unless_there(session, Run, rows)


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time())
