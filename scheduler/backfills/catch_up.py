"""Makes the backfills that catch up missed due times, in the transaction that records the skips."""

from collections.abc import Iterable, Sequence

from sqlalchemy.orm import Session

from warren.scheduler.backfills.kept_schedule import (
    DueTimes,
    FilledJob,
    KeptSchedule,
    Span,
    joined,
    spans_to_json,
)
from warren.sql.models import Backfill

#: Who makes them.
MADE_BY = "scheduler"


def add_backfill(
    session: Session,
    backfill_id: int,
    job: FilledJob,
    spans: Iterable[Span],
    *,
    zone: str,
    anchor_ms: int,
    now_ms: int,
) -> None:
    """Make the backfill of a job for skipped due times, one at a time, the oldest first.

    Args:
        session: whose transaction skips them.
        backfill_id: of the sequence of run ids.
        job: the job, with its schedule.
        spans: the spans of the due times.
        zone: the zone of the job's schedule.
        anchor_ms: any due time of it.
        now_ms: the database's clock.

    """
    kept = KeptSchedule.of(session, job, zone, anchor_ms)
    apart = joined(spans)
    session.add(
        Backfill(
            id=backfill_id,
            job_id=job.id,
            schedule=kept.to_json(),
            spans=spans_to_json(apart),
            ticks=DueTimes(kept, apart).count(),
            made_at=now_ms,
            made_by=MADE_BY,
            moved_at=now_ms,
        )
    )


def newest(ticks: Sequence[int], *, now_ms: int, within_ms: int, most: int) -> set[int]:
    """Return the newest of these ascending due times, up to `most`, and not longer ago."""
    return {tick for tick in ticks[-most:] if now_ms - tick <= within_ms}
