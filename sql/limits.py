"""Limits that jobs share: what they are, what runs hold of them, and who waits.

A claim takes places, and the end of a run gives them back. A claim locks the limits that it needs
in the order of their ids, before it counts what is held. So two schedulers never both take the last
place. Giving back locks no limit: a claim that does not see it yet only counts too much.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import and_, delete, func, or_, select, update
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
from warren.sql.listings import recent
from warren.sql.models import App, Hold, Job, Limit, Run
from warren.sql.rows import fetch, query
from warren.sql.run_status import FINAL, IN_FLIGHT, RunStatus
from warren.sql.runs.run_rows import DetailedRun


class LimitedJob(NamedTuple):
    """A job that names limits, as its field says."""

    id: int
    app_id: int
    app: str
    name: str
    limits: str


def all_named(session: Session) -> Sequence[Limit]:
    """Return all limits that have a name, by name."""
    named = select(Limit).where(Limit.name.is_not(None)).order_by(Limit.name)
    return session.execute(named).scalars().all()


def lock_named(session: Session, names: Iterable[str]) -> dict[str, Limit]:
    """Lock limits by name, in the order of their ids, and return those that exist."""
    known = select(Limit.id).where(Limit.name.in_(sorted(names)))
    ids = sorted(session.execute(known).scalars())
    rows = select(Limit).where(Limit.id.in_(ids)).order_by(Limit.id).with_for_update()
    # What this session read before the lock may be outdated.
    locked = session.execute(rows.execution_options(populate_existing=True)).scalars()
    return {limit.name: limit for limit in locked if limit.name is not None}


def add(session: Session, name: str, columns: Mapping[str, Any]) -> Limit:
    """Insert a limit, whose bucket is full."""
    limit = Limit(name=name, **columns)
    session.add(limit)
    session.flush()
    return limit


def change(session: Session, limit_id: int, columns: Mapping[str, Any]) -> None:
    """Change a locked limit; its bucket begins full if its rate changes."""
    session.execute(
        update(Limit).where(Limit.id == limit_id).values(**columns),
        execution_options={"synchronize_session": False},
    )


def remove(session: Session, limit_id: int) -> None:
    """Delete a limit that no run holds."""
    session.execute(delete(Limit).where(Limit.id == limit_id))


def forget_job(session: Session, job_id: int) -> None:
    """Delete a job's own limit; what its last runs hold of it goes when they have ended."""
    session.execute(delete(Limit).where(Limit.job_id == job_id))


def jobs_naming(session: Session) -> list[LimitedJob]:
    """Return the jobs that name limits, by app and name."""
    named = query(LimitedJob, Job, app=App.name).join(App, App.id == Job.app_id)
    return fetch(
        session, LimitedJob, named.where(Job.limits.is_not(None)).order_by(App.name, Job.name)
    )


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


class HoldingRun(NamedTuple):
    """A run that holds a limit; `job` and `app` are None if they were deleted."""

    limit_id: int
    weight: int
    id: int
    app_id: int
    app: str | None
    job: str | None
    status: str
    routed_at: int | None


def holding(session: Session, limit_ids: Iterable[int], *, most: int) -> list[HoldingRun]:
    """Return the runs that hold these limits, those that have held longest first."""
    named = {"limit_id": Hold.limit_id, "weight": Hold.weight, "app": App.name, "job": Job.name}
    statement = (
        query(HoldingRun, Run, **named)
        .join(Hold, Hold.run_id == Run.id)
        .outerjoin(Job, Job.id == Run.job_id)
        .outerjoin(App, App.id == Run.app_id)
        .where(Hold.limit_id.in_(sorted(limit_ids)))
        .order_by(Run.routed_at, Run.id)
    )
    return fetch(session, HoldingRun, statement.limit(most))


def queue(
    session: Session,
    app_ids: Collection[int] | None,
    job_ids: Collection[int] | None,
    *,
    now_ms: int,
    most: int,
    after: tuple[int, int] | None = None,
) -> list[DetailedRun]:
    """Return PLANNED runs that are due, the longest waiting first; None = of all apps or jobs.

    `after` are `due_at` and id of the run that the list continues after.
    """
    due = select(Run.id).where(Run.status == RunStatus.PLANNED, Run.due_at <= now_ms)
    if app_ids is not None:
        due = due.where(Run.app_id.in_(sorted(app_ids)))
    if job_ids is not None:
        due = due.where(Run.job_id.in_(sorted(job_ids)))
    if after is not None:
        due_at, run_id = after
        is_later = and_(Run.due_at == due_at, Run.id > run_id)
        due = due.where(Run.due_at >= due_at, or_(Run.due_at > due_at, is_later))
    first = session.execute(due.order_by(Run.due_at, Run.id).limit(most))
    return recent.by_ids(session, list(first.scalars()))


#: The most of each kind that are named.
MAX_NAMED = 100


class Damage(NamedTuple):
    """A hold of a run that does not hold it, a run without its holds, or a limit that is overfull.

    `limit` is None for a job's own, `run_id` for an overfull limit.
    """

    what: str
    limit: str | None
    run_id: int | None


ENDED, MISSING, OVERFULL = "ended", "missing", "overfull"


def find_damage(session: Session) -> list[Damage]:
    """Return the damage; each statement sees one instant, so that no claim looks like damage."""
    ended = (
        select(Limit.name, Hold.run_id)
        .select_from(Hold)
        .outerjoin(Limit, Limit.id == Hold.limit_id)
        .outerjoin(Run, Run.id == Hold.run_id)
        .where(or_(Run.id.is_(None), Run.status.in_(FINAL), Run.holds.is_(None)))
    )
    missing = (
        select(Run.id)
        .outerjoin(Hold, Hold.run_id == Run.id)
        .where(Run.status.in_(IN_FLIGHT), Run.holds.is_not(None))
        .group_by(Run.id, Run.holds)
        .having(func.count(Hold.limit_id) < Run.holds)
    )
    # A limit that was lowered may be overfull until its runs have ended, but none started since.
    overfull = (
        select(Limit.name)
        .join(Hold, Hold.limit_id == Limit.id)
        .join(Run, Run.id == Hold.run_id)
        .where(Limit.at_once.is_not(None))
        .group_by(Limit.id, Limit.name, Limit.at_once, Limit.changed_at)
        .having(func.sum(Hold.weight) > Limit.at_once, func.max(Run.routed_at) > Limit.changed_at)
    )
    return [
        *(Damage(ENDED, name, run_id) for name, run_id in session.execute(ended.limit(MAX_NAMED))),
        *(
            Damage(MISSING, None, run_id)
            for run_id in session.execute(missing.limit(MAX_NAMED)).scalars()
        ),
        *(
            Damage(OVERFULL, name, None)
            for name in session.execute(overfull.limit(MAX_NAMED)).scalars()
        ),
    ]
