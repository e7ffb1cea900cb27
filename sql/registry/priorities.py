"""Jobs whose priority is not the normal one."""

from typing import NamedTuple

from sqlalchemy import exists, or_
from sqlalchemy.orm import Session
from sqlalchemy.sql.elements import ColumnElement

from warren.sql.models import App, Job
from warren.sql.models.jobs import Priority
from warren.sql.rows import fetch, query

#: Two ranges of an index; `<>` might read all of it.
_IS_NOT_NORMAL = or_(Job.priority < Priority.NORMAL, Job.priority > Priority.NORMAL)


class PriorityOfJob(NamedTuple):
    """A job with its app and its priority."""

    id: int
    app_id: int
    priority: str


def has_any() -> ColumnElement[bool]:
    """Return the condition that an app has such a job."""
    return exists().where(Job.app_id == App.id, _IS_NOT_NORMAL)


def not_normal(session: Session) -> list[PriorityOfJob]:
    """Return all such jobs."""
    return fetch(session, PriorityOfJob, query(PriorityOfJob, Job).where(_IS_NOT_NORMAL))
