"""Audits backfills: each due time of a range is planned, left out, or still to come.

    the range, computed again = runs + left out + beyond the cursor

A run that was deleted, doubled or moved by hand breaks this. So do a run of a backfill that does
not exist, and a due time that two backfills ran as missing.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

from sqlalchemy.orm import Session

from warren.broker.reasons import Why
from warren.scheduler.audit.tally import JobTally, Tallies
from warren.scheduler.backfills.kept_schedule import (
    DueTimes,
    KeptSchedule,
    ranks_from_text,
    spans_from_json,
)
from warren.sql.backfill_status import Selection
from warren.sql.models import Backfill
from warren.sql.run_status import RunStatus
from warren.sql.runs import backfills
from warren.sql.runs.run_rows import RunFacts
from warren.sql.runs.tick_rows import JobRange


def audit_backfills(
    session: Session, tallies: Tallies, bounds: tuple[int, int], job_id: int | None = None
) -> None:
    """Find faults in the due times in (after, until] of all backfills, or of one job's."""
    as_missing: dict[tuple[int, int], list[int]] = defaultdict(list)
    for backfill in backfills.of_jobs(session, job_id):
        if (job := tallies.of(backfill.job_id)) is not None:
            # Read after the backfill, so that it has at least those up to the cursor.
            runs = backfills.first_runs(session, job.job_id, backfill.id)
            _compare(session, backfill, runs, job, bounds)
            for run in runs if _is_of_missing(backfill) else ():
                if run.status != RunStatus.CANCELLED and _is_in(run.scheduled_at, bounds):
                    as_missing[run.job_id, run.scheduled_at].append(backfill.id)
    for (of_job, tick), ids in as_missing.items():
        if len(ids) > 1 and (job := tallies.of(of_job)) is not None:
            job.add_doubled(tick, Why.BACKFILLS_DOUBLED(id=ids[0], other=ids[1]))


def _is_of_missing(backfill: Backfill) -> bool:
    """Whether a backfill ran only due times for which nothing had run.

    Version 0.1.0 did not look at runs of dates that began after the backfill was made.
    """
    kept = KeptSchedule.from_json(backfill.schedule)
    return backfill.selection == Selection.MISSING and not kept.is_of_dates


def audit_strays(
    session: Session, tallies: Tallies, bounds: tuple[int, int], jobs: JobRange
) -> None:
    """Find runs of backfills that do not exist."""
    for run in backfills.strays(session, jobs, after_ms=bounds[0], until_ms=bounds[1]):
        if (job := tallies.of(run.job_id)) is not None:
            job.add_doubled(run.scheduled_at, Why.BACKFILL_UNKNOWN(id=run.origin_id))


def _compare(
    session: Session,
    backfill: Backfill,
    runs: Sequence[RunFacts],
    job: JobTally,
    bounds: tuple[int, int],
) -> None:
    session.expunge(backfill)
    ranks = _ranks(session, backfill)
    if len(ranks) != backfill.ticks:
        why = Why.BACKFILL_MISCOUNTED(id=backfill.id, got=backfill.ticks, n=len(ranks))
        job.add_lost(backfill.cursor_at or 0, why)
    rows = {run.scheduled_at for run in runs}
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
    """Return those that are still strays, as the backfill's cursor may have moved."""
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
