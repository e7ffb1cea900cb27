"""Measures what a claim costs its scheduler, for runs of many jobs and for as many of one.

The scheduler is in this process, on the private MariaDB and the broker in memory, and runs nothing.
"""

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.servers import Servers
from tests.support.cluster import APP, Cluster
from tests.support.eventually import eventually
from tests.support.sql_rows import new_run, plan
from warren.broker.codec import MAX_PACK_TRIGGERS
from warren.broker.memory import MemoryBroker
from warren.broker.messages import Heartbeat, Load
from warren.scheduler.jobs.spec import JobSpec
from warren.scheduler.node import SchedulerNode
from warren.scheduler.node_context import Timeouts
from warren.sql.engine import Database
from warren.sql.models import Job
from warren.sql.run_status import Kind, RunStatus
from warren.sql.schema import migration

#: How many times each is measured; the least counts, as it is disturbed least.
TIMES = 5
ADDRESSES = ("one", "two")


@dataclass(frozen=True, slots=True)
class ClaimCost:
    """Milliseconds of processor time of one round: runs of one job, and as many of many jobs."""

    one_job_ms: float
    many_jobs_ms: float

    @property
    def ratio(self) -> float:
        """How much more it costs if each run is of another job."""
        return self.many_jobs_ms / self.one_job_ms


def measure(own: Servers, runs: int) -> ClaimCost:
    """Send so many runs of one job and of as many jobs, in turn; return what each costs."""
    with tempfile.TemporaryDirectory(prefix="warren-bench-") as folder:
        database = Database(own.database.create_database())
        migration.upgrade(database)
        cluster = Cluster(Path(folder), database, MemoryBroker().transport)
        cluster.timeouts = Timeouts(lapse=3_600.0, stale=60.0)
        node = cluster.new_scheduler(address_limit=4 * TIMES * runs)
        cluster.schedulers.append(node)
        try:
            eventually(lambda: node.connections.triggers.is_ready, 20)  # type: ignore[attr-defined]
            node.roles.roster.set_health(True)
            cluster.apply(*(JobSpec(name=f"job-{n}", app=APP, handler="noop") for n in range(runs)))
            jobs = cluster.jobs()
            costs = [
                (_claim_ms(cluster, node, jobs[:1], runs), _claim_ms(cluster, node, jobs, runs))
                for _ in range(TIMES)
            ]
        finally:
            cluster.close()
    return ClaimCost(min(one for one, _ in costs), min(many for _, many in costs))


def _claim_ms(cluster: Cluster, node: SchedulerNode, jobs: list[Job], runs: int) -> float:
    """Plan runs of these jobs; return the milliseconds of processor time that sending them took."""
    _seat(cluster, node)
    now_ms = cluster.now_ms()
    facts = {"kind": Kind.API, "origin_id": None, "scheduled_at": now_ms, "due_at": now_ms}
    run_ids = plan(
        cluster.database,
        *(
            new_run(app_id=job.app_id, job_id=job.id, handler="noop", **facts)
            for job in (jobs[number % len(jobs)] for number in range(runs))
        ),
    )
    dispatcher, seconds = node.roles.dispatcher, 0.0
    while len(cluster.runs(status=RunStatus.PLANNED)):
        began = time.thread_time()
        dispatcher.run_round(cluster.now_ms())
        seconds += time.thread_time() - began
        node.roles.confirmations.drain()
    assert len(run_ids) == runs
    return seconds * 1000


def _seat(cluster: Cluster, node: SchedulerNode) -> None:
    """Let executors in that only exist as queues, or hear them again."""
    roles = node.roles
    for address in ADDRESSES:
        heartbeat = Heartbeat(
            app=APP,
            address=address,
            boot_id=f"boot-{address}",
            started_at_ms=1,
            load=Load(),
            triggers_per_message=MAX_PACK_TRIGGERS,
        )
        roles.roster.hear(heartbeat)
        roles.registrar.greet(heartbeat, "")
        roles.registrar.run_round(cluster.now_ms())
