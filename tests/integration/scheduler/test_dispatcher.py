"""Due rows become triggers: once, in time, and never held up by one bad row or one full address."""

from datetime import UTC, datetime

import pytest

from broker.messages import Trigger
from broker.topology import run_queue
from scheduler.aftermath import End
from scheduler.node import SchedulerNode
from sql import runs
from sql.errors import DatabaseUnavailable
from sql.models import Run
from sql.run_status import RunStatus
from tests.integration.scheduler.conftest import Seat
from tests.support.cluster import APP, Cluster, on_memory
from tests.support.eventually import eventually

pytestmark = on_memory


def queued(node: SchedulerNode, address: str = "one", *, app: str = APP) -> list[Trigger]:
    """Take what lies in an executor's queue."""
    found: list[Trigger] = []

    def keep(deliveries: object) -> None:
        found.extend(node.undertaker._open(delivery, address) for delivery in deliveries)

    node._connections.admin.drain(run_queue(app, address).name, 1_000, keep)
    return found


def dispatch(cluster: Cluster, node: SchedulerNode, *, rounds: int = 5) -> float:
    """Make rounds until there is nothing to do at once; return the last pause."""
    for _ in range(rounds):
        pause = node.dispatcher.tick(cluster.now_ms())
        node.confirmations.drain()
        if pause:
            return pause
    return 0


