"""Computes what a spec changes about a stored job, from its row, without changing the row.

`Applied` is the result for callers.
"""

from collections.abc import Container, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import StrEnum

from warren.scheduler.alarms.targets import takes_secret
from warren.scheduler.commands.script_commands import has_script, script_change
from warren.scheduler.jobs.records import differences, script_difference
from warren.scheduler.jobs.script_cache import normal_source
from warren.scheduler.jobs.spec import FIELDS, Field, JobSpec, changed
from warren.scheduler.jobs.stop_reasons import is_by_person, is_over, may_start
from warren.scheduler.problems import counted
from warren.scheduler.schedules.options import NEWEST_RULE, ScheduleOptions
from warren.scheduler.schedules.registry import ZONED_KINDS, means_the_same
from warren.sql.models import Job

_SCHEDULE = frozenset({"schedule_kind", "schedule_value", "schedule_options"})
_TIMEZONE = frozenset({"timezone"})
_MISFIRE = frozenset({"misfire"})
_POLICIES = _MISFIRE | {"late_limit"}


@dataclass(frozen=True, slots=True)
class Edit:
    """The changes to a job, apart from its children.

    Attributes:
        words: a line for each change of a field or of the script; empty = none changes.
        diff: the lines of a unified diff of the script.
        reschedules: whether the job gets a schedule with other due times.
        clears_stop: whether the reason for which the job has stopped by itself may be gone.
        starts: whether the schedule of a stopped job is to be started.
        cancelled: how many planned runs it cancels, as the new schedule does not have them.
        skipped: how many due times it skips, because they passed and no scheduler had planned them.

    """

    job: Job
    spec: JobSpec
    fields: Sequence[Field]
    words: tuple[str, ...]
    changes_script: bool
    diff: tuple[str, ...]
    reschedules: bool
    clears_stop: bool
    starts: bool
    cancelled: int = 0
    skipped: int = 0

    @property
    def restarts(self) -> bool:
        """Whether a started job continues with another schedule, unless it is stopped as well."""
        return self.reschedules and self.job.is_enabled == 1 and self.spec.enabled is not False

    @property
    def is_to_record(self) -> bool:
        """Whether the due times stay the same, but not the schedule's text or its policies."""
        return _any_of(_POLICIES | _SCHEDULE, self.fields) and not self.reschedules

    @property
    def is_replanned(self) -> bool:
        """Whether what is planned is compared with a new schedule; a stop cancels it anyway."""
        return self.reschedules and self.spec.enabled is not False


def edit_of(job: Job, spec: JobSpec, *, moves: bool = False) -> Edit:
    """Return what a spec changes about a job.

    A schedule that changes follows the newest rule from then on; with `moves`, any does.
    """
    fields = _changed(job, spec)
    reschedules = moves or _reschedules(job, spec, fields)
    if reschedules:
        spec = spec.by_rule(NEWEST_RULE)
        options = FIELDS["schedule_options"]
        if spec.schedule_options.to_json() != job.schedule_options and options not in fields:
            fields.append(options)
    else:
        spec = spec.by_rule(ScheduleOptions.from_json(job.schedule_options).rule)
    script = script_change(job, spec)
    clears_stop = _clears_stop(job, fields, reschedules=reschedules)
    return Edit(
        job,
        spec,
        fields,
        differences(job, spec, fields) + script,
        bool(script),
        script_difference(_stored_source(job), _wanted_source(spec)) if script else (),
        reschedules,
        clears_stop,
        is_to_start(job, spec, clears_stop=clears_stop),
    )


def is_to_start(job: Job, spec: JobSpec, *, clears_stop: bool = False) -> bool:
    """Whether a spec starts a job; with `clears_stop`, an edit removes the reason for its stop.

    A schedule that ended stays ended until it is changed, so applying twice is harmless.
    """
    is_free = may_start(job) or clears_stop
    return bool(spec.enabled) and job.is_enabled == 0 and is_free


