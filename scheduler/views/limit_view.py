"""Limits as shown to users: how full they are, who holds them, and which jobs' runs wait.

What belongs to apps that a user may not see is counted, but not named.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy.orm import Session

from warren.scheduler.actor import Actor
from warren.scheduler.limits.room import LimitState
from warren.scheduler.limits.specs import LimitSpec, spec_of, stored_uses
from warren.sql.limits import holds, limits, usage
from warren.sql.limits.limits import LimitedJob
from warren.sql.limits.usage import HoldingRun
from warren.sql.runs import due_runs

#: The most runs that are named of those that hold limits.
MAX_HOLDERS = 1_000


class HolderView(NamedTuple):
    """A run that holds a limit; None = it belongs to an app that the user may not see."""

    run_id: int | None
    app: str | None
    job: str | None
    status: str | None
    weight: int


class LimitedJobView(NamedTuple):
    """A job that takes a limit: how much each run takes, and how many of its runs wait."""

    id: int
    app: str
    job: str
    weight: int
    waiting: int


class LimitView(NamedTuple):
    """A limit; `left` is how much its rate allows now, None if it has none."""

    spec: LimitSpec
    held: int
    left: int | None
    holders: Sequence[HolderView]
    jobs: Sequence[LimitedJobView]
    other_jobs: int


def read(
    session: Session, actor: Actor, *, now_ms: int, name: str | None = None
) -> list[LimitView]:
    """Return limits by name, as this actor may see them; `name` = only that one."""
    rows = [row for row in limits.all_named(session) if name in (None, row.name)]
    ids = [row.id for row in rows]
    if not ids:
        return []
    room = holds.room(session, ids)
    by_limit: dict[int, list[HolderView]] = defaultdict(list)
    for run in usage.holding(session, ids, most=MAX_HOLDERS):
        by_limit[run.limit_id].append(holder_view(run, actor))
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
        shown = [_job_view(job, weight, waiting) for job, weight in own if job in seen]
        stored, held = room[row.id]
        state = LimitState.at(stored, held, now_ms)
        views.append(
            LimitView(
                spec=spec_of(row),
                held=held,
                left=None if state.rate is None else int(state.tokens),
                holders=by_limit[row.id],
                jobs=shown,
                other_jobs=len(own) - len(shown),
            )
        )
    return views


def holder_view(run: HoldingRun, actor: Actor) -> HolderView:
    """Return a run that holds a limit, as an actor may see it."""
    if not actor.knows(run.app_id):
        return HolderView(None, None, None, None, run.weight)
    return HolderView(run.id, run.app, run.job, run.status, run.weight)


def _job_view(job: LimitedJob, weight: int, waiting: dict[int, int]) -> LimitedJobView:
    return LimitedJobView(job.id, job.app, job.name, weight, waiting.get(job.id, 0))
