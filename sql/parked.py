"""Jobs of a fixed delay that wait for the end of their tick, which sets the next one."""

from collections.abc import Iterable

from sqlalchemy import select
from sqlalchemy.orm import Session

from sql.models import Job
from sql.rows import AnyRow

#: The next tick of a job that waits: never due, so no claim finds it.
PARKED_MS = 2**62


def lock(session: Session, job_ids: Iterable[int]) -> list[AnyRow]:
    """Lock those of the jobs that wait; return their `id, schedule_conf, trigger_last_time`."""
    # By id alone: the other index would lock every job that waits.
    return list(
        session.execute(
            select(Job.id, Job.schedule_conf, Job.trigger_last_time)
            .with_hint(Job, "FORCE INDEX (PRIMARY)", "mysql")
            .where(
                Job.id.in_(sorted(set(job_ids))),
                Job.trigger_status == 1,
                Job.schedule_type == "FIX_DELAY",
                Job.trigger_next_time == PARKED_MS,
            )
            .order_by(Job.id)
            .with_for_update()
        )
    )


def watermarks(session: Session) -> dict[int, int]:
    """Return the watermark of each job that waits, by its id."""
    return {
        row.id: row.trigger_last_time
        for row in session.execute(
            select(Job.id, Job.trigger_last_time).where(
                Job.trigger_status == 1, Job.trigger_next_time == PARKED_MS
            )
        )
    }
