"""A run of a job, as its row is now; a retry is a copy of a run instead."""

from collections.abc import Collection, Iterable
from datetime import date
from typing import TypeAlias

from sqlalchemy.orm import Session

from warren.broker.reasons import Why
from warren.scheduler.expressions import Fault
from warren.scheduler.jobs.param_templates import (
    Occasion,
    calendar_names,
    rendered_param,
    run_date_rule,
    template_calendar,
)
from warren.scheduler.problems import Code, Problem, explanation
from warren.scheduler.routing.routes import planned_shards
from warren.scheduler.schedules.reading import load_calendars
from warren.scheduler.schedules.run_date import run_date_of
from warren.scheduler.schedules.working_days import Calendars, UnknownDay
from warren.sql.jobs.due_jobs import JobToPlan
from warren.sql.jobs.job_rows import JobToTrigger
from warren.sql.models import Job
from warren.sql.registry import apps
from warren.sql.run_status import Kind
from warren.sql.runs.planned_runs import NewRun

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
