"""Successes that are all there is of their tick end by one statement, whatever comes beside."""

from typing import Any

import pytest

from tests.support.cluster import Cluster, on_memory
from tests.support.eventually import eventually
from tests.support.fake_executor import FakeExecutor
from tests.support.server_words import refuse_message
from tests.support.sql_rows import put, statements
from warren.broker.messages import Finished
from warren.scheduler.node import SchedulerNode
from warren.sql.models import Run
from warren.sql.run_status import RunStatus

pytestmark = pytest.mark.both("one statement for many rows, in each dialect")


@pytest.fixture
def node(cluster: Cluster) -> SchedulerNode:
    return cluster.scheduler()


@pytest.fixture
def desk(cluster: Cluster, node: SchedulerNode) -> FakeExecutor:
    return FakeExecutor(cluster).join()


def sent(cluster: Cluster, desk: FakeExecutor, count: int, **fields: object) -> list[int]:
    """Plan runs of a job, each a tick of its own, and take their triggers."""
    cluster.job("work", concurrency=50, **fields)
    ids = [cluster.trigger("work") for _ in range(count)]
    assert len(desk.take(count)) == count
    for run_id in ids:
        cluster.wait_status(run_id, RunStatus.SENT)
    return ids


def success(cluster: Cluster, desk: FakeExecutor, run_id: int, **values: Any) -> Finished:
    """An executor's word on a run that is alone."""
    now_ms, run = cluster.now_ms(), cluster.run(run_id)
    facts = {
        "started_at_ms": now_ms - 5,
        "finished_at_ms": now_ms,
        "alone_of_job": run.job_id,
        "due_at_ms": run.due_at,
        "log_tail": "the end",
    }
    return desk.finished(run_id, **(facts | values))


def ends_by_row(sent: list[tuple[str, Any]]) -> list[str]:
    """The statements that lock rows to see how they may end."""
    look = "SELECT id, job_group, job_id, executor_address, executor_handler"
    return [text for text, _ in sent if text.startswith(look)]


def test_many_successes_end_by_one_statement_with_all_that_they_say(
    cluster: Cluster, desk: FakeExecutor
) -> None:
    ids = sent(cluster, desk, 10)
    results = [f'{{"rows":{one}}}' if one % 2 else "" for one in ids]
    reports = [
        success(cluster, desk, one, message=f"hé {one}", result=result)
        for one, result in zip(ids, results, strict=True)
    ]

    with statements(cluster.database) as said:
        desk.report(*reports)
        rows = [cluster.wait_final(one) for one in ids]

    assert [row.message for row in rows] == [f"hé {one}" for one in ids]
    assert [row.result for row in rows] == [one or None for one in results]
    assert {row.status for row in rows} == {RunStatus.SUCCEEDED}
    assert {(row.trigger_code, row.handle_code) for row in rows} == {(200, 200)}
    assert [row.finished_at for row in rows] == [one.finished_at_ms for one in reports]
    assert [row.started_at for row in rows] == [one.started_at_ms for one in reports]
    assert {row.log_tail for row in rows} == {"the end"}
    assert all(row.finished_second is not None for row in rows)
    assert ends_by_row(said) == []


def test_one_that_comes_twice_is_ignored_and_makes_none_of_the_others_slow(
    cluster: Cluster, node: SchedulerNode, desk: FakeExecutor
) -> None:
    ids = sent(cluster, desk, 5)
    desk.report(success(cluster, desk, ids[2], message="first"))
    cluster.wait_final(ids[2])
    again = [success(cluster, desk, one, message="again", result='"again"') for one in ids]

    with statements(cluster.database) as said:
        desk.report(*again)
        rows = [cluster.wait_final(one) for one in ids]
    eventually(lambda: node.counters["callbacks_ignored"] == 1)

    assert [row.message for row in rows] == ["again", "again", "first", "again", "again"]
    assert [row.result for row in rows] == ['"again"', '"again"', None, '"again"', '"again"']
    assert node.counters["callbacks_stored"] == 5
    assert [f"id IN ({ids[2]})" in text for text in ends_by_row(said)] == [True]


