"""A fixed delay has one open tick; whatever ends it sets the next one."""

from itertools import pairwise
from typing import Any

import pytest

from tests.integration.scheduler.family import SENT, completion, end, ender, tick_in_flight
from tests.support.cluster import Cluster, on_memory
from tests.support.eventually import eventually
from tests.support.invariants import assert_sound
from tests.support.sql_rows import put, side_by_side
from warren.scheduler.audit.integrity_check import audit
from warren.scheduler.completion.end import End
from warren.scheduler.node import SchedulerNode
from warren.sql.jobs.due_jobs import PARKED_MS
from warren.sql.models import Job
from warren.sql.run_status import FINAL, RunStatus
from warren.sql.runs import ticks
from warren.sql.runs.transitions import SentTo

DELAY_MS = 60_000


def delayed(cluster: Cluster, **fields: Any) -> None:
    """Make a job that is to fire a minute after each end."""
    facts = {"schedule_kind": "FIX_DELAY", "schedule_value": "60", "enabled": True}
    cluster.job("delayed", **(facts | fields))


def the_job(cluster: Cluster) -> Job:
    return cluster.jobs(name="delayed")[0]


def tick_begun(cluster: Cluster, still: SchedulerNode, **fields: Any) -> int:
    """Let the first tick be planned and an executor hold its run; return the run's id."""
    delayed(cluster, **fields)
    still.planner.run_round(
        the_job(cluster).next_tick_at
    )  # in time, however long this machine takes
    [run] = cluster.runs()
    put(cluster.database, [run.id], status=SENT)
    return run.id


def is_parked(cluster: Cluster) -> bool:
    return the_job(cluster).next_tick_at == PARKED_MS


def is_sound(cluster: Cluster) -> bool:
    return audit(cluster.database, since_ms=0, until_ms=2**53, timezone="UTC").is_sound


# -- the next tick ----------------------------------------------------------------------------


def test_it_fires_at_once_and_then_waits_for_the_end(
    cluster: Cluster, still: SchedulerNode
) -> None:
    before_ms = cluster.now_ms()
    delayed(cluster)

    still.planner.run_round(cluster.now_ms())
    still.planner.run_round(cluster.now_ms() + 3_600_000)

    [run] = cluster.runs()
    assert before_ms < run.due_at <= cluster.now_ms() + 1
    assert (the_job(cluster).is_enabled, is_parked(cluster)) == (1, True)
    assert is_sound(cluster)


@pytest.mark.parametrize("status", sorted(FINAL - {RunStatus.CANCELLED}))
@on_memory
def test_every_end_of_a_run_sets_the_next_tick(
    cluster: Cluster, still: SchedulerNode, status: RunStatus
) -> None:
    run_id = tick_begun(cluster, still)
    ended_at = cluster.run(run_id).scheduled_at + 1
    cluster_now = eventually(lambda: (now := cluster.now_ms()) > ended_at and now)

    end(cluster, run_id, status=status, finished_at=ended_at)

    assert the_job(cluster).next_tick_at == ended_at + DELAY_MS
    still.planner.run_round(cluster_now + DELAY_MS)
    assert len(cluster.runs()) == 2
    assert is_sound(cluster)


def test_a_run_that_is_cancelled_before_it_was_sent_sets_the_next_tick(
    cluster: Cluster, still: SchedulerNode
) -> None:
    delayed(cluster)
    still.planner.run_round(cluster.now_ms())
    [run] = cluster.runs()

    cluster.commands().kill(run.id)

    assert cluster.run(run.id).status == RunStatus.CANCELLED
    assert the_job(cluster).next_tick_at >= run.scheduled_at + DELAY_MS
    assert not is_parked(cluster)


@on_memory
def test_only_the_last_attempt_sets_the_next_tick(cluster: Cluster, still: SchedulerNode) -> None:
    run_id = tick_begun(cluster, still, retries=1)

    [again] = end(cluster, run_id, status=RunStatus.FAILED).planned
    assert is_parked(cluster)
    put(cluster.database, [again], status=SENT)
    end(cluster, again, status=RunStatus.FAILED)

    assert not is_parked(cluster)


