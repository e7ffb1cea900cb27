"""Converts the rows of apps and jobs back to specs."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict

from warren.scheduler.alarms.targets import targets_of, webhook_of
from warren.scheduler.jobs.fields import WRITTEN
from warren.scheduler.jobs.script_cache import language_of
from warren.scheduler.jobs.spec import AppSpec, JobSpec
from warren.sql.models import App, Job
from warren.sql.registry import apps


def app_spec(app: App) -> AppSpec:
    """Return the spec of a stored app."""
    return AppSpec(
        name=app.name,
        title=None if app.title == app.name else app.title,
        addresses=apps.split(app.address_list) if app.address_type == apps.MANUAL else (),
        route=app.route or "",
        alarm=targets_of(app.alarm_email, app.alarm_webhook, app.alarm_style),
        webhook=webhook_of(app.webhook_url, app.webhook_when),
    )


def job_spec(job: Job, app: str, children: Sequence[str], *, with_source: bool = True) -> JobSpec:
    """Return the spec of a stored job; `children` are APP/NAME."""
    values = {field.name: field.value(job) for field in WRITTEN}
    language = language_of(job.script_type)
    if language:
        values |= {
            "handler": "",
            "script_language": language,
            "script_source": (job.script_source or "") if with_source else "",
            "script_remark": job.script_remark or "",
        }
    return JobSpec(
        app=app,
        children=tuple(child.removeprefix(f"{app}/") for child in children),
        enabled=True if job.is_enabled else None,
        **values,
    )


def fingerprint(spec: JobSpec) -> str:
    """Return a hash of a job's fields, without `enabled`; equal specs have equal fingerprints."""
    values = {name: value for name, value in asdict(spec).items() if name != "enabled"}
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:32]
