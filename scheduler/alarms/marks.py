"""Marks failed ticks for an alarm, in the transaction that ends their last attempt."""

from collections.abc import Sequence

from sqlalchemy.orm import Session

from scheduler.aftermath import End
from scheduler.alarms.news import MESSAGE_LENGTH, TAIL_LENGTH, Failure, to_text
from scheduler.alarms.policy import NOBODY, AlarmTargets
from scheduler.alarms.webhook_style import style_of
from sql import alarm_targets, alarms
from sql.alarms import MAIL, NewAlarm, RunAlarm
from sql.rows import AnyRow
from sql.run_status import RunStatus

#: Ends that somebody should look at. A killed, refused or cancelled run is no failure.
_ALARMING = frozenset(
    {RunStatus.FAILED, RunStatus.TIMED_OUT, RunStatus.UNDELIVERED, RunStatus.LOST}
)


def mark(
    session: Session,
    last: Sequence[tuple[AnyRow, End]],
    defaults: AlarmTargets,
    *,
    now_ms: int,
) -> None:
    """Keep an alarm for each target of each tick that failed, once for all shards of a tick.

    `last` are runs, as they were, with their ends, after which nothing is tried again. A run that
    nobody is told of is marked so. One that somebody asked to kill is no alarm.
    """
    failed = [
        (run, end) for run, end in last if end.status in _ALARMING and run.kill_requested_at is None
    ]
    if not failed:
        return
    jobs = alarm_targets.job_targets(session, {run.job_id for run, _ in failed})
    kept: list[NewAlarm] = []
    unheard: list[int] = []
    for run, end in failed:
        job = jobs.get(run.job_id)
        targets = NOBODY if job is None else job_targets(job, defaults)
        if job is None or not targets:
            unheard.append(run.id)
        else:
            kept += _alarms(run, _news(run, end, job), targets, now_ms)
    alarms.add(session, kept)
    alarms.mark_runs(session, unheard, RunAlarm.NOBODY_TO_TELL)


def job_targets(job: AnyRow, defaults: AlarmTargets) -> AlarmTargets:
    """Return who is told of a job's failures: its own targets, else its app's, else the default."""
    own = targets_of(job.alarm_email, job.alarm_webhook, job.alarm_style)
    return own or targets_of(job.app_email, job.app_webhook, job.app_style) or defaults


def targets_of(emails: str | None, webhook: str | None, style: str | None) -> AlarmTargets:
    """Return the targets that columns of a job or an app name."""
    listed = tuple(email for email in (emails or "").split(",") if email)
    return AlarmTargets(emails=listed, webhook=webhook or "", style=style or "")


def channels(targets: AlarmTargets) -> list[tuple[str, str]]:
    """Return channel and target of each alarm to send; a webhook's channel names its style."""
    found = [(MAIL, email) for email in dict.fromkeys(targets.emails)]
    if targets.webhook:
        found.append((style_of(targets.webhook, targets.style), targets.webhook))
    return found


def _alarms(run: AnyRow, news: Failure, targets: AlarmTargets, now_ms: int) -> list[NewAlarm]:
    content = to_text(news)
    return [
        NewAlarm(
            subject_key=f"tick:{run.job_id}:{run.scheduled_at}:{run.origin_id}",
            channel=channel,
            target=target,
            content=content,
            created_at=now_ms,
            job_id=run.job_id,
            app_id=run.job_group,
            run_id=run.id,
        )
        for channel, target in channels(targets)
    ]


def _news(run: AnyRow, end: End, job: AnyRow) -> Failure:
    return Failure(
        app=job.app,
        job=job.name,
        run_id=run.id,
        scheduled_at=run.scheduled_at,
        finished_at=end.finished_at,
        timezone=job.timezone or "",
        status=end.status.value,
        message=end.message[:MESSAGE_LENGTH],
        address=run.executor_address or "",
        attempts=run.attempt + 1,
        shard=f"{run.shard_index}/{run.shard_total}" if run.shard_total > 1 else "",
        log_tail=(end.log_tail or "")[-TAIL_LENGTH:],
    )
