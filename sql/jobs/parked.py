"""Parked jobs: fixed delays that wait for the end of their tick, which sets the next one."""

from collections.abc import Iterable
from typing import NamedTuple

from sqlalchemy import select
from sqlalchemy.orm import Session

from warren.sql.dialects.hints import PRIMARY_KEY, use_index
from warren.sql.models import Job
from warren.sql.rows import fetch, query

#: The next tick of a parked job: never due, so no claim finds it.
PARKED_MS = 2**62


class ParkedJob(NamedTuple):
    """A parked job with its schedule and its watermark."""

    id: int
    schedule_kind: str
    schedule_value: str | None
    last_tick_at: int


def lock(session: Session, job_ids: Iterable[int]) -> list[ParkedJob]:
    """Lock and return those of the jobs that are parked."""
    parked = (
        # By primary key, because the other index would lock all parked jobs.
        use_index(query(ParkedJob, Job), Job, PRIMARY_KEY)
        .where(
            Job.id.in_(sorted(set(job_ids))),
            Job.is_enabled == 1,
            Job.next_tick_at == PARKED_MS,
        )
        .order_by(Job.id)
    )
    return fetch(session, ParkedJob, parked.with_for_update())


def watermarks(session: Session) -> dict[int, int]:
    """Return the watermarks of all parked jobs, by id."""
    parked = select(Job.id, Job.last_tick_at).where(
        Job.is_enabled == 1, Job.next_tick_at == PARKED_MS
    )
    return dict(session.execute(parked).all())
