"""Raises alarms about due times that are skipped, in the transactions that record the skips.

A job's due times are skipped because no scheduler ran (one alarm for each outage), because too many
of its runs wait, or because its backlog is full (one an hour each).
"""

from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy.orm import Session

from warren.scheduler.alarms.events import AlarmTargets, Missed, Overdue
from warren.scheduler.alarms.targets import alarms_to, job_targets
from warren.sql.alarms import alarms
from warren.sql.alarms.alarms import JobRecipients, NewAlarm
from warren.sql.instants import HOUR_MS
from warren.sql.models import SkippedTicks
from warren.sql.registry import pauses, uptimes
from warren.sql.registry.pauses import EVERY_APP, PauseRow
from warren.sql.run_status import LATE_MS

_OVERDUE = "overdue:"


def add_missed_alarms(
    session: Session, skips: Sequence[SkippedTicks], defaults: AlarmTargets, *, now_ms: int
) -> None:
    """Store an alarm for each target of each job with skips, unless it got one for this outage.

    Any number of schedulers may record skips of one outage, and parts of it apart: the key is the
    job and when the outage began. What was due while dispatch was paused raises none: whoever
    paused asked for it.
    """
    of_jobs = _by_job(skips)
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
        key = f"missed:{job.id}:{began[first_ms]}"
        news += _missed_alarms(job, unasked, key, defaults, now_ms)
    alarms.add(session, news)


def _by_job(skips: Iterable[SkippedTicks]) -> dict[int, list[SkippedTicks]]:
    of_jobs: dict[int, list[SkippedTicks]] = {}
    for skip in skips:
        of_jobs.setdefault(skip.job_id, []).append(skip)
    return of_jobs


def _holds(pause: PauseRow, skip: SkippedTicks) -> bool:
    """Whether the last of the due times fell into a pause."""
    return pause.since_at <= skip.to_at and (pause.until_at is None or skip.to_at < pause.until_at)


def _missed_alarms(
    job: JobRecipients,
    skips: Sequence[SkippedTicks],
    subject_key: str,
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
        subject_key,
        now_ms=now_ms,
        app_id=job.app_id,
        job_id=job.id,
    )


def add_crowded_alarms(
    session: Session, skips: Sequence[SkippedTicks], defaults: AlarmTargets, *, now_ms: int
) -> None:
    """Store an alarm for each target of each job with skips, unless it got one this hour."""
    of_jobs = _by_job(skips)
    news: list[NewAlarm] = []
    for job in alarms.job_targets(session, of_jobs).values() if of_jobs else ():
        key = f"crowded:{job.id}:{now_ms // HOUR_MS}"
        news += _missed_alarms(job, of_jobs[job.id], key, defaults, now_ms)
    alarms.add(session, news)


def add_overdue_alarms(
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
    alarmed = alarms.jobs_alarmed(session, job_ids, _OVERDUE, since_ms=now_ms - HOUR_MS)
    jobs = alarms.job_targets(session, job_ids - alarmed)
    first: Mapping[int, tuple[SkippedTicks, int]] = {
        skip.job_id: (skip, count) for skip, count in reversed(skips)
    }
    alarms.add(
        session,
        [
            alarm
            for job in jobs.values()
            for alarm in _overdue_alarms(job, *first[job.id], defaults, now_ms)
        ],
    )


def _overdue_alarms(
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
        f"{_OVERDUE}{job.id}:{now_ms}",
        now_ms=now_ms,
        app_id=job.app_id,
        job_id=job.id,
    )
