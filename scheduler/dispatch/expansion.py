"""Broadcasts: a claimed run becomes one shard for each executor.

    0/0 PLANNED ──> 0/n ROUTED, and 1..n-1 inserted as ROUTED

The number of shards never changes afterwards: a retry of shard i stays i/n.
"""

from collections.abc import Mapping, Sequence

import msgspec
from sqlalchemy.orm import Session

from warren.broker.reasons.codes import Why
from warren.scheduler.routing.built_in_routes import Route
from warren.scheduler.routing.choice import Choice, RouteRequest
from warren.scheduler.triggers.messages import RoutedTrigger
from warren.sql.jobs.jobs import JobToRun
from warren.sql.runs import shards
from warren.sql.runs.run_rows import PlannedRun
from warren.sql.runs.shards import Shard


def is_unexpanded(run: PlannedRun, job: JobToRun) -> bool:
    """Whether this claim decides the number of shards.

    A first attempt was never routed, even if its job's route has changed since it was planned.
    """
    if job.route != Route.SHARDING_BROADCAST:
        return False
    return bool(run.shard_total == 0 or run.attempt == 0)


def choices(request: RouteRequest) -> list[Choice]:
    """Return the destination of each shard, by its index."""
    total = len(request.candidates)
    return [
        Choice(address, Why.SHARD_OF(route=Route.SHARDING_BROADCAST, index=index, total=total))
        for index, address in enumerate(request.candidates)
    ]


def shard_trigger(zero: RoutedTrigger, shard: Shard) -> RoutedTrigger:
    """Return the trigger of a shard, based on that of shard 0."""
    trigger = msgspec.structs.replace(
        zero.trigger,
        run_id=shard.run_id,
        boot_id=shard.boot_id,
        shard_index=shard.index,
        shard_total=shard.total,
    )
    return RoutedTrigger(app=zero.app, address=shard.address, trigger=trigger)


def write(
    session: Session, totals: Mapping[int, int], others: Sequence[Shard], *, node: str, now_ms: int
) -> None:
    """Store the number of shards of routed runs, and insert the other shards."""
    for run_id, total in totals.items():
        shards.number(session, run_id, total)
    shards.add(session, others, node=node, now_ms=now_ms)
