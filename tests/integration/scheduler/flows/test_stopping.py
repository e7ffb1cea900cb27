"""Flows that are killed, take too long, block each other, or are left behind."""

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import select, update

from tests.integration.scheduler.family import completion
from tests.integration.scheduler.flow_play import (
    FAILED,
    begun,
    end_node,
    flow,
    job,
    nodes_of,
    opened,
    outcomes,
    runs_of,
)
from tests.support.acting import acting
from tests.support.cluster import Cluster, on_memory
from tests.support.eventually import eventually
from tests.support.sql_rows import put
from warren.scheduler.commands.triggers import When
from warren.scheduler.dispatch.dispatcher import AHEAD_MS
from warren.scheduler.node import SchedulerNode
from warren.sql.models import Alarm, FlowNode
from warren.sql.run_status import RunStatus

pytestmark = on_memory

CHAIN = {"first": {"job": "a"}, "second": {"job": "a", "after": "first"}}
Keep = Callable[[], None]


@pytest.fixture
def keep(still: SchedulerNode, cluster: Cluster) -> Keep:
    """Let the keeper of flows make a round."""
    return lambda: still.flow_keeper.run_round(cluster.now_ms())  # type: ignore[attr-defined]


def night(cluster: Cluster, **fields: Any) -> int:
    cluster.apply(job("a"), flow("nightly", CHAIN, **fields))
    return opened(cluster, "nightly")


def sent(cluster: Cluster, run_id: int, node: str) -> int:
    [run] = runs_of(cluster, run_id, node)
    put(cluster.database, [run.id], status="RUNNING", address="one", routed_at=1)
    return run.id


def test_a_killed_flow_kills_its_runs_and_begins_nothing_more(cluster: Cluster, keep: Keep) -> None:
    run_id = night(cluster)
    of_node = sent(cluster, run_id, "first")

    cluster.commands().kill(run_id)
    keep()

    assert cluster.run(of_node).kill_requested_at
    assert outcomes(cluster, run_id) == {"first": None, "second": "BYPASSED"}
    end_node(cluster, run_id, "first", status=RunStatus.KILLED)
    assert cluster.run(run_id).status == "KILLED"
    assert nodes_of(cluster, run_id)["second"].reason == "its flow was stopped"


def test_a_killed_flow_whose_nodes_only_wait_ends_at_once(cluster: Cluster, keep: Keep) -> None:
    run_id = night(cluster)

    cluster.commands().kill(run_id)
    keep()

    [of_node] = runs_of(cluster, run_id, "first")
    assert (of_node.status, cluster.run(run_id).status) == ("CANCELLED", "KILLED")
    assert outcomes(cluster, run_id) == {"first": "FAILED", "second": "BYPASSED"}


def test_a_flow_that_takes_too_long_is_stopped_and_retried_from_there(
    cluster: Cluster, keep: Keep
) -> None:
    run_id = night(cluster, timeout=60, retries=1)
    end_node(cluster, run_id, "first")
    keep()
    assert begun(cluster, run_id) == ["second"]
    put(cluster.database, [run_id], started_at=cluster.now_ms() - 61_000)

    keep()

    run = cluster.run(run_id)
    assert (run.status, run.message) == ("TIMED_OUT", "timed out after 60 s")
    [retry] = cluster.runs(kind="RETRY")
    assert outcomes(cluster, retry.id) == {"first": "KEPT", "second": None}


def test_a_retry_of_a_node_of_a_killed_flow_is_not_planned(cluster: Cluster) -> None:
    run_id = night(cluster)
    cluster.set_job("a", retries=3)
    cluster.commands().kill(run_id)

    of_node = sent(cluster, run_id, "first")
    put(cluster.database, [of_node], kill_requested_at=cluster.now_ms())
    end_node(cluster, run_id, "first", status=FAILED)

    assert cluster.run(run_id).status == "KILLED"
    assert cluster.runs(kind="RETRY") == []


def test_a_node_that_runs_for_long_is_not_taken_for_one_that_was_left_behind(
    cluster: Cluster, keep: Keep
) -> None:
    run_id = night(cluster)
    began = cluster.now_ms() - 60_000
    long_ago = update(FlowNode).values(begun_at=began).where(FlowNode.begun_at.is_not(None))
    cluster.database.write(lambda session: session.execute(long_ago))

    keep()

    assert begun(cluster, run_id) == ["first"]


def test_a_flow_of_which_no_node_runs_is_judged_again(cluster: Cluster, keep: Keep) -> None:
    run_id = night(cluster)
    first = update(FlowNode).where(FlowNode.node == "first").values(outcome="SUCCEEDED")
    cluster.database.write(lambda session: session.execute(first))
    put(cluster.database, [run_id], started_at=cluster.now_ms() - 60_000)

    keep()

    assert begun(cluster, run_id) == ["second"]


