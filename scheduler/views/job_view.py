"""Jobs as shown to users: spec, next fire time, last run; and what a job file has changed."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from warren.resources.instant import Instant
from warren.resources.job_files import Applied, ChangeAnswer, JobWarning
from warren.resources.jobs import JobOverview
from warren.scheduler.alarms.addresses import without_secret
from warren.scheduler.commands.job_edits import ChangeAction
from warren.scheduler.commands.job_file_preview import Change
from warren.scheduler.jobs.spec import FIELDS, JobSpec
from warren.scheduler.schedules.reading import next_fire
from warren.scheduler.schedules.registry import written
from warren.scheduler.schedules.working_days import NO_CALENDARS, Calendars
from warren.sql.listings.job_search import ListedJob

#: Declared fields that have no line of their own, because other lines show them.
_SHOWN_ELSEWHERE = frozenset(
    {"name", "app", "handler", "children", "enabled"}
    | {name for name, field in FIELDS.items() if field.kind.group in ("schedule", "script")}
)
#: Declared fields that the JSON object shows differently, or not at all.
_CUSTOM = frozenset(
    {
        *("schedule_kind", "schedule_value", "schedule_options", "timezone"),
        *("script_source", "children", "enabled"),
    }
)
_SECRETS = tuple(name for name, field in FIELDS.items() if field.kind.is_secret)


def without_secrets(spec: JobSpec) -> JobSpec:
    """Return a job with webhooks cut down to their hosts, for who may not change it."""
    cut: dict[str, Any] = {name: without_secret(getattr(spec, name)) for name in _SECRETS}
    return replace(spec, **cut)


def job_overview(
    job: ListedJob,
    spec: JobSpec,
    *,
    now_ms: int,
    timezone: str,
    children: Sequence[str] = (),
    calendars: Calendars = NO_CALENDARS,
) -> JobOverview:
    """Return a job as lists show it; `timezone` is the cluster's, for a job without its own.

    `children` are APP/NAME.
    """
    declared = {name: getattr(spec, name) for name in FIELDS if name not in _CUSTOM}
    declared |= {name: list(value) for name, value in declared.items() if isinstance(value, tuple)}
    declared["expect"] = spec.expect.rules()
    declared["flow"] = spec.flow and spec.flow.to_mapping()
    fire = next_fire(job, now_ms=now_ms, timezone=timezone, calendars=calendars)
    return JobOverview(
        id=job.id,
        fields=declared,
        enabled=bool(job.is_enabled),
        schedule=written(job.schedule_kind, job.schedule_value, job.schedule_options),
        timezone=job.timezone or timezone,
        next_fire_at=Instant.if_any(fire),
        script_version=job.script_version,
        script_number=job.script_number,
        children=[*children],
        stop_reason=job.stop_reason or "",
        last_status=job.last_status,
        last_due_at=Instant.if_any(job.last_due_at),
        declared_in=job.stored.declared_in,
    )


def facts_in_words(spec: JobSpec) -> dict[str, str]:
    """Return the declared fields by their titles, in words, apart from those shown elsewhere."""
    return {
        field.title: field.kind.shown(getattr(spec, name))
        for name, field in FIELDS.items()
        if name not in _SHOWN_ELSEWHERE
    }


def applied_view(
    changes: Sequence[Change],
    warnings: Iterable[tuple[str, str]] = (),
    *,
    dry_run: bool = False,
    over: Iterable[str] = (),
) -> Applied:
    """Return the changes without what stays; `warnings` are pairs of APP/NAME and a sentence."""
    changed = [change for change in changes if change.action is not ChangeAction.UNCHANGED]
    return Applied(
        changes=[
            ChangeAnswer(
                action=change.action.value,
                what=change.what,
                name=change.name,
                details=[*change.details],
                diff=[*change.diff],
                cancelled=change.cancelled,
            )
            for change in changed
        ],
        warnings=[JobWarning(job=job, message=words) for job, words in warnings],
        unchanged=len(changes) - len(changed),
        dry_run=dry_run,
        over=[*over],
    )
