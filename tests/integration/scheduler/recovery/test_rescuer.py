"""Triggers of unknown fate are sent again: soon, with the same id, to the same boot."""

from dataclasses import replace

import pytest
from sqlalchemy import insert, select, update
from sqlalchemy.orm import Session

from tests.integration.scheduler.conftest import Seat, new_still, seat_at
from tests.integration.scheduler.dispatch.test_dispatcher import dispatch, queued
from tests.support.cluster import APP, Cluster, on_memory
from tests.support.eventually import eventually
from tests.support.fake_executor import FakeExecutor
from tests.support.faults import TRIGGERS
from tests.support.moved_clock import MovedClock
from warren.broker.messages import KnownState
from warren.scheduler.node import SchedulerNode
from warren.scheduler.recovery.rescuer import AGAIN_SECONDS, BATCH, LONGEST_SECONDS
from warren.sql.models import Run
from warren.sql.registry import presence
from warren.sql.registry.presence import ADMIN, SCHEDULER, Beat
from warren.sql.run_status import RunStatus


@on_memory
@pytest.mark.parametrize("arrives", [True, False])
def test_what_was_not_confirmed_is_sent_again_with_the_same_id(
    cluster: Cluster, still: SchedulerNode, seat: Seat, arrives: bool
) -> None:
    boot_id = seat()
    cluster.job("work")
    run_id = cluster.trigger("work")
    cable = cluster.cables[id(still)]
    lost = cable.loses_confirms if arrives else cable.loses_messages
    lost.add(TRIGGERS)
    dispatch(cluster, still)
    assert cluster.run(run_id).status == RunStatus.ROUTED

    lost.clear()
    eventually(lambda: still.rescuer.run_round(cluster.now_ms()) and _is_sent(cluster, run_id))

    copies = queued(still)
    assert [copy.run_id for copy in copies] == [run_id] * (2 if arrives else 1)
    assert copies[-1].boot_id == boot_id
    assert copies[-1].resent
    cluster.pass_time(still, LONGEST_SECONDS)
    seat()
    still.rescuer.run_round(cluster.now_ms())
    assert queued(still) == []


@on_memory
def test_while_no_confirm_comes_the_pauses_grow(cluster: Cluster) -> None:
    still = new_still(cluster, clock=MovedClock())
    seat = seat_at(cluster, still)
    seat()
    cluster.job("work")
    run_id = cluster.trigger("work")
    cluster.pass_time(still, 0.01)
    cable = cluster.cables[id(still)]
    cable.loses_messages.add(TRIGGERS)
    dispatch(cluster, still)
    counts = []

    for pause in (0.5, 1, 2, 4, 8, 16, 16):
        for seconds in (pause - 0.01, 0.02):
            cluster.pass_time(still, seconds)
            seat()
            still.rescuer.run_round(cluster.now_ms())
            counts.append(len(cable.published[TRIGGERS]))

    assert counts == [1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8]
    assert cluster.run(run_id).status == RunStatus.ROUTED


@on_memory
def test_a_run_of_a_silent_scheduler_is_taken_over_by_one_of_the_others(cluster: Cluster) -> None:
    cluster.be_quick()
    owner = cluster.scheduler()
    desk = FakeExecutor(cluster).join()
    desk.else_known = KnownState.WAITING
    cluster.job("work")
    cluster.cables[id(owner)].loses_messages.add(TRIGGERS)
    run_id = cluster.trigger("work")
    cluster.wait_status(run_id, RunStatus.ROUTED)
    others = [cluster.scheduler(), cluster.scheduler()]
    eventually(desk.is_routable)

    cluster.crash(owner)
    [trigger] = desk.take(1, 10)

    assert trigger.run_id == run_id
    assert trigger.resent
    cluster.wait_status(run_id, RunStatus.SENT)
    assert cluster.run(run_id).routed_by in {node.name for node in others}
    assert desk.take(1, 1.0) == []


@on_memory
def test_a_run_that_nobody_confirms_for_long_is_taken_over_from_a_living_scheduler(
    cluster: Cluster,
) -> None:
    cluster.be_quick()
    # Shorter than the owner's second pause, in which the other one gets its turn.
    cluster.timeouts = replace(cluster.timeouts, take_over=1.0)
    owner = cluster.scheduler()
    desk = FakeExecutor(cluster).join()
    cluster.job("work")
    cluster.cables[id(owner)].loses_messages.add(TRIGGERS)
    run_id = cluster.trigger("work")
    cluster.wait_status(run_id, RunStatus.ROUTED)
    other = cluster.scheduler()

    [trigger] = desk.take(1, 10)

    assert trigger.run_id == run_id
    assert cluster.run(run_id).routed_by == other.name