def is_as_described(job: Job, spec: JobSpec) -> bool:
    """Whether a job needs no change, apart from its children.

    A job whose schedule ended by itself and that is to be stopped may still have runs to cancel.
    """
    if _changed(job, spec) or not has_script(job, spec):
        return False
    is_enabled = job.is_enabled == 1
    if spec.enabled is None:
        return True
    if spec.enabled:
        return is_enabled or not may_start(job)
    return not is_enabled and is_by_person(job)


def _changed(job: Job, spec: JobSpec) -> list[Field]:
    """Return the fields that a spec changes, with a secret that belongs to another webhook."""
    fields = changed(job, spec)
    if job.alarm_secret and not spec.alarm_secret:
        is_elsewhere = job.alarm_webhook != spec.alarm_webhook
        if is_elsewhere or not takes_secret(spec.alarm):
            fields.append(FIELDS["alarm_secret"])
    return fields


def _clears_stop(job: Job, changing: Sequence[Field], *, reschedules: bool) -> bool:
    """Whether one of these fields may have made a job stop by itself.

    An unknown policy may have; but a schedule that has ended has ended with any policy.
    """
    may_be_policy = _any_of(_MISFIRE, changing) and not is_over(job)
    return may_be_policy or reschedules


def _reschedules(job: Job, spec: JobSpec, changing: Sequence[Field]) -> bool:
    """Whether these fields change when the job is due; only some kinds depend on the time zone.

    A value that is only written differently changes nothing.
    """
    depends = job.schedule_kind in ZONED_KINDS or bool(job.schedule_options)
    if depends and _any_of(_TIMEZONE, changing):
        return True
    names = _SCHEDULE.intersection(field.name for field in changing)
    if names != {"schedule_value"}:
        return bool(names)
    return not means_the_same(job.schedule_kind, job.schedule_value or "", spec.schedule_value)


def _any_of(names: AbstractSet[str], fields: Sequence[Field]) -> bool:
    return any(field.name in names for field in fields)


def _stored_source(job: Job) -> str:
    return (job.script_source or "") if job.has_script else ""


def _wanted_source(spec: JobSpec) -> str:
    return normal_source(spec.script_language, spec.script_source) if spec.script_language else ""


class ChangeAction(StrEnum):
    """What a job file changes about an app or job."""

    CREATE = "create"
    UPDATE = "update"
    START = "start"
    STOP = "stop"
    DELETE = "delete"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True)
class Applied:
    """The result for one job.

    `details` has a line for each changed field, `diff` the lines of a unified diff of the script,
    `cancelled` how many planned runs it cancels.
    """

    action: ChangeAction
    details: tuple[str, ...] = ()
    diff: tuple[str, ...] = ()
    cancelled: int = 0


CREATED, UNCHANGED = Applied(ChangeAction.CREATE), Applied(ChangeAction.UNCHANGED)


def state_of(job_id: int, stopped: Container[int], started: Container[int]) -> ChangeAction | None:
    """Return whether a job is among those stopped or started, by id; None = neither."""
    if job_id in stopped:
        return ChangeAction.STOP
    return ChangeAction.START if job_id in started else None


def stop_words(cancelled: int) -> tuple[str, ...]:
    """Return a line about the planned runs that a stop cancels; none without any."""
    return (f"cancelled: {planned(cancelled)}, as the job stops",) if cancelled else ()


def planned(number: int) -> str:
    """Return a number of planned runs in words."""
    return counted(number, "planned run")


def applied(edit: Edit, state: ChangeAction | None, cancelled: int = 0) -> Applied:
    """Return the result of an edit, and of the start or stop that went with it.

    `cancelled` is how many planned runs the stop cancels.
    """
    more = stop_words(cancelled)
    if edit.cancelled:
        more = (f"cancelled: {planned(edit.cancelled)} that the new schedule does not have", *more)
    cancelled += edit.cancelled
    if edit.skipped:
        more = (f"skipped: {counted(edit.skipped, 'due time')} that nobody had planned", *more)
    if edit.words:
        details = (*edit.words, *((f"state: {state}",) if state else ()), *more)
        return Applied(ChangeAction.UPDATE, details, edit.diff, cancelled)
    return Applied(state, more, (), cancelled) if state else UNCHANGED
