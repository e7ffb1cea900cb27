"""Leases: which process may do work that only one may do at a time, and until when."""

from typing import Any

from sqlalchemy import or_, select, update
from sqlalchemy.orm import Session

from warren.sql.batch import insert_or_ignore
from warren.sql.models import Lease
from warren.sql.updates import modify


def hold(session: Session, name: str, holder: str, *, now_ms: int, until_ms: int) -> bool:
    """Take a free or expired lease, or renew one's own; return whether `holder` has it now."""
    may_take = or_(Lease.holder.is_(None), Lease.holder == holder, Lease.until_at <= now_ms)
    if _change(session, name, may_take, holder=holder, until_at=until_ms):
        return True
    row = {"lock_name": name, "holder": holder, "until_at": until_ms}
    insert_or_ignore(session, Lease, [row], key="lock_name")
    present = select(Lease.holder).where(Lease.lock_name == name)
    return session.execute(present).scalar_one() == holder


def release(session: Session, name: str, holder: str) -> None:
    """Release a lease, if `holder` has it."""
    _change(session, name, Lease.holder == holder, holder=None, until_at=0)


def _change(session: Session, name: str, condition: Any, **values: Any) -> bool:
    statement = update(Lease).where(Lease.lock_name == name, condition).values(**values)
    return modify(session, statement) > 0
