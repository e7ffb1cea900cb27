"""Runs of which nothing is heard are asked about, and end by what is answered."""

from dataclasses import replace

import pytest
from sqlalchemy import insert, select
from sqlalchemy.orm import Session

from tests.support.cluster import APP, Cluster, on_memory
from tests.support.eventually import eventually
from tests.support.fake_executor import FakeExecutor
from warren.broker.messages import KnownState, RunStateQuery
from warren.broker.topology import run_queue
from warren.scheduler.node import SchedulerNode
from warren.scheduler.recovery.reconciler import LOOK
from warren.sql.models import Run
from warren.sql.run_status import RunStatus


@pytest.fixture
def node(cluster: Cluster) -> SchedulerNode:
    cluster.be_quick()
    return cluster.scheduler()


@pytest.fixture
def desk(cluster: Cluster, node: SchedulerNode) -> FakeExecutor:
    desk = FakeExecutor(cluster).join()
    desk.is_forgetful = True
    return desk


def taken(cluster: Cluster, desk: FakeExecutor, **fields: object) -> int:
    cluster.job("work", **fields)
    run_id = cluster.trigger("work")
    desk.take(1)
    cluster.wait_status(run_id, RunStatus.SENT)
    return run_id


def routed_again(cluster: Cluster, run_id: int, **columns: object) -> None:
    def change(session: object) -> None:
        for column, value in columns.items():
            setattr(session.get(Run, run_id), column, value)  # type: ignore[attr-defined]

    cluster.database.write(change)


def test_a_trigger_that_its_living_executor_does_not_know_is_sent_again(
    cluster: Cluster, desk: FakeExecutor
) -> None:
    run_id = taken(cluster, desk)

    [copy] = desk.take(1)

    assert (copy.run_id, copy.resent) == (run_id, True)
    desk.report(desk.finished(run_id))
    assert cluster.wait_final(run_id).status == RunStatus.SUCCEEDED


@on_memory
def test_a_run_of_before_the_clock_was_set_back_is_asked_about_too(
    cluster: Cluster, desk: FakeExecutor
) -> None:
    desk.else_known = KnownState.WAITING
    run_id = taken(cluster, desk)
    routed_again(cluster, run_id, routed_at=cluster.now_ms() + 3_600_000)
    desk.heard.clear()

    eventually(lambda: desk.of(RunStateQuery))


@on_memory
def test_it_is_not_sent_again_while_something_waits_in_the_queue(
    cluster: Cluster, node: SchedulerNode, desk: FakeExecutor
) -> None:
    cluster.job("work")
    cluster.trigger("work")

    eventually(lambda: len(desk.of(RunStateQuery)) >= 3)

    assert node.connections.admin.count_messages(run_queue(APP, "one").name) == 1


@on_memory
@pytest.mark.parametrize("known", [KnownState.WAITING, KnownState.RUNNING, KnownState.FINISHED])
def test_what_waits_runs_or_has_finished_is_left_to_its_report(
    cluster: Cluster, desk: FakeExecutor, known: KnownState
) -> None:
    desk.else_known = known
    run_id = taken(cluster, desk)

    eventually(lambda: len(desk.of(RunStateQuery)) >= 2)

    assert cluster.run(run_id).status == RunStatus.SENT
    assert desk.take(1, 0.2) == []


@on_memory
def test_a_running_run_that_its_executor_has_forgotten_is_lost(
    cluster: Cluster, desk: FakeExecutor
) -> None:
    run_id = taken(cluster, desk)
    desk.report(desk.started(run_id))

    assert cluster.wait_final(run_id).status == RunStatus.LOST


@on_memory
def test_unknown_proves_nothing_beyond_what_the_executor_remembers(
    cluster: Cluster, desk: FakeExecutor
) -> None:
    desk.remembers_since_ms = 2**50
    run_id = taken(cluster, desk)

    assert cluster.wait_final(run_id).status == RunStatus.LOST


@on_memory
def test_a_sent_run_of_a_deleted_job_that_nobody_knows_ends(
    cluster: Cluster, desk: FakeExecutor
) -> None:
    desk.else_known = KnownState.WAITING
    run_id = taken(cluster, desk)
    cluster.commands().delete("work")
    desk.else_known = KnownState.UNKNOWN

    assert cluster.wait_final(run_id).status == RunStatus.LOST


