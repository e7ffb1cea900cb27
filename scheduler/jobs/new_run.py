"""A run of a job, as its row is now; a retry is a copy of a run instead.

The limit on a run's parameter; `warren try` imports this, so it must import little.
"""

from warren.scheduler.problems import Code, Problem
from warren.scheduler.routing.routes import planned_shards
from warren.sql.jobs.due_jobs import JobToPlan
from warren.sql.jobs.jobs import JobToTrigger
from warren.sql.models import Job
from warren.sql.run_status import Kind
from warren.sql.runs.planning import NewRun

PARAM_BYTES = 65_536


def check_param(param: str) -> None:
    """Raise Problem if the parameter is longer than PARAM_BYTES in UTF-8."""
    size = len(param.encode(errors="replace"))
    if size > PARAM_BYTES:
        raise Problem(Code.PARAM_TOO_LONG, "param", most=PARAM_BYTES, got=size)


def run_of(
    job: JobToPlan | JobToTrigger | Job, *, kind: Kind, scheduled_at: int, due_at: int
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
        retries_left=job.retries,
        shard_total=planned_shards(job.route),
        script_version=job.script_version,
    )
