"""A run of a job, as its row is now; a retry is a copy of a run instead.

Its param may be made of a template when it is planned, of the run's date and due time:

    param_template: "--day {{ run_date }} --month {{ months(run_date, -1) | format('%Y%m') }}"
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Protocol, TypeAlias

from sqlalchemy.orm import Session

from warren.broker.reasons import Why
from warren.scheduler.expressions import CALENDAR, Fault, read_template
from warren.scheduler.jobs.spec import JobSpec
from warren.scheduler.problems import Code, Problem, explanation
from warren.scheduler.routing.routes import planned_shards
from warren.scheduler.schedules.reading import load_calendars
from warren.scheduler.schedules.run_date import RunDateRule, run_date_of, zone_or_utc
from warren.scheduler.schedules.schedule import calendar_of
from warren.scheduler.schedules.working_days import Calendar, Calendars, UnknownDay
from warren.sql.jobs.due_jobs import JobToPlan
from warren.sql.jobs.job_rows import JobToTrigger
from warren.sql.models import Job
from warren.sql.registry import apps
from warren.sql.run_status import Kind
from warren.sql.runs.planned_runs import NewRun


@dataclass(frozen=True, slots=True, kw_only=True)
class Occasion:
    """What a param is made of: the names of job and app, and the run's due time and date.

    `scheduled_at` is in epoch milliseconds, `zone` and `calendar` are the job's.
    """

    job: str
    app: str
    scheduled_at: int
    run_date: date
    zone: str
    calendar: Calendar | None

    def names(self) -> dict[str, Any]:
        """Return what a template may name."""
        return {
            "run_date": self.run_date,
            "scheduled_at": datetime.fromtimestamp(
                self.scheduled_at / 1_000, zone_or_utc(self.zone)
            ),
            "job": self.job,
            "app": self.app,
            CALENDAR: self.calendar and self.calendar.at(self.scheduled_at),
        }


class Dated(Protocol):
    """A job's row, or a part of it, with the rule for the dates of its runs."""

    @property
    def run_date_days(self) -> int:
        """How many days the date is from that of the due time."""

    @property
    def run_date_months(self) -> int:
        """The same in months."""

    @property
    def run_date_workdays(self) -> int:
        """The same in working days."""

    @property
    def run_date_calendar(self) -> str | None:
        """The calendar of these."""


def run_date_rule(job: Dated, calendars: Calendars) -> RunDateRule:
    return RunDateRule(
        job.run_date_days,
        job.run_date_months,
        job.run_date_workdays,
        calendars.get(job.run_date_calendar or ""),
    )


def template_calendar(job: Any) -> str:
    """Return the calendar that `workdays` means: that of the run date, or of the schedule."""
    if job.run_date_calendar:
        return str(job.run_date_calendar)
    if isinstance(job, JobSpec):
        return job.schedule_options.calendar
    return calendar_of(job)


def calendar_names(job: Any) -> set[str]:
    """Return the calendars of the run dates of a job, and of its template."""
    names = {job.run_date_calendar, template_calendar(job) if job.param_template else None}
    return {name for name in names if name}


def rendered_param(template: str, occasion: Occasion) -> str:
    """Return the param rendered by a template.

    Raises:
        Fault: the template cannot be read, or one of its expressions has no value.

    """
    return read_template(template).render(occasion.names())


def sample_param(
    spec: JobSpec | Job,
    now_ms: int,
    *,
    calendars: Calendars,
    app: str = "",
    zone: str = "UTC",
) -> str:
    """Return the param of a run that would be due now.

    Args:
        spec: the job, as it is wanted or as it is stored.
        now_ms: the time, in epoch milliseconds.
        calendars: those that the job uses.
        app: the name of its app, of a stored job.
        zone: the zone of jobs that name none.

    Raises:
        Problem: the template of the param has no value, or the job has a param as well.

    """
    if not spec.param_template:
        return spec.param or ""
    if spec.param:
        raise Problem(Code.PARAM_AND_TEMPLATE, "param_template")
    own_zone = spec.timezone or zone
    try:
        occasion = Occasion(
            job=spec.name,
            app=spec.app if isinstance(spec, JobSpec) else app,
            scheduled_at=now_ms,
            run_date=run_date_of(now_ms, own_zone, run_date_rule(spec, calendars)),
            zone=own_zone,
            calendar=calendars.get(template_calendar(spec)),
        )
        return rendered_param(spec.param_template, occasion)
    except (Fault, ValueError, OSError, KeyError) as error:
        raise Problem(Code.PARAM_TEMPLATE, "param_template", why=str(error)) from error


#: A job with the columns that are needed to plan a run of it.
PlannableJob: TypeAlias = JobToPlan | JobToTrigger | Job


def run_of(
    job: PlannableJob,
    *,
    kind: Kind,
    scheduled_at: int,
    due_at: int,
    zone: str,
    app: str,
    calendars: Calendars,
    run_date: date | None = None,
) -> NewRun:
    """Return a run of a job for a tick of its schedule; callers replace what differs.

    Args:
        job: the job.
        kind: what causes the run.
        scheduled_at: the tick, in epoch milliseconds.
        due_at: when the run is due.
        zone: the job's time zone, or that of the schedulers if it names none.
        app: the name of its app; only a param's template needs it.
        calendars: those that the job uses, as `calendars_for_runs` gives them.
        run_date: the date that the run is about; None = by the job's rule.

    """
    param, fault, day = job.param or "", None, run_date
    try:
        day = run_date or date_of(job, scheduled_at, zone, calendars)
        if job.param_template:
            occasion = Occasion(
                job=job.name,
                app=app,
                scheduled_at=scheduled_at,
                run_date=day,
                zone=zone,
                calendar=calendars.get(template_calendar(job)),
            )
            param = rendered_param(job.param_template, occasion)
    except UnknownDay as error:
        fault = explanation(
            Why.RUN_DATE_UNKNOWN(calendar=job.run_date_calendar or "", why=str(error))
        )
    except Fault as error:
        fault = explanation(Why.PARAM_NOT_MADE(why=str(error)))
    return NewRun(
        app_id=job.app_id,
        job_id=job.id,
        handler=job.handler or "",
        param=param,
        kind=kind,
        scheduled_at=scheduled_at,
        due_at=due_at,
        run_date=day,
        retries_left=job.retries,
        shard_total=planned_shards(job.route),
        script_version=job.script_version,
        fault=fault,
    )


def check_made(run: NewRun) -> None:
    """Refuse a requested run whose param cannot be rendered.

    Raises:
        Problem: the template of the job's param has no value for it.

    """
    if run.fault is not None:
        field = "run_date" if run.run_date is None else "param_template"
        raise Problem(Code.PARAM_NOT_MADE, field, why=run.fault.text)


def date_of(job: PlannableJob, scheduled_at: int, zone: str, calendars: Calendars) -> date:
    """Return the date of a job's run that is due then; `zone` is that of its schedule.

    Raises:
        UnknownDay: the calendar of the job's rule does not know it.

    """
    return run_date_of(scheduled_at, zone, run_date_rule(job, calendars))


def calendars_for_runs(session: Session, jobs: Collection[PlannableJob]) -> Calendars:
    """Return the calendars of the jobs' run dates, and those that templates of params may use."""
    return load_calendars(session, {name for job in jobs for name in calendar_names(job)})


def app_names_for(session: Session, jobs: Iterable[PlannableJob]) -> dict[int, str]:
    """Return the names of the apps of jobs whose param templates need them, by id."""
    app_ids = {job.app_id for job in jobs if job.param_template}
    return apps.names(session, app_ids) if app_ids else {}
