"""Raises an alarm, at most once an hour per job, when due times are skipped for a full backlog."""

from collections.abc import Mapping, Sequence

from sqlalchemy.orm import Session

from warren.scheduler.alarms.events import AlarmTargets, Overdue
from warren.scheduler.alarms.targets import alarms_to, job_targets
from warren.sql.alarms import alarms
from warren.sql.alarms.alarms import JobRecipients, NewAlarm
from warren.sql.instants import HOUR_MS
from warren.sql.models import SkippedTicks

_SUBJECT = "overdue:"


def add_alarms(
    session: Session,
    skips: Sequence[tuple[SkippedTicks, int]],
    defaults: AlarmTargets,
    *,
    now_ms: int,
) -> None:
    """Store an alarm for each job that has not had one within the hour.

    `skips` come with the number of overdue runs. The caller has locked the jobs' rows, so that no
    other scheduler raises the same alarm.
    """
    if not skips:
        return
    job_ids = {skip.job_id for skip, _ in skips}
    alarmed = alarms.jobs_alarmed(session, job_ids, _SUBJECT, since_ms=now_ms - HOUR_MS)
    jobs = alarms.job_targets(session, job_ids - alarmed)
    first: Mapping[int, tuple[SkippedTicks, int]] = {
        skip.job_id: (skip, count) for skip, count in reversed(skips)
    }
    alarms.add(
        session,
        [
            alarm
            for job in jobs.values()
            for alarm in _alarms(job, *first[job.id], defaults, now_ms)
        ],
    )


def _alarms(
    job: JobRecipients, skip: SkippedTicks, overdue: int, defaults: AlarmTargets, now_ms: int
) -> list[NewAlarm]:
    news = Overdue(
        app=job.app,
        job=job.name,
        timezone=job.timezone or "",
        overdue=overdue,
        skipped_from=skip.from_at,
    )
    return alarms_to(
        job_targets(job, defaults),
        news,
        f"{_SUBJECT}{job.id}:{now_ms}",
        now_ms=now_ms,
        app_id=job.app_id,
        job_id=job.id,
    )
