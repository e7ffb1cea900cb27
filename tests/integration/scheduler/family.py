"""Ticks in flight and their ends, without an executor."""

from collections.abc import Callable
from typing import Any

from tests.support.cluster import Cluster
from tests.support.sql_rows import put
from warren.scheduler.completion.completion import Completion, Tally
from warren.scheduler.completion.end import End
from warren.sql.ids import RunIds
from warren.sql.run_status import Kind, RunStatus
from warren.sql.runs import planned_runs

SENT = RunStatus.SENT


def completion(cluster: Cluster) -> Completion:
    """One scheduler's."""
    return Completion(RunIds(cluster.database), cluster.now_ms)


def tick_in_flight(
    cluster: Cluster, job: str, *, shards: int = 1, scheduled_at: int = 0, **values: Any
) -> list[int]:
    """Let an executor hold every shard of a tick of a job; return the runs' ids by shard."""
    [row] = cluster.jobs(name=job)
    at = scheduled_at or cluster.now_ms()
    new = [
        planned_runs.NewRun(
            app_id=row.app_id,
            job_id=row.id,
            handler="noop",
            param="",
            kind=Kind.SCHEDULE,
            scheduled_at=at,
            due_at=at,
            retries_left=row.retries,
            shard_index=index,
            shard_total=shards,
            **values,
        )
        for index in range(shards)
    ]
    ids = RunIds(cluster.database)
    run_ids = cluster.database.write(lambda session: planned_runs.plan(session, new, ids))
    put(cluster.database, run_ids, status=SENT, routed_at=cluster.now_ms())
    return run_ids


def ends(
    *run_ids: int, status: RunStatus = RunStatus.SUCCEEDED, finished_at: int = 1_000
) -> list[End]:
    return [
        End(run_id=run_id, status=status, message="", finished_at=finished_at) for run_id in run_ids
    ]


def end(
    cluster: Cluster,
    *run_ids: int,
    status: RunStatus = RunStatus.SUCCEEDED,
    finished_at: int = 1_000,
) -> Tally:
    """End runs in one transaction, as a scheduler of their own would."""
    told = ends(*run_ids, status=status, finished_at=finished_at)
    one = completion(cluster)
    return cluster.database.write(lambda session: one.end(session, told))


def ender(cluster: Cluster, *run_ids: int, **how: Any) -> Callable[[], Tally]:
    """Return the work of ending runs, to be done at the same time as others."""
    return lambda: end(cluster, *run_ids, **how)
