"""What runs hold of limits: a claim takes it, and the end of a run gives it back.

A claim locks the limits that it needs in the order of their ids, before it counts what is held. So
two schedulers never both take the last place. Giving back locks no limit: a claim that does not see
it yet only counts too much.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import delete, func, select, update
from sqlalchemy.orm import Session

from warren.sql.batch import (
    ALREADY_LOCKED,
    chunks,
    insert_or_ignore,
    lock_rows,
    modify_by_ids,
    update_each,
)
from warren.sql.dialects.dialect import Locking
from warren.sql.models import Hold, Job, Limit, Run
from warren.sql.rows import fetch, query
from warren.sql.run_status import IN_FLIGHT


class LimitRow(NamedTuple):
    """A limit as it is stored; see `warren.sql.models.job_tables.Limit`."""

    id: int
    name: str | None
    job_id: int | None
    at_once: int | None
    rate: int | None
    per_ms: int | None
    tokens: float | None
    refilled_at: int | None


class Holder(NamedTuple):
    """A run that holds a limit, with its age and whether it is being ended."""

    limit_id: int
    run_id: int
    scheduled_at: int
    kill_requested_at: int | None


class NewHold(NamedTuple):
    """What a run takes of a limit."""

    limit_id: int
    run_id: int
    weight: int


class Bucket(NamedTuple):
    """The tokens that a limit's bucket has at an instant."""

    limit_id: int
    tokens: float
    refilled_at: int


def ids_by_name(session: Session, names: Iterable[str]) -> dict[str, int]:
    """Return the ids of the limits that exist, by name."""
    return {
        name: limit_id
        for chunk in chunks(sorted(names))
        for name, limit_id in session.execute(
            select(Limit.name, Limit.id).where(Limit.name.in_(chunk))
        )
        if name is not None
    }


def ids_of_jobs(session: Session, job_ids: Iterable[int]) -> dict[int, int]:
    """Return the id of each job's own limit, by job; a missing one is inserted."""
    wanted = sorted(job_ids)
    ids = known_ids_of_jobs(session, wanted)
    if missing := [job_id for job_id in wanted if job_id not in ids]:
        insert_or_ignore(
            session, Limit, [{"job_id": job_id, "changed_at": 0} for job_id in missing]
        )
        ids |= known_ids_of_jobs(session, missing)
    return ids


def known_ids_of_jobs(session: Session, job_ids: Iterable[int]) -> dict[int, int]:
    """Return the id of each job's own limit, by job; of jobs that never needed it there is none."""
    return {
        job_id: limit_id
        for chunk in chunks(sorted(job_ids))
        for job_id, limit_id in session.execute(
            select(Limit.job_id, Limit.id).where(Limit.job_id.in_(chunk))
        )
        if job_id is not None
    }


def lock(session: Session, limit_ids: Collection[int]) -> list[LimitRow]:
    """Lock limits in the order of their ids and return them; some may be gone."""
    return lock_rows(session, LimitRow, Limit, sorted(limit_ids), _IN_ORDER)


def held(session: Session, limit_ids: Collection[int]) -> dict[int, int]:
    """Return how much of each limit is held; those with no holds are left out."""
    rows = session.execute(
        select(Hold.limit_id, func.sum(Hold.weight))
        .where(Hold.limit_id.in_(sorted(limit_ids)))
        .group_by(Hold.limit_id)
    )
    return {limit_id: int(weight) for limit_id, weight in rows}


def holders(session: Session, limit_ids: Collection[int]) -> list[Holder]:
    """Return the runs that hold these limits, oldest first."""
    statement = query(Holder, Run, limit_id=Hold.limit_id, run_id=Run.id)
    statement = statement.join(Hold, Hold.run_id == Run.id)
    wanted = statement.where(Hold.limit_id.in_(sorted(limit_ids)))
    return fetch(session, Holder, wanted.order_by(Run.scheduled_at, Run.id))


def take(session: Session, holds: Sequence[NewHold], buckets: Sequence[Bucket]) -> None:
    """Store what claimed runs take; their limits are locked."""
    if holds:
        insert_or_ignore(session, Hold, [hold._asdict() for hold in holds], key="run_id")
    rows = [
        {"id": bucket.limit_id, "tokens": bucket.tokens, "refilled_at": bucket.refilled_at}
        for bucket in buckets
    ]
    update_each(session, Limit, rows, guard=ALREADY_LOCKED)


def jobs_going(session: Session) -> set[int]:
    """Return the ids of the jobs that have runs at executors."""
    going = select(Run.job_id).where(Run.status.in_(IN_FLIGHT)).distinct()
    return set(session.execute(going).scalars())


def hold_going(
    session: Session, uses: Mapping[int, Mapping[int, int]], *, now_ms: int
) -> list[NewHold]:
    """Record that jobs' runs at executors hold these locked limits; return the new holds.

    Args:
        session: whose transaction changes the limits, or what the jobs take.
        uses: how much of each limit a run takes, by the ids of job and limit.
        now_ms: since when the limits may be overfull.

    """
    wanted = {
        (limit_id, run_id): weight
        for chunk in chunks(sorted(uses))
        for run_id, job_id in session.execute(
            select(Run.id, Run.job_id).where(Run.status.in_(IN_FLIGHT), Run.job_id.in_(chunk))
        )
        for limit_id, weight in uses[job_id].items()
    }
    held = select(Hold.limit_id, Hold.run_id)
    for chunk in chunks(sorted({limit_id for limit_id, _ in wanted})):
        for limit_id, run_id in session.execute(held.where(Hold.limit_id.in_(chunk))):
            wanted.pop((limit_id, run_id), None)
    # Those that end meanwhile give back only what they had.
    going = {
        run_id
        for chunk in chunks(sorted({run_id for _, run_id in wanted}))
        for run_id in session.execute(
            select(Run.id)
            .where(Run.id.in_(chunk), Run.status.in_(IN_FLIGHT))
            .order_by(Run.id)
            .with_for_update()
        ).scalars()
    }
    new = [NewHold(*key, weight) for key, weight in sorted(wanted.items()) if key[1] in going]
    if not new:
        return []
    insert_or_ignore(session, Hold, [hold._asdict() for hold in new], key="run_id")
    count = select(func.count()).where(Hold.run_id == Run.id).scalar_subquery()
    modify_by_ids(session, Run, sorted(going), update(Run).values(holds=count))
    overfull = sorted({hold.limit_id for hold in new})
    modify_by_ids(session, Limit, overfull, update(Limit).values(changed_at=now_ms))
    return new


def give_back(session: Session, run_ids: Iterable[int]) -> None:
    """Delete what runs hold, in the transaction that ends them."""
    for chunk in chunks(sorted(run_ids)):
        session.execute(
            delete(Hold).where(Hold.run_id.in_(chunk)),
            execution_options={"synchronize_session": False},
        )


def room(session: Session, limit_ids: Collection[int]) -> dict[int, tuple[LimitRow, int]]:
    """Return limits as they are now, without locks, and how much of each is held.

    A job's own limit has the job's concurrency.
    """
    at_once = func.coalesce(Limit.at_once, Job.concurrency)
    wanted = query(LimitRow, Limit, at_once=at_once).outerjoin(Job, Job.id == Limit.job_id)
    rows = fetch(session, LimitRow, wanted.where(Limit.id.in_(sorted(limit_ids))))
    weights = held(session, limit_ids)
    return {row.id: (row, weights.get(row.id, 0)) for row in rows}


_IN_ORDER = Locking(guard="1 = 1", order="id")