@pytest.mark.parametrize(
    ("status", "known", "expected"),
    [
        ("SENT", KnownState.NEVER_STARTED, "UNDELIVERED"),
        ("ROUTED", KnownState.NEVER_STARTED, "UNDELIVERED"),
        ("RUNNING", KnownState.NEVER_STARTED, "LOST"),
        ("SENT", KnownState.UNKNOWN, "LOST"),
        ("ROUTED", KnownState.UNKNOWN, "LOST"),
        ("RUNNING", KnownState.UNKNOWN, "LOST"),
    ],
)
@on_memory
def test_a_successors_journal_settles_what_the_boot_before_it_left(
    cluster: Cluster, desk: FakeExecutor, status: str, known: KnownState, expected: str
) -> None:
    run_id = taken(cluster, desk)
    desk.die()
    successor = FakeExecutor(cluster)
    successor.knowledge[run_id] = known
    routed_again(cluster, run_id, status=status)
    successor.join()

    assert cluster.wait_final(run_id).status == expected
    assert len(cluster.runs()) == (2 if expected == "UNDELIVERED" else 1)


@on_memory
def test_a_result_in_the_successors_journal_is_waited_for(
    cluster: Cluster, desk: FakeExecutor
) -> None:
    run_id = taken(cluster, desk)
    desk.die()
    successor = FakeExecutor(cluster)
    successor.knowledge[run_id] = KnownState.FINISHED
    successor.join()
    successor.expect(RunStateQuery)

    successor.report(desk.finished(run_id))

    assert cluster.wait_final(run_id).status == RunStatus.SUCCEEDED


@on_memory
def test_a_successor_whose_queue_never_empties_is_believed_in_the_end(
    cluster: Cluster, desk: FakeExecutor
) -> None:
    desk.else_known = KnownState.WAITING
    run_id = taken(cluster, desk)
    cluster.job("unread")
    unread = cluster.trigger("unread")
    cluster.wait_status(unread, RunStatus.SENT)
    desk.die()

    FakeExecutor(cluster).join()

    assert cluster.wait_final(run_id).status == RunStatus.LOST
    assert cluster.wait_final(unread).status == RunStatus.LOST


@on_memory
def test_an_executor_that_does_not_answer_is_asked_again(
    cluster: Cluster, desk: FakeExecutor
) -> None:
    desk.answers = False
    run_id = taken(cluster, desk)

    eventually(lambda: len(desk.of(RunStateQuery)) >= 2)

    assert cluster.run(run_id).status == RunStatus.SENT


@on_memory
def test_each_of_thousands_that_wait_in_one_executor_is_asked_about(
    cluster: Cluster, desk: FakeExecutor
) -> None:
    desk.else_known = KnownState.WAITING
    run_id = taken(cluster, desk)

    def multiply(session: Session) -> set[int]:
        columns = [column.name for column in Run.__table__.columns]
        row = dict(zip(columns, session.execute(select(*Run.__table__.columns)).one(), strict=True))
        rows = [
            row | {"id": run_id + number, "scheduled_at": row["scheduled_at"] + number}
            for number in range(1, LOOK + 500)
        ]
        session.execute(insert(Run.__table__), rows)
        return {one["id"] for one in rows}

    waiting = cluster.database.write(multiply)

    def asked() -> set[int]:
        return {key.run_id for question in desk.of(RunStateQuery) for key in question.runs}

    eventually(lambda: waiting <= asked())
    assert max(len(question.runs) for question in desk.of(RunStateQuery)) == 500


@on_memory
@pytest.mark.parametrize("status", [RunStatus.SENT, RunStatus.RUNNING])
def test_a_run_that_ends_while_its_executor_is_asked_keeps_its_end(
    cluster: Cluster, status: RunStatus, events: list[dict[str, object]]
) -> None:
    cluster.be_quick()
    cluster.timeouts = replace(cluster.timeouts, answer=30.0)
    cluster.scheduler()
    desk = FakeExecutor(cluster).join()
    desk.else_known = KnownState.WAITING
    run_id = taken(cluster, desk)
    if status is RunStatus.RUNNING:
        desk.report(desk.started(run_id))
        cluster.wait_status(run_id, status)
    answer = desk.respond

    def end_then_answer(message: object) -> None:
        if isinstance(message, RunStateQuery) and cluster.run(run_id).status == status:
            desk.report(desk.finished(run_id))
            cluster.wait_final(run_id)
            desk.knowledge[run_id] = KnownState.UNKNOWN
        answer(message)  # type: ignore[arg-type]

    # A run that was SENT is sent again, one that was RUNNING is to end.
    acts = {RunStatus.SENT: "triggers_sent_again", RunStatus.RUNNING: "runs_settled"}
    desk.respond = end_then_answer  # type: ignore[method-assign]
    eventually(lambda: acts[status] in {event["event"] for event in events})

    assert cluster.run(run_id).status == RunStatus.SUCCEEDED
