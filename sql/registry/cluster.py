"""The cluster row: which cluster this database is."""

from sqlalchemy import select
from sqlalchemy.orm import Session

from sql.models import Cluster


def cluster_id(session: Session) -> str:
    """Return the id that every message of this cluster carries."""
    return session.execute(select(Cluster.cluster_id)).scalar_one()
