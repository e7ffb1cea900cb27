"""Audits backfills: each due time of a range is planned, left out, or still to come.

    the range, computed again = runs + left out + beyond the cursor

A run that was deleted, doubled or moved by hand breaks this. So does a run of a backfill that does
not exist.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

from sqlalchemy.orm import Session

from warren.broker.reasons.codes import Why
from warren.scheduler.audit.tally import JobTally, Tallies
from warren.scheduler.backfills.kept_schedule import (
    DueTimes,
    KeptSchedule,
    ranks_from_text,
    spans_from_json,
)
from warren.sql.jobs import backfills
from warren.sql.models import Backfill
from warren.sql.runs.tick_rows import JobRange


def audit_backfills(
    session: Session, tallies: Tallies, bounds: tuple[int, int], job_id: int | None = None
) -> None:
    """Find what is wrong with the due times in (after, until] of all backfills, or of a job's."""
    for backfill in backfills.of_jobs(session, job_id):
        if (job := tallies.of(backfill.job_id)) is not None:
            _compare(session, backfill, job, bounds)


def audit_strays(
    session: Session, tallies: Tallies, bounds: tuple[int, int], jobs: JobRange
) -> None:
    """Find runs of backfills that do not exist."""
    for run in backfills.strays(session, jobs, after_ms=bounds[0], until_ms=bounds[1]):
        if (job := tallies.of(run.job_id)) is not None:
            job.add_doubled(run.scheduled_at, Why.BACKFILL_UNKNOWN(id=run.origin_id))


def _compare(session: Session, backfill: Backfill, job: JobTally, bounds: tuple[int, int]) -> None:
    # The backfill was read before its runs, so it has at least those up to its cursor.
    session.expunge(backfill)
    ranks = _ranks(session, backfill)
    if len(ranks) != backfill.ticks:
        why = Why.BACKFILL_MISCOUNTED(id=backfill.id, got=backfill.ticks, n=len(ranks))
        job.add_lost(backfill.cursor_at or 0, why)
    rows = {run.scheduled_at for run in backfills.first_runs(session, job.job_id, backfill.id)}
    purged_until = backfills.purged_until(session, backfill)
    for tick in sorted(_planned(backfill, ranks) - rows):
        if tick > purged_until and _is_in(tick, bounds):
            job.add_lost(tick, Why.BACKFILL_LOST(id=backfill.id))
    strays = rows - _planned(backfill, ranks)
    for tick in sorted(_still_strays(session, backfill, ranks, strays)):
        if _is_in(tick, bounds):
            job.add_doubled(tick, Why.BACKFILL_STRAY(id=backfill.id))


def _still_strays(
    session: Session, backfill: Backfill, ranks: Mapping[int, int], strays: AbstractSet[int]
) -> AbstractSet[int]:
    """Return those that are strays by the backfill as it is now, as its cursor may have moved."""
    if not strays:
        return strays
    return strays - _planned(backfills.read(session, backfill.id) or backfill, ranks)


def _ranks(session: Session, backfill: Backfill) -> dict[int, int]:
    kept = KeptSchedule.load(session, backfill.schedule)
    spans = spans_from_json(backfill.spans)
    due = DueTimes(kept, spans, newest_first=bool(backfill.newest_first))
    return {tick: rank for rank, tick in enumerate(due.all())}


def _planned(backfill: Backfill, ranks: Mapping[int, int]) -> AbstractSet[int]:
    """Return the due times that must have a run."""
    left_out = set(ranks_from_text(backfill.left_out))
    return {t for t, rank in ranks.items() if rank < backfill.decided and rank not in left_out}


def _is_in(tick: int, bounds: tuple[int, int]) -> bool:
    return bounds[0] < tick <= bounds[1]
