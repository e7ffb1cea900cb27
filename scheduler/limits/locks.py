"""Locks the limits that a claim needs, so that no other scheduler takes the same room."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

import structlog
from sqlalchemy.orm import Session

from warren.broker.messages import Block
from warren.scheduler.limits.room import ClusterLane, LimitNeed, LimitRoom, LimitState, age_of
from warren.scheduler.limits.specs import stored_uses
from warren.sql.jobs.job_rows import JobToRun
from warren.sql.limits import holds
from warren.sql.limits.holds import Holder, LimitRow
from warren.sql.models import Job
from warren.sql.models.job_tables import Scope
from warren.sql.runs import due_runs, waiting
from warren.sql.runs.run_rows import PlannedRun

log = structlog.get_logger()

#: A limit's name, or the id of the job whose own limit it is.
Key = str | int


class LimitLocks:
    """Knows the ids of limits; used by one thread.

    A cached id may belong to a limit that was deleted since; then it is looked up again.
    """

    def __init__(self) -> None:
        self._ids: dict[Key, int] = {}

    def lock(
        self,
        session: Session,
        jobs: Mapping[int, JobToRun],
        runs: Sequence[PlannedRun],
        now_ms: int,
    ) -> LimitRoom:
        """Return the room for these runs of one app, locked until the transaction ends."""
        due = [jobs[job_id] for job_id in {run.job_id for run in runs} if job_id in jobs]
        limited = [job for job in due if is_limited(job)]
        crowding = {job.id: job.concurrency for job in due if job.max_waiting}
        room = LimitRoom(now_ms=now_ms)
        if crowding:
            last_ms = max(run.due_at for run in runs)
            ids = [run.id for run in runs]
            room.waiting = waiting.of_jobs(
                session, runs[0].app_id, crowding, until_ms=last_ms, without_runs=ids
            )
        return self._locked(session, room, limited, runs) if limited else room

    def _locked(
        self,
        session: Session,
        room: LimitRoom,
        limited: Sequence[JobToRun],
        runs: Sequence[PlannedRun],
    ) -> LimitRoom:
        jobs = {job.id: job for job in limited}
        keys = {key for job in limited for key, _ in _needs(job)}
        rows = self._lock(session, keys)
        held = holds.held(session, [row.id for row in rows.values()]) if rows else {}
        limits = {}
        for key, row in rows.items():
            at_once = max(1, jobs[key].concurrency) if isinstance(key, int) else None
            state = LimitState.at(row, held.get(row.id, 0), room.now_ms, at_once=at_once)
            limits[row.id] = state
        ids = {key: row.id for key, row in rows.items()}
        return replace(
            room,
            limits=limits,
            needs={
                job.id: tuple(
                    LimitNeed(str(key), ids.get(key), weight) for key, weight in _needs(job)
                )
                for job in limited
            },
            lanes=_lanes(
                session,
                {ids[job.id]: job for job in limited if job.scope == Scope.CLUSTER},
                runs,
                held,
            ),
        )

    def _lock(self, session: Session, keys: Collection[Key]) -> dict[Key, LimitRow]:
        """Lock the limits that exist, all at once if their ids are known or new."""
        self._find(session, [key for key in keys if key not in self._ids])
        rows = _by_key(holds.lock(session, [self._ids[key] for key in keys if key in self._ids]))
        if outdated := [key for key in keys if key in self._ids and key not in rows]:
            for key in outdated:
                del self._ids[key]
            self._find(session, outdated)
            ids = [self._ids[key] for key in outdated if key in self._ids]
            rows |= _by_key(holds.lock(session, ids))
        return rows

    def _find(self, session: Session, keys: Collection[Key]) -> None:
        self._ids |= _ids(session, keys)


def _ids(session: Session, keys: Collection[Key]) -> dict[Key, int]:
    ids: dict[Key, int] = {}
    if names := [key for key in keys if isinstance(key, str)]:
        ids.update(holds.ids_by_name(session, names).items())
    if job_ids := [key for key in keys if isinstance(key, int)]:
        ids.update(holds.ids_of_jobs(session, job_ids).items())
    return ids


def count_going(
    session: Session,
    jobs: Iterable[JobToRun | Job],
    *,
    now_ms: int,
    named: Collection[str] | None = None,
) -> None:
    """Record that jobs' runs at executors hold what a run takes now.

    They may have been sent before the job took a limit, or before the limit had `at_once`. `named`
    are the limits to consider, locked by the caller; None = all that the jobs take.
    """
    needs = {
        job.id: [need for need in _needs(job) if named is None or need[0] in named] for job in jobs
    }
    keys = {key for of_job in needs.values() for key, _ in of_job}
    ids = _ids(session, keys)
    if not ids:
        return
    rows = _by_key(holds.lock(session, list(ids.values())))
    held = {key: row.id for key, row in rows.items() if row.at_once or row.job_id}
    uses = {
        job_id: {held[key]: weight for key, weight in of_job if key in held}
        for job_id, of_job in needs.items()
    }
    if new := holds.hold_going(session, uses, now_ms=now_ms):
        log.info("going_runs_counted", runs=len({hold.run_id for hold in new}))


def is_limited(job: JobToRun) -> bool:
    """Whether runs of a job take of limits."""
    return bool(job.limits) or job.scope == Scope.CLUSTER


def _needs(job: JobToRun | Job) -> list[tuple[Key, int]]:
    own: list[tuple[Key, int]] = [(job.id, 1)] if job.scope == Scope.CLUSTER else []
    return own + [(use.name, use.weight) for use in stored_uses(job.limits)]


def _by_key(rows: Sequence[LimitRow]) -> dict[Key, LimitRow]:
    return {row.job_id if row.name is None else row.name: row for row in rows}  # type: ignore[misc] # one of both is set


def _lanes(
    session: Session,
    jobs: Mapping[int, JobToRun],
    runs: Sequence[PlannedRun],
    held: Mapping[int, int],
) -> dict[int, ClusterLane]:
    """Return the lanes of jobs, which are given by the ids of their own limits."""
    if not jobs:
        return {}
    covering = [limit_id for limit_id, job in jobs.items() if job.block == Block.COVER_EARLY]
    at_work: dict[int, list[Holder]] = defaultdict(list)
    for holder in holds.holders(session, covering) if covering else ():
        at_work[holder.limit_id].append(holder)
    job_ids = {job.id for job in jobs.values()}
    own = [run for run in runs if run.job_id in job_ids]
    ahead = due_runs.waiting_counts(
        session,
        own[0].app_id,
        job_ids,
        # Of those that are due together, any may go first.
        until_ms=max(run.due_at for run in own) - 1,
        without_runs=[run.id for run in own],
    )
    lanes = {}
    for limit_id, job in jobs.items():
        running = [run for run in at_work[limit_id] if run.kill_requested_at is None]
        lanes[job.id] = ClusterLane(
            block=Block(job.block),
            most=max(1, job.concurrency),
            running={(run.scheduled_at, run.run_id) for run in running},
            # Only a job that covers needs to know which they are.
            stopping=held.get(limit_id, 0) - len(running),
            ahead=ahead.get(job.id, 0),
            claimed={age_of(run) for run in own if run.job_id == job.id},
        )
    return lanes
