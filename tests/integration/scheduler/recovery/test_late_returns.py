"""An executor that comes back says of LOST runs that they never started: their due time runs."""

import pytest
from sqlalchemy import select

from tests.integration.scheduler.family import completion, tick_in_flight
from tests.integration.scheduler.flow_play import (
    FAILED,
    end_node,
    end_run,
    faults,
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
from tests.support.fake_executor import FakeExecutor
from tests.support.sql_rows import put
from warren.broker.messages import Trigger
from warren.executor.agent import Executor
from warren.scheduler.completion.end import lost, never_started
from warren.scheduler.node import SchedulerNode
from warren.sql.models import Alarm, Run
from warren.sql.run_status import NEVER_STARTED, RunStatus
from warren.sql.runs.transitions import SentTo

pytestmark = pytest.mark.both("locks and reads what is newer in one transaction")


@pytest.fixture
def node(cluster: Cluster) -> SchedulerNode:
    cluster.be_quick()
    return cluster.scheduler()


@pytest.fixture
def desk(cluster: Cluster, node: SchedulerNode) -> FakeExecutor:
    return FakeExecutor(cluster).join()


def lost_trigger(cluster: Cluster, desk: FakeExecutor, **fields: object) -> Trigger:
    """Let an executor take a run, and be silent until the run is LOST."""
    cluster.job("work", **fields)
    cluster.trigger("work")
    [trigger] = desk.take()
    desk.is_beating = False
    assert cluster.wait_final(trigger.run_id).status == RunStatus.LOST
    return trigger


def back(desk: FakeExecutor) -> FakeExecutor:
    desk.is_beating = True
    return desk.join()


def quiet(node: SchedulerNode, desk: FakeExecutor) -> None:
    """Wait until everything said so far has been stored."""
    before = node.counters["callbacks_rejected"]
    desk.report(desk.finished(999_999_999))
    eventually(lambda: node.counters["callbacks_rejected"] > before)


def test_what_never_started_is_planned_again_once_however_often_that_is_said(
    cluster: Cluster, node: SchedulerNode, desk: FakeExecutor
) -> None:
    lost_run = lost_trigger(cluster, desk, retries=2)
    never = back(desk).not_started(lost_run.run_id, identity=lost_run.identity)

    desk.report(never, times=3)
    [again] = desk.take()
    quiet(node, desk)

    first, second = cluster.runs()
    assert (first.status, first.late_status) == (RunStatus.LOST, NEVER_STARTED)
    assert (second.id, second.kind, second.attempt) == (again.run_id, "RETRY", 1)
    assert (second.scheduled_at, second.retries_left) == (first.scheduled_at, 2)
    assert again.attempt == 0  # attempts are those that started


@on_memory
@pytest.mark.parametrize("said", ["started", "finished"])
def test_a_run_that_was_said_to_have_started_is_not_planned_again(
    cluster: Cluster, node: SchedulerNode, desk: FakeExecutor, said: str
) -> None:
    cluster.job("work")
    run_id = cluster.trigger("work")
    desk.take()
    if said == "started":
        desk.report(desk.started(run_id, started_at_ms=cluster.now_ms()))
        cluster.wait_status(run_id, RunStatus.RUNNING)
    desk.is_beating = False
    cluster.wait_final(run_id)
    if said == "finished":
        back(desk).report(desk.finished(run_id))

    back(desk).report(desk.not_started(run_id))
    quiet(node, desk)

    late = {"started": None, "finished": RunStatus.SUCCEEDED}[said]
    assert [(run.status, run.late_status) for run in cluster.runs()] == [(RunStatus.LOST, late)]


@on_memory
def test_a_due_time_of_a_delay_that_has_gone_on_from_the_loss_is_not_planned_again(
    cluster: Cluster, node: SchedulerNode, desk: FakeExecutor
) -> None:
    cluster.job("work", schedule_kind="FIX_DELAY", schedule_value="1", enabled=True)
    [trigger] = eventually(lambda: desk.take(1))
    desk.is_beating = False
    tick = cluster.wait_final(trigger.run_id).scheduled_at

    back(desk).report(desk.not_started(trigger.run_id, identity=trigger.identity))
    quiet(node, desk)

    assert [run.late_status for run in cluster.runs() if run.scheduled_at == tick] == [
        NEVER_STARTED
    ]


@on_memory
def test_a_run_that_was_to_be_killed_is_not_planned_again(
    cluster: Cluster, node: SchedulerNode, desk: FakeExecutor
) -> None:
    cluster.job("work")
    run_id = cluster.trigger("work")
    desk.take()
    cluster.commands().kill(run_id)
    desk.is_beating = False
    assert cluster.wait_final(run_id).status == RunStatus.LOST

    back(desk).report(desk.not_started(run_id))
    quiet(node, desk)

    assert [run.late_status for run in cluster.runs()] == [NEVER_STARTED]


@on_memory
def test_a_run_that_was_retried_is_not_planned_again(
    cluster: Cluster, node: SchedulerNode, desk: FakeExecutor
) -> None:
    trigger = lost_trigger(cluster, desk, retries=1, delivery="AT_LEAST_ONCE")

    back(desk).report(desk.not_started(trigger.run_id))
    quiet(node, desk)

    first, second = cluster.runs()
    assert (first.late_status, second.retries_left) == (NEVER_STARTED, 0)


@on_memory
def test_a_run_that_was_repeated_is_not_planned_again(
    cluster: Cluster, node: SchedulerNode, desk: FakeExecutor
) -> None:
    trigger = lost_trigger(cluster, desk)
    acting(cluster.database, cluster.now_ms, who="test").runs.rerun([trigger.run_id])

    back(desk).report(desk.not_started(trigger.run_id))
    quiet(node, desk)

    assert [run.kind for run in cluster.runs()] == ["MANUAL", "RERUN"]
    assert cluster.run(trigger.run_id).late_status == NEVER_STARTED


# -- gateways that are killed, with an executor that another one takes over -----------------------


class TestGateways:
    """Of two runs, the executor was called for the first; the other one waits in the gateway."""

    @pytest.fixture
    def killed(self, cluster: Cluster, node: SchedulerNode) -> Executor:  # noqa: ARG002 - it runs
        gateway = cluster.executor(gateway="first")
        cluster.wait_online()
        cluster.job("work", param="hold")
        for number in (1, 2):
            cluster.trigger("work")
            eventually(lambda number=number: gateway.counts.get("taken") == number)
        eventually(lambda: {run.status for run in cluster.runs()} == {"RUNNING", "SENT"})
        cluster.kill(gateway)
        return gateway

    def runs(self, cluster: Cluster) -> tuple[Run, Run]:
        """Return the run that the executor was called for, and the other one."""
        called, waiting = sorted(cluster.runs(kind="MANUAL"), key=lambda run: run.scheduled_at)
        return called, waiting

    def planned_again(self, cluster: Cluster) -> Run:
        [again] = eventually(lambda: cluster.runs(kind="RETRY"))
        return cluster.wait_status(again.id, RunStatus.RUNNING)

    def test_what_was_never_called_is_not_lost_if_it_is_back_in_time(
        self, cluster: Cluster, killed: Executor
    ) -> None:
        other = cluster.executor(gateway="second", bequest_seconds=60.0)
        eventually(lambda: other.is_taking)
        cluster.executor(gateway="first", boot_id=killed.identity.boot_id)

        again = self.planned_again(cluster)

        called, waiting = self.runs(cluster)
        assert (called.status, waiting.status) == (RunStatus.RUNNING, RunStatus.UNDELIVERED)
        assert again.scheduled_at == waiting.scheduled_at

    def test_what_was_never_called_runs_after_all_if_it_is_back_too_late(
        self, cluster: Cluster, killed: Executor
    ) -> None:
        cluster.executor(gateway="second", bequest_seconds=1.0)
        for run in cluster.runs():
            assert cluster.wait_final(run.id).status == RunStatus.LOST
        cluster.executor(gateway="first", boot_id=killed.identity.boot_id)

        again = self.planned_again(cluster)

        called, waiting = self.runs(cluster)
        assert (called.late_status, waiting.late_status) == (None, NEVER_STARTED)
        assert again.scheduled_at == waiting.scheduled_at


# -- shards and flows, without a scheduler ------------------------------------------------------


def lose(cluster: Cluster, run: Run) -> None:
    """End a run of an executor LOST."""
    sent = {"status": RunStatus.SENT, "routed_at": cluster.now_ms(), "address": "a", "boot_id": "b"}
    put(cluster.database, [run.id], **sent)
    end = lost(run.id, "silent", cluster.now_ms())
    cluster.database.write(lambda session: completion(cluster).end(session, [end]))


def say_never_started(cluster: Cluster, run: Run) -> None:
    sent_to = SentTo(run.app_id, "a", "b")
    end = never_started(run.id, "closed", cluster.now_ms(), sent_to=sent_to)
    cluster.database.write(lambda session: completion(cluster).end(session, [end]))


@on_memory
def test_only_the_shard_that_never_started_is_planned_again(cluster: Cluster) -> None:
    hourly = {"schedule_kind": "FIX_RATE", "schedule_value": "3600", "enabled": True}
    cluster.apply(job("work", **hourly))
    ids = tick_in_flight(cluster, "work", shards=3)
    for run in cluster.runs():
        lose(cluster, run)

    say_never_started(cluster, cluster.run(ids[1]))

    planned = cluster.runs(status=RunStatus.PLANNED)
    assert [(run.shard_index, run.shard_total, run.attempt) for run in planned] == [(1, 3, 1)]


@on_memory
def test_a_webhook_that_could_not_be_told_of_the_loss_is_told_of_the_end_too(
    cluster: Cluster,
) -> None:
    cluster.apply(job("work", webhook_url="https://example.com"))
    run_id = cluster.trigger("work")
    lose(cluster, cluster.run(run_id))

    say_never_started(cluster, cluster.run(run_id))
    [again] = cluster.runs(status=RunStatus.PLANNED)
    end_run(cluster, again.id)

    told = cluster.database.read(lambda session: session.scalars(select(Alarm)).all())
    assert [alarm.run_id for alarm in told] == [run_id, again.id]


def lost_node(cluster: Cluster, **nodes: object) -> int:
    """Open a flow whose node `first` is LOST while `beside` runs; return the flow's run."""
    both = {"first": {"job": "work"}, "beside": {"job": "work"}}
    cluster.apply(job("work", retries=0), flow("nightly", both | nodes))
    flow_id = opened(cluster, "nightly")
    [run] = runs_of(cluster, flow_id, "first")
    lose(cluster, run)
    return flow_id


def first_says_never_started(cluster: Cluster, flow_id: int) -> int:
    """Let the executor say it; return how many runs the node has then."""
    say_never_started(cluster, runs_of(cluster, flow_id, "first")[0])
    return len(runs_of(cluster, flow_id, "first"))


@on_memory
def test_an_open_flow_waits_again_for_a_node_that_never_started(cluster: Cluster) -> None:
    after_both = {"job": "work", "after": ["first", "beside"]}
    flow_id = lost_node(cluster, then={"job": "work", "after": "first"}, last=after_both)
    assert outcomes(cluster, flow_id)["then"] == "BYPASSED"

    assert first_says_never_started(cluster, flow_id) == 2
    assert set(outcomes(cluster, flow_id).values()) == {None}
    assert faults(cluster) == []

    for node in ("beside", "first", "then", "last"):
        end_node(cluster, flow_id, node)
    assert cluster.run(flow_id).status == RunStatus.SUCCEEDED
    assert faults(cluster) == []


@on_memory
def test_what_other_nodes_keep_from_running_stays_bypassed(cluster: Cluster) -> None:
    flow_id = lost_node(
        cluster, last={"job": "work", "after": ["first", "beside"]}, more={"job": "work"}
    )
    end_node(cluster, flow_id, "beside", status=FAILED)

    assert first_says_never_started(cluster, flow_id) == 2

    expected = {"first": None, "beside": "FAILED", "last": "BYPASSED", "more": None}
    assert outcomes(cluster, flow_id) == expected
    assert faults(cluster) == []


@on_memory
def test_a_node_after_which_another_has_begun_is_not_planned_again(cluster: Cluster) -> None:
    flow_id = lost_node(cluster, repair={"job": "work", "after": {"first": "failure"}})
    assert nodes_of(cluster, flow_id)["repair"].begun_at

    assert first_says_never_started(cluster, flow_id) == 1
    assert outcomes(cluster, flow_id)["first"] == "FAILED"


def test_a_node_of_a_flow_that_is_over_is_not_planned_again(cluster: Cluster) -> None:
    flow_id = lost_node(cluster)
    end_node(cluster, flow_id, "beside")
    assert cluster.run(flow_id).status == RunStatus.FAILED

    assert first_says_never_started(cluster, flow_id) == 1
    assert runs_of(cluster, flow_id, "first")[0].late_status == NEVER_STARTED
    assert faults(cluster) == []
