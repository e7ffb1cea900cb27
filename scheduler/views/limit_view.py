"""Limits as shown to users: how full they are, who holds them, and what runs wait for.

What belongs to apps that a user may not see is counted, but not named.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from sqlalchemy.orm import Session

from warren.broker import durations
from warren.broker.reasons import Reason, Why, Words
from warren.resources.limits import Limit, LimitedJob, LimitHolder
from warren.scheduler.actor import Actor
from warren.scheduler.limits import LimitState, stored_uses
from warren.scheduler.views.process_view import executor_views, read_schedulers
from warren.sql import limits
from warren.sql.limits import HoldingRun
from warren.sql.limits import LimitedJob as LimitedJobRow
from warren.sql.listings import dashboard
from warren.sql.models.job_tables import Scope
from warren.sql.registry.presence import ProcessState
from warren.sql.run_status import RunStatus
from warren.sql.runs import due_runs
from warren.sql.runs.run_rows import DetailedRun

#: The most runs that are named of those that hold limits.
MAX_HOLDERS = 1_000


def read(session: Session, actor: Actor, *, now_ms: int, name: str | None = None) -> list[Limit]:
    """Return limits by name, as this actor may see them; `name` = only that one."""
    rows = [row for row in limits.all_named(session) if name in (None, row.name)]
    ids = [row.id for row in rows]
    if not ids:
        return []
    room = limits.room(session, ids)
    by_limit: dict[int, list[LimitHolder]] = defaultdict(list)
    for run in limits.holding(session, ids, most=MAX_HOLDERS):
        by_limit[run.limit_id].append(_holder(run, actor))
    naming = [
        (job, use.name, use.weight)
        for job in limits.jobs_naming(session)
        for use in stored_uses(job.limits)
    ]
    seen = [job for job, _, _ in naming if actor.knows_job(job.app_id, job.id)]
    waiting: dict[int, int] = {}
    for app_id in {job.app_id for job in seen}:
        ids_of_app = {job.id for job in seen if job.app_id == app_id}
        waiting |= due_runs.waiting_counts(session, app_id, ids_of_app, until_ms=now_ms)
    views = []
    for row in rows:
        own = [(job, weight) for job, limit, weight in naming if limit == row.name]
        shown = [_job(job, weight, waiting) for job, weight in own if job in seen]
        stored, held = room[row.id]
        state = LimitState.at(stored, held, now_ms)
        views.append(
            Limit(
                name=row.name or "",
                at_once=row.at_once,
                rate=row.rate,
                per=None if row.per_ms is None else durations.shown(row.per_ms // 1_000),
                held=held,
                left=None if state.rate is None else int(state.tokens),
                held_by=by_limit[row.id],
                jobs=shown,
                other_jobs=len(own) - len(shown),
            )
        )
    return views


def _holder(run: HoldingRun, actor: Actor) -> LimitHolder:
    """Return a run that holds a limit, as an actor may see it."""
    shown = run if actor.knows(run.app_id) else None
    return LimitHolder(
        run=shown and shown.id,
        app=shown and shown.app,
        job=shown and shown.job,
        status=shown and shown.status,
        weight=run.weight,
    )


def _job(job: LimitedJobRow, weight: int, waiting: Mapping[int, int]) -> LimitedJob:
    return LimitedJob(
        id=job.id, app=job.app, job=job.name, weight=weight, waiting=waiting.get(job.id, 0)
    )


#: How many runs are named of those that hold a limit, and how many are read.
NAMED = 3


def may_wait(run: DetailedRun, now_ms: int) -> bool:
    """Whether a run is due, not sent, and takes limits."""
    is_due = run.status == RunStatus.PLANNED and run.due_at <= now_ms
    return is_due and bool(run.limits or run.scope == Scope.CLUSTER)


#: A run that is due for less than this is on its way, and nobody is asked about the broker.
BROKER_MS = 1_000


def waits_for(
    session: Session, runs: Iterable[DetailedRun], actor: Actor, *, now_ms: int
) -> dict[int, list[Reason]]:
    """Return what runs wait for, by run: full limits, queues that cannot be reached, the broker.

    Runs that wait for none are left out.
    """
    due = [run for run in runs if run.status == RunStatus.PLANNED and run.due_at <= now_ms]
    if not due:
        return {}
    reasons = defaultdict(list, _full_limits(session, due, actor, now_ms))
    late = [run for run in due if run.due_at <= now_ms - BROKER_MS]
    for run_id, reason in _of_broker(session, late, now_ms) if late else ():
        reasons[run_id].append(reason)
    return dict(reasons)


def _of_broker(
    session: Session, due: Iterable[DetailedRun], now_ms: int
) -> Iterator[tuple[int, Reason]]:
    """Yield the runs that are held back because the broker does not get messages to executors."""
    schedulers = read_schedulers(session, now_ms)
    if schedulers.is_stalled:
        yield from ((run.id, Why.WAITS_FOR_BROKER()) for run in due)
    elif schedulers.unreachable:
        executors = executor_views(
            dashboard.executors(session, None),
            {},
            now_ms,
            unreachable=schedulers.unreachable,
        )
        alive = [each for each in executors if each.state is ProcessState.ALIVE]
        for run in due:
            wanted = run.wanted_addresses.split(",") if run.wanted_addresses else ()
            meant = [
                each
                for each in alive
                if each.app == run.app and (not wanted or each.address in wanted)
            ]
            if meant and all(each.key in schedulers.unreachable for each in meant):
                names = ", ".join(each.address for each in meant[:NAMED])
                yield run.id, Why.WAITS_FOR_QUEUES(addresses=names)


def _full_limits(
    session: Session, due: Iterable[DetailedRun], actor: Actor, now_ms: int
) -> dict[int, list[Reason]]:
    waiting = [run for run in due if may_wait(run, now_ms)]
    if not waiting:
        return {}
    names = {use.name for run in waiting for use in stored_uses(run.limits)}
    by_name = limits.ids_by_name(session, names) if names else {}
    own = limits.known_ids_of_jobs(
        session, {run.job_id for run in waiting if run.scope == Scope.CLUSTER}
    )
    ids = {*by_name.values(), *own.values()}
    room = limits.room(session, ids)
    holders: dict[int, list[LimitHolder]] = defaultdict(list)
    for held_by in limits.holding(session, ids, most=MAX_HOLDERS):
        holders[held_by.limit_id].append(_holder(held_by, actor))
    states = {limit_id: LimitState.at(row, held, now_ms) for limit_id, (row, held) in room.items()}
    reasons: dict[int, list[Reason]] = {}
    for run in waiting:
        needs: list[tuple[Words, int | None, int]] = [
            (use.name, by_name.get(use.name), use.weight) for use in stored_uses(run.limits)
        ]
        if run.scope == Scope.CLUSTER:
            needs.append((Why.OTHER_RUNS_OF_JOB(), own.get(run.job_id), 1))
        full = [
            _reason(name, states[limit_id], holders[limit_id])
            for name, limit_id, weight in needs
            if limit_id in states and not states[limit_id].has_room(weight)
        ]
        if full:
            reasons[run.id] = full
    return reasons


def in_words(reasons: Mapping[int, Sequence[Reason]], run_id: int) -> list[str]:
    """Return what a run waits for, in English."""
    return [str(reason) for reason in reasons.get(run_id, ())]


def _reason(name: Words, state: LimitState, holders: Sequence[LimitHolder]) -> Reason:
    if state.at_once is None or (state.rate is not None and state.held < state.at_once):
        per = durations.shown(state.per_ms // 1_000)
        return Why.WAITS_FOR_RATE(name=name, rate=state.rate or 0, per=per)
    known = [f"{holder.job or ''} #{holder.run}".strip() for holder in holders if holder.run]
    if not known:
        return Why.WAITS_FOR_LIMIT(name=name, held=state.held, most=state.at_once)
    more = ", …" if len(holders) > min(NAMED, len(known)) else ""
    named = ", ".join(known[:NAMED]) + more
    return Why.WAITS_FOR_HOLDERS(name=name, held=state.held, most=state.at_once, holders=named)
