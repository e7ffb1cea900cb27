"""Drain requests, stored in the registration of an executor's boot."""

from typing import NamedTuple

from sqlalchemy.orm import Session

from warren.sql.models import Registration
from warren.sql.registry.presence import EXECUTOR
from warren.sql.rows import fetch, query

#: The conditions on registrations with a drain request.
IS_REQUESTED = (Registration.kind == EXECUTOR, Registration.drain_asked_at > 0)


class DrainingBoot(NamedTuple):
    """A boot with a drain request."""

    app: str
    address: str
    boot_id: str


def request(session: Session, row: Registration, now_ms: int) -> bool:
    """Store a drain request in a locked registration; return False if there is one already."""
    if row.drain_asked_at:
        return False
    row.drain_asked_at = now_ms
    session.flush()
    return True


def requested(session: Session) -> list[DrainingBoot]:
    """Return the boots with a drain request."""
    wanted = query(DrainingBoot, Registration).where(*IS_REQUESTED)
    return fetch(session, DrainingBoot, wanted)
