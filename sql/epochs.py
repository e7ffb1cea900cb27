"""Epochs of run ids: a new one begins when the counter of ids is found behind ids in use.

That happens after a failover that lost commits, a restore, or a change by hand. Ids of an epoch
begin far beyond those of the epoch before, so that no two runs share an id.
"""

from enum import StrEnum
from typing import NamedTuple

from sqlalchemy import func, select, text, update
from sqlalchemy.orm import Session

from warren.sql.dialects.supported import of
from warren.sql.instants import HOUR_MS
from warren.sql.models import Backfill, Cluster, Epoch, FlowNode, Run, Sequence
from warren.sql.rows import fetch, query

#: The tables whose rows have ids of the counter.
TABLES = (Run, FlowNode, Backfill)
#: At least this many ids are left out, because it is unknown which were used: two days' worth at
#: 5,000 runs a second. Ids of an epoch begin at a multiple of it.
LEFT_OUT = 1_000_000_000
#: No process has ids further ahead of the counter: a report of one is wrong or malicious.
BELIEVED = 100 * LEFT_OUT
#: How many epochs begin within an hour because of executors: whoever has an app's key could use up
#: the ids of all apps.
TOLD_LIMIT = 10


#: How a statement begins that inserts such rows.
_INSERTS = tuple(f"INSERT INTO {each.__tablename__} " for each in TABLES)


class Cause(StrEnum):
    """What showed that the counter had gone back."""

    #: A row has an id that the counter reused, or a process has seen a higher one.
    COUNTER = "COUNTER"
    #: An executor knows of a higher id.
    EXECUTOR = "EXECUTOR"
    #: A person said that the database was restored.
    RESTORED = "RESTORED"
    #: Another server took the place of the one that the database was written on.
    PROMOTED = "PROMOTED"


#: A server whose database lacks the newest epoch of these has been replaced by another one.
OF_SERVERS = (Cause.PROMOTED, Cause.RESTORED)


class EpochRow(NamedTuple):
    """An epoch, see `Epoch`."""

    began_at: int
    cause: str
    told_by: str
    found_id: int
    next_id: int


def begin(
    session: Session, cause: Cause, *, seen_id: int = 0, twice_id: int = 0, told_by: str = ""
) -> EpochRow | None:
    """Begin an epoch if the counter is not beyond all ids that are in use; else return None.

    `seen_id` is the highest id seen anywhere; `twice_id`, one of this epoch that two runs have. A
    restore and a promotion always begin one, and executors TOLD_LIMIT an hour at most.
    """
    row = select(Sequence.next_id).where(Sequence.name == "run").with_for_update()
    found_id = session.execute(row).scalar_one()
    stored = max(session.execute(select(func.max(each.id))).scalar() or 0 for each in TABLES)
    used = max(seen_id if seen_id < found_id + BELIEVED else 0, stored)
    began_at, first_id = newest(session)
    is_twice = first_id <= twice_id < found_id
    if used < found_id and not is_twice and cause not in OF_SERVERS:
        return None
    now_ms = int(session.execute(text(f"SELECT {of(session).now_ms}")).scalar_one())
    is_only_told = cause is Cause.EXECUTOR and stored < found_id
    if is_only_told and _count_told(session, since_ms=now_ms - HOUR_MS) >= TOLD_LIMIT:
        return None
    next_id = (max(used, found_id) // LEFT_OUT + 2) * LEFT_OUT
    session.execute(update(Sequence).where(Sequence.name == "run").values(next_id=next_id))
    # An id that was given out twice says that the counter had been there again.
    found_id = twice_id if is_twice else found_id
    epoch = EpochRow(max(now_ms, began_at + 1), cause, told_by, found_id, next_id)
    session.add(Epoch(**epoch._asdict()))
    return epoch


def _count_told(session: Session, *, since_ms: int) -> int:
    """Return how many epochs have begun since then because of executors."""
    told = (Epoch.cause == Cause.EXECUTOR, Epoch.began_at > since_ms)
    return session.execute(select(func.count(Epoch.began_at)).where(*told)).scalar_one()


def take_over(session: Session, server: str, told_by: str, *, seen_id: int = 0) -> int:
    """Record the server that the database is written on from now on; return its newest epoch.

    If it was another one, an epoch begins, unless another process has begun it.
    """
    counter = select(Sequence.next_id).where(Sequence.name == "run").with_for_update()
    session.execute(counter).all()  # one process at a time
    before = session.execute(select(Cluster.server)).scalar()
    if before != server:
        session.execute(update(Cluster).values(server=server))
        if before is not None:
            words = f"{told_by}, before it {before}"
            begin(session, Cause.PROMOTED, seen_id=seen_id, told_by=words)
            session.flush()
    return newest_of_servers(session)


def newest_of_servers(session: Session) -> int:
    """Return when the newest epoch began that changed servers; 0 = none did."""
    newest_one = select(func.coalesce(func.max(Epoch.began_at), 0))
    return int(session.execute(newest_one.where(Epoch.cause.in_(OF_SERVERS))).scalar_one())


def newest(session: Session) -> tuple[int, int]:
    """Return when the newest epoch began, and its first id; 0 and 1 if no counter went back."""
    began_at, first_id = func.max(Epoch.began_at), func.max(Epoch.next_id)
    row = select(func.coalesce(began_at, 0), func.coalesce(first_id, 1))
    began_at_ms, first = session.execute(row).one()
    return int(began_at_ms), int(first)


def is_of_counter(statement: str | None) -> bool:
    """Whether a statement inserts rows with ids of the counter."""
    return statement is not None and statement.startswith(_INSERTS)


def all_epochs(session: Session, *, since_ms: int = 0) -> list[EpochRow]:
    """Return the epochs that began since then, the oldest first; none if no counter went back."""
    wanted = query(EpochRow, Epoch).where(Epoch.began_at >= since_ms)
    return fetch(session, EpochRow, wanted.order_by(Epoch.began_at))


def count_between(session: Session, epoch: EpochRow) -> int:
    """Return how many runs have ids that were given out a second time until an epoch began."""
    again = Run.id.between(epoch.found_id, epoch.next_id - 1)
    return session.execute(select(func.count()).select_from(Run).where(again)).scalar_one()
