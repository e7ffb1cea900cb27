"""Runs of some apps by outcome, along `(status, job_group, due_at)` and no further than MOST.

The day report counts all apps together: whoever sees some of them is told by the runs themselves.
"""

from collections.abc import Collection
from typing import NamedTuple

from sqlalchemy import func, literal, select
from sqlalchemy.orm import Session

from sql.models import Run
from sql.run_status import FINAL, OPEN, RunStatus

#: Runs of one outcome that are counted: entries of the index, a few milliseconds of them.
MOST = 10_000
_SUCCEEDED = frozenset({RunStatus.SUCCEEDED})
_FAILED = FINAL - {RunStatus.SUCCEEDED, RunStatus.CANCELLED}
_INDEX = "FORCE INDEX (i_status_due)"


class AppDay(NamedTuple):
    """Runs by outcome; what was cancelled does not count. MOST stands for as many or more."""

    running: int
    succeeded: int
    failed: int


def count(session: Session, app_ids: Collection[int], *, since_ms: int, until_ms: int) -> AppDay:
    """Count the runs of apps that are due in [since_ms, until_ms)."""

    def runs(statuses: frozenset[RunStatus]) -> int:
        some = (
            select(literal(1).label("one"))
            .select_from(Run)
            .with_hint(Run, _INDEX, "mysql")
            .where(Run.status.in_(sorted(statuses)), Run.job_group.in_(sorted(app_ids)))
            .where(Run.due_at >= since_ms, Run.due_at < until_ms)
            .limit(MOST)
            .subquery()
        )
        return session.execute(select(func.count()).select_from(some)).scalar_one()

    return AppDay(runs(OPEN), runs(_SUCCEEDED), runs(_FAILED))
