"""A job's description as columns of its row, and its row as what the audit trail keeps."""

import hashlib

from scheduler.job_spec import JobSpec
from sql.models import Job

#: What the trail keeps of a job that is made or deleted.
_RECORDED = (
    "job_desc",
    "author",
    "schedule_type",
    "schedule_conf",
    "timezone",
    "misfire_strategy",
    "executor_route_strategy",
    "executor_handler",
    "executor_param",
    "executor_block_strategy",
    "executor_timeout",
    "executor_fail_retry_count",
    "delivery",
    "concurrency",
    "child_jobid",
    "alarm_email",
    "trigger_status",
)


def columns_of(spec: JobSpec) -> dict[str, object]:
    """Return what a job's row holds of its description; children and script go other ways."""
    return {
        "job_desc": spec.name,
        "author": spec.author,
        "alarm_email": ",".join(spec.alarm.emails),
        "alarm_webhook": spec.alarm.webhook,
        "alarm_style": spec.alarm.style,
        "schedule_type": spec.schedule_kind,
        "schedule_conf": spec.schedule_conf,
        "timezone": spec.timezone or None,
        "misfire_strategy": spec.misfire,
        "executor_route_strategy": spec.route,
        "executor_handler": spec.handler,
        "executor_param": spec.param,
        "executor_block_strategy": spec.block,
        "executor_timeout": spec.timeout,
        "executor_fail_retry_count": spec.retries,
        "retry_delay": spec.retry_delay,
        "delivery": spec.delivery,
        "concurrency": spec.concurrency,
        "fresh_process": int(spec.fresh_process),
    }


def record_of(job: Job) -> dict[str, object]:
    """Return what the trail keeps of a whole job: what is set."""
    return {
        name: value for name in _RECORDED if (value := getattr(job, name)) not in (None, "")
    } | script_of(job)


def script_of(job: Job) -> dict[str, object]:
    """Return which script a job has: its version, and the hash of its source."""
    if job.glue_id is None:
        return {}
    digest = hashlib.sha256((job.glue_source or "").encode()).hexdigest()
    return {"script": f"{job.glue_type} version {job.glue_id}, sha256 {digest}"}
