"""Runs as lines of a list, and searches in their messages.

Lines have the names of job and app, and the beginnings of messages. Messages are compared without
their numbers.
"""

import re
from collections.abc import Sequence
from datetime import date
from typing import NamedTuple

from sqlalchemy import ColumnElement, func, or_, select
from sqlalchemy.orm import Session

from warren.sql.batch import chunks
from warren.sql.models import App, Job, Run
from warren.sql.rows import Query, contains, fetch, query

#: Characters of a message that are read for a line.
MESSAGE_LIMIT = 400


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
    run_date: date | None
    flow_run_id: int | None
    started_at: int | None
    finished_at: int | None
    address: str | None
    shard_index: int
    shard_total: int
    attempt: int
    starts: int
    progress: str | None
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
        "message": func.substr(Run.message, 1, MESSAGE_LIMIT),
        "trigger_message": func.substr(Run.trigger_message, 1, MESSAGE_LIMIT),
    }
    return (
        query(RunLine, Run, job=Job.name, app=App.name, timezone=Job.timezone, **texts)
        .outerjoin(Job, Job.id == Run.job_id)
        .outerjoin(App, App.id == Run.app_id)
    )


def by_ids(session: Session, run_ids: Sequence[int]) -> list[RunLine]:
    """Return a few runs in the given order; deleted ones are left out."""
    runs = fetch(session, RunLine, lines().where(Run.id.in_(run_ids))) if run_ids else []
    by_id = {run.id: run for run in runs}
    return [by_id[run_id] for run_id in run_ids if run_id in by_id]


#: Stands for any number in a search text.
NUMBER = "#"
#: Characters of a message that are compared.
COMPARED_LIMIT = 200
_CHUNK = 1_000
_DIGITS = re.compile("[0-9]+")


def without_numbers(message: str) -> str:
    """Return the first line of a message, with `#` for each of its numbers."""
    line = message.strip().partition("\n")[0]
    return _DIGITS.sub(NUMBER, line)[:COMPARED_LIMIT].strip()


def with_text(session: Session, run_ids: Sequence[int], text: str) -> set[int]:
    """Return the runs among these whose message or routing message contains a text.

    Case is ignored. `#` in the text matches any number; such a text is searched only in the first
    line of messages.
    """
    search = _alike if NUMBER in text else _containing
    return {run_id for part in chunks(run_ids, _CHUNK) for run_id in search(session, part, text)}


def _containing(session: Session, run_ids: Sequence[int], text: str) -> Sequence[int]:
    matches = [contains(session, column, text) for column in (Run.message, Run.trigger_message)]
    matching = select(Run.id).where(Run.id.in_(run_ids), or_(*matches))
    return session.execute(matching).scalars().all()


def _alike(session: Session, run_ids: Sequence[int], text: str) -> list[int]:
    wanted = without_numbers(text).lower()
    return [
        run_id
        for run_id, message in beginnings(session, run_ids).items()
        if wanted in without_numbers(message).lower()
    ]


def beginnings(session: Session, run_ids: Sequence[int]) -> dict[int, str]:
    """Return the beginning of each run's message; of its routing message if it has none."""
    texts = select(Run.id, beginning()).where(Run.id.in_(run_ids))
    return {run_id: text or "" for run_id, text in session.execute(texts)}


def beginning() -> ColumnElement[str]:
    """Return the SQL for the beginning of a run's message, or of its routing message."""
    # Twice COMPARED_LIMIT, because the first line may follow empty ones.
    return func.substr(func.coalesce(func.nullif(Run.message, ""), Run.trigger_message), 1, 400)
