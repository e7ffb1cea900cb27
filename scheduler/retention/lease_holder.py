"""Lets only one scheduler at a time do a role's work."""

from warren.sql.engine import Database
from warren.sql.registry import cluster

#: Longer than the longest wait between two rounds of the role.
LEASE_MS = 15_000


class LeaseHolder:
    """Takes and keeps a lease for one scheduler.

    Args:
        name: the lease's name.
        node: this scheduler's name.
        database: where leases are stored.

    """

    def __init__(self, name: str, *, node: str, database: Database) -> None:
        self._name = name
        self._node = node
        self._database = database

    def take(self, now_ms: int) -> bool:
        """Take or renew the lease; return False while another scheduler holds it."""
        return self._database.write(
            lambda session: cluster.hold(
                session, self._name, self._node, now_ms=now_ms, until_ms=now_ms + LEASE_MS
            )
        )

    def release(self) -> None:
        """Release the lease, so that another scheduler can take it at once."""
        self._database.write(lambda session: cluster.release(session, self._name, self._node))
