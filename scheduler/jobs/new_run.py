"""A run of a job, as its row is now; a retry is a copy of a run instead."""

from datetime import date

from warren.scheduler.routing.routes import planned_shards
from warren.scheduler.schedules.run_date import RunDateRule, run_date_of
from warren.sql.jobs.due_jobs import JobToPlan
from warren.sql.jobs.jobs import JobToTrigger
from warren.sql.models import Job
from warren.sql.run_status import Kind
from warren.sql.runs.planning import NewRun


def run_of(
    job: JobToPlan | JobToTrigger | Job,
    *,
    kind: Kind,
    scheduled_at: int,
    due_at: int,
    run_date: date | None,
) -> NewRun:
    """Return a run of a job for a tick of its schedule; callers replace what differs."""
    return NewRun(
        app_id=job.app_id,
        job_id=job.id,
        handler=job.handler or "",
        param=job.param or "",
        kind=kind,
        scheduled_at=scheduled_at,
        due_at=due_at,
        run_date=run_date,
        retries_left=job.retries,
        shard_total=planned_shards(job.route),
        script_version=job.script_version,
    )


def date_of(job: JobToPlan | JobToTrigger | Job, scheduled_at: int, zone: str) -> date:
    """Return the date of a job's run that is due then; `zone` is that of its schedule."""
    rule = RunDateRule(job.run_date_days, job.run_date_months)
    return run_date_of(scheduled_at, zone, rule)