def test_a_node_whose_run_was_cancelled_with_its_job_is_ended_with_an_alarm(
    cluster: Cluster, keep: Keep
) -> None:
    run_id = night(cluster, alarm_emails=("night@example.com",))
    [of_node] = runs_of(cluster, run_id, "first")
    put(cluster.database, [of_node.id], status="CANCELLED", message="job deleted", finished_at=9)
    began = cluster.now_ms() - 60_000
    cluster.database.write(
        lambda s: s.execute(
            update(FlowNode).values(begun_at=began).where(FlowNode.begun_at.is_not(None))
        )
    )

    keep()

    assert outcomes(cluster, run_id) == {"first": "FAILED", "second": "BYPASSED"}
    assert nodes_of(cluster, run_id)["first"].reason == "job deleted"
    assert cluster.run(run_id).status == "FAILED"
    told = cluster.database.read(
        lambda session: session.execute(select(Alarm.subject_key)).scalars().all()
    )
    flow_run = cluster.run(run_id)
    assert told == [f"tick:{flow_run.job_id}:{flow_run.scheduled_at}:{flow_run.origin_id}"]


def test_the_nodes_of_a_repetition_that_is_cancelled_do_not_stay_open(
    cluster: Cluster, keep: Keep
) -> None:
    run_id = night(cluster)
    put(cluster.database, [run_id], status="FAILED")

    keep()

    assert set(outcomes(cluster, run_id).values()) == {"BYPASSED"}


# -- block ------------------------------------------------------------------------------------


@pytest.fixture
def dispatch(still: SchedulerNode, cluster: Cluster) -> Callable[[], None]:
    def dispatch() -> None:
        still.missed_runs.run_round(cluster.now_ms())  # type: ignore[attr-defined]
        still.dispatcher.run_round(cluster.now_ms())  # type: ignore[attr-defined]

    return dispatch


def two_nights(cluster: Cluster, dispatch: Callable[[], None], **fields: Any) -> tuple[int, int]:
    cluster.apply(job("a"), flow("nightly", CHAIN, **fields))
    run_ids = cluster.trigger("nightly"), cluster.trigger("nightly")
    dispatch()
    return run_ids


def test_a_flow_is_opened_although_no_executor_is_online(
    cluster: Cluster, dispatch: Callable[[], None]
) -> None:
    cluster.apply(job("a"), flow("nightly", CHAIN))
    run_id = cluster.trigger("nightly")

    dispatch()

    run = cluster.run(run_id)
    assert (run.status, run.address, run.routed_at) == ("RUNNING", None, None)
    assert begun(cluster, run_id) == ["first"]


def test_a_flow_that_is_due_soon_is_opened_in_time_although_no_executor_is_online(
    cluster: Cluster, still: SchedulerNode
) -> None:
    cluster.apply(job("a"), flow("nightly", CHAIN))
    now_ms = cluster.now_ms()
    [flow_job] = cluster.jobs(name="nightly")
    soon = When(at_ms=now_ms + AHEAD_MS - 5)
    run_id = acting(cluster.database, lambda: now_ms).runs.trigger(flow_job.id, when=soon)

    waited = still.dispatcher.run_round(now_ms)

    run = cluster.run(run_id)
    if run.status == "RUNNING":  # so slow a machine that it was due meanwhile
        assert cluster.now_ms() >= run.due_at
    else:
        assert 0 <= waited <= AHEAD_MS / 1000


def test_the_next_run_of_a_serial_flow_waits_for_the_last(
    cluster: Cluster, dispatch: Callable[[], None]
) -> None:
    first, second = two_nights(cluster, dispatch)

    assert [cluster.run(run_id).status for run_id in (first, second)] == ["RUNNING", "PLANNED"]


def test_a_flow_that_discards_refuses_the_later_run(
    cluster: Cluster, dispatch: Callable[[], None]
) -> None:
    first, second = two_nights(cluster, dispatch, block="DISCARD_LATER")

    assert cluster.run(first).status == "RUNNING"
    assert cluster.run(second).status == "REFUSED"
    assert cluster.run(second).message == (f"run {first} of the flow is still running")


def test_a_flow_that_covers_kills_the_earlier_run(
    cluster: Cluster, dispatch: Callable[[], None], keep: Keep
) -> None:
    first = night(cluster, block="COVER_EARLY")
    second = cluster.trigger("nightly")
    dispatch()
    keep()
    assert cluster.run(first).status == "KILLED"
    assert cluster.run(first).message == f"replaced by run {second}"
    assert cluster.run(second).status == "PLANNED"


def test_of_two_runs_that_are_due_together_a_flow_that_covers_opens_the_newer(
    cluster: Cluster, dispatch: Callable[[], None]
) -> None:
    first, second = two_nights(cluster, dispatch, block="COVER_EARLY")

    assert [cluster.run(run_id).status for run_id in (first, second)] == ["REFUSED", "RUNNING"]


def test_flows_that_may_run_beside_each_other_do(
    cluster: Cluster, dispatch: Callable[[], None]
) -> None:
    nights = two_nights(cluster, dispatch, concurrency=2)

    def are_running() -> bool:
        dispatch()
        return {cluster.run(run_id).status for run_id in nights} == {"RUNNING"}

    eventually(are_running)


def test_the_ends_of_two_nodes_at_once_begin_what_follows_once(cluster: Cluster) -> None:
    nodes = {"x": {"job": "a"}, "y": {"job": "a"}, "z": {"job": "a", "after": ["x", "y"]}}
    cluster.apply(job("a"), flow("nightly", nodes))
    run_id = opened(cluster, "nightly")
    one = completion(cluster)
    end_node(cluster, run_id, "x")
    end_node(cluster, run_id, "y")

    cluster.database.write(lambda session: one.flows.advance(session, [run_id]))
    cluster.database.write(lambda session: one.flows.advance(session, [run_id]))

    assert len(runs_of(cluster, run_id, "z")) == 1
