"""Addresses whose last executor said goodbye: their run queues are still there."""

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from warren.sql.models import Registration
from warren.sql.registry import presence
from warren.sql.registry.presence import Beat

DEPARTED = "DEPARTED"


def note(session: Session, app: str, address: str, now_ms: int) -> None:
    """Remember that the executor at an address has said goodbye."""
    beat = Beat(kind=DEPARTED, app=app, address=address, boot_id="", beat_at=now_ms)
    presence.hold(session, beat)
    presence.renew(session, beat)


def read(session: Session) -> dict[tuple[str, str], int]:
    """Return when the executor at each (app, address) said goodbye, in epoch milliseconds."""
    return {(row.app, row.address): row.beat_at for row in presence.listing(session, DEPARTED)}


def is_known(session: Session, app: str, address: str) -> bool:
    """Return whether an address is remembered."""
    return presence.holder(session, DEPARTED, app, address) is not None


def count_addresses(session: Session, app: str) -> int:
    """Return how many addresses of an app have a run queue, departed ones included."""
    of_app = (Registration.kind.in_((presence.EXECUTOR, DEPARTED)), Registration.app == app)
    return session.execute(
        select(func.count(Registration.address.distinct())).where(*of_app)
    ).scalar_one()


def forget(session: Session, app: str, address: str) -> None:
    """Forget that an executor has said goodbye, as its queue is gone or another one's."""
    presence.leave(session, DEPARTED, app, address, "")
