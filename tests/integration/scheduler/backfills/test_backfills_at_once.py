"""Several who would run the same due times at once: each due time runs once."""

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy.orm import Session

from tests.integration.scheduler.family import end
from tests.support.acting import acting
from tests.support.cluster import APP, Cluster, OpenNode
from tests.support.eventually import eventually
from tests.support.server_words import waits_for_a_lock
from tests.support.sql_rows import put
from warren.scheduler.audit.integrity_check import audit
from warren.scheduler.backfills.draft import BackfillRequest
from warren.scheduler.backfills.kept_schedule import Span
from warren.scheduler.jobs.spec import JobSpec
from warren.scheduler.problems import Code, Problem
from warren.sql.instants import HOUR_MS
from warren.sql.models.job_tables import Selection
from warren.sql.run_status import Kind, RunStatus

pytestmark = pytest.mark.parametrize("cluster", ["real"], indirect=True)

DAY = timedelta(days=1)
DUE_TIMES = 5
HOURLY = {"schedule_kind": "FIX_RATE", "schedule_value": "3600"}


@pytest.fixture
def nodes(cluster: Cluster) -> tuple[OpenNode, OpenNode]:
    return cluster.new_scheduler(), cluster.new_scheduler()


def hourly(cluster: Cluster, **fields: Any) -> int:
    cluster.apply(JobSpec(name="load", app=APP, handler="noop", **(HOURLY | fields)))
    return cluster.jobs(name="load")[0].id


def request(cluster: Cluster, **fields: Any) -> BackfillRequest:
    now_ms = cluster.now_ms()
    spans = [Span(now_ms - DUE_TIMES * HOUR_MS, now_ms)]
    return BackfillRequest(spans=spans, at_once=DUE_TIMES, **fields)


def beside_commit(cluster: Cluster, node: OpenNode, other: Callable[[], object]) -> object:
    """Let a scheduler refill, and another work before it commits; return the other's result.

    The other is done by then, unless it waits for the commit.
    """
    mortal, begun = cluster.mortals[id(node)], []

    def is_held_up(session: Session) -> bool:
        return waits_for_a_lock(session, cluster.database)

    with ThreadPoolExecutor(1) as pool:

        def begin() -> None:
            mortal.before_commit = lambda: None
            begun.append(pool.submit(other))
            eventually(lambda: begun[0].done() or cluster.database.read(is_held_up))

        node.context.ids.reserve()
        mortal.before_commit = begin
        node.refill.run_round(cluster.now_ms())
        [done] = begun
        return done.exception() or done.result()


def doubled(cluster: Cluster) -> dict[int, int]:
    """Return the due times that run more than once, and how often."""
    ran = [run for run in cluster.runs(attempt=0) if run.status != RunStatus.CANCELLED]
    return {tick: many for tick, many in Counter(r.scheduled_at for r in ran).items() if many > 1}


def told(cluster: Cluster) -> list[str]:
    report = audit(cluster.database, since_ms=0, until_ms=2**53, timezone="UTC")
    return [str(fault.why) for job in report.jobs for fault in job.doubled]


def test_two_backfills_of_what_is_missing_run_each_due_time_once(
    cluster: Cluster, nodes: tuple[OpenNode, OpenNode]
) -> None:
    job_id, (first, second) = hourly(cluster), nodes
    commands = acting(cluster.database, cluster.now_ms)
    asked = request(cluster)
    for _ in range(2):
        commands.backfills.make(job_id, asked)

    beside_commit(cluster, first, lambda: second.refill.run_round(cluster.now_ms()))

    assert len(cluster.runs()) == DUE_TIMES
    assert doubled(cluster) == {}
    assert told(cluster) == []


def test_two_backfills_of_missing_dates_run_each_date_once(
    cluster: Cluster, nodes: tuple[OpenNode, OpenNode]
) -> None:
    job_id, (first, second) = hourly(cluster, schedule_kind="NONE", schedule_value=""), nodes
    commands = acting(cluster.database, cluster.now_ms)
    today = datetime.fromtimestamp(cluster.now_ms() / 1_000, UTC).date()
    asked = BackfillRequest(from_date=today - 4 * DAY, to_date=today, dates=True, at_once=DUE_TIMES)
    for _ in range(2):
        commands.backfills.make(job_id, asked)

    beside_commit(cluster, first, lambda: second.refill.run_round(cluster.now_ms()))

    assert len(cluster.runs()) == DUE_TIMES
    assert doubled(cluster) == {}


def test_a_rerun_of_what_was_cancelled_waits_for_a_backfill_that_runs_it(
    cluster: Cluster, nodes: tuple[OpenNode, OpenNode]
) -> None:
    job_id, (first, _) = hourly(cluster), nodes
    commands = acting(cluster.database, cluster.now_ms)
    asked = request(cluster)
    commands.backfills.make(job_id, asked)
    first.refill.run_round(cluster.now_ms())
    before = [run.id for run in cluster.runs()]
    put(cluster.database, before, status=RunStatus.CANCELLED)
    first.refill.run_round(cluster.now_ms())
    commands.backfills.make(job_id, asked)

    refusal = beside_commit(cluster, first, lambda: commands.runs.rerun(before[:1]))

    assert isinstance(refusal, Problem)
    assert refusal.code is Code.RERUN_UNDERWAY
    assert doubled(cluster) == {}


def test_the_audit_finds_a_due_time_that_two_backfills_of_what_is_missing_ran(
    cluster: Cluster, nodes: tuple[OpenNode, OpenNode]
) -> None:
    job_id, (first, _) = hourly(cluster), nodes
    commands = acting(cluster.database, cluster.now_ms)
    asked = request(cluster)
    one = commands.backfills.make(job_id, asked)
    first.refill.run_round(cluster.now_ms())
    runs = [run.id for run in cluster.runs()]
    put(cluster.database, runs, status=RunStatus.CANCELLED)
    two = commands.backfills.make(job_id, asked)
    first.refill.run_round(cluster.now_ms())
    commands.backfills.make(job_id, request(cluster, selection=Selection.ALL))
    for run in cluster.runs(kind=Kind.BACKFILL, status=RunStatus.PLANNED):
        put(cluster.database, [run.id], status=RunStatus.SENT, routed_at=cluster.now_ms())
        end(cluster, run.id)
    first.refill.run_round(cluster.now_ms())
    assert told(cluster) == []  # what was cancelled is missing, and the third runs all

    put(cluster.database, runs[:2], status=RunStatus.FAILED)

    assert told(cluster) == [f"backfills {one.id} and {two.id} both ran it, as missing"] * 2
