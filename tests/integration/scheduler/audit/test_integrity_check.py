"""The tally of shards, children and fixed delays: what holds, and what it says of the rest."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import delete, event, update
from sqlalchemy.orm import Session

from tests.integration.scheduler.family import SENT, completion, end, ends, tick_in_flight
from tests.support.cluster import APP, Cluster, on_memory
from tests.support.sql_rows import new_run, plan, put, statements
from warren.scheduler.audit.integrity_check import CHUNK, audit
from warren.scheduler.audit.tally import Fault, JobTally
from warren.scheduler.jobs.spec import JobSpec
from warren.scheduler.node import SchedulerNode
from warren.sql.epochs import Cause
from warren.sql.explanation import Explanation
from warren.sql.instants import at
from warren.sql.jobs import history
from warren.sql.jobs.due_jobs import PARKED_MS
from warren.sql.models import Job, JobChild, Purge, Run, Sequence, SkippedTicks
from warren.sql.run_status import Kind, RunStatus

DELAY_MS = 60_000


def tallies(cluster: Cluster, job_id: int | None = None) -> dict[str, JobTally]:
    report = audit(cluster.database, since_ms=0, until_ms=2**53, timezone="UTC", job_id=job_id)
    assert report.is_sound == all(job.is_sound for job in report.jobs)
    return {job.name.removeprefix("demo/"): job for job in report.jobs}


def faults(cluster: Cluster) -> dict[str, list[str]]:
    """What is wrong with each job, in words."""
    found = {
        name: [f"lost {fault.why or ''}".strip() for fault in job.lost]
        + [f"doubled {fault.why or ''}".strip() for fault in job.doubled]
        for name, job in tallies(cluster).items()
    }
    return {name: words for name, words in found.items() if words}


def forget(cluster: Cluster, **where: Any) -> None:
    """Lose rows, as nobody ever may."""
    cluster.database.write(lambda session: session.execute(delete(Run).filter_by(**where)))


def purge(cluster: Cluster, job_id: int, to_at: int) -> None:
    """Say that rows up to a tick were cleared."""
    row = Purge(job_id=job_id, to_at=to_at, count=1, purged_at=to_at, purged_by="test")
    cluster.database.write(lambda session: session.add(row))


# -- fixed delays -----------------------------------------------------------------------------


@pytest.fixture
def ticks(cluster: Cluster, still: SchedulerNode) -> list[int]:
    """Two ticks of a fixed delay, the second one open; their runs' ids."""
    cluster.job("delayed", schedule_kind="FIX_DELAY", schedule_value="60", enabled=True)
    still.planner.run_round(cluster.now_ms())
    [first] = cluster.runs()
    put(cluster.database, [first.id], status=SENT)
    end(cluster, first.id, finished_at=first.scheduled_at)
    still.planner.run_round(first.scheduled_at + DELAY_MS)
    [_, second] = cluster.runs()
    return [first.id, second.id]


def test_ticks_of_a_fixed_delay_are_counted_as_due(cluster: Cluster, ticks: list[int]) -> None:
    assert len(ticks) == 2
    job = tallies(cluster)["delayed"]

    assert (job.due, job.fired, job.skipped, job.cancelled) == (2, 2, 0, 0)
    assert job.is_sound


@on_memory
@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (
            lambda c, first, _second: put(
                c.database, [first], scheduled_at=c.run(first).scheduled_at + 1
            ),
            ["lost", "doubled closer to the previous due time than the delay allows"],
        ),
        (
            lambda c, first, second: put(
                c.database, [first], finished_at=c.run(second).scheduled_at + 1
            ),
            ["doubled the previous run was not over"],
        ),
        (
            lambda c, first, _second: put(c.database, [first], status=RunStatus.RUNNING),
            ["doubled the previous run was not over"],
        ),
        (lambda c, first, _second: forget(c, id=first), ["lost"]),
        (
            lambda c, _first, second: forget(c, id=second),
            ["lost", "lost it is over, but its job has no next due time"],
        ),
        (
            lambda c, _first, second: put(c.database, [second], status=RunStatus.FAILED),
            ["lost it is over, but its job has no next due time"],
        ),
    ],
)
def test_what_cannot_be_with_a_fixed_delay_is_found(
    cluster: Cluster,
    ticks: list[int],
    harm: Callable[[Cluster, int, int], None],
    words: list[str],
) -> None:
    harm(cluster, *ticks)

    assert faults(cluster) == {"delayed": words}


