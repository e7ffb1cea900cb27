"""Raises an alarm, one for each job and hour, when due times are skipped as too many runs wait.

It is stored in the transaction that records the skips.
"""

from collections.abc import Sequence

from sqlalchemy.orm import Session

from warren.scheduler.alarms.events import AlarmTargets, Missed
from warren.scheduler.alarms.targets import alarms_to, job_targets
from warren.sql.alarms import alarms
from warren.sql.alarms.alarms import NewAlarm
from warren.sql.instants import HOUR_MS
from warren.sql.models import SkippedTicks


def add_alarms(
    session: Session, skips: Sequence[SkippedTicks], defaults: AlarmTargets, *, now_ms: int
) -> None:
    """Store an alarm for each target of each job with skips, unless it got one this hour."""
    of_jobs: dict[int, list[SkippedTicks]] = {}
    for skip in skips:
        of_jobs.setdefault(skip.job_id, []).append(skip)
    news: list[NewAlarm] = []
    for job in alarms.job_targets(session, of_jobs).values() if of_jobs else ():
        own = of_jobs[job.id]
        missed = Missed(
            app=job.app,
            job=job.name,
            timezone=job.timezone or "",
            count=len(own),
            first_at=min(skip.from_at for skip in own),
            last_at=max(skip.to_at for skip in own),
            why=own[0].reason,
        )
        news += alarms_to(
            job_targets(job, defaults),
            missed,
            f"crowded:{job.id}:{now_ms // HOUR_MS}",
            now_ms=now_ms,
            app_id=job.app_id,
            job_id=job.id,
        )
    alarms.add(session, news)
