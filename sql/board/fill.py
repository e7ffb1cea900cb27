"""How far the board has been filled from the rows of before, and its lock."""

from typing import Any, NamedTuple

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from warren.sql.batch import insert_or_ignore, modify
from warren.sql.models import BoardFill, Job
from warren.sql.rows import fetch_one, query

_ROW = 1


class Fill(NamedTuple):
    """See `BoardFill`."""

    job_id: int
    jobs_until: int
    quarter_at: int
    quarters_until: int

    @property
    def is_begun(self) -> bool:
        """Whether it is known what there is to fill."""
        return self.quarters_until > 0

    @property
    def is_over(self) -> bool:
        """Whether everything of before is on the board."""
        is_counted = self.quarter_at >= self.quarters_until
        return self.is_begun and self.job_id >= self.jobs_until and is_counted


def lock(session: Session) -> Fill:
    """Lock the board until this transaction ends; return how far it was filled."""
    found = _find(session, locks=True)
    if found is None:
        row = {"id": _ROW, "job_id": 0, "jobs_until": 0, "quarter_at": 0, "quarters_until": 0}
        insert_or_ignore(session, BoardFill, [row])
        found = _find(session, locks=True)
    assert found is not None, "it was just stored"
    return found


def read(session: Session) -> Fill:
    """Return how far the board was filled."""
    return _find(session, locks=False) or Fill(0, 0, 0, 0)


def store(session: Session, **columns: int) -> None:
    """Note how far the board was filled."""
    modify(session, update(BoardFill).where(BoardFill.id == _ROW).values(**columns))


def last_job_id(session: Session) -> int:
    """Return the highest id of a job; 0 if there are none."""
    return session.execute(select(func.max(Job.id))).scalar_one() or 0


def jobs_after(session: Session, job_id: int, until_id: int, limit: int) -> list[int]:
    """Return the next jobs after one."""
    ids = select(Job.id).where(Job.id > job_id, Job.id <= until_id).order_by(Job.id)
    return list(session.execute(ids.limit(limit)).scalars())


def _find(session: Session, *, locks: bool) -> Fill | None:
    wanted: Any = query(Fill, BoardFill).where(BoardFill.id == _ROW)
    return fetch_one(session, Fill, wanted.with_for_update() if locks else wanted)
