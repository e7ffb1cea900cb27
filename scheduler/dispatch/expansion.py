"""Broadcasts: one run becomes a shard for each executor there is, while it is claimed.

    0/0 PLANNED ──> 0/n ROUTED, and 1..n-1 born ROUTED beside it

The number of shards never changes afterwards: a retry of shard i stays i/n, whoever is there then.
"""

from collections.abc import Mapping, Sequence

import msgspec
from sqlalchemy.orm import Session

from broker.reasons.codes import Why
from scheduler.dispatch.trigger_messages import RoutedTrigger
from scheduler.routing.choice import Choice, Route, RouteRequest
from sql.jobs.jobs import JobToRun
from sql.runs import shards
from sql.runs.run_rows import PlannedRun
from sql.runs.shards import Shard


def is_unexpanded(run: PlannedRun, job: JobToRun) -> bool:
    """Whether this claim decides how many shards there are.

    A first attempt was never routed, whatever its job's route was when it was planned.
    """
    if job.route != Route.SHARDING_BROADCAST:
        return False
    return bool(run.shard_total == 0 or run.attempt == 0)


def choices(request: RouteRequest) -> list[Choice]:
    """Return where each shard goes, by its index."""
    total = len(request.candidates)
    return [
        Choice(address, Why.SHARD_OF(route=Route.SHARDING_BROADCAST, index=index, total=total))
        for index, address in enumerate(request.candidates)
    ]


def shard_trigger(zero: RoutedTrigger, shard: Shard) -> RoutedTrigger:
    """Return the trigger of a shard, made from that of shard 0."""
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
    """Write, once the runs themselves are routed, how many shards each is of, and the others."""
    for run_id, total in totals.items():
        shards.number(session, run_id, total)
    shards.add(session, others, node=node, now_ms=now_ms)