@on_memory
def test_only_the_last_shard_sets_the_next_tick(cluster: Cluster, still: SchedulerNode) -> None:
    run_id = tick_begun(cluster, still)
    put(cluster.database, [run_id], shard_total=3)
    tick = {"shards": 3, "scheduled_at": cluster.run(run_id).scheduled_at}
    others = tick_in_flight(cluster, "delayed", **tick)[1:]

    end(cluster, others[0])
    end(cluster, run_id, status=RunStatus.FAILED)
    assert is_parked(cluster)
    end(cluster, others[1])

    assert not is_parked(cluster)


@on_memory
def test_a_run_by_hand_sets_no_tick(cluster: Cluster, still: SchedulerNode) -> None:
    tick_begun(cluster, still)
    by_hand = cluster.trigger("delayed")
    put(cluster.database, [by_hand], status=SENT)

    end(cluster, by_hand)

    assert is_parked(cluster)


@on_memory
def test_an_end_that_is_told_again_does_not_move_the_next_tick(
    cluster: Cluster, still: SchedulerNode
) -> None:
    run_id = tick_begun(cluster, still)
    end(cluster, run_id)
    first = the_job(cluster).next_tick_at

    end(cluster, run_id, finished_at=cluster.now_ms())

    assert the_job(cluster).next_tick_at == first


@on_memory
@pytest.mark.parametrize("finished_at", [1, 4_000_000_000_000])
def test_a_clock_gone_wrong_puts_the_next_tick_neither_far_off_nor_into_the_past(
    cluster: Cluster, still: SchedulerNode, finished_at: int
) -> None:
    run_id = tick_begun(cluster, still)

    end(cluster, run_id, finished_at=finished_at)

    tick = the_job(cluster).next_tick_at
    assert cluster.run(run_id).scheduled_at + DELAY_MS <= tick <= cluster.now_ms() + DELAY_MS


@on_memory
@pytest.mark.parametrize("is_alone", [True, False], ids=["fast-path", "ordinary-path"])
def test_an_end_from_before_the_databases_clock_was_set_back_doubles_no_tick(
    cluster: Cluster, still: SchedulerNode, is_alone: bool
) -> None:
    run_id = tick_begun(cluster, still, schedule_value="1")
    run = cluster.run(run_id)
    put(cluster.database, [run_id], address="one", boot_id="boot", routed_at=run.due_at)
    ahead_ms = cluster.now_ms() + 1_500
    told = End(
        run_id=run_id,
        status=RunStatus.SUCCEEDED,
        message="",
        started_at=ahead_ms - 20,
        finished_at=ahead_ms,
        sent_to=SentTo(run.app_id, "one", "boot"),
        alone_of_job=run.job_id if is_alone else None,
    )

    cluster.database.write(lambda session: completion(cluster).end(session, [told]))

    ended = cluster.run(run_id)
    assert ended.finished_at is not None
    assert ended.finished_at <= cluster.now_ms()
    assert ended.started_at == ended.finished_at - 20
    tick = the_job(cluster).next_tick_at
    assert tick == max(ended.finished_at, ended.scheduled_at) + 1_000
    still.planner.run_round(tick)
    assert is_sound(cluster)


@on_memory
def test_a_tick_that_no_scheduler_was_there_for_is_skipped_and_the_next_one_set(
    cluster: Cluster, still: SchedulerNode
) -> None:
    delayed(cluster)
    now_ms = cluster.now_ms() + 3_600_000

    still.planner.run_round(now_ms)

    [skip] = cluster.skips()
    assert skip.count == 1
    assert the_job(cluster).next_tick_at == now_ms + DELAY_MS
    assert is_sound(cluster)


@on_memory
def test_a_delay_that_was_broken_in_the_database_stops_the_job_with_its_reason(
    cluster: Cluster, still: SchedulerNode
) -> None:
    run_id = tick_begun(cluster, still)
    cluster.set_job("delayed", schedule_value="soon")

    end(cluster, run_id)
    still.planner.run_round(cluster.now_ms() + 1_000)

    assert (the_job(cluster).is_enabled, len(cluster.runs())) == (0, 1)
    assert "its schedule cannot be computed" in str(the_job(cluster).stop_reason)


# -- changes while a tick is open -------------------------------------------------------------


def test_a_job_that_was_stopped_stays_so_when_its_run_ends(
    cluster: Cluster, still: SchedulerNode
) -> None:
    run_id = tick_begun(cluster, still)
    cluster.commands().stop("delayed")

    end(cluster, run_id)

    assert (the_job(cluster).is_enabled, the_job(cluster).next_tick_at) == (0, 0)
    assert is_sound(cluster)


