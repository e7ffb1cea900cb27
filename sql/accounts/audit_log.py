"""The audit log: who did what, when and from where; entries are never changed."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import and_, func, insert, or_, select
from sqlalchemy.orm import Session

from warren.sql.batch import chunks
from warren.sql.models import AuditEntry

#: The action of an app's deletion.
APP_DELETE = "app.delete"
#: The most entries of one millisecond that are searched.
_MAX_ENTRIES = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilter:
    """Which entries to return; None = all. `before_id` continues a listing after its last entry."""

    who: str | None = None
    kind: str | None = None
    action: str | None = None
    name: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    before_id: int | None = None
    limit: int = 50


def add(session: Session, entry: AuditEntry) -> None:
    """Add an entry, in the transaction of the action."""
    session.add(entry)


_INSERT = insert(AuditEntry.__table__)  # type: ignore[arg-type] # of a table, not of a subquery


def add_many(session: Session, rows: Sequence[Mapping[str, Any]]) -> None:
    """Add entries, given by all their attributes, in the transaction of the actions.

    It bypasses the ORM, because each trigger of the API adds one.
    """
    if rows:
        session.connection().execute(_INSERT, rows)


def add_after(session: Session, row: Mapping[str, Any]) -> int:
    """Add an entry, given by its attributes, after all others of this transaction; return its id.

    The others are sent first, so that their ids are lower.
    """
    session.flush()
    added = session.connection().execute(_INSERT, row).inserted_primary_key
    assert added is not None
    return int(added[0])


def trigger_of(session: Session, job_id: int, run_id: int, at_ms: int) -> str | None:
    """Return who triggered a run of a job at an instant; None if there is no entry.

    One entry may be about many runs that were run again together.
    """
    entries = select(AuditEntry.who, AuditEntry.after).where(
        AuditEntry.at == at_ms,
        or_(
            and_(AuditEntry.kind == "job", AuditEntry.object_id == job_id),
            and_(AuditEntry.kind == "run", AuditEntry.object_id == 0),
        ),
    )
    for who, after in session.execute(entries.limit(_MAX_ENTRIES)):
        values = json.loads(after or "{}")
        if str(run_id) in map(str, (values.get("run"), *values.get("planned", ()))):
            return str(who)
    return None


def of_job(
    session: Session, job_id: int, actions: Sequence[str], *, limit: int
) -> Sequence[AuditEntry]:
    """Return a job's entries about these actions, newest first."""
    newest = (
        select(AuditEntry.id)
        .where(AuditEntry.action.in_(actions), AuditEntry.object_id == job_id)
        .order_by(AuditEntry.id.desc())
        .limit(limit)
    )
    return [
        entry
        for part in chunks(session.execute(newest).scalars().all())
        for entry in session.execute(
            select(AuditEntry).where(AuditEntry.id.in_(part)).order_by(AuditEntry.id.desc())
        ).scalars()
    ]


def of_actions(session: Session, entry_id: int, actions: Sequence[str]) -> AuditEntry | None:
    """Return an entry if it is about one of these actions."""
    entry = session.get(AuditEntry, entry_id)
    return entry if entry is not None and entry.action in actions else None


def newest_of_jobs(
    session: Session, job_ids: Iterable[int], actions: Sequence[str]
) -> dict[int, AuditEntry]:
    """Return the newest entry of each job about one of these actions, by job."""
    newest = (
        select(func.max(AuditEntry.id))
        .where(AuditEntry.action.in_(actions))
        .group_by(AuditEntry.object_id)
    )
    return {
        entry.object_id: entry
        for chunk in chunks(job_ids)
        for entry in session.execute(
            select(AuditEntry).where(
                AuditEntry.id.in_(
                    session.execute(newest.where(AuditEntry.object_id.in_(chunk))).scalars().all()
                )
            )
        ).scalars()
    }


def is_app_deleted_since(session: Session, app: str, entry: AuditEntry) -> bool:
    """Whether an app of this name was deleted after an entry."""
    later = select(AuditEntry.id).where(
        AuditEntry.kind == "app",
        AuditEntry.name == app,
        AuditEntry.id > entry.id,
        AuditEntry.action == APP_DELETE,
    )
    return session.execute(later.limit(1)).scalar() is not None


def deleted_app_ids(session: Session) -> Sequence[int]:
    deleted = select(AuditEntry.object_id).where(AuditEntry.action == APP_DELETE)
    return session.execute(deleted).scalars().all()


def listing(session: Session, wanted: AuditFilter) -> Sequence[AuditEntry]:
    """Return entries, newest first."""
    statement = select(AuditEntry)
    for column, value in (
        (AuditEntry.who, wanted.who),
        (AuditEntry.kind, wanted.kind),
        (AuditEntry.action, wanted.action),
        (AuditEntry.name, wanted.name),
    ):
        if value is not None:
            statement = statement.where(column == value)
    if wanted.since_ms is not None:
        statement = statement.where(AuditEntry.at >= wanted.since_ms)
    if wanted.until_ms is not None:
        statement = statement.where(AuditEntry.at < wanted.until_ms)
    if wanted.before_id is not None:
        statement = statement.where(AuditEntry.id < wanted.before_id)
    newest_first = statement.order_by(AuditEntry.id.desc()).limit(wanted.limit)
    return session.execute(newest_first).scalars().all()