@on_memory
def test_a_cleared_first_tick_of_a_fixed_delay_is_not_lost(
    cluster: Cluster, ticks: list[int]
) -> None:
    first = cluster.run(ticks[0])
    purge(cluster, first.job_id, first.scheduled_at)
    forget(cluster, id=first.id)

    job = tallies(cluster)["delayed"]

    assert (job.due, job.fired, job.purged, job.is_sound) == (2, 1, 1, True)


@on_memory
def test_a_job_that_waits_for_an_open_run_is_sound(cluster: Cluster, ticks: list[int]) -> None:
    assert cluster.jobs()[0].next_tick_at == PARKED_MS
    assert cluster.run(ticks[1]).status == RunStatus.PLANNED
    assert faults(cluster) == {}


# -- computed ticks ---------------------------------------------------------------------------


def every_second(cluster: Cluster, ticks: int) -> int:
    """Let a job have had so many ticks, none of them decided; return its id."""
    cluster.job("each", schedule_kind="FIX_RATE", schedule_value="1", enabled=True)
    [job] = cluster.jobs()
    cluster.set_job("each", last_tick_at=job.next_tick_at + (ticks - 1) * 1_000)
    return job.id


@on_memory
@pytest.mark.parametrize("before", [0, *range(CHUNK - 8, CHUNK + 1)])
def test_ticks_are_counted_once_wherever_a_chunk_ends(cluster: Cluster, before: int) -> None:
    job_id = every_second(cluster, before + 10)
    first = cluster.jobs()[0].last_tick_at - 9_000
    purge(cluster, job_id, first + 1_000)
    rows = [first + after_ms for after_ms in (2_000, 3_000, 5_000, 6_000, 500, 6_500)]
    new = [new_run(job_id=job_id, scheduled_at=tick) for tick in rows]
    run_ids = plan(cluster.database, *new)
    put(cluster.database, run_ids[3:4], status=RunStatus.CANCELLED)
    why = Explanation("test", None)
    skip = history.skipped(job_id, first + 3_000, first + 4_000, count=2, why=why, now_ms=0)
    cluster.database.write(lambda session: history.record_skips(session, [skip]))

    job = tallies(cluster)["each"]

    def seconds(found: list[Fault]) -> list[float]:
        return sorted((fault.tick - first) / 1_000 for fault in found)

    assert (job.due, job.purged) == (before + 10, before + 2)
    assert (job.fired, job.skipped, job.cancelled) == (2, 1, 1)
    assert seconds(job.lost) == [7, 8, 9]
    assert seconds(job.doubled) == [0.5, 3, 6.5]


@on_memory
def test_an_audit_of_very_many_ticks_keeps_asking_the_database(cluster: Cluster) -> None:
    every_second(cluster, 2 * CHUNK + 5_000)

    with statements(cluster.database) as sent:
        job = tallies(cluster)["each"]

    assert (job.due, job.lost_count) == (2 * CHUNK + 5_000,) * 2
    ranges = [values for text, values in sent if "coalesce(xxl_job_log.first_routed_at" in text]
    assert len(ranges) == 3


# -- while it runs ----------------------------------------------------------------------------


