"""Params that are made when a run is planned, of the run's date and due time.

param_template: "--day {{ run_date }} --month {{ months(run_date, -1) | format('%Y%m') }}"
"""

from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Protocol

from warren.scheduler.expressions import CALENDAR, Fault, read_template
from warren.scheduler.jobs.spec import JobSpec
from warren.scheduler.problems import Code, Problem
from warren.scheduler.schedules.run_date import RunDateRule, run_date_of, zone_or_utc
from warren.scheduler.schedules.schedule import calendar_of
from warren.scheduler.schedules.working_days import Calendar, Calendars
from warren.sql.models import Job


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
