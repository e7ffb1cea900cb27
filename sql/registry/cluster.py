"""The cluster row: which cluster this database is, and whether dispatch is paused."""

from typing import Any, cast

from sqlalchemy import CursorResult, select, update
from sqlalchemy.orm import Session

from sql.models import Cluster


def cluster_id(session: Session) -> str:
    """Return the id that every message of this cluster carries."""
    return session.execute(select(Cluster.cluster_id)).scalar_one()


def paused_at(session: Session) -> int:
    """Return since when dispatch is paused, 0 when it is not."""
    return session.execute(select(Cluster.paused_at)).scalar_one()


def pause(session: Session) -> tuple[int, str]:
    """Return since when dispatch is paused, and who paused it; 0 and "" when it is not."""
    row = session.execute(select(Cluster.paused_at, Cluster.paused_by)).one()
    return (row.paused_at, row.paused_by or "") if row.paused_at else (0, "")


def set_paused(session: Session, *, at_ms: int, by: str) -> bool:
    """Pause dispatch (`at_ms` > 0) or resume it (0); False when that was so already."""
    is_news = Cluster.paused_at == 0 if at_ms else Cluster.paused_at != 0
    result = session.execute(
        update(Cluster).where(is_news).values(paused_at=at_ms, paused_by=by[:64]),
        execution_options={"synchronize_session": False},
    )
    return cast("CursorResult[Any]", result).rowcount > 0
