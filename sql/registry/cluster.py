"""The row that identifies the cluster."""

from sqlalchemy import select
from sqlalchemy.orm import Session

from warren.sql.models import Cluster


def cluster_id(session: Session) -> str:
    """Return the id that all messages of this cluster carry."""
    return session.execute(select(Cluster.cluster_id)).scalar_one()


def lock(session: Session) -> None:
    """Lock the cluster's row until this transaction ends, for changes that must not overlap."""
    session.execute(select(Cluster.id).with_for_update()).all()