@pytest.mark.parametrize("cluster", ["real"], indirect=True)  # SQLite reads one snapshot
@pytest.mark.parametrize("kind", ["FIX_RATE", "FIX_DELAY"])
def test_a_tick_that_is_skipped_during_the_audit_is_decided_once(
    cluster: Cluster, still: SchedulerNode, kind: str
) -> None:
    cluster.job("missed", schedule_kind=kind, schedule_value="60", enabled=True)
    still.planner.run_round(cluster.jobs()[0].next_tick_at)
    [run], [job] = cluster.runs(), cluster.jobs()
    left = 0

    def skip(*_: object) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            miss(cluster, run)

    with statements(cluster.database) as sent:
        assert faults(cluster) == {}
    event.listen(cluster.database.engine, "after_cursor_execute", skip)
    for number, (text, _) in enumerate(sent, 1):
        plan_again(cluster, run, job)
        left = number

        assert faults(cluster) == {}, f"skipped after: {text}"

        assert len(cluster.skips()) == 1


def miss(cluster: Cluster, run: Run) -> None:
    """Cancel a planned run and record its tick as skipped, as for a run that was missed."""
    tick = run.scheduled_at
    why = Explanation("missed", None)
    skip = history.skipped(run.job_id, tick, tick, count=1, why=why, now_ms=tick)
    missed, one = ends(run.id, status=RunStatus.CANCELLED, finished_at=tick), completion(cluster)

    def unit(session: Session) -> None:
        one.end(session, missed)
        history.record_skips(session, [skip])

    cluster.database.write(unit)


def plan_again(cluster: Cluster, run: Run, job: Job) -> None:
    put(cluster.database, [run.id], status=RunStatus.PLANNED)
    cluster.set_job(job.name, next_tick_at=job.next_tick_at)
    cluster.database.write(lambda session: session.execute(delete(SkippedTicks)))


# -- shards -----------------------------------------------------------------------------------


@pytest.fixture
def shards(cluster: Cluster) -> list[int]:
    """A broadcast to three executors; its runs' ids."""
    cluster.job("wide")
    return tick_in_flight(cluster, "wide", shards=3)


def test_a_broadcast_with_all_its_shards_is_sound(cluster: Cluster, shards: list[int]) -> None:
    assert len(shards) == 3
    assert faults(cluster) == {}


@on_memory
def test_a_shard_without_a_row_is_lost(cluster: Cluster, shards: list[int]) -> None:
    forget(cluster, id=shards[1])

    assert faults(cluster) == {"wide": ["lost 2 of 3 shards have a row"]}


@on_memory
def test_a_shard_too_many_is_doubled(cluster: Cluster, shards: list[int]) -> None:
    put(cluster.database, shards, shard_total=2)

    assert faults(cluster) == {"wide": ["doubled 3 of 2 shards have a row"]}


@on_memory
def test_shards_that_were_cleared_are_not_lost(cluster: Cluster, shards: list[int]) -> None:
    purge(cluster, cluster.run(shards[0]).job_id, cluster.run(shards[0]).scheduled_at)
    forget(cluster, id=shards[0])

    assert faults(cluster) == {}


# -- children ---------------------------------------------------------------------------------


@pytest.fixture
def parents(cluster: Cluster) -> list[int]:
    """A parent saved an hour ago, with two shards of a tick that has succeeded just now."""
    child = JobSpec(name="child", app=APP, handler="noop")
    parent = JobSpec(name="parent", app=APP, handler="noop", children=("child",))
    cluster.apply(parent, child)
    save_hours_ago(cluster, 1)
    run_ids = tick_in_flight(cluster, "parent", shards=2)
    end(cluster, *run_ids, finished_at=cluster.now_ms())
    return run_ids


def save_hours_ago(cluster: Cluster, hours: int) -> None:
    saved_at = at(cluster.now_ms()) - timedelta(hours=hours)
    cluster.set_job("parent", update_time=saved_at)


def test_a_child_that_ran_for_its_parent_is_sound(cluster: Cluster, parents: list[int]) -> None:
    assert [run.origin_id for run in cluster.runs(kind="PARENT")] == [parents[0]]
    assert faults(cluster) == {}


def test_a_child_without_a_run_is_lost(cluster: Cluster, parents: list[int]) -> None:
    forget(cluster, kind="PARENT")

    assert faults(cluster) == {"child": ["lost demo/parent succeeded"]}
    assert tallies(cluster)["child"].lost[0].tick == cluster.run(parents[0]).scheduled_at


