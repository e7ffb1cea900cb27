"""The cluster row: which cluster this database is, and whether dispatch is paused."""

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from sql.models import Cluster


def cluster_id(session: Session) -> str:
    """Return the id that every message of this cluster carries."""
    return session.execute(select(Cluster.cluster_id)).scalar_one()


def paused_at(session: Session) -> int:
    """Return since when dispatch is paused, 0 when it is not."""
    return session.execute(select(Cluster.paused_at)).scalar_one()


def set_paused(session: Session, *, at_ms: int, by: str) -> bool:
    """Pause dispatch (`at_ms` > 0) or resume it (0); False when that was so already."""
    now = paused_at(session)
    if bool(now) == bool(at_ms):
        return False
    session.execute(update(Cluster).values(paused_at=at_ms, paused_by=by[:64]))
    return True
