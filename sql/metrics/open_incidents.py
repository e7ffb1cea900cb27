"""How many incidents of jobs are open."""

from collections.abc import Iterable
from typing import NamedTuple

from sqlalchemy import func
from sqlalchemy.orm import Session

from warren.sql.batch import chunks
from warren.sql.models import App, Incident, Job
from warren.sql.rows import fetch, query


class OpenIncidents(NamedTuple):
    """The number of open incidents of a job by the rule that is broken."""

    app: str
    job: str
    rule: str
    number: int


def of_jobs(session: Session, job_ids: Iterable[int]) -> list[OpenIncidents]:
    """Return the open incidents of those of the jobs that have any."""
    counted = query(OpenIncidents, Incident, app=App.name, job=Job.name, number=func.count())
    named = counted.join(Job, Job.id == Incident.job_id).join(App, App.id == Job.app_id)
    is_open = named.where(Incident.is_open == 1).group_by(App.name, Job.name, Incident.rule)
    return [
        row
        for chunk in chunks(job_ids)
        for row in fetch(session, OpenIncidents, is_open.where(Incident.job_id.in_(chunk)))
    ]
