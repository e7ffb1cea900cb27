"""What comes due: the next ticks of enabled jobs, read along the index of next times.

However many jobs come due, no more than LOOKED_AT of them are looked at.
"""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from sql.models import App, Job
from sql.rows import AnyRow, Rows

LOOKED_AT = 5_000
_MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """The jobs that come due first, and how many do in each minute from now.

    `seen_until_ms`: what comes later was not looked at; None when everything was.
    """

    first: Rows
    per_minute: dict[int, int]
    seen_until_ms: int | None

    @property
    def total(self) -> int:
        """Return how many jobs come due, as far as was looked."""
        return sum(self.per_minute.values())


def read(
    session: Session, app_ids: Collection[int] | None, *, from_ms: int, to_ms: int, limit: int
) -> Outlook:
    """Return what comes due in [from, to], each job by its next tick; the `limit` first by name."""
    rows = session.execute(
        select(Job.id, Job.job_group, Job.trigger_next_time)
        .where(
            Job.trigger_status == 1,
            Job.trigger_next_time >= from_ms,
            Job.trigger_next_time <= to_ms,
        )
        .order_by(Job.trigger_next_time)
        .limit(LOOKED_AT)
    ).all()
    mine = [row for row in rows if app_ids is None or row.job_group in app_ids]
    return Outlook(
        first=_named(session, mine[:limit]),
        per_minute=Counter((row.trigger_next_time - from_ms) // _MINUTE_MS for row in mine),
        seen_until_ms=rows[-1].trigger_next_time if len(rows) == LOOKED_AT else None,
    )


def _named(session: Session, found: list[AnyRow]) -> Rows:
    statement = (
        select(
            Job.id,
            Job.job_desc.label("job"),
            App.app_name.label("app"),
            Job.schedule_type,
            Job.schedule_conf,
            Job.timezone,
            Job.trigger_next_time,
        )
        .join(App, App.id == Job.job_group)
        .where(Job.id.in_([row.id for row in found]))
        .order_by(Job.trigger_next_time, Job.id)
    )
    return session.execute(statement).all() if found else []
