"""Jobs as they are shown: as a JSON object, as a line of a table, as facts."""

from collections.abc import Sequence
from typing import Any
from zoneinfo import ZoneInfo

from scheduler import job_words
from scheduler.scripts import language_of
from scheduler.upcoming import is_waiting, next_fire
from sql.rows import AnyRow
from warren.instants import iso, local
from warren.terminal import relative

HEADERS = ("name", "app", "schedule", "next", "state", "last run", "last due")


def job_json(
    job: AnyRow, *, now_ms: int, timezone: str, children: Sequence[str] = ()
) -> dict[str, Any]:
    """Return a job as a JSON object; `children` are their names, as APP/NAME."""
    return {
        "id": job.id,
        "name": job.name,
        "app": job.app,
        "author": job.author or "",
        "enabled": bool(job.trigger_status),
        "schedule": schedule_words(job),
        "timezone": job.timezone or timezone,
        "next_fire_at": iso(next_fire(job, now_ms=now_ms, timezone=timezone)),
        "handler": job.executor_handler or "",
        "script_language": language_of(job.glue_type),
        "script_version": job.glue_id,
        "script_remark": job.glue_remark or "",
        "param": job.executor_param or "",
        "route": job.executor_route_strategy,
        "block": job.executor_block_strategy,
        "misfire": job.misfire_strategy,
        "delivery": job.delivery,
        "concurrency": job.concurrency,
        "timeout": job.executor_timeout,
        "retries": job.executor_fail_retry_count,
        "retry_delay": job.retry_delay,
        "fresh_process": bool(job.fresh_process),
        "children": list(children),
        "alarm_emails": [email for email in (job.alarm_email or "").split(",") if email],
        "alarm_webhook": job.alarm_webhook or "",
        "alarm_style": job.alarm_style or "",
        "stop_reason": job.stop_reason or "",
        "last_status": getattr(job, "last_status", None),
        "last_due_at": iso(getattr(job, "last_due_at", None)),
    }


def job_line(job: AnyRow, *, now_ms: int, timezone: str) -> tuple[str, ...]:
    """Return a job as a line of a table with `HEADERS`."""
    return (
        job.name,
        job.app,
        schedule_words(job),
        relative(next_fire(job, now_ms=now_ms, timezone=timezone), now_ms),
        "enabled" if job.trigger_status else "stopped",
        job.last_status or "",
        relative(job.last_due_at, now_ms),
    )


def job_facts(
    job: AnyRow, *, now_ms: int, zone: ZoneInfo, children: Sequence[str] = ()
) -> dict[str, str]:
    """Return everything about a job, in words; `children` are their names, as APP/NAME."""
    tick = next_fire(job, now_ms=now_ms, timezone=zone.key)
    return {
        "job": f"{job.app}/{job.name}",
        "id": str(job.id),
        "author": job.author or "",
        "state": "enabled" if job.trigger_status else "stopped",
        "stopped because": job.stop_reason or "",
        "schedule": f"{schedule_words(job)}  ({job.timezone or zone.key})",
        "next fire": f"{local(tick, zone)}  ({relative(tick, now_ms)})" if tick else waits(job),
        "handler": job.executor_handler or "",
        "script": _script(job),
        "param": job.executor_param or "",
        "route": job.executor_route_strategy,
        "block": job.executor_block_strategy,
        "misfire": job.misfire_strategy,
        "delivery": job.delivery,
        "concurrency": str(job.concurrency),
        "timeout": f"{job.executor_timeout} s" if job.executor_timeout else "none",
        "retries": _retries(job),
        "children": ", ".join(children),
        "process": "a fresh one for each run" if job.fresh_process else "",
        "alarm": ", ".join(filter(None, (job.alarm_email, job.alarm_webhook))),
    }


def waits(job: AnyRow) -> str:
    """Return what a job waits for, "" when it does not."""
    return f"{job.schedule_conf} s after the end of its run" if is_waiting(job) else ""


def schedule_words(job: AnyRow) -> str:
    """Return a schedule as it stands in a job file."""
    return job_words.schedule_words(job.schedule_type, job.schedule_conf or "")


def _script(job: AnyRow) -> str:
    if job.glue_id is None:
        return ""
    remark = f": {job.glue_remark}" if job.glue_remark else ""
    return f"{language_of(job.glue_type)}, version {job.glue_id}{remark}"


def _retries(job: AnyRow) -> str:
    delay = f", {job.retry_delay} s apart" if job.retry_delay else ""
    return f"{job.executor_fail_retry_count}{delay}"
