"""Finds contradictions between the tables of limits and runs, made by changes by hand."""

from typing import NamedTuple

from sqlalchemy import func, or_, select
from sqlalchemy.orm import Session

from warren.sql.models import Hold, Limit, Run
from warren.sql.run_status import FINAL, IN_FLIGHT

#: The most of each kind that are named.
MAX_NAMED = 100


class Damage(NamedTuple):
    """A hold of a run that does not hold it, a run without its holds, or a limit that is overfull.

    `limit` is None for a job's own, `run_id` for an overfull limit.
    """

    what: str
    limit: str | None
    run_id: int | None


ENDED, MISSING, OVERFULL = "ended", "missing", "overfull"


def find(session: Session) -> list[Damage]:
    """Return the damage; each statement sees one instant, so that no claim looks like damage."""
    ended = (
        select(Limit.name, Hold.run_id)
        .select_from(Hold)
        .outerjoin(Limit, Limit.id == Hold.limit_id)
        .outerjoin(Run, Run.id == Hold.run_id)
        .where(or_(Run.id.is_(None), Run.status.in_(FINAL), Run.holds.is_(None)))
    )
    missing = (
        select(Run.id)
        .outerjoin(Hold, Hold.run_id == Run.id)
        .where(Run.status.in_(IN_FLIGHT), Run.holds.is_not(None))
        .group_by(Run.id, Run.holds)
        .having(func.count(Hold.limit_id) < Run.holds)
    )
    # A limit that was lowered may be overfull until its runs have ended, but none started since.
    overfull = (
        select(Limit.name)
        .join(Hold, Hold.limit_id == Limit.id)
        .join(Run, Run.id == Hold.run_id)
        .where(Limit.at_once.is_not(None))
        .group_by(Limit.id, Limit.name, Limit.at_once, Limit.changed_at)
        .having(func.sum(Hold.weight) > Limit.at_once, func.max(Run.routed_at) > Limit.changed_at)
    )
    return [
        *(Damage(ENDED, name, run_id) for name, run_id in session.execute(ended.limit(MAX_NAMED))),
        *(
            Damage(MISSING, None, run_id)
            for run_id in session.execute(missing.limit(MAX_NAMED)).scalars()
        ),
        *(
            Damage(OVERFULL, name, None)
            for name in session.execute(overfull.limit(MAX_NAMED)).scalars()
        ),
    ]
