"""Whether ticks have ended: the runs of one tick, and which of many have ended."""

from collections.abc import Collection

from sqlalchemy import and_, bindparam, or_, select
from sqlalchemy.orm import Session, aliased

from warren.sql.batch import chunks
from warren.sql.models import Run
from warren.sql.rows import fetch_plain, query
from warren.sql.run_status import OPEN
from warren.sql.runs.run_rows import TickRun

_Asked = aliased(Run)
# Built once, because the first use of an alias is not thread-safe.
_SAME_TICK = and_(
    Run.job_id == _Asked.job_id,
    Run.scheduled_at == _Asked.scheduled_at,
    # The re-runs of its due time belong to a tick, and to a re-run all runs of its due time.
    or_(Run.origin_id == _Asked.origin_id, Run.rerun_of.is_not(None), _Asked.rerun_of.is_not(None)),
)


#: Built once, because each answer of the API about a run executes it.
_OF_RUN = (
    query(TickRun, Run)
    .join(_Asked, _SAME_TICK)
    .where(_Asked.id == bindparam("its_id"))
    .order_by(Run.shard_index, Run.origin_id, Run.attempt)
)


def of_run(session: Session, run_id: int) -> list[TickRun]:
    """Return all runs of a run's tick by shard, origin and attempt; empty if it was deleted."""
    return fetch_plain(session, TickRun, _OF_RUN, {"its_id": run_id})


def over(session: Session, run_ids: Collection[int]) -> set[int]:
    """Return those of the runs whose tick has ended, and those that were deleted.

    A retry is planned in the transaction that ends the run before it, so there is no gap between
    attempts.
    """
    ended = set(run_ids)
    for chunk in chunks(run_ids):
        open_ticks = (
            select(_Asked.id)
            .join(Run, _SAME_TICK)
            .where(_Asked.id.in_(chunk), Run.status.in_(OPEN))
            .distinct()
        )
        ended.difference_update(session.execute(open_ticks).scalars())
    return ended
