"""A job as shown to users: its spec, its next fire time and its last run."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from warren.scheduler.jobs.past_spec import job_spec
from warren.scheduler.jobs.spec import FIELDS, JobSpec
from warren.scheduler.schedules.reading import next_fire
from warren.scheduler.schedules.registry import written
from warren.scheduler.schedules.working_days import NO_CALENDARS, Calendars
from warren.scheduler.views.to_json import plain, to_json
from warren.sql.listings.job_search import ListedJob

#: Declared fields that the JSON object shows differently, or not at all.
_CUSTOM = frozenset(
    {
        *("schedule_kind", "schedule_value", "schedule_options", "timezone"),
        *("script_source", "children", "enabled"),
    }
)


class JobView(NamedTuple):
    """A job; `schedule` is in the form of a job file, `children` are APP/NAME.

    `declared_in` is as in its row.
    `spec` lacks the source of a script. `script_version` is the id of the script's version,
    `script_number` the number that users see.
    """

    id: int
    spec: JobSpec
    enabled: bool
    schedule: str
    timezone: str
    next_fire_at: int | None
    script_version: int | None
    script_number: int | None
    children: tuple[str, ...]
    stop_reason: str
    last_status: str | None
    last_due_at: int | None
    declared_in: str | None


def job_view(
    job: ListedJob,
    *,
    now_ms: int,
    timezone: str,
    children: Sequence[str] = (),
    calendars: Calendars = NO_CALENDARS,
) -> JobView:
    """Return the view of a job; `timezone` is the cluster's, for a job without its own."""
    return JobView(
        id=job.id,
        spec=job_spec(job.stored, job.app, children, with_source=False),
        enabled=bool(job.is_enabled),
        schedule=written(job.schedule_kind, job.schedule_value, job.schedule_options),
        timezone=job.timezone or timezone,
        next_fire_at=next_fire(job, now_ms=now_ms, timezone=timezone, calendars=calendars),
        script_version=job.script_version,
        script_number=job.script_number,
        children=tuple(children),
        stop_reason=job.stop_reason or "",
        last_status=job.last_status,
        last_due_at=job.last_due_at,
        declared_in=job.stored.declared_in,
    )


def job_json(view: JobView) -> dict[str, Any]:
    """Return a job as a JSON object: its declared fields and those of the view."""
    declared = {
        name: plain(name, getattr(view.spec, name)) for name in FIELDS if name not in _CUSTOM
    }
    declared["expect"] = view.spec.expect.rules()
    declared["flow"] = view.spec.flow and view.spec.flow.to_mapping()
    return {"id": view.id} | declared | to_json(view, without=("spec",))
