"""How late runs begin: from their due time to the start of their process."""

from collections.abc import Collection

from sqlalchemy import select
from sqlalchemy.orm import Session

from sql.instants import at
from sql.models import Run

#: Runs looked at, those due last; each costs a read by primary key.
LOOKED_AT = 1_000
#: How far back they are looked for.
WITHIN_MS = 3_600_000


def recent(session: Session, app_ids: Collection[int] | None, *, now_ms: int) -> list[int]:
    """Return by how many milliseconds the runs due last began late, the least first.

    Of the last LOOKED_AT runs of all apps those of the apps asked for count, once they have begun.
    """
    rows = session.execute(
        select(Run.job_group, Run.due_at, Run.started_at)
        .with_hint(Run, "FORCE INDEX (i_trigger_time)", "mysql")
        .where(Run.trigger_time >= at(now_ms - WITHIN_MS), Run.trigger_time <= at(now_ms))
        .order_by(Run.trigger_time.desc())
        .limit(LOOKED_AT)
    )
    return sorted(
        max(row.started_at - row.due_at, 0)
        for row in rows
        if row.started_at is not None and (app_ids is None or row.job_group in app_ids)
    )