@on_memory
def test_a_child_that_may_have_been_adopted_since_is_not_missed(
    cluster: Cluster, parents: list[int]
) -> None:
    assert parents
    forget(cluster, kind="PARENT")
    save_hours_ago(cluster, 0)

    assert faults(cluster) == {}


@on_memory
def test_a_childs_runs_that_were_cleared_are_not_missed(
    cluster: Cluster, parents: list[int]
) -> None:
    forget(cluster, kind="PARENT")
    [child] = cluster.jobs(name="child")
    purge(cluster, child.id, cluster.run(parents[0]).scheduled_at)

    assert faults(cluster) == {}


@on_memory
@pytest.mark.parametrize("status", [RunStatus.RUNNING, RunStatus.FAILED])
def test_a_child_that_ran_too_soon_is_doubled(
    cluster: Cluster, parents: list[int], status: RunStatus
) -> None:
    put(cluster.database, parents[1:], status=status)

    assert faults(cluster) == {"child": ["doubled demo/parent has not succeeded"]}


@on_memory
def test_a_child_that_was_deleted_behind_our_back_is_not_missed(
    cluster: Cluster, parents: list[int]
) -> None:
    assert parents
    cluster.database.write(lambda session: session.execute(update(JobChild).values(child_id=999)))

    assert faults(cluster) == {}


@on_memory
def test_a_run_missing_of_the_last_of_two_hundred_children_is_lost(cluster: Cluster) -> None:
    names = [f"child{number}" for number in range(200)]
    specs = [JobSpec(name=name, app=APP, handler="noop") for name in names]
    cluster.apply(JobSpec(name="parent", app=APP, handler="noop", children=tuple(names)), *specs)
    save_hours_ago(cluster, 1)
    end(cluster, *tick_in_flight(cluster, "parent"), finished_at=cluster.now_ms())
    assert faults(cluster) == {}
    [last] = cluster.jobs(name="child199")

    forget(cluster, job_id=last.id)

    assert faults(cluster) == {"child199": ["lost demo/parent succeeded"]}


@on_memory
def test_an_audit_of_one_job_is_silent_about_the_others(
    cluster: Cluster, parents: list[int]
) -> None:
    forget(cluster, kind="PARENT")

    [parent_id] = {run.job_id for run in cluster.runs()}

    assert all(job.is_sound for job in tallies(cluster, parent_id).values())
    assert len(parents) == 2


# -- a database that has gone back ------------------------------------------------------------


@on_memory
def test_results_of_other_runs_are_found_with_the_epoch_that_explains_them(
    cluster: Cluster,
) -> None:
    cluster.job("nightly")
    [job] = cluster.jobs()
    now_ms = cluster.now_ms()
    due = {"job_id": job.id, "due_at": now_ms, "kind": Kind.MANUAL, "origin_id": None}
    new = [new_run(scheduled_at=now_ms + number, **due) for number in range(3)]
    early, unstarted, well = plan(cluster.database, *new)
    put(
        cluster.database,
        [early, unstarted, well],
        status=RunStatus.SUCCEEDED,
        finished_at=now_ms + 10,
    )
    put(cluster.database, [early], started_at=now_ms - 60_000)
    put(cluster.database, [well], started_at=now_ms)
    older = update(Sequence).values(next_id=unstarted)
    cluster.database.write(lambda session: session.execute(older))
    cluster.database.begin_epoch(Cause.RESTORED, told_by="ann")

    report = audit(cluster.database, since_ms=0, until_ms=2**53, timezone="UTC")

    assert not report.is_sound
    assert [(found.run.id, found.is_early) for found in report.odd] == [
        (early, True),
        (unstarted, False),
    ]
    assert {found.epoch and found.epoch.told_by for found in report.odd} == {"ann"}
    assert [audited.again for audited in report.epochs] == [2]
    put(cluster.database, [early], started_at=now_ms)
    assert audit(cluster.database, since_ms=0, until_ms=2**53, timezone="UTC").is_sound