@on_memory
def test_an_unconfirmed_run_of_a_deleted_job_ends(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    seat()
    cluster.job("work")
    run_id = cluster.trigger("work")
    lost = cluster.cables[id(still)].loses_messages
    lost.add(TRIGGERS)
    dispatch(cluster, still)
    assert cluster.run(run_id).status == RunStatus.ROUTED
    lost.clear()
    cluster.commands().delete("work")

    eventually(
        lambda: still.rescuer.run_round(cluster.now_ms()) and cluster.run(run_id).finished_at
    )

    assert cluster.run(run_id).status == RunStatus.LOST
    assert "its job was deleted" in cluster.run(run_id).message
    assert queued(still) == []


@on_memory
def test_while_a_queue_is_missing_the_run_stays_open_and_the_queue_is_asked_for(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    seat()
    cluster.job("work")
    run_id = cluster.trigger("work")
    lost = cluster.cables[id(still)].loses_messages
    lost.add(TRIGGERS)
    dispatch(cluster, still)
    lost.clear()
    queue = f"warren.run.{APP}.one"
    still.connections.admin.delete_queue(queue)

    cluster.pass_time(still, AGAIN_SECONDS)
    still.rescuer.run_round(cluster.now_ms())

    assert cluster.run(run_id).status == RunStatus.ROUTED
    seat()
    assert still.connections.admin.count_messages(queue) == 0
    cluster.pass_time(still, 2 * AGAIN_SECONDS)
    still.rescuer.run_round(cluster.now_ms())
    assert [copy.run_id for copy in queued(still)] == [run_id]


@on_memory
@pytest.mark.parametrize("ahead_ms", [0, 3_600_000], ids=["now", "before-the-clock-was-set-back"])
def test_hundreds_of_runs_for_a_dead_executor_hold_up_no_run_for_a_living_one(
    cluster: Cluster, still: SchedulerNode, seat: Seat, ahead_ms: int
) -> None:
    boot_id = seat()
    cluster.job("work")
    run_id = cluster.trigger("work")
    routed_at = cluster.now_ms() - 60_000
    routed(cluster, run_id, boot_id, by="gone", at_ms=routed_at + 1 + ahead_ms)
    routed_to_the_dead(cluster, run_id, at_ms=routed_at)

    still.rescuer.run_round(cluster.now_ms())

    assert [copy.run_id for copy in queued(still)] == [run_id]


@on_memory
def test_hundreds_of_unconfirmed_runs_for_a_dead_executor_hold_up_none_for_a_living_one(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    boot_id = seat()
    cluster.job("work")
    run_id = cluster.trigger("work")
    routed(cluster, run_id, boot_id, by=still.name, at_ms=cluster.now_ms())
    dead = routed_to_the_dead(cluster, run_id, at_ms=cluster.now_ms())
    still.rescuer.note_unknown([*dead, run_id])

    cluster.pass_time(still, AGAIN_SECONDS)
    seat()
    still.rescuer.run_round(cluster.now_ms())

    assert [copy.run_id for copy in queued(still)] == [run_id]


@on_memory
def test_a_run_of_a_scheduler_that_died_as_the_clock_was_set_back_is_sent_at_once(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    boot_id, ahead_ms = seat(), cluster.now_ms() + 3_600_000
    cluster.job("work")
    run_id = cluster.trigger("work")
    routed(cluster, run_id, boot_id, by="gone", at_ms=ahead_ms)
    beat = Beat(kind=ADMIN, app=SCHEDULER, address="gone", boot_id="g0ne", beat_at=ahead_ms)
    cluster.database.write(lambda session: presence.hold(session, beat))

    still.rescuer.run_round(cluster.now_ms())

    assert [copy.run_id for copy in queued(still)] == [run_id]


def routed(cluster: Cluster, run_id: int, boot_id: str, *, by: str, at_ms: int) -> None:
    """Let a scheduler have routed a run, of which nobody knows whether it was sent."""
    values = {"status": RunStatus.ROUTED, "routed_by": by, "boot_id": boot_id, "routed_at": at_ms}
    change = update(Run).where(Run.id == run_id).values(address="one", **values)
    cluster.database.write(lambda session: session.execute(change))


def routed_to_the_dead(cluster: Cluster, run_id: int, *, at_ms: int) -> range:
    """Add as many runs as one round sends, like this one but to a dead executor; return the ids."""
    table, run_ids = Run.__table__, range(run_id + 1, run_id + 1 + BATCH)

    def unit(session: Session) -> None:
        row = dict(session.execute(select(table)).mappings().one())
        row |= {"executor_address": "dead", "routed_at": at_ms}
        rows = [row | {"id": one, "scheduled_at": row["scheduled_at"] + one} for one in run_ids]
        session.execute(insert(table), rows)

    cluster.database.write(unit)
    return run_ids


def _is_sent(cluster: Cluster, run_id: int) -> bool:
    return cluster.run(run_id).status == RunStatus.SENT
