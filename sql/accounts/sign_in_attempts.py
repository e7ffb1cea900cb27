"""Wrong passwords, measured for all consoles together and across restarts.

Each account and each address has a budget that an attempt uses by `cost_ms` and that time refills.
It is stored as one number, the instant at which it will be full again, in one row.
"""

from collections.abc import Mapping

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from sql.batch import insert_unless_there
from sql.models import SignInLimit


def charge(session: Session, limits: Mapping[str, tuple[int, int]], *, now_ms: int) -> int:
    """Count an attempt against each subject and return 0, unless one has used up its budget.

    Then nothing is counted, and the milliseconds until the next attempt are returned. Of each
    subject `limits` has how many attempts go at once, and how long each takes to be forgotten.
    """
    rows = [{"subject": subject, "full_until": 0} for subject in sorted(limits)]
    insert_unless_there(session, SignInLimit, rows, key="subject")
    # In one order everywhere, so that two attempts cannot deadlock.
    found = (
        session.execute(
            select(SignInLimit)
            .where(SignInLimit.subject.in_(sorted(limits)))
            .order_by(SignInLimit.subject)
            .with_for_update()
        )
        .scalars()
        .all()
    )
    waits = [limit.full_until - now_ms - _room(*limits[limit.subject]) for limit in found]
    if max(waits) > 0:
        return max(waits)
    for limit in found:
        limit.full_until = max(limit.full_until, now_ms) + limits[limit.subject][1]
    return 0


def refund(session: Session, limits: Mapping[str, tuple[int, int]]) -> None:
    """Take back what `charge` counted: the password was right."""
    found = session.execute(
        select(SignInLimit)
        .where(SignInLimit.subject.in_(sorted(limits)))
        .order_by(SignInLimit.subject)
        .with_for_update()
    )
    for limit in found.scalars():
        limit.full_until -= limits[limit.subject][1]


def clean(session: Session, *, now_ms: int) -> None:
    """Forget subjects whose budget is full."""
    empty = delete(SignInLimit).where(SignInLimit.full_until < now_ms)
    session.execute(empty, execution_options={"synchronize_session": False})


def _room(at_once: int, cost_ms: int) -> int:
    """Return how far ahead the instant may lie when one more attempt still fits."""
    return (at_once - 1) * cost_ms
