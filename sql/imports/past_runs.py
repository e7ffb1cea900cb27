"""Stores the past of an import: run ids, day reports and finished runs."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from typing import Any

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from warren.sql.batch import chunks, insert_or_ignore
from warren.sql.instants import midnight
from warren.sql.models import DayReport, Run
from warren.sql.models import Sequence as Counter

#: Name prefix of a counter row for run ids that were skipped: from the number after the prefix up
#: to `next_id`, excluded.
_JUMPED = "run-jump-"
#: How many runs a day's report counts.
_RUNS = (
    DayReport.running
    + DayReport.succeeded
    + DayReport.failed
    + DayReport.cleared_succeeded
    + DayReport.cleared_failed
)


def raise_run_ids(session: Session, above: int) -> None:
    """Make new runs get ids greater than `above`, and record the range that is skipped."""
    of_runs = Counter.name == "run"
    first = session.execute(select(Counter.next_id).where(of_runs).with_for_update()).scalar_one()
    if first > above:
        return
    session.execute(update(Counter).where(of_runs).values(next_id=above + 1))
    row = {"name": f"{_JUMPED}{first}", "next_id": above + 1}
    insert_or_ignore(session, Counter, [row], key="name")


def jumped_run_ids(session: Session) -> list[range]:
    """Return the ranges of skipped run ids, which no process has reserved."""
    rows = session.execute(
        select(Counter.name, Counter.next_id).where(Counter.name.startswith(_JUMPED))
    )
    return [range(int(name.removeprefix(_JUMPED)), end) for name, end in rows]


def counted_days(session: Session, days: Sequence[date]) -> dict[date, int]:
    """Return those of the days that have a report, each with its number of runs."""
    if not days:
        return {}
    between = DayReport.day.between(midnight(min(days)), midnight(max(days)))
    rows = session.execute(select(DayReport.day, _RUNS).where(between))
    return {day.date(): runs for day, runs in rows if day is not None}


def add_days(session: Session, days: Mapping[date, tuple[int, int]], *, at: datetime) -> None:
    """Store the reports of days that have none, or one without runs.

    Values are successful and failed runs.
    """
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
    insert_or_ignore(session, DayReport, rows)
    # A scheduler that had nothing to do yet has counted its days too.
    for chunk in chunks(map(midnight, sorted(days))):
        empty = select(DayReport).where(DayReport.day.in_(chunk), _RUNS == 0).with_for_update()
        for report in session.execute(empty).scalars():
            assert report.day is not None, "it was found by its day"
            report.succeeded, report.failed = days[report.day.date()]
            report.update_time = at


def known_run_ids(session: Session, run_ids: Sequence[int]) -> set[int]:
    """Return those of up to a few hundred ids that runs have."""
    return set(session.execute(select(Run.id).where(Run.id.in_(run_ids))).scalars())


def add_runs(session: Session, rows: Iterable[Mapping[str, Any]]) -> None:
    """Insert finished runs, except those whose id is taken."""
    insert_or_ignore(session, Run, rows)
