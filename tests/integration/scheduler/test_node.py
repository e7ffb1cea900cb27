"""A scheduler's beginning and end, and the orders to kill that it carries."""

import threading
import time

import pytest

from broker.errors import BrokerUnavailable
from broker.messages import Kill
from scheduler.node import SchedulerNode
from sql.errors import DatabaseUnavailable
from sql.run_status import RunStatus
from tests.support.cluster import Cluster, on_memory
from tests.support.eventually import eventually
from tests.support.executor_desk import ExecutorDesk


def role_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name != "MainThread"}


@on_memory
def test_without_a_broker_a_scheduler_does_not_begin_and_leaves_nothing(cluster: Cluster) -> None:
    before = role_threads()
    broker = cluster.make_transport.__self__  # type: ignore[attr-defined]
    broker.stop()

    with pytest.raises(BrokerUnavailable):
        cluster.new_scheduler()

    assert role_threads() <= before
    broker.start()


@on_memory
def test_without_a_database_a_scheduler_does_not_begin_and_leaves_nothing(
    cluster: Cluster,
) -> None:
    before = role_threads()
    node = cluster.new_scheduler()
    cluster.mortals[id(node)].die()

    with pytest.raises(DatabaseUnavailable):
        node.start()

    eventually(lambda: role_threads() <= before, 5)


@on_memory
def test_a_scheduler_that_was_never_started_can_be_stopped(cluster: Cluster) -> None:
    cluster.new_scheduler().stop()


def test_a_scheduler_ends_within_seconds_and_leaves_no_thread(cluster: Cluster) -> None:
    before = role_threads()
    node = cluster.new_scheduler()
    node.start()
    eventually(lambda: node.roster.is_healthy)

    began = time.monotonic()
    node.stop()

    assert time.monotonic() - began < 5
    eventually(lambda: role_threads() <= before, 5)


@on_memory
def test_a_scheduler_ends_within_seconds_though_the_broker_is_blocked(cluster: Cluster) -> None:
    node = cluster.new_scheduler()
    node.start()
    eventually(lambda: node.roster.is_healthy)
    cluster.make_transport.__self__.block()  # type: ignore[attr-defined]

    began = time.monotonic()
    node.stop()

    assert time.monotonic() - began < 5


@on_memory
def test_a_scheduler_that_ends_notes_what_the_broker_has_confirmed(cluster: Cluster) -> None:
    node = cluster.new_scheduler()
    cluster.schedulers.append(node)
    node.start()
    ExecutorDesk(cluster).join()
    cluster.job("work")
    node._confirming.stop()
    assert node._confirming.join(5)
    run_id = cluster.trigger("work")
    cluster.wait_status(run_id, RunStatus.ROUTED)

    node.stop()

    assert cluster.run(run_id).status == RunStatus.SENT


# -- kills ------------------------------------------------------------------------------------


@pytest.fixture
def node(cluster: Cluster) -> SchedulerNode:
    cluster.be_quick()
    return cluster.scheduler()


@pytest.fixture
def desk(cluster: Cluster, node: SchedulerNode) -> ExecutorDesk:
    return ExecutorDesk(cluster).join()


def test_an_order_to_kill_reaches_the_boot_that_has_the_run(
    cluster: Cluster, desk: ExecutorDesk
) -> None:
    cluster.job("work")
    run_id = cluster.trigger("work")
    desk.take(1)
    cluster.wait_status(run_id, RunStatus.SENT)

    cluster.commands().kill(run_id)

    assert desk.expect(Kill).run_id == run_id


@on_memory
def test_the_order_is_repeated_until_the_run_is_over_and_then_no_more(
    cluster: Cluster, desk: ExecutorDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scheduler.killer.AGAIN_SECONDS", 0.1)
    cluster.job("work", retries=3)
    run_id = cluster.trigger("work")
    desk.take(1)
    cluster.wait_status(run_id, RunStatus.SENT)
    cluster.commands().kill(run_id)
    eventually(lambda: len(desk.of(Kill)) >= 2, 10)

    desk.report(desk.finished(run_id, outcome="KILLED"))
    cluster.wait_final(run_id)
    seen = len(desk.of(Kill))
    node = cluster.schedulers[0]
    for _ in range(3):
        node.killer.tick(cluster.now_ms())

    assert len(desk.of(Kill)) <= seen + 1
    assert cluster.run(run_id).status == RunStatus.KILLED
    assert len(cluster.runs()) == 1


@on_memory
def test_a_run_to_be_killed_whose_executor_is_dead_ends_all_the_same(
    cluster: Cluster, desk: ExecutorDesk
) -> None:
    cluster.job("work", retries=3)
    unread, taken = cluster.trigger("work"), cluster.trigger("work")
    cluster.wait_status(taken, RunStatus.SENT)
    cluster.wait_status(unread, RunStatus.SENT)
    got = {trigger.run_id for trigger in desk.take(1)}
    for run_id in (unread, taken):
        cluster.commands().kill(run_id)

    desk.die()
    ends = {run_id: cluster.wait_final(run_id).status for run_id in (unread, taken)}

    assert {ends[run_id] for run_id in got} == {RunStatus.LOST}
    assert {ends[run_id] for run_id in set(ends) - got} == {RunStatus.KILLED}
    assert len(cluster.runs()) == 2
