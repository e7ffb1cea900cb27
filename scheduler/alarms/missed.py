"""Raises an alarm, one for each job and outage, when due times are skipped for want of schedulers.

It is stored in the transaction that records the skip. Any number of schedulers may record skips of
one outage, and parts of it apart: its key is the job and when the outage began. What was due while
dispatch was paused raises none: whoever paused asked for it.
"""

from collections.abc import Sequence

from sqlalchemy.orm import Session

from warren.scheduler.alarms.events import AlarmTargets, Missed
from warren.scheduler.alarms.targets import alarms_to, job_targets
from warren.sql.alarms import alarms
from warren.sql.alarms.alarms import JobRecipients, NewAlarm
from warren.sql.models import SkippedTicks
from warren.sql.registry import pauses, uptimes
from warren.sql.registry.pauses import EVERY_APP, PauseRow
from warren.sql.run_status import LATE_MS


def add_alarms(
    session: Session, skips: Sequence[SkippedTicks], defaults: AlarmTargets, *, now_ms: int
) -> None:
    """Store an alarm for each target of each job with skips, unless it got one for this outage."""
    of_jobs: dict[int, list[SkippedTicks]] = {}
    for skip in skips:
        of_jobs.setdefault(skip.job_id, []).append(skip)
    if not of_jobs:
        return
    known = pauses.known(session)
    began: dict[int, int] = {}
    news: list[NewAlarm] = []
    for job in alarms.job_targets(session, of_jobs).values():
        held = [missed for missed in known if missed.app_id in (EVERY_APP, job.app_id)]
        unasked = [
            skip for skip in of_jobs[job.id] if not any(_holds(missed, skip) for missed in held)
        ]
        if not unasked:
            continue
        first_ms = min(skip.from_at for skip in unasked)
        if first_ms not in began:
            began[first_ms] = uptimes.start_of_outage(session, first_ms, now_ms, gap_ms=LATE_MS)
        news += _alarms(job, unasked, began[first_ms], defaults, now_ms)
    alarms.add(session, news)


def _holds(pause: PauseRow, skip: SkippedTicks) -> bool:
    """Whether the last of the due times fell into a pause."""
    return pause.since_at <= skip.to_at and (pause.until_at is None or skip.to_at < pause.until_at)


def _alarms(
    job: JobRecipients,
    skips: Sequence[SkippedTicks],
    began_ms: int,
    defaults: AlarmTargets,
    now_ms: int,
) -> list[NewAlarm]:
    news = Missed(
        app=job.app,
        job=job.name,
        timezone=job.timezone or "",
        count=sum(skip.count for skip in skips),
        first_at=min(skip.from_at for skip in skips),
        last_at=max(skip.to_at for skip in skips),
        why=skips[0].reason,
    )
    return alarms_to(
        job_targets(job, defaults),
        news,
        f"missed:{job.id}:{began_ms}",
        now_ms=now_ms,
        app_id=job.app_id,
        job_id=job.id,
    )
