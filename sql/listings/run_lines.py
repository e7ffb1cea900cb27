"""Runs as lines of a page: with their jobs' and apps' names, and how their messages begin."""

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import func
from sqlalchemy.orm import Session

from sql.models import App, Job, Run
from sql.rows import Query, fetch, query

#: Characters of a message that a line needs.
MESSAGE = 400


class RunLine(NamedTuple):
    """A run on a page; a name is None when the job or app is gone."""

    id: int
    job_id: int
    job: str | None
    app: str | None
    timezone: str | None
    kind: str
    status: str
    due_at: int
    started_at: int | None
    finished_at: int | None
    address: str | None
    shard_index: int
    shard_total: int
    attempt: int
    message: str | None
    trigger_message: str | None
    message_why: str | None
    trigger_why: str | None

    @property
    def lasted_ms(self) -> int | None:
        """Return how long its process worked, None when that is not known."""
        if not self.started_at or not self.finished_at:
            return None
        return self.finished_at - self.started_at


def lines() -> Query:
    """Return the query of such lines."""
    texts = {
        "message": func.substr(Run.message, 1, MESSAGE),
        "trigger_message": func.substr(Run.trigger_message, 1, MESSAGE),
    }
    return (
        query(RunLine, Run, job=Job.name, app=App.name, timezone=Job.timezone, **texts)
        .outerjoin(Job, Job.id == Run.job_id)
        .outerjoin(App, App.id == Run.app_id)
    )


def by_ids(session: Session, run_ids: Sequence[int]) -> list[RunLine]:
    """Return those of few runs that are there, in the order given."""
    found = fetch(session, RunLine, lines().where(Run.id.in_(run_ids))) if run_ids else []
    by_id = {run.id: run for run in found}
    return [by_id[run_id] for run_id in run_ids if run_id in by_id]
