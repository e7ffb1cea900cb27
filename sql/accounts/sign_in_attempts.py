"""Limits sign-in attempts, for all consoles together and across restarts.

Each account and each address has a budget. An attempt uses `cost_ms` of it, and time refills it.
One row stores it as a single number: the instant at which it will be full again.
"""

from collections.abc import Mapping

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from warren.sql.batch import insert_or_ignore, modify
from warren.sql.models import SignInLimit


def charge(session: Session, limits: Mapping[str, tuple[int, int]], *, now_ms: int) -> int:
    """Charge an attempt to each subject and return 0.

    If a subject has used up its budget, charge nothing and return the milliseconds until the next
    attempt. `limits` has, for each subject, the number of attempts in a burst and the cost of one
    in milliseconds.
    """
    rows = [{"subject": subject, "full_until": 0} for subject in sorted(limits)]
    insert_or_ignore(session, SignInLimit, rows, key="subject")
    # Always in the same order, so that two attempts cannot deadlock.
    locked = (
        session.execute(
            select(SignInLimit)
            .where(SignInLimit.subject.in_(sorted(limits)))
            .order_by(SignInLimit.subject)
            .with_for_update()
        )
        .scalars()
        .all()
    )
    waits = [limit.full_until - now_ms - _room(*limits[limit.subject]) for limit in locked]
    if max(waits) > 0:
        return max(waits)
    for limit in locked:
        limit.full_until = max(limit.full_until, now_ms) + limits[limit.subject][1]
    return 0


def refund(session: Session, limits: Mapping[str, tuple[int, int]]) -> None:
    """Undo `charge` after a correct password."""
    locked = session.execute(
        select(SignInLimit)
        .where(SignInLimit.subject.in_(sorted(limits)))
        .order_by(SignInLimit.subject)
        .with_for_update()
    )
    for limit in locked.scalars():
        limit.full_until -= limits[limit.subject][1]


def clean(session: Session, *, now_ms: int) -> None:
    """Delete the rows of subjects whose budget is full."""
    full = delete(SignInLimit).where(SignInLimit.full_until < now_ms)
    modify(session, full)


def _room(at_once: int, cost_ms: int) -> int:
    """Return how far ahead `full_until` may be, in milliseconds, for one more attempt to fit."""
    return (at_once - 1) * cost_ms
