"""Params that are made when a run is planned, of the run's date and due time.

param_template: "--day {{ run_date }} --month {{ months(run_date, -1) | format('%Y%m') }}"
"""

from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from warren.scheduler.expressions.functions import Fault
from warren.scheduler.expressions.language import read_template
from warren.scheduler.jobs.spec import JobSpec
from warren.scheduler.problems import Code, Problem
from warren.scheduler.schedules.run_date import RunDateRule, run_date_of, zone_or_utc
from warren.sql.models import Job


@dataclass(frozen=True, slots=True, kw_only=True)
class Occasion:
    """What a param is made of: the names of job and app, and the run's due time and date.

    `scheduled_at` is in epoch milliseconds, and `zone` the job's.
    """

    job: str
    app: str
    scheduled_at: int
    run_date: date
    zone: str

    def names(self) -> dict[str, Any]:
        """Return what a template may name."""
        return {
            "run_date": self.run_date,
            "scheduled_at": datetime.fromtimestamp(
                self.scheduled_at / 1_000, zone_or_utc(self.zone)
            ),
            "job": self.job,
            "app": self.app,
        }


def made_param(template: str, occasion: Occasion) -> str:
    """Return the param that a template makes.

    Raises:
        Fault: the template cannot be read, or one of its expressions has no value.

    """
    return read_template(template).render(occasion.names())


def sample_param(spec: JobSpec | Job, now_ms: int, *, app: str = "", zone: str = "UTC") -> str:
    """Return the param of a run that would be due now.

    Args:
        spec: the job, as it is wanted or as it is stored.
        now_ms: the time, in epoch milliseconds.
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
    rule = RunDateRule(spec.run_date_days, spec.run_date_months)
    occasion = Occasion(
        job=spec.name,
        app=spec.app if isinstance(spec, JobSpec) else app,
        scheduled_at=now_ms,
        run_date=run_date_of(now_ms, own_zone, rule),
        zone=own_zone,
    )
    try:
        return made_param(spec.param_template, occasion)
    except (Fault, ValueError, OSError, KeyError) as error:
        raise Problem(Code.PARAM_TEMPLATE, "param_template", why=str(error)) from error
