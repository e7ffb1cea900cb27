"""Writing what was changed of many jobs by few statements: the ORM sends one for each."""

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from sqlalchemy import inspect
from sqlalchemy.orm import Session
from sqlalchemy.orm.attributes import get_history, set_committed_value

from warren.sql.batch import ALREADY_LOCKED, update_each
from warren.sql.dialects.columns import LONG_TEXT
from warren.sql.instants import at_as_text, epoch_ms
from warren.sql.models import Job

_COLUMNS = Job.__mapper__.columns
_NAMES = frozenset(_COLUMNS.keys())
_LONG_TEXTS = frozenset(name for name, column in _COLUMNS.items() if column.type is LONG_TEXT)


def write(session: Session, jobs: Iterable[Job]) -> None:
    """Write what was changed of locked jobs, and all else that the session has not written.

    Jobs with the same columns changed share a statement, unless one of these holds long texts:
    then each has its own.
    """
    alike: dict[tuple[str, ...], list[Job]] = defaultdict(list)
    for job in jobs:
        names = _changed(job)
        if names and _LONG_TEXTS.isdisjoint(names):
            alike[names].append(job)
    for names, those in alike.items():
        rows = [{name: _bound(getattr(job, name)) for name in ("id", *names)} for job in those]
        update_each(session, Job, rows, guard=ALREADY_LOCKED)
        for job in those:
            for name in names:
                set_committed_value(job, name, getattr(job, name))
    session.flush()


def _changed(job: Job) -> tuple[str, ...]:
    touched = sorted(_NAMES - inspect(job).unmodified)
    return tuple(name for name in touched if get_history(job, name).has_changes())


def _bound(value: Any) -> Any:
    return at_as_text(epoch_ms(value)) if isinstance(value, datetime) else value
