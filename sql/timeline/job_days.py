"""Counts the runs of one job by outcome, day by day, along the unique key of ticks."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from sqlalchemy import literal, select, union_all
from sqlalchemy.orm import Session

from warren.sql.dialects.supported import use_index
from warren.sql.models import Run
from warren.sql.models.runs import BY_TICK
from warren.sql.run_status import OPEN, RunStatus
from warren.sql.timeline.job_spans import TROUBLE

#: The most runs of one day that are examined, the latest ones.
MAX_DAY_RUNS = 40


class _Counted(NamedTuple):
    day: int
    status: str


@dataclass(slots=True)
class DayOutcomes:
    """Runs of a day by outcome; `is_all` is False if the day has more than were examined."""

    succeeded: int = 0
    failed: int = 0
    open: int = 0
    is_all: bool = True

    @property
    def total(self) -> int:
        """Return the number of runs."""
        return self.succeeded + self.failed + self.open

    def add(self, status: str) -> None:
        """Count a run, unless it was cancelled or skipped."""
        if status in TROUBLE:
            self.failed += 1
        elif status in OPEN:
            self.open += 1
        elif status == RunStatus.SUCCEEDED:
            self.succeeded += 1


def of_days(session: Session, job_id: int, bounds: Sequence[int]) -> list[DayOutcomes]:
    """Return the outcomes of each day; day N is [bounds[N], bounds[N + 1])."""
    days = [DayOutcomes() for _ in bounds[1:]]
    if not days:
        return []
    by_day = [
        use_index(select(literal(day).label("day"), Run.status), Run, BY_TICK)
        .where(Run.job_id == job_id, Run.scheduled_at >= since, Run.scheduled_at < until)
        .order_by(Run.scheduled_at.desc())
        .limit(MAX_DAY_RUNS)
        .subquery()
        for day, (since, until) in enumerate(pairwise(bounds))
    ]
    seen = [0] * len(days)
    for row in map(_Counted._make, session.execute(union_all(*(select(runs) for runs in by_day)))):
        days[row.day].add(row.status)
        seen[row.day] += 1
    for day, number in zip(days, seen, strict=True):
        day.is_all = number < MAX_DAY_RUNS
    return days
