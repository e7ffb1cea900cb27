"""Jobs on a terminal: as a row of a table, and in detail."""

from zoneinfo import ZoneInfo

from warren.scheduler.jobs.places import words_of
from warren.scheduler.jobs.spec import FIELDS
from warren.scheduler.schedules.reading import is_waiting
from warren.scheduler.schedules.registry import has_schedule, shown_as
from warren.scheduler.views.job_view import JobView
from warren.scheduler.views.job_warnings import OLD_RULE
from warren.sql.listings.job_search import ListedJob
from warren.views.instants import local
from warren.views.terminal import relative

HEADERS = ("name", "app", "schedule", "next", "state", "last run", "last due")

#: Fields that have no line of their own, because other lines show them.
_SHOWN_ELSEWHERE = frozenset(
    {"name", "app", "handler", "children", "enabled"}
    | {name for name, field in FIELDS.items() if field.kind.group in ("schedule", "script")}
)


def job_line(job: JobView, *, now_ms: int) -> tuple[str, ...]:
    """Return a job as a row of a table with `HEADERS`."""
    return (
        job.spec.name,
        job.spec.app,
        job.schedule,
        relative(job.next_fire_at, now_ms),
        _state(job),
        job.last_status or "",
        relative(job.last_due_at, now_ms),
    )


def job_facts(job: JobView, *, now_ms: int, zone: ZoneInfo, waits: str) -> dict[str, str]:
    """Return everything about a job; `waits` is what it waits for, if anything."""
    tick = job.next_fire_at
    return {
        "job": f"{job.spec.app}/{job.spec.name}",
        "id": str(job.id),
        "state": _state(job),
        "stopped because": job.stop_reason,
        "schedule": f"{job.schedule}  ({job.timezone})",
        "rule": OLD_RULE if job.spec.follows_old_rule else "",
        "next fire": f"{local(tick, zone)}  ({relative(tick, now_ms)})" if tick else waits,
        "handler": job.spec.handler,
        "script": _script(job),
        **{
            field.title: field.kind.shown(getattr(job.spec, name))
            for name, field in FIELDS.items()
            if name not in _SHOWN_ELSEWHERE
        },
        "children": ", ".join(job.children),
        "declared in": words_of(job.declared_in),
    }


def waits(job: ListedJob) -> str:
    """Return what a job waits for; empty if nothing."""
    return (
        shown_as(job.schedule_kind).waiting_for(job.schedule_value or "") if is_waiting(job) else ""
    )


def _state(job: JobView) -> str:
    if job.enabled:
        return "enabled"
    is_on_demand = not (has_schedule(job.spec.schedule_kind) or job.stop_reason)
    return "on demand" if is_on_demand else "stopped"


def _script(job: JobView) -> str:
    if job.script_number is None or job.spec.flow is not None:
        return ""
    remark = f": {job.spec.script_remark}" if job.spec.script_remark else ""
    return f"{job.spec.script_language}, version {job.script_number}{remark}"