@pytest.mark.parametrize("how", ["restart", "edit"])
def test_a_job_started_anew_waits_for_the_run_that_is_open(
    cluster: Cluster, still: SchedulerNode, how: str
) -> None:
    run_id = tick_begun(cluster, still)
    if how == "edit":
        delayed(cluster, schedule_value="120")
    else:
        cluster.commands().stop("delayed")
        cluster.commands().start("delayed")
    assert is_parked(cluster)
    watermark = the_job(cluster).last_tick_at

    end(cluster, run_id)

    delay_ms = 120_000 if how == "edit" else DELAY_MS
    assert the_job(cluster).next_tick_at == watermark + delay_ms
    assert is_sound(cluster)


@on_memory
def test_it_waits_for_the_last_of_what_another_schedule_left_open(
    cluster: Cluster, still: SchedulerNode
) -> None:
    cluster.job("delayed", schedule_kind="CRON", schedule_value="* * * * * ?", enabled=True)
    still.planner.run_round(cluster.now_ms())
    old = [run.id for run in cluster.runs()]
    put(cluster.database, old, status=SENT)

    delayed(cluster)
    for run_id in old[:-1]:
        end(cluster, run_id)
    assert is_parked(cluster)
    end(cluster, old[-1])

    assert not is_parked(cluster)


@on_memory
def test_an_edit_of_the_param_leaves_the_open_tick_as_it_is(
    cluster: Cluster, still: SchedulerNode
) -> None:
    run_id = tick_begun(cluster, still)

    delayed(cluster, param="new")
    assert is_parked(cluster)
    end(cluster, run_id)

    assert not is_parked(cluster)


# -- races ------------------------------------------------------------------------------------


def test_shards_that_end_at_the_same_time_never_leave_the_job_waiting(
    cluster: Cluster, still: SchedulerNode
) -> None:
    delayed(cluster)
    still.planner.run_round(cluster.now_ms())
    [first] = cluster.runs()
    end(cluster, first.id)

    for number in range(6):
        at = 2**42 + number
        left, right = tick_in_flight(cluster, "delayed", shards=2, scheduled_at=at)
        cluster.set_job("delayed", last_tick_at=at, next_tick_at=PARKED_MS)

        side_by_side(ender(cluster, left), ender(cluster, right))

        assert the_job(cluster).next_tick_at == at + DELAY_MS


def test_a_start_and_an_end_at_the_same_time_never_leave_the_job_waiting(
    cluster: Cluster, still: SchedulerNode
) -> None:
    delayed(cluster, retries=1)
    still.planner.run_round(cluster.now_ms())
    [first] = cluster.runs()
    end(cluster, first.id)

    for number in range(6):
        at = cluster.now_ms() + number
        cluster.set_job("delayed", last_tick_at=at, next_tick_at=PARKED_MS)
        [run_id] = tick_in_flight(cluster, "delayed", scheduled_at=at)
        cluster.commands().stop("delayed")
        status = [RunStatus.SUCCEEDED, RunStatus.FAILED][number % 2]

        side_by_side(
            ender(cluster, run_id, status=status), lambda: cluster.commands().start("delayed")
        )

        still_open = cluster.database.read(lambda s: ticks.open_ids(s, the_job(cluster).id))
        assert is_parked(cluster) == bool(still_open)
        put(cluster.database, still_open, status=SENT)
        end(cluster, *still_open)
        assert not is_parked(cluster)


# -- the whole --------------------------------------------------------------------------------


@on_memory
def test_ticks_keep_their_distance_and_never_overlap(cluster: Cluster) -> None:
    cluster.scheduler()
    cluster.scheduler()
    cluster.executor()
    cluster.wait_online()

    delayed(cluster, schedule_value="1", handler="sleep", param="0.3")

    eventually(lambda: len(cluster.runs(status="SUCCEEDED")) >= 3)
    found = sorted(cluster.runs(status="SUCCEEDED"), key=lambda run: run.scheduled_at)
    assert all(
        later.scheduled_at >= (sooner.finished_at or 0) + 900 for sooner, later in pairwise(found)
    )
    assert_sound(cluster)
