"""How late runs start: the time from when they are due to the start of their process."""

from collections.abc import Collection

from sqlalchemy import select
from sqlalchemy.orm import Session

from warren.sql.dialects.supported import use_index
from warren.sql.instants import HOUR_MS, at
from warren.sql.models import Run
from warren.sql.models.runs import BY_DUE_SECOND

#: Most runs examined, the latest due ones; each costs a read by primary key.
LOOKED_AT = 1_000
#: How far back runs are examined.
WITHIN_MS = HOUR_MS


def recent(
    session: Session,
    app_ids: Collection[int] | None,
    *,
    now_ms: int,
    looked_at: int = LOOKED_AT,
) -> list[int]:
    """Return how late recent runs started, in milliseconds, sorted.

    Examines the `looked_at` latest due runs of all apps, and counts those of `app_ids` (None = all)
    that have started.
    """
    rows = session.execute(
        use_index(select(Run.app_id, Run.due_at, Run.started_at), Run, BY_DUE_SECOND)
        .where(Run.due_second >= at(now_ms - WITHIN_MS), Run.due_second <= at(now_ms))
        .order_by(Run.due_second.desc())
        .limit(looked_at)
    )
    return sorted(
        max(started_at - due_at, 0)
        for app_id, due_at, started_at in rows
        if started_at is not None and (app_ids is None or app_id in app_ids)
    )
