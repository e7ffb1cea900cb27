"""A stored job or app as its author would describe it: the way back from rows to values."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from scheduler.alarms.policy import AlarmTargets
from scheduler.job_spec import AppSpec, JobSpec
from scheduler.scripts import language_of
from sql import apps
from sql.models import App, Job


def app_spec(app: App) -> AppSpec:
    """Return an app as a job file describes it."""
    return AppSpec(
        name=app.app_name,
        title=None if app.title == app.app_name else app.title,
        addresses=apps.split(app.address_list) if app.address_type == apps.MANUAL else (),
        alarm=_targets(app),
    )


def job_spec(job: Job, app: str, children: Sequence[str]) -> JobSpec:
    """Return a job, with the source of its script; `children` are APP/NAME."""
    language = language_of(job.glue_type)
    script: Mapping[str, str] = {}
    if language:
        script = {
            "script_language": language,
            "script_source": job.glue_source or "",
            "script_remark": job.glue_remark or "",
        }
    return JobSpec(
        name=job.job_desc,
        app=app,
        author=job.author or "",
        schedule_kind=job.schedule_type,
        schedule_conf=job.schedule_conf or "",
        timezone=job.timezone or "",
        handler="" if language else job.executor_handler or "",
        param=job.executor_param or "",
        route=job.executor_route_strategy,
        block=job.executor_block_strategy,
        misfire=job.misfire_strategy,
        delivery=job.delivery,
        concurrency=job.concurrency,
        timeout=job.executor_timeout,
        retries=job.executor_fail_retry_count,
        retry_delay=job.retry_delay,
        fresh_process=bool(job.fresh_process),
        children=tuple(child.removeprefix(f"{app}/") for child in children),
        alarm=_targets(job),
        enabled=True if job.trigger_status else None,
        **script,
    )


def fingerprint(spec: JobSpec) -> str:
    """Return what tells one content of a job from another, whether it is enabled or not."""
    values = {name: value for name, value in asdict(spec).items() if name != "enabled"}
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:32]


def _targets(row: App | Job) -> AlarmTargets:
    return AlarmTargets(
        emails=tuple(email for email in (row.alarm_email or "").split(",") if email),
        webhook=row.alarm_webhook or "",
        style=row.alarm_style or "",
    )
