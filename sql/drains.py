"""Executors that somebody wants drained: a mark on the registration of the boot it is about."""

from typing import NamedTuple

from sqlalchemy import select
from sqlalchemy.orm import Session

from sql.errors import Conflict, NotFound
from sql.models import App, Registration
from sql.presence import EXECUTOR


class Boot(NamedTuple):
    """One boot of one executor."""

    app: str
    address: str
    boot_id: str


def lock(session: Session, address: str, app: str | None = None) -> Registration:
    """Lock the registration of an executor and return it.

    Raises:
        NotFound: no executor has registered with this address.
        Conflict: executors of several apps have.

    """
    statement = select(Registration).where(
        Registration.registry_group == EXECUTOR, Registration.registry_value == address
    )
    if app is not None:
        statement = statement.where(Registration.registry_key == app)
    found = session.execute(statement.with_for_update()).scalars().all()
    if not found:
        raise NotFound(f"no executor with address {address!r}")
    if len(found) > 1:
        names = ", ".join(sorted(f"{row.registry_key}/{address}" for row in found))
        raise Conflict(f"several executors have address {address}: {names}")
    return found[0]


def ask(session: Session, row: Registration, now_ms: int) -> bool:
    """Mark a locked registration's boot as to be drained; False when it is already."""
    if row.drain_asked_at:
        return False
    row.drain_asked_at = now_ms
    session.flush()
    return True


def asked(session: Session) -> list[Boot]:
    """Return the boots that are to be drained."""
    rows = session.execute(
        select(Registration.registry_key, Registration.registry_value, Registration.boot_id).where(
            Registration.registry_group == EXECUTOR, Registration.drain_asked_at > 0
        )
    )
    return [Boot(*row) for row in rows]


def app_id(session: Session, name: str) -> int:
    """Return an app's id, 0 when there is none of that name."""
    return session.execute(select(App.id).where(App.app_name == name)).scalar_one_or_none() or 0