def test_a_due_run_is_routed_sent_and_confirmed(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    boot_id = seat()
    cluster.job("greet", handler="echo", timeout=9)
    run_id = cluster.trigger("greet", "hello")

    dispatch(cluster, still)

    run, [trigger] = cluster.run(run_id), queued(still)
    assert (run.status, run.executor_address, run.boot_id) == (RunStatus.SENT, "one", boot_id)
    assert run.routed_by == still.name
    assert run.due_at <= run.routed_at <= run.sent_at
    assert (trigger.run_id, trigger.param, trigger.boot_id) == (run_id, "hello", boot_id)
    assert (trigger.timeout_seconds, trigger.resent) == (9, False)
    assert trigger.routed_at_ms == run.routed_at
    assert "MANUAL, attempt 1" in run.trigger_msg


def test_a_run_is_not_sent_before_its_time_and_the_pause_ends_exactly_then(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    seat()
    now_ms = cluster.now_ms()
    at = datetime.fromtimestamp(now_ms // 1000 + 4, UTC)
    cluster.job("soon", schedule_kind="AT", schedule_conf=at.isoformat(), enabled=True)
    still.planner.tick(now_ms)
    [run] = cluster.runs()

    pause = still.dispatcher.tick(run.due_at - 300)

    assert cluster.run(run.id).status == RunStatus.PLANNED
    assert 0.2 <= pause <= 0.3
    assert still.dispatcher.tick(run.due_at - 3_000) == 0.5


def test_while_dispatch_is_paused_nothing_leaves(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    seat()
    cluster.job("greet")
    cluster.commands().pause()
    run_id = cluster.trigger("greet")

    dispatch(cluster, still)
    assert cluster.run(run_id).status == RunStatus.PLANNED

    cluster.commands().resume()
    dispatch(cluster, still)
    assert cluster.run(run_id).status == RunStatus.SENT


def test_while_the_broker_is_blocked_nothing_is_claimed(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    seat()
    cluster.job("greet")
    run_id = cluster.trigger("greet")
    broker = cluster.make_transport.__self__  # type: ignore[attr-defined]
    broker.block()

    pause = dispatch(cluster, still)
    assert (cluster.run(run_id).status, pause) == (RunStatus.PLANNED, 0.5)

    broker.unblock()
    dispatch(cluster, still)
    assert cluster.run(run_id).status == RunStatus.SENT


def test_a_full_address_holds_up_no_other_job_of_the_app(
    cluster: Cluster, still: SchedulerNode, seat: Seat, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scheduler.dispatcher.BATCH", 10)
    seat("one")
    seat("two")
    cluster.job("many")
    cluster.job("other")
    for _ in range(30):
        cluster.trigger("many", addresses=["one"])
    other = cluster.trigger("other", addresses=["two"])

    eventually(lambda: dispatch(cluster, still) and cluster.run(other).status == RunStatus.SENT, 5)

    assert len(queued(still, "one")) == 5
    assert len(cluster.runs(status=RunStatus.PLANNED)) == 25


def test_a_full_address_makes_no_busy_loop(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    seat()
    cluster.job("many")
    for _ in range(9):
        cluster.trigger("many")
    dispatch(cluster, still)

    pauses = [still.dispatcher.tick(cluster.now_ms()) for _ in range(5)]

    assert all(pause >= 0.005 for pause in pauses)
    assert len(cluster.runs(status=RunStatus.SENT)) == 5


def test_an_address_that_finishes_runs_gets_more_at_once(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    seat()
    cluster.job("many")
    ids = [cluster.trigger("many") for _ in range(9)]
    dispatch(cluster, still)
    ends = [
        End(run_id=run_id, status=RunStatus.SUCCEEDED, message="", finished_at=1)
        for run_id in ids[:4]
    ]
    cluster.database.write(lambda session: still._completion.end(session, ends))

    eventually(lambda: dispatch(cluster, still) and not cluster.runs(status="PLANNED"), 1)


def test_an_app_without_executors_holds_up_no_other(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    seat("one", app="present")
    cluster.job("waits", app="absent")
    cluster.job("goes", app="present")
    waits, goes = cluster.trigger("waits"), cluster.trigger("goes")

    dispatch(cluster, still)

    assert cluster.run(waits).status == RunStatus.PLANNED
    assert cluster.run(goes).status == RunStatus.SENT


def test_a_run_is_given_up_when_no_executor_of_its_app_was_seen_for_long(
    cluster: Cluster, still: SchedulerNode
) -> None:
    cluster.job("waits", retries=1)
    run_id = cluster.trigger("waits")

    eventually(lambda: dispatch(cluster, still) is not None and cluster.run(run_id).finished_at, 5)

    run, again = cluster.runs()
    assert (run.status, run.handle_msg) == (
        RunStatus.UNDELIVERED,
        "no executor of app demo is online",
    )
    assert run.finished_at - run.due_at >= 1_000
    assert (again.attempt, again.status, again.executor_fail_retry_count) == (1, "PLANNED", 0)


def test_a_scheduler_that_is_not_healthy_gives_nothing_up(
    cluster: Cluster, still: SchedulerNode
) -> None:
    cluster.job("waits")
    run_id = cluster.trigger("waits")
    still.roster.set_health(False)

    for seconds in (0, 60, 3_600):
        still.dispatcher.tick(cluster.now_ms() + seconds * 1_000)

    assert cluster.run(run_id).status == RunStatus.PLANNED


def test_a_run_that_another_scheduler_has_routed_is_not_given_up(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    seat()
    cluster.job("greet")
    run_id = cluster.trigger("greet")
    dispatch(cluster, still)
    late = End(
        run_id=run_id,
        status=RunStatus.UNDELIVERED,
        message="no executor is online",
        finished_at=1,
        only_from=RunStatus.PLANNED,
    )

    tally = cluster.database.write(lambda session: still._completion.end(session, [late]))

    assert tally.won == {}
    assert cluster.run(run_id).status == RunStatus.SENT


def test_a_run_for_an_address_that_is_away_waits_for_it_and_is_then_given_up(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    seat("one")
    seat("two")
    cluster.job("greet")
    run_id = cluster.trigger("greet", addresses=["two"])
    still.roster.dismiss(APP, "two", "boot-two")

    dispatch(cluster, still)
    assert cluster.run(run_id).status == RunStatus.PLANNED
    eventually(lambda: dispatch(cluster, still) and cluster.run(run_id).finished_at, 5)

    assert cluster.run(run_id).status == RunStatus.UNDELIVERED
    assert "none of the wanted executors is online" in cluster.run(run_id).handle_msg


@pytest.mark.parametrize(
    "columns", [{"executor_route_strategy": "NONSENSE"}, {"executor_block_strategy": "NONSENSE"}]
)
def test_a_run_that_cannot_be_routed_ends_alone(
    cluster: Cluster, still: SchedulerNode, seat: Seat, columns: dict[str, str]
) -> None:
    seat()
    cluster.job("good")
    cluster.job("bad")
    ids = [cluster.trigger("good"), cluster.trigger("good")]
    bad = cluster.trigger("bad")
    ids.append(cluster.trigger("good"))
    cluster.set_job("bad", **columns)

    dispatch(cluster, still)

    assert [cluster.run(run_id).status for run_id in ids] == [RunStatus.SENT] * 3
    assert cluster.run(bad).status == RunStatus.UNDELIVERED
    assert "cannot be routed" in cluster.run(bad).handle_msg
    assert sorted(trigger.run_id for trigger in queued(still)) == sorted(ids)


def test_runs_of_a_job_that_is_gone_are_cancelled(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    seat()
    cluster.job("gone")
    run_id = cluster.trigger("gone")
    # As if the run had been planned while the job was being deleted.
    cluster.database.write(lambda session: session.delete(session.merge(cluster.jobs()[0])))

    dispatch(cluster, still)

    assert cluster.run(run_id).status == RunStatus.CANCELLED
    assert queued(still) == []


def test_a_missing_queue_sends_the_run_elsewhere_as_a_new_attempt(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    seat()
    still._connections.admin.delete_queue(run_queue(APP, "one").name)
    cluster.job("greet")
    cluster.trigger("greet")

    still.dispatcher.tick(cluster.now_ms())
    still.confirmations.drain()

    first, again = cluster.runs()
    assert first.status == RunStatus.UNDELIVERED
    assert (again.kind, again.attempt, again.redeliveries) == ("RETRY", 1, 1)
    assert (APP, "one") in still.greeter._missing


def test_a_scheduler_frozen_after_its_commit_publishes_nothing(
    cluster: Cluster, still: SchedulerNode, seat: Seat, monkeypatch: pytest.MonkeyPatch
) -> None:
    seat()
    cluster.job("greet")
    run_id = cluster.trigger("greet")
    monkeypatch.setattr("scheduler.delivery.STALE_SECONDS", -1.0)

    dispatch(cluster, still)

    assert queued(still) == []
    assert cluster.run(run_id).status == RunStatus.ROUTED
    assert run_id in still.rescuer._unknown


def test_confirms_are_noted_once_the_database_is_back(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    seat()
    cluster.job("greet")
    run_id = cluster.trigger("greet")
    mortal = cluster.mortals[id(still)]
    still.dispatcher.tick(cluster.now_ms())
    mortal.is_dead = True

    with pytest.raises(DatabaseUnavailable):
        still.confirmations.drain()
    assert cluster.run(run_id).status == RunStatus.ROUTED
    mortal.is_dead = False
    still.confirmations.drain()

    assert cluster.run(run_id).status == RunStatus.SENT


def test_a_run_that_was_taken_over_is_not_ended_by_its_first_owners_return(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    seat()
    still._connections.admin.delete_queue(run_queue(APP, "one").name)
    cluster.job("greet")
    run_id = cluster.trigger("greet")
    still.dispatcher.tick(cluster.now_ms())
    [row] = cluster.runs()
    cluster.database.write(
        lambda session: runs.take_over(session, [row], node="other", now_ms=row.routed_at + 1)
    )

    still.confirmations.drain()

    assert cluster.run(run_id).status == RunStatus.ROUTED
    assert len(cluster.runs()) == 1


def test_an_old_row_of_another_app_is_found_by_the_next_sweep(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    seat()
    cluster.job("greet")
    now_ms = cluster.now_ms()
    still.dispatcher.tick(now_ms)
    run_id = cluster.trigger("greet")
    cluster.database.write(
        lambda session: setattr(_run(session, run_id), "due_at", now_ms - 60_000)
    )

    still.dispatcher.tick(now_ms + 1_000)
    for _ in range(3):
        still.dispatcher.tick(now_ms + 10_001)
    still.confirmations.drain()

    assert cluster.run(run_id).status == RunStatus.SENT


def _run(session: object, run_id: int) -> object:

    return session.get(Run, run_id)  # type: ignore[attr-defined]
