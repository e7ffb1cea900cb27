"""Stores the past of an import: run ids, day reports and finished runs."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from typing import Any

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from sql.batch import insert_unless_there
from sql.instants import midnight
from sql.models import DayReport, Run
from sql.models import Sequence as Counter

#: Name prefix of a counter row for run ids that were skipped: from the number after the prefix up
#: to `next_id`, excluded.
_JUMPED = "run-jump-"


def raise_run_ids(session: Session, above: int) -> None:
    """Make new runs get ids greater than `above`, and record the range that is skipped."""
    of_runs = Counter.name == "run"
    first = session.execute(select(Counter.next_id).where(of_runs).with_for_update()).scalar_one()
    if first > above:
        return
    session.execute(update(Counter).where(of_runs).values(next_id=above + 1))
    row = {"name": f"{_JUMPED}{first}", "next_id": above + 1}
    insert_unless_there(session, Counter, [row], key="name")


def jumped_run_ids(session: Session) -> list[range]:
    """Return the ranges of skipped run ids, which no process has reserved."""
    rows = session.execute(
        select(Counter.name, Counter.next_id).where(Counter.name.startswith(_JUMPED))
    )
    return [range(int(name.removeprefix(_JUMPED)), end) for name, end in rows]


def known_days(session: Session, days: Sequence[date]) -> set[date]:
    """Return those of the days that have a report."""
    if not days:
        return set()
    between = DayReport.day.between(midnight(min(days)), midnight(max(days)))
    known = session.execute(select(DayReport.day).where(between)).scalars()
    return {day.date() for day in known if day is not None}


def add_days(session: Session, days: Mapping[date, tuple[int, int]], *, at: datetime) -> None:
    """Insert the reports of days that have none; values are successful and failed runs."""
    rows = [
        {
            "day": midnight(day).isoformat(" ", "microseconds"),
            "running": 0,
            "succeeded": counts[0],
            "failed": counts[1],
            "cleared_succeeded": 0,
            "cleared_failed": 0,
            "update_time": at.isoformat(" ", "microseconds"),
        }
        for day, counts in sorted(days.items())
    ]
    insert_unless_there(session, DayReport, rows)


def known_run_ids(session: Session, run_ids: Sequence[int]) -> set[int]:
    """Return those of up to a few hundred ids that runs have."""
    return set(session.execute(select(Run.id).where(Run.id.in_(run_ids))).scalars())


def add_runs(session: Session, rows: Iterable[Mapping[str, Any]]) -> None:
    """Insert finished runs, except those whose id is taken."""
    insert_unless_there(session, Run, rows)
