"""Incidents: opened and closed by the watch, acknowledged by people.

Those of the database belong to no job or app: that it lost commits, and that a server which was
replaced can be written. Acknowledging them closes them.
"""

from collections.abc import Collection, Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple

from sqlalchemy import and_, func, not_, or_, select, update
from sqlalchemy.orm import Session

from warren.sql.batch import fetch_by_ids, insert_or_ignore, modify
from warren.sql.models import App, Incident, Job
from warren.sql.rows import Query, fetch, query

#: The most open incidents that one round of the watch considers.
MAX_OPEN = 5_000

#: The rules that a new epoch of run ids breaks, and a server of an older epoch that can be written.
DATABASE, SERVER = OF_DATABASE = ("database", "server")


class ClosedBy(StrEnum):
    #: The expectation was met.
    KEPT = "KEPT"
    STOPPED = "STOPPED"
    #: The expectation was removed.
    DROPPED = "DROPPED"
    DELETED = "DELETED"
    #: It was acknowledged; only of the database.
    SEEN = "SEEN"


class OpenIncident(NamedTuple):
    """An incident that is open; `job` None = the job was deleted."""

    id: int
    job_id: int
    app_id: int
    job: str | None
    rule: str
    due_at: int
    expected: str
    opened_at: int
    remind_at: int
    acked_at: int | None
    ack_until: int | None

    def is_silent(self, now_ms: int) -> bool:
        """Whether it is acknowledged, and the acknowledgement has not expired."""
        return self.acked_at is not None and (self.ack_until is None or self.ack_until > now_ms)


class ListedIncident(NamedTuple):
    """An incident as shown to users; `app` and `job` are None if deleted."""

    id: int
    app_id: int
    job_id: int
    app: str | None
    job: str | None
    rule: str
    due_at: int
    expected: str
    opened_at: int
    closed_at: int | None
    closed_by: str | None
    acked_at: int | None
    acked_by: str | None
    ack_note: str | None
    ack_until: int | None


def open_one(
    session: Session,
    *,
    job_id: int,
    app_id: int,
    rule: str,
    due_at: int,
    expected: str,
    now_ms: int,
    remind_ms: int,
) -> int | None:
    """Open an incident and return its id; None if this due time already has one."""
    key = {"job_id": job_id, "rule": rule, "due_at": due_at}
    existing = select(Incident.id).filter_by(**key)
    if session.execute(existing).first() is not None:
        return None
    row = {
        **key,
        "app_id": app_id,
        "expected": expected,
        "opened_at": now_ms,
        "is_open": 1,
        "remind_at": remind_ms,
    }
    insert_or_ignore(session, Incident, [row])
    return session.execute(existing).scalar_one()


def close(session: Session, incident_id: int, why: ClosedBy, now_ms: int) -> bool:
    """Close an incident; return False if it is closed already."""
    closed = update(Incident).where(Incident.id == incident_id, Incident.is_open == 1)
    values = {"is_open": 0, "closed_at": now_ms, "closed_by": why.value}
    return modify(session, closed.values(**values)) > 0


def all_open(session: Session) -> list[OpenIncident]:
    """Return the open incidents of jobs, oldest first."""
    still = query(OpenIncident, Incident, job=Job.name)
    still = still.join(Job, Job.id == Incident.job_id, isouter=True).where(
        Incident.is_open == 1, Incident.rule.not_in(OF_DATABASE)
    )
    return fetch(session, OpenIncident, still.order_by(Incident.id).limit(MAX_OPEN))


def remind_later(session: Session, incident_id: int, remind_ms: int) -> None:
    """Set when to send the next reminder of an incident."""
    modify(session, update(Incident).where(Incident.id == incident_id).values(remind_at=remind_ms))


def acknowledge(
    session: Session, incident_id: int, *, by: str, note: str, until_ms: int | None, now_ms: int
) -> bool:
    """Record who has seen an open incident; return False if it is closed."""
    seen = update(Incident).where(Incident.id == incident_id, Incident.is_open == 1)
    values = {"acked_at": now_ms, "acked_by": by, "ack_note": note or None, "ack_until": until_ms}
    return modify(session, seen.values(**values)) > 0


def listing(
    session: Session,
    *,
    app_ids: Collection[int] | None = None,
    job_ids: Collection[int] | None = None,
    only_open: bool = False,
    limit: int = 100,
    before_id: int | None = None,
) -> Sequence[ListedIncident]:
    """Return incidents, newest first; None = of all apps and jobs."""
    listed = _listed()
    if app_ids is not None:
        listed = listed.where(Incident.app_id.in_(app_ids))
    if job_ids is not None:
        listed = listed.where(Incident.job_id.in_(job_ids))
    if only_open:
        listed = listed.where(Incident.is_open == 1)
    if before_id is not None:
        listed = listed.where(Incident.id < before_id)
    return fetch(session, ListedIncident, listed.order_by(Incident.id.desc()).limit(limit))


def count_unseen(
    session: Session, app_ids: Collection[int] | None, *, now_ms: int, most: int
) -> int:
    """Count open incidents that nobody has acknowledged, or not any longer, up to `most`."""
    is_silent = and_(
        Incident.acked_at.is_not(None),
        or_(Incident.ack_until.is_(None), Incident.ack_until > now_ms),
    )
    unseen = select(Incident.id).where(Incident.is_open == 1, not_(is_silent))
    if app_ids is not None:
        unseen = unseen.where(Incident.app_id.in_(app_ids))
    counted = select(func.count()).select_from(unseen.limit(most).subquery())
    return session.execute(counted).scalar_one()


def find(session: Session, incident_id: int) -> ListedIncident | None:
    """Return an incident; None if there is none with this id."""
    rows = fetch(session, ListedIncident, _listed().where(Incident.id == incident_id))
    return rows[0] if rows else None


def _listed() -> Query:
    return (
        query(ListedIncident, Incident, app=App.name, job=Job.name)
        .join(App, App.id == Incident.app_id, isouter=True)
        .join(Job, Job.id == Incident.job_id, isouter=True)
    )


class IncidentCount(NamedTuple):
    """The number of open incidents of a job by the rule that is broken."""

    app: str
    job: str
    rule: str
    number: int


def open_counts(session: Session, job_ids: Iterable[int]) -> list[IncidentCount]:
    """Count the open incidents of jobs; jobs without any are left out."""
    counted = query(IncidentCount, Incident, app=App.name, job=Job.name, number=func.count())
    named = counted.join(Job, Job.id == Incident.job_id).join(App, App.id == Job.app_id)
    is_open = named.where(Incident.is_open == 1).group_by(App.name, Job.name, Incident.rule)
    return fetch_by_ids(session, IncidentCount, is_open, Incident.job_id, job_ids)