@on_memory
def test_a_run_told_of_twice_in_one_message_counts_once(
    cluster: Cluster, node: SchedulerNode, desk: FakeExecutor
) -> None:
    ids = sent(cluster, desk, 3)
    reports = [success(cluster, desk, one) for one in ids]

    desk.report(*reports, success(cluster, desk, ids[0], message="other words"))
    rows = [cluster.wait_final(one) for one in ids]
    eventually(lambda: node.counters["callbacks_ignored"] == 1)

    assert {row.message for row in rows} == {"done"}


@on_memory
def test_what_an_executor_says_of_a_run_is_proved_by_its_row(
    cluster: Cluster, node: SchedulerNode, desk: FakeExecutor
) -> None:
    alone, shard, retry, other_job, other_time = ids = sent(cluster, desk, 5)
    put(cluster.database, [shard], shard_total=2)
    put(cluster.database, [retry], attempt=1)

    desk.report(
        success(cluster, desk, alone),
        success(cluster, desk, shard),
        success(cluster, desk, retry),
        success(cluster, desk, other_job, alone_of_job=987_654),
        success(cluster, desk, other_time, due_at_ms=cluster.now_ms() - 1_000_000),
    )

    assert {cluster.wait_final(one).status for one in ids[:3]} == {RunStatus.SUCCEEDED}
    eventually(lambda: node.counters["callbacks_refused"] == 2)
    assert node.counters["callbacks_stored"] == 3
    assert {cluster.run(one).status for one in ids[3:]} == {RunStatus.SENT}


@on_memory
def test_another_executors_success_is_rejected_and_the_runs_own_counts(
    cluster: Cluster, node: SchedulerNode, desk: FakeExecutor
) -> None:
    [run_id] = sent(cluster, desk, 1)
    stranger = FakeExecutor(cluster, "two").join()

    stranger.report(success(cluster, stranger, run_id, message="mine"))
    eventually(lambda: node.counters["callbacks_rejected"] == 1)
    desk.report(success(cluster, desk, run_id, message="no, mine"))

    assert cluster.wait_final(run_id).message == "no, mine"


@on_memory
def test_an_instant_that_cannot_be_is_that_of_the_reports_arrival(
    cluster: Cluster, desk: FakeExecutor
) -> None:
    good, bad = sent(cluster, desk, 2)
    before_ms = cluster.now_ms()

    desk.report(success(cluster, desk, good), success(cluster, desk, bad, finished_at_ms=1))

    assert cluster.wait_final(good).status == RunStatus.SUCCEEDED
    assert cluster.wait_final(bad).finished_at >= before_ms - 1_000


def test_children_follow_a_quick_success_once(cluster: Cluster, desk: FakeExecutor) -> None:
    cluster.job("child")
    ids = sent(cluster, desk, 3, children=("child",))
    reports = [success(cluster, desk, one) for one in ids]

    desk.report(*reports)
    desk.report(*reports)
    triggers = desk.take(3)

    [child] = cluster.jobs(name="child")
    assert [one.job_id for one in triggers] == [child.id] * 3
    assert sorted(one.origin_id for one in cluster.runs(job_id=child.id)) == ids


@on_memory
def test_the_next_tick_of_a_fixed_delay_is_set_by_a_quick_success(
    cluster: Cluster, desk: FakeExecutor
) -> None:
    cluster.job("delay", schedule_kind="FIX_DELAY", schedule_value="1", enabled=True)
    [first] = desk.take(1)
    cluster.wait_status(first.run_id, RunStatus.SENT)

    desk.report(success(cluster, desk, first.run_id))
    [second] = desk.take(1)

    assert second.job_id == first.job_id
    assert second.run_id != first.run_id


def test_a_success_that_cannot_be_stored_spoils_no_other_and_slows_few(
    cluster: Cluster,
    node: SchedulerNode,
    desk: FakeExecutor,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ids = sent(cluster, desk, 16)
    refuse_message(cluster.database, "x")
    reports = [success(cluster, desk, one) for one in ids]
    reports[3] = success(cluster, desk, ids[3], message="x")

    with statements(cluster.database) as said:
        desk.report(*reports)
        rows: list[Run] = [cluster.wait_final(one) for one in ids]

    assert [row.status for row in rows].count(RunStatus.SUCCEEDED) == 16
    assert (rows[3].message or "").startswith("its result could not be stored")
    assert node.counters["callbacks_unstorable"] == 1
    assert all(f"id IN ({ids[3]})" in text for text in ends_by_row(said))
