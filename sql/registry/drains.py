"""Drain requests: a mark on the registration of an executor's boot."""

from typing import NamedTuple

from sqlalchemy import select
from sqlalchemy.orm import Session

from sql.errors import Conflict, NotFound
from sql.models import App, Registration
from sql.registry.presence import EXECUTOR
from sql.rows import fetch, query

#: The registrations of boots that somebody wants drained.
IS_REQUESTED = (Registration.kind == EXECUTOR, Registration.drain_asked_at > 0)


class Boot(NamedTuple):
    """One boot of one executor."""

    app: str
    address: str
    boot_id: str


def find(session: Session, address: str, app: str | None = None) -> int:
    """Return the id of an executor's registration.

    Raises:
        NotFound: no executor has registered with this address.
        Conflict: executors of several apps have.

    """
    statement = select(Registration.id, Registration.app).where(
        Registration.kind == EXECUTOR, Registration.address == address
    )
    if app is not None:
        statement = statement.where(Registration.app == app)
    found = session.execute(statement).all()
    if not found:
        raise NotFound(f"no executor with address {address!r}")
    if len(found) > 1:
        names = ", ".join(sorted(f"{row.app}/{address}" for row in found))
        raise Conflict(f"several executors have address {address}: {names}")
    return int(found[0].id)


def lock(session: Session, registration_id: int) -> Registration | None:
    """Lock the registration of an executor and return it, None when there is none."""
    return session.execute(
        select(Registration)
        .where(Registration.id == registration_id, Registration.kind == EXECUTOR)
        .with_for_update()
    ).scalar_one_or_none()


def request(session: Session, row: Registration, now_ms: int) -> bool:
    """Mark a locked registration's boot as to be drained; False when it is already."""
    if row.drain_asked_at:
        return False
    row.drain_asked_at = now_ms
    session.flush()
    return True


def requested(session: Session) -> list[Boot]:
    """Return the boots that are to be drained."""
    wanted = query(Boot, Registration).where(*IS_REQUESTED)
    return fetch(session, Boot, wanted)


def app_id(session: Session, name: str) -> int:
    """Return an app's id, 0 when there is none of that name."""
    return session.execute(select(App.id).where(App.name == name)).scalar_one_or_none() or 0
