"""Fifty triggers in one message: one confirm, one return, one redelivery speaks of all of them."""

from collections import Counter

import pytest

from tests.integration.scheduler.test_crashes import note_no_confirm
from tests.support.cluster import APP, Cluster, on_memory
from tests.support.eventually import eventually
from tests.support.fake_executor import FakeExecutor
from tests.support.faults import TRIGGERS
from tests.support.invariants import assert_sound
from tests.support.sql_rows import trigger_at_once
from warren.broker.codec import MAX_PACK_TRIGGERS
from warren.broker.messages import KnownState
from warren.broker.topology import run_queue
from warren.scheduler.node import SchedulerNode
from warren.sql.run_status import RunStatus

pytestmark = pytest.mark.both("returns and confirms of packed messages")

COUNT = MAX_PACK_TRIGGERS


@pytest.fixture
def node(cluster: Cluster) -> SchedulerNode:
    cluster.be_quick()
    return cluster.scheduler()


@pytest.fixture
def desk(cluster: Cluster, node: SchedulerNode) -> FakeExecutor:
    return FakeExecutor(cluster, triggers_per_message=COUNT).join()


def fifty(cluster: Cluster, **fields: object) -> list[int]:
    """Let fifty runs of a job be due at once; return their ids."""
    cluster.job("work", concurrency=100, **fields)
    [job] = cluster.jobs(name="work")
    return trigger_at_once(cluster.database, job, COUNT, now_ms=cluster.now_ms())


def all_are(cluster: Cluster, ids: list[int], status: RunStatus) -> bool:
    found = Counter(run.status for run in cluster.runs() if run.id in ids)
    assert set(found) == {status}, found
    return True


def test_runs_that_are_due_at_once_share_a_message_and_each_starts_once(
    cluster: Cluster, node: SchedulerNode
) -> None:
    cluster.executor()
    cluster.wait_online()
    messages = cluster.cables[id(node)].published[TRIGGERS]

    ids = fifty(cluster)
    eventually(lambda: all_are(cluster, ids, RunStatus.SUCCEEDED))

    assert len(messages) == 1
    assert_sound(cluster)
    assert sorted(start["run"] for start in cluster.starts()) == ids


def test_a_scheduler_that_dies_between_a_message_and_its_confirm_starts_none_of_fifty_twice(
    cluster: Cluster, node: SchedulerNode
) -> None:
    cluster.executor()
    cluster.wait_online()
    note_no_confirm(cluster, node)
    ids = fifty(cluster, handler="until-file", param=str(cluster.folder / "go"))
    eventually(cluster.starts)
    cluster.crash(node)

    cluster.scheduler()
    (cluster.folder / "go").touch()
    eventually(lambda: all_are(cluster, ids, RunStatus.SUCCEEDED))

    assert_sound(cluster)
    assert sorted(start["run"] for start in cluster.starts()) == ids


def test_a_message_that_comes_back_brings_back_all_of_its_runs(
    cluster: Cluster, node: SchedulerNode, desk: FakeExecutor
) -> None:
    desk.else_known = KnownState.WAITING
    desk.is_beating = False  # a scheduler declares queues at heartbeats
    node.connections.admin.delete_queue(run_queue(APP, desk.address).name)

    ids = fifty(cluster)
    eventually(lambda: all_are(cluster, ids, RunStatus.UNDELIVERED))
    desk.is_beating = True
    again = desk.take(COUNT)

    copies = [cluster.run(trigger.run_id) for trigger in again]
    assert sorted(copy.origin_id for copy in copies) == ids
    # However often they came back until the queue was there again: none of it is a failed attempt.
    assert [copy.attempt for copy in copies] == [copy.redeliveries for copy in copies]


def test_fifty_that_a_dead_executor_never_took_go_to_another(
    cluster: Cluster, desk: FakeExecutor
) -> None:
    ids = fifty(cluster)
    eventually(lambda: all_are(cluster, ids, RunStatus.SENT))
    other = FakeExecutor(cluster, "two", triggers_per_message=COUNT).join()
    other.else_known = KnownState.WAITING

    desk.die()
    copies = other.take(COUNT)

    assert {copy.attempt for copy in copies} == {0}  # none of them has started
    assert all_are(cluster, ids, RunStatus.UNDELIVERED)
    assert other.take(1, 0.5) == []


@on_memory
def test_fifty_that_were_handed_out_to_a_dead_executor_are_lost(
    cluster: Cluster, desk: FakeExecutor
) -> None:
    ids = fifty(cluster, retries=3)
    eventually(lambda: all_are(cluster, ids, RunStatus.SENT))
    [_whole] = desk.hold(1)

    desk.die()
    eventually(lambda: all_are(cluster, ids, RunStatus.LOST))

    assert len(cluster.runs()) == COUNT


@on_memory
def test_an_executor_that_never_said_how_many_it_takes_gets_one_a_message(
    cluster: Cluster, node: SchedulerNode
) -> None:
    older = FakeExecutor(cluster, "older").join()

    fifty(cluster)

    assert len(older.hold(COUNT)) == COUNT


@on_memory
def test_what_its_executor_does_not_know_of_a_message_is_sent_again_one_by_one(
    cluster: Cluster, desk: FakeExecutor
) -> None:
    desk.is_forgetful = True
    ids = fifty(cluster)
    eventually(lambda: all_are(cluster, ids, RunStatus.SENT))
    taken = {trigger.run_id for trigger in desk.take(COUNT)}

    copies = desk.hold(COUNT)

    assert taken == set(ids)
    assert len(copies) == COUNT
    assert {desk.read(copy).resent for copy in copies} == {True}
