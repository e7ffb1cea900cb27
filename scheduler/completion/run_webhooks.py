"""Stores webhook messages about finished ticks, in the transaction that ends them."""

from collections.abc import Mapping, Sequence

import structlog
from sqlalchemy.orm import Session

from warren.scheduler.alarms.events import MESSAGE_LENGTH, RunWebhook, TickNews, to_text
from warren.scheduler.completion.end import TickEnd
from warren.sql.alarms import alarms
from warren.sql.alarms.alarms import RUN_END, AlarmStatus, JobRecipients, NewAlarm
from warren.sql.jobs.child_links import Followed
from warren.sql.runs import queries
from warren.sql.runs.run_rows import EndedRun

#: The most unsent messages of one job; further ones are dropped.
MAX_UNSENT = 1_000

log = structlog.get_logger()


def keep(
    session: Session, ends: Sequence[TickEnd], followed: Mapping[int, Followed], *, now_ms: int
) -> None:
    """Store a message for each finished tick whose job has a webhook for this end."""
    heard = [end for end in ends if _webhook(followed[end.tick.job_id]).hears(end.status)]
    if not heard:
        return
    jobs = alarms.job_targets(session, {end.tick.job_id for end in heard})
    runs = queries.ended(session, [end.deciding_id for end in heard])
    full = alarms.jobs_with_unsent(session, jobs, MAX_UNSENT)
    kept = []
    for end in heard:
        job, run = jobs.get(end.tick.job_id), runs.get(end.deciding_id)
        if job is None or run is None:
            continue
        if job.id in full:
            log.warning("run_webhook_left_out", job_id=job.id, run_id=run.id, most=MAX_UNSENT)
            continue
        url = followed[job.id].webhook_url
        kept.append(_message(end, run, job, url, now_ms))
    alarms.add(session, kept)


def _webhook(job: Followed) -> RunWebhook:
    return RunWebhook(url=job.webhook_url, when=job.webhook_when)


def _message(end: TickEnd, run: EndedRun, job: JobRecipients, url: str, now_ms: int) -> NewAlarm:
    tick = end.tick
    news = TickNews(
        app=job.app,
        job=job.name,
        run_id=run.id,
        first_run_id=run.id if end.head_id is None else end.head_id,
        kind=run.kind,
        status=end.status,
        is_success=end.succeeded,
        scheduled_at=tick.scheduled_at,
        finished_at=end.finished_at,
        message=(run.message or "")[:MESSAGE_LENGTH],
        address=run.address or "",
        result=run.result or "",
    )
    return NewAlarm(
        subject_key=f"end:{tick.job_id}:{tick.scheduled_at}:{tick.origin_id}",
        channel=RUN_END,
        target=url,
        content=to_text(news),
        created_at=now_ms,
        job_id=job.id,
        app_id=job.app_id,
        run_id=run.id,
        status=AlarmStatus.READY,
    )
