"""Drain requests, stored in the registration of an executor's boot."""

from typing import NamedTuple

from sqlalchemy import select
from sqlalchemy.orm import Session

from sql.errors import Ambiguous, LookupFailure, NotFound
from sql.models import App, Registration
from sql.registry.presence import EXECUTOR
from sql.rows import fetch, query

#: The conditions on registrations with a drain request.
IS_REQUESTED = (Registration.kind == EXECUTOR, Registration.drain_asked_at > 0)


class Boot(NamedTuple):
    """One boot of an executor."""

    app: str
    address: str
    boot_id: str


def find(session: Session, address: str, app: str | None = None) -> int:
    """Return the id of an executor's registration.

    Raises:
        NotFound: no executor with this address has registered.
        Ambiguous: several apps have an executor with this address.

    """
    statement = select(Registration.id, Registration.app).where(
        Registration.kind == EXECUTOR, Registration.address == address
    )
    if app is not None:
        statement = statement.where(Registration.app == app)
    rows = session.execute(statement).all()
    if not rows:
        raise NotFound(LookupFailure.NO_EXECUTOR_AT, address=address)
    if len(rows) > 1:
        names = ", ".join(sorted(f"{row.app}/{address}" for row in rows))
        raise Ambiguous(LookupFailure.SEVERAL_EXECUTORS_AT, address=address, names=names)
    return int(rows[0].id)


def lock(session: Session, registration_id: int) -> Registration | None:
    """Lock and return the registration of an executor; None if there is none."""
    return session.execute(
        select(Registration)
        .where(Registration.id == registration_id, Registration.kind == EXECUTOR)
        .with_for_update()
    ).scalar_one_or_none()


def request(session: Session, row: Registration, now_ms: int) -> bool:
    """Store a drain request in a locked registration; return False if there is one already."""
    if row.drain_asked_at:
        return False
    row.drain_asked_at = now_ms
    session.flush()
    return True


def requested(session: Session) -> list[Boot]:
    """Return the boots with a drain request."""
    wanted = query(Boot, Registration).where(*IS_REQUESTED)
    return fetch(session, Boot, wanted)


def app_id(session: Session, name: str) -> int:
    """Return an app's id; 0 if there is no such app."""
    return session.execute(select(App.id).where(App.name == name)).scalar_one_or_none() or 0
