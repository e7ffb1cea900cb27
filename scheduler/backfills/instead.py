"""Lets a job's schedule rest while a backfill runs instead, and go on when that is over."""

from sqlalchemy.orm import Session

from warren.broker.reasons.codes import Why
from warren.scheduler.problems import Problem, explanation
from warren.scheduler.schedules.calendar_rows import calendars_for
from warren.scheduler.schedules.facts import ScheduleFacts
from warren.scheduler.schedules.reading import read_schedule
from warren.sql.explanation import Explanation
from warren.sql.jobs import history, jobs
from warren.sql.models import Backfill


def resting(backfill_id: int) -> Explanation:
    """Return why a job is stopped while a backfill runs instead of its schedule."""
    return explanation(Why.BACKFILLED_INSTEAD(id=backfill_id))


def go_on(session: Session, backfill: Backfill, *, zone: str, by: str, now_ms: int) -> bool:
    """Start the schedule that rests for a backfill; return whether it did rest.

    Somebody may have started the job since, or stopped it for good. A schedule that has no due
    time left stays stopped.
    """
    job = jobs.lock_if_any(session, backfill.job_id) if backfill.instead else None
    if job is None or job.is_enabled == 1 or job.stop_why != resting(backfill.id).why:
        return False
    try:
        schedule = read_schedule(
            ScheduleFacts.of(job, job.timezone or zone), calendars_for(session, [job])
        )
        watermark, tick = schedule.start(max(job.last_tick_at, now_ms))
    except Problem:
        tick = None
    if tick is None:
        over = explanation(Why.NO_FURTHER_TIME())
        job.stop_reason, job.stop_why = over.text, over.why
        return False
    job.is_enabled, job.stop_reason, job.stop_why = 1, None, None
    job.last_tick_at, job.next_tick_at = watermark, tick
    history.record_change(
        session, job, timezone=job.timezone or zone, by=by, now_ms=now_ms, anchor_ms=tick
    )
    return True
