"""The cluster's row, with its id and secrets, and leases for work of one process at a time."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import or_, select, update
from sqlalchemy.orm import Session

from warren.sql.batch import insert_or_ignore, modify
from warren.sql.engine import Database
from warren.sql.errors import SecretMismatch
from warren.sql.models import Cluster, Lease


def hold(session: Session, name: str, holder: str, *, now_ms: int, until_ms: int) -> bool:
    """Take a free or expired lease, or renew one's own; return whether `holder` has it now."""
    may_take = or_(Lease.holder.is_(None), Lease.holder == holder, Lease.until_at <= now_ms)
    if _change(session, name, may_take, holder=holder, until_at=until_ms):
        return True
    row = {"lock_name": name, "holder": holder, "until_at": until_ms}
    insert_or_ignore(session, Lease, [row], key="lock_name")
    present = select(Lease.holder).where(Lease.lock_name == name)
    return session.execute(present).scalar_one() == holder


def release(session: Session, name: str, holder: str) -> None:
    """Release a lease, if `holder` has it."""
    _change(session, name, Lease.holder == holder, holder=None, until_at=0)


def _change(session: Session, name: str, condition: Any, **values: Any) -> bool:
    statement = update(Lease).where(Lease.lock_name == name, condition).values(**values)
    return modify(session, statement) > 0


#: Two secrets are valid while one replaces the other.
FINGERPRINT_LIMIT = 2


def cluster_id(session: Session) -> str:
    """Return the id that all messages of this cluster carry."""
    return session.execute(select(Cluster.cluster_id)).scalar_one()


def lock(session: Session) -> None:
    """Lock the cluster's row until this transaction ends, for changes that must not overlap."""
    session.execute(select(Cluster.id).with_for_update()).all()


def fingerprints(session: Session) -> tuple[str, ...]:
    """Return the fingerprints of the secrets in use: none before the first process, two at most."""
    row = session.execute(select(Cluster.secret_fingerprint, Cluster.other_fingerprint)).one()
    return tuple(fingerprint for fingerprint in row if fingerprint)


def join(session: Session, own: Sequence[str]) -> None:
    """Admit a process by the fingerprints of its secret and of its previous one, if any.

    One of them must be in use already; its own is in use from then on.

    Raises:
        SecretMismatch: it has none of the secrets in use, or its own would be a third one.

    """
    if own[0] in fingerprints(session):
        return
    lock(session)
    known = fingerprints(session)
    if not known:
        _keep(session, own)
        return
    if not set(own) & set(known):
        raise SecretMismatch(
            "WARREN_SECRET is not the secret of this cluster's other schedulers and consoles: "
            "give all of them the same one; if theirs is lost: warren secrets reset"
        )
    if own[0] in known:
        return
    if len(known) == FINGERPRINT_LIMIT:
        raise SecretMismatch(
            "this cluster is still changing from another secret: once no process has that any "
            "more, run `warren secrets retire`, and then start with a new one"
        )
    _keep(session, [own[0], *known])


def retire(session: Session, own: str) -> int:
    """Forget every secret but the one with this fingerprint; return how many were forgotten.

    Raises:
        SecretMismatch: that one is not in use.

    """
    lock(session)
    known = fingerprints(session)
    if own not in known:
        raise SecretMismatch(
            "WARREN_SECRET is none of the secrets in use, so no other can be retired"
        )
    _keep(session, [own])
    return len(known) - 1


def reset(session: Session, own: str) -> None:
    """Forget every secret, known or lost, but the one with this fingerprint."""
    _keep(session, [own])


def _keep(session: Session, wanted: Sequence[str]) -> None:
    first, other = (*wanted, None)[:2]
    session.execute(update(Cluster).values(secret_fingerprint=first, other_fingerprint=other))


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
            lambda session: hold(
                session, self._name, self._node, now_ms=now_ms, until_ms=now_ms + LEASE_MS
            )
        )

    def release(self) -> None:
        """Release the lease, so that another scheduler can take it at once."""
        self._database.write(lambda session: release(session, self._name, self._node))
