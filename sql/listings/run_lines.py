"""Runs as lines of a list, with the names of job and app and the beginnings of messages."""

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import func
from sqlalchemy.orm import Session

from warren.sql.models import App, Job, Run
from warren.sql.rows import Query, fetch, query

#: Characters of a message that are read for a line.
MESSAGE = 400


class RunLine(NamedTuple):
    """A run in a list; `job` and `app` are None if deleted."""

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
        """Return how long its process ran; None if unknown."""
        if not self.started_at or not self.finished_at:
            return None
        return self.finished_at - self.started_at


def lines() -> Query:
    """Return the query of RunLine rows."""
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
    """Return those of a few runs that exist, in the given order."""
    runs = fetch(session, RunLine, lines().where(Run.id.in_(run_ids))) if run_ids else []
    by_id = {run.id: run for run in runs}
    return [by_id[run_id] for run_id in run_ids if run_id in by_id]
