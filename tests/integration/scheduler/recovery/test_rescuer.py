"""Triggers of unknown fate are sent again: soon, with the same id, to the same boot."""

from dataclasses import replace

import pytest

from broker.messages.to_scheduler import Knowledge
from scheduler.node import SchedulerNode
from sql.run_status import RunStatus
from tests.integration.scheduler.conftest import Seat
from tests.integration.scheduler.dispatch.test_dispatcher import dispatch, queued
from tests.support.cluster import APP, Cluster, on_memory
from tests.support.eventually import eventually
from tests.support.fake_executor import FakeExecutor
from tests.support.faults import TRIGGERS


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
    eventually(lambda: still.rescuer.tick(cluster.now_ms()) and _is_sent(cluster, run_id))

    copies = queued(still)
    assert [copy.run_id for copy in copies] == [run_id] * (2 if arrives else 1)
    assert copies[-1].boot_id == boot_id
    assert copies[-1].resent
    assert still.rescuer._unknown == {}


@on_memory
def test_while_no_confirm_comes_the_pauses_grow(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    seat()
    cluster.job("work")
    run_id = cluster.trigger("work")
    cable = cluster.cables[id(still)]
    cable.loses_messages.add(TRIGGERS)
    dispatch(cluster, still)
    pauses = []

    for _ in range(7):
        unknown = still.rescuer._unknown[run_id]
        pauses.append(unknown.pause_seconds)
        still.rescuer.tick(cluster.now_ms())
        unknown.due_at = 0
        still.rescuer.tick(cluster.now_ms())

    assert pauses == [0.5, 1, 2, 4, 8, 16, 16]
    assert len(cable.published[TRIGGERS]) == 1 + 7


@on_memory
def test_a_run_of_a_silent_scheduler_is_taken_over_by_one_of_the_others(cluster: Cluster) -> None:
    cluster.be_quick()
    owner = cluster.scheduler()
    desk = FakeExecutor(cluster).join()
    desk.else_known = Knowledge.WAITING
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
    lost.clear()
    cluster.commands().delete("work")

    eventually(lambda: still.rescuer.tick(cluster.now_ms()) and cluster.run(run_id).finished_at)

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
    still.connections.admin.delete_queue(f"warren.run.{APP}.one")

    eventually(lambda: still.rescuer.tick(cluster.now_ms()) and still.registrar._missing)

    assert cluster.run(run_id).status == RunStatus.ROUTED
    assert run_id in still.rescuer._unknown


def _is_sent(cluster: Cluster, run_id: int) -> bool:
    return cluster.run(run_id).status == RunStatus.SENT
