"""Which full limits a due run waits for, and who holds them."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy.orm import Session

from warren.broker import durations
from warren.broker.reasons.codes import Reason, Why, Words
from warren.scheduler.actor import Actor
from warren.scheduler.limits.room import LimitState
from warren.scheduler.limits.specs import stored_uses
from warren.scheduler.views.limit_view import HolderView, holder_view
from warren.sql.limits import holds, usage
from warren.sql.listings.recent import DetailedRun
from warren.sql.models.jobs import Scope
from warren.sql.run_status import RunStatus

#: How many runs are named of those that hold a limit, and how many are read.
NAMED, MAX_HOLDERS = 3, 1_000


def may_wait(run: DetailedRun, now_ms: int) -> bool:
    """Whether a run is due, not sent, and takes limits."""
    is_due = run.status == RunStatus.PLANNED and run.due_at <= now_ms
    return is_due and bool(run.limits or run.scope == Scope.CLUSTER)


def waits_for(
    session: Session, runs: Iterable[DetailedRun], actor: Actor, *, now_ms: int
) -> dict[int, list[Reason]]:
    """Return the full limits that runs wait for, by run; runs that wait for none are left out."""
    waiting = [run for run in runs if may_wait(run, now_ms)]
    if not waiting:
        return {}
    names = {use.name for run in waiting for use in stored_uses(run.limits)}
    by_name = holds.ids_by_name(session, names) if names else {}
    own = holds.known_ids_of_jobs(
        session, {run.job_id for run in waiting if run.scope == Scope.CLUSTER}
    )
    ids = {*by_name.values(), *own.values()}
    room = holds.room(session, ids)
    holders: dict[int, list[HolderView]] = defaultdict(list)
    for held_by in usage.holding(session, ids, most=MAX_HOLDERS):
        holders[held_by.limit_id].append(holder_view(held_by, actor))
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


def _reason(name: Words, state: LimitState, holders: Sequence[HolderView]) -> Reason:
    if state.at_once is None or (state.rate is not None and state.held < state.at_once):
        per = durations.shown(state.per_ms // 1_000)
        return Why.WAITS_FOR_RATE(name=name, rate=state.rate or 0, per=per)
    known = [f"{holder.job or ''} #{holder.run_id}".strip() for holder in holders if holder.run_id]
    if not known:
        return Why.WAITS_FOR_LIMIT(name=name, held=state.held, most=state.at_once)
    more = ", …" if len(holders) > min(NAMED, len(known)) else ""
    named = ", ".join(known[:NAMED]) + more
    return Why.WAITS_FOR_HOLDERS(name=name, held=state.held, most=state.at_once, holders=named)
