"""Wrong passwords, measured for all consoles together and across restarts.

Each account and each address has a measure that a guess fills by `cost_ms` and that time empties.
It is kept as one number, the instant at which it will be empty, so a row is all there is to it.
"""

from collections.abc import Mapping

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from sql.batch import insert_unless_there
from sql.models import Guess


def charge(session: Session, limits: Mapping[str, tuple[int, int]], *, now_ms: int) -> int:
    """Count a guess against each subject and return 0, unless one has used up its measure.

    Then nothing is counted, and the milliseconds until the next guess are returned. Of each
    subject `limits` has how many guesses go at once, and how long each takes to be forgotten.
    """
    rows = [{"subject": subject, "full_until": 0} for subject in sorted(limits)]
    insert_unless_there(session, Guess.__tablename__, rows, key="subject")
    # In one order everywhere, so that two who guess cannot wait for each other.
    found = (
        session.execute(
            select(Guess)
            .where(Guess.subject.in_(sorted(limits)))
            .order_by(Guess.subject)
            .with_for_update()
        )
        .scalars()
        .all()
    )
    waits = [guess.full_until - now_ms - _room(*limits[guess.subject]) for guess in found]
    if max(waits) > 0:
        return max(waits)
    for guess in found:
        guess.full_until = max(guess.full_until, now_ms) + limits[guess.subject][1]
    return 0


def refund(session: Session, limits: Mapping[str, tuple[int, int]]) -> None:
    """Take back what `charge` counted: the password was right."""
    found = session.execute(
        select(Guess)
        .where(Guess.subject.in_(sorted(limits)))
        .order_by(Guess.subject)
        .with_for_update()
    )
    for guess in found.scalars():
        guess.full_until -= limits[guess.subject][1]


def clean(session: Session, *, now_ms: int) -> None:
    """Forget subjects whose measure is empty."""
    empty = delete(Guess).where(Guess.full_until < now_ms)
    session.execute(empty, execution_options={"synchronize_session": False})


def _room(at_once: int, cost_ms: int) -> int:
    """Return how far ahead the instant may lie when one more guess still fits."""
    return (at_once - 1) * cost_ms
