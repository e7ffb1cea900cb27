"""A claim and a batch of ends say as much to the database for many jobs as for one."""

from collections.abc import Sequence
from typing import Any

import pytest
from sqlalchemy import delete

from tests.integration.scheduler.conftest import Seat, new_still, seat_at
from tests.support.cluster import APP, Cluster
from tests.support.sent_statements import sent_statements
from tests.support.sql_rows import new_run, plan, put
from warren.scheduler.completion.end import End
from warren.scheduler.jobs.spec import JobSpec
from warren.scheduler.node import SchedulerNode
from warren.scheduler.routing.routes import Route, planned_shards
from warren.sql.models import Run
from warren.sql.run_status import Kind, RunStatus
from warren.sql.runs.transitions import MAX_ALIKE_STATEMENTS, SentTo

pytestmark = pytest.mark.parametrize("cluster", ["real"], indirect=True)

#: Fewer than a first batch holds; a statement for each job would be seen at once.
RUNS = 50
#: What a round says besides, now and then: that it can send, how many runs are in flight.
BESIDES = 20
#: Those that choose at once; each asks for something else.
ROUTES = [route for route in Route if route not in (Route.FAILOVER, Route.BUSYOVER)]


@pytest.fixture
def still(cluster: Cluster) -> SchedulerNode:
    return new_still(cluster, address_limit=1_000)


@pytest.fixture
def seat(cluster: Cluster, still: SchedulerNode) -> Seat:
    return seat_at(cluster, still)


def test_a_claim_says_as_much_for_many_jobs_as_for_one(
    cluster: Cluster, still: SchedulerNode, seat: Seat, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts: dict[str, list[int]] = {}
    for route in ROUTES:
        for jobs in (1, RUNS):
            seat("one")
            seat("two")
            names = add_jobs(cluster, f"{route}-{jobs}", jobs, route=route)

            counts.setdefault(route, []).append(claim(cluster, still, monkeypatch, names))

    grown = {
        route: (one, many)
        for route, (one, many) in counts.items()
        if many > one + MAX_ALIKE_STATEMENTS + BESIDES
    }
    assert not grown
    assert counts[Route.SHARDING_BROADCAST][0] < RUNS


def test_a_claim_of_different_jobs_says_as_much_as_its_routes_need(
    cluster: Cluster, still: SchedulerNode, seat: Seat, monkeypatch: pytest.MonkeyPatch
) -> None:
    seat("one")
    seat("two")
    names = add_jobs(cluster, "each", RUNS)

    assert claim(cluster, still, monkeypatch, names) <= 20 + MAX_ALIKE_STATEMENTS + BESIDES


#: What may follow the ends of jobs, and how they end.
ENDS: list[tuple[str, dict[str, Any], RunStatus]] = [
    ("children", {"children": ("child",)}, RunStatus.SUCCEEDED),
    ("delays", {"schedule_kind": "FIX_DELAY", "schedule_value": "9"}, RunStatus.SUCCEEDED),
    ("webhooks", {"webhook_url": "https://example.com/"}, RunStatus.SUCCEEDED),
    ("retries", {"retries": 3}, RunStatus.FAILED),
    ("alarms", {"alarm_emails": ("a@example.com",)}, RunStatus.FAILED),
    ("nothing", {}, RunStatus.KILLED),
]


def test_a_batch_of_ends_says_as_much_for_many_jobs_as_for_one(
    cluster: Cluster, still: SchedulerNode, seat: Seat, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.job("child")
    seat("one")
    counts: dict[str, list[int]] = {}
    for what, fields, status in ENDS:
        for jobs in (1, RUNS):
            seat("one")
            names = add_jobs(cluster, f"{what}-{jobs}", jobs, **({"route": "FIRST"} | fields))
            claim(cluster, still, monkeypatch, names)

            count = end(cluster, still, monkeypatch, status)

            counts.setdefault(what, []).append(count)
            put_away(cluster)

    assert not {what: (one, many) for what, (one, many) in counts.items() if many > one + BESIDES}


def test_results_of_lost_runs_are_kept_by_few_statements(
    cluster: Cluster, still: SchedulerNode, seat: Seat, monkeypatch: pytest.MonkeyPatch
) -> None:
    seat("one")
    claim(cluster, still, monkeypatch, add_jobs(cluster, "lost", RUNS, route="FIRST"))
    put(cluster.database, [run.id for run in cluster.runs()], status=RunStatus.LOST)

    count = end(cluster, still, monkeypatch, RunStatus.SUCCEEDED)

    assert count <= BESIDES
    assert {run.late_status for run in cluster.runs()} == {RunStatus.SUCCEEDED}


def add_jobs(cluster: Cluster, prefix: str, count: int, **fields: Any) -> list[str]:
    """Add jobs with different routes, unless the fields name one; return their names."""
    specs = [
        JobSpec(
            name=f"{prefix}-{number}",
            app=APP,
            handler="noop",
            **({"route": ROUTES[number % len(ROUTES)]} | fields),
        )
        for number in range(count)
    ]
    cluster.apply(*specs)
    return [spec.name for spec in specs]


def claim(
    cluster: Cluster,
    still: SchedulerNode,
    monkeypatch: pytest.MonkeyPatch,
    names: Sequence[str],
) -> int:
    """Plan and send RUNS runs of these jobs in turn; return how many statements that takes."""
    jobs = {job.name: job for job in cluster.jobs()}
    now_ms = cluster.now_ms()
    runs = [
        new_run(
            app_id=job.app_id,
            job_id=job.id,
            handler="noop",
            kind=Kind.API,
            origin_id=None,
            scheduled_at=now_ms,
            due_at=now_ms,
            retries_left=job.retries,
            shard_total=planned_shards(job.route),
        )
        for job in (jobs[names[number % len(names)]] for number in range(RUNS))
    ]
    run_ids = plan(cluster.database, *runs)
    with monkeypatch.context() as patched:
        sent = sent_statements(patched)
        still.dispatcher.run_round(cluster.now_ms())
        still.confirmations.drain()
    assert {run.status for run in cluster.runs() if run.id in run_ids} == {RunStatus.SENT}
    # Only PostgreSQL has to be told where a transaction begins.
    return sum(not words.startswith("BEGIN") for words in sent)


def end(
    cluster: Cluster, still: SchedulerNode, monkeypatch: pytest.MonkeyPatch, status: RunStatus
) -> int:
    """End all runs as executors report it; return how many statements that takes."""
    now_ms = cluster.now_ms()
    ends = [
        End(
            run_id=run.id,
            status=status,
            message="over",
            started_at=now_ms,
            finished_at=now_ms,
            sent_to=SentTo(run.app_id, run.address or "", run.boot_id or ""),
            alone_of_job=run.job_id,
        )
        for run in cluster.runs()
    ]
    with monkeypatch.context() as patched:
        sent = sent_statements(patched)
        cluster.database.write(lambda session: still.completion.end(session, ends))
    return len(sent)


def put_away(cluster: Cluster) -> None:
    """Leave neither runs nor queued triggers to what follows."""
    cluster.database.write(lambda session: session.execute(delete(Run)))
