"""Due rows become triggers: once, in time, and never held up by one bad row or one full address."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import update
from sqlalchemy.orm import Session

from tests.integration.scheduler.conftest import Seat, new_still, seat_at
from tests.support.acting import acting
from tests.support.cluster import APP, Cluster, on_memory
from tests.support.eventually import eventually
from tests.support.fake_executor import FakeExecutor
from tests.support.faults import TRIGGERS
from tests.support.moved_clock import MovedClock
from tests.support.sealed import triggers_in
from tests.support.sql_rows import new_run, plan
from warren.broker.errors import QueueUnavailable
from warren.broker.messages import Heartbeat, Load, Trigger
from warren.broker.reasons import Reason
from warren.broker.topology import command_queue, run_queue
from warren.broker.transport import Confirm, Delivery, Outgoing, Queue
from warren.scheduler.actor import Actor
from warren.scheduler.commands.triggers import AS_IT_IS
from warren.scheduler.completion.end import End
from warren.scheduler.dispatch import dispatcher
from warren.scheduler.dispatch.decisions import FULL_SECONDS
from warren.scheduler.dispatch.dispatcher import AHEAD_MS, STOCK, STOCKED_SECONDS
from warren.scheduler.jobs.spec import AppSpec
from warren.scheduler.node import SchedulerNode
from warren.scheduler.node_context import ClaimLimits, NodeContext
from warren.scheduler.recovery.rescuer import AGAIN_SECONDS
from warren.scheduler.routing.routes import Choice, Router, RouteRequest
from warren.scheduler.views import blockers, limit_view
from warren.sql.errors import DatabaseUnavailable
from warren.sql.jobs import job_rows
from warren.sql.listings import recent
from warren.sql.models import Run, Uptime
from warren.sql.registry import presence
from warren.sql.run_status import LATE_MS, Kind, RunStatus
from warren.sql.runs import transitions

pytestmark = on_memory


#: The scheduler gives runs up that no executor could take for a second.
gives_up_soon = pytest.mark.parametrize("still_options", [{"no_executor": 1.0}], ids=["soon"])


def queued(node: SchedulerNode, address: str = "one", *, app: str = APP) -> list[Trigger]:
    """Take what lies in an executor's queue."""
    found: list[Trigger] = []

    def keep(deliveries: Sequence[Delivery]) -> None:
        found.extend(triggers_in(deliveries, node, address, app=app))

    node.connections.admin.drain(run_queue(app, address).name, 1_000, keep)
    return found


def plan_one(cluster: Cluster, app: str = APP, **fields: Any) -> int:
    """Plan a run of a job of an app; return its id."""
    cluster.job(f"of-{app}", app=app)
    [job] = cluster.jobs(name=f"of-{app}")
    fields = {"app_id": job.app_id, "job_id": job.id, "kind": Kind.API, "origin_id": None, **fields}
    return plan(cluster.database, new_run(**fields))[0]


def dispatch(cluster: Cluster, node: SchedulerNode, *, rounds: int = 5) -> float:
    """Make rounds until there is nothing to do at once; return the last wait."""
    for _ in range(rounds):
        wait_seconds = node.dispatcher.run_round(cluster.now_ms())
        node.confirmations.drain()
        if wait_seconds:
            return wait_seconds
    return 0


def test_a_due_run_is_routed_sent_and_confirmed(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    boot_id = seat()
    cluster.job("greet", handler="echo", timeout=9)
    run_id = cluster.trigger("greet", "hello")

    dispatch(cluster, still)

    run, [trigger] = cluster.run(run_id), queued(still)
    assert (run.status, run.address, run.boot_id) == (RunStatus.SENT, "one", boot_id)
    assert run.routed_by == still.name
    assert run.due_at <= run.routed_at <= run.sent_at
    assert (trigger.run_id, trigger.param, trigger.boot_id) == (run_id, "hello", boot_id)
    assert (trigger.timeout_seconds, trigger.resent) == (9, False)
    assert trigger.routed_at_ms == run.routed_at
    assert "manual, attempt 1" in run.trigger_message


def test_a_run_is_not_claimed_long_before_its_time_and_the_wait_ends_in_time_for_it(
    cluster: Cluster,
) -> None:
    still = new_still(cluster, clock=MovedClock())
    seat_at(cluster, still)()
    now_ms = cluster.now_ms()
    at = datetime.fromtimestamp(now_ms // 1000 + 4, UTC)
    cluster.job("soon", schedule_kind="AT", schedule_value=at.isoformat(), enabled=True)
    still.planner.run_round(now_ms)
    [run] = cluster.runs()
    still.dispatcher.run_round(now_ms)

    wait_seconds = still.dispatcher.run_round(run.due_at - 300)

    assert cluster.run(run.id).status == RunStatus.PLANNED
    assert wait_seconds == pytest.approx((300 - AHEAD_MS) / 1000)
    assert still.dispatcher.run_round(run.due_at - 3_000) == 0.5


@pytest.fixture
def slow_clock(monkeypatch: pytest.MonkeyPatch) -> MovedClock:
    """A scheduler's clock that moves while it waits for the time to send, and only then."""
    clock = MovedClock()
    monkeypatch.setattr(dispatcher.time, "sleep", clock.advance)
    return clock


def test_a_run_is_claimed_before_its_time_and_sent_at_its_time(
    cluster: Cluster, slow_clock: MovedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    still = new_still(cluster, clock=slow_clock)
    seat_at(cluster, still)()
    now_ms, publisher = still.clock.now_ms(), still.roles.publisher
    run_id = plan_one(cluster, due_at=now_ms + 30)
    send, sent = publisher.send, list[tuple[RunStatus, int]]()

    def note(*args: Any, **options: Any) -> Any:
        sent.append((cluster.run(run_id).status, still.clock.now_ms()))
        return send(*args, **options)

    monkeypatch.setattr(publisher, "send", note)
    still.dispatcher.run_round(now_ms)

    assert sent == [(RunStatus.ROUTED, pytest.approx(now_ms + 30, abs=1))]
    [trigger] = queued(still)
    assert (trigger.run_id, trigger.routed_at_ms) == (run_id, now_ms + 30)


def test_a_scheduler_frozen_while_it_waits_for_the_time_publishes_nothing(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = MovedClock()
    monkeypatch.setattr(dispatcher.time, "sleep", lambda _seconds: clock.advance(61))
    still = new_still(cluster, clock=clock, stale=60.0)
    seat_at(cluster, still)()
    now_ms = still.clock.now_ms()
    run_id = plan_one(cluster, due_at=now_ms + 30)

    still.dispatcher.run_round(now_ms)

    assert queued(still) == []
    assert cluster.run(run_id).status == RunStatus.ROUTED


def test_what_is_due_does_not_wait_for_what_is_due_soon(
    cluster: Cluster, slow_clock: MovedClock
) -> None:
    still = new_still(cluster, clock=slow_clock)
    for app in (APP, "other"):
        seat_at(cluster, still)(app=app)
    now_ms = still.clock.now_ms()
    due, soon = plan_one(cluster, due_at=now_ms), plan_one(cluster, "other", due_at=now_ms + 30)

    wait_seconds = still.dispatcher.run_round(now_ms)

    assert [cluster.run(run_id).status for run_id in (due, soon)] == [
        RunStatus.ROUTED,
        RunStatus.PLANNED,
    ]
    assert (still.clock.now_ms(), wait_seconds <= 0.03) == (now_ms, True)


def test_a_clock_that_is_set_back_while_a_run_is_claimed_holds_it_up_no_longer(
    cluster: Cluster, slow_clock: MovedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    still = new_still(cluster, clock=slow_clock)
    seat_at(cluster, still)()
    now_ms, began = still.clock.now_ms(), slow_clock.now
    run_id = plan_one(cluster, due_at=now_ms + 30)
    write_runs = NodeContext.write_runs

    def set_back(*args: Any, **options: Any) -> Any:
        written = write_runs(*args, **options)
        monkeypatch.setattr(still.clock, "_offset_ms", still.clock._offset_ms - 3_600_000)
        return written

    monkeypatch.setattr(NodeContext, "write_runs", set_back)
    still.dispatcher.run_round(now_ms)

    assert slow_clock.now - began == pytest.approx(AHEAD_MS / 1000)
    assert [trigger.run_id for trigger in queued(still)] == [run_id]


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

    wait_seconds = dispatch(cluster, still)
    assert (cluster.run(run_id).status, wait_seconds) == (RunStatus.PLANNED, 0.5)

    broker.unblock()
    dispatch(cluster, still)
    assert cluster.run(run_id).status == RunStatus.SENT


@pytest.mark.parametrize("still_options", [{"limits": ClaimLimits(runs=10)}], ids=["10-runs"])
def test_a_full_address_holds_up_no_other_job_of_the_app(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    seat("one")
    seat("two")
    cluster.job("many")
    cluster.job("other")
    for _ in range(30):
        cluster.trigger("many", addresses=["one"])
    other = cluster.trigger("other", addresses=["two"])

    eventually(lambda: dispatch(cluster, still) and cluster.run(other).status == RunStatus.SENT)

    assert len(queued(still, "one")) == 5
    assert len(cluster.runs(status=RunStatus.PLANNED)) == 25


def test_a_full_address_holds_up_no_other_job_however_many_wait_for_it_and_slow_the_claims(
    cluster: Cluster,
) -> None:
    still = new_still(cluster, clock=MovedClock(), limits=ClaimLimits(runs=10))
    seat = seat_at(cluster, still)
    seat("one")
    seat("two")
    for number in range(60):
        cluster.job(f"many-{number}")
        cluster.trigger(f"many-{number}", addresses=["one"])
    cluster.job("other")
    other = cluster.trigger("other", addresses=["two"])

    def is_sent() -> bool:
        still.dispatcher.run_round(cluster.now_ms())
        cluster.pass_time(still, 1.2 * FULL_SECONDS)
        return cluster.run(other).address == "two"

    eventually(is_sent)
    assert len(queued(still, "one")) == 5


def test_a_full_address_makes_no_busy_loop(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    seat()
    cluster.job("many")
    for _ in range(9):
        cluster.trigger("many")
    dispatch(cluster, still)

    waits = [still.dispatcher.run_round(cluster.now_ms()) for _ in range(5)]

    assert all(wait_seconds >= 0.005 for wait_seconds in waits)
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
    cluster.database.write(lambda session: still.completion.end(session, ends))
    # A count that says "full" is trusted for a shorter time than others.
    cluster.pass_time(still, FULL_SECONDS)

    dispatch(cluster, still)

    assert cluster.runs(status="PLANNED") == []


@pytest.mark.parametrize(
    ("limit", "wait_seconds"), [(5, 0.0), (STOCK + 5, STOCKED_SECONDS)], ids=["few", "many"]
)
def test_an_executor_with_many_runs_is_not_sent_every_few_that_it_ends(
    cluster: Cluster, limit: int, wait_seconds: float
) -> None:
    still = new_still(cluster, address_limit=limit)
    seat_at(cluster, still)()
    cluster.job("many")
    runs = acting(cluster.database, cluster.now_ms).runs
    first = runs.trigger_all((APP, "many"), [AS_IT_IS] * (limit + 20)).run_id

    def is_full() -> bool:
        dispatch(cluster, still)
        return len(cluster.runs(status=RunStatus.SENT)) == limit

    eventually(is_full)
    ends = [
        End(run_id=run_id, status=RunStatus.SUCCEEDED, message="", finished_at=1)
        for run_id in range(first, first + 3)
    ]
    cluster.database.write(lambda session: still.completion.end(session, ends))
    cluster.pass_time(still, FULL_SECONDS)

    waited = still.dispatcher.run_round(cluster.now_ms())

    assert waited == wait_seconds
    assert len(cluster.runs(status=RunStatus.PLANNED)) == 17


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


@gives_up_soon
def test_a_run_is_given_up_when_no_executor_of_its_app_was_seen_for_long(
    cluster: Cluster, still: SchedulerNode
) -> None:
    cluster.job("waits", retries=1)
    run_id = cluster.trigger("waits")

    eventually(lambda: dispatch(cluster, still) is not None and cluster.run(run_id).finished_at)

    run, again = cluster.runs()
    assert (run.status, run.message) == (
        RunStatus.UNDELIVERED,
        "no executor of app demo is online",
    )
    assert run.finished_at - run.due_at >= 1_000
    assert (again.attempt, again.status, again.retries_left) == (1, "PLANNED", 0)


@gives_up_soon
def test_a_scheduler_that_is_not_healthy_gives_nothing_up(
    cluster: Cluster, still: SchedulerNode
) -> None:
    cluster.job("waits")
    run_id = cluster.trigger("waits")
    still.roster.set_health(False)

    for seconds in (0, 60, 3_600):
        still.dispatcher.run_round(cluster.now_ms() + seconds * 1_000)

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

    tally = cluster.database.write(lambda session: still.completion.end(session, [late]))

    assert tally.won == {}
    assert cluster.run(run_id).status == RunStatus.SENT


@gives_up_soon
def test_a_run_for_an_address_that_is_away_waits_for_it_and_is_then_given_up(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    seat("one")
    seat("two")
    cluster.job("greet")
    run_id = cluster.trigger("greet", addresses=["two"])
    still.roster.dismiss(APP, "two", "boot-two")

    eventually(lambda: dispatch(cluster, still) and cluster.run(run_id).finished_at)

    run = cluster.run(run_id)
    assert run.status == RunStatus.UNDELIVERED
    assert "none of the requested executors is online" in run.message
    assert run.finished_at - run.due_at >= 1_000


@pytest.mark.parametrize("columns", [{"route": "NONSENSE"}, {"block": "NONSENSE"}])
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
    assert "cannot be routed" in cluster.run(bad).message
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
    queue = run_queue(APP, "one").name
    still.connections.admin.delete_queue(queue)
    cluster.job("greet")
    cluster.trigger("greet")

    still.dispatcher.run_round(cluster.now_ms())
    still.confirmations.drain()

    first, again = cluster.runs()
    assert first.status == RunStatus.UNDELIVERED
    assert (again.kind, again.attempt, again.redeliveries) == ("RETRY", 1, 1)
    seat()
    assert still.connections.admin.count_messages(queue) == 0


class Unconfirmed:
    """A batch of messages that the broker never confirms."""

    is_settled = True

    def __init__(self, messages: Sequence[Outgoing]) -> None:
        self._count = len(messages)

    def wait(self, _seconds: float) -> list[Confirm]:
        return [Confirm.UNKNOWN] * self._count


def test_a_scheduler_whose_triggers_are_not_confirmed_judges_nobody(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = cluster.scheduler()
    FakeExecutor(cluster).join()
    eventually(lambda: node.roster.is_healthy)
    cluster.job("greet", concurrency=2)

    with monkeypatch.context() as stalled:
        stalled.setattr(node.connections.triggers, "publish", Unconfirmed)
        cluster.trigger("greet")
        eventually(lambda: not node.roster.is_healthy)
    cluster.trigger("greet")

    eventually(lambda: node.roster.is_healthy)


def test_runs_wait_as_rows_while_the_node_that_holds_the_queue_is_down(
    cluster: Cluster, still: SchedulerNode, seat: Seat, monkeypatch: pytest.MonkeyPatch
) -> None:
    seat()
    admin = still.connections.admin
    admin.delete_queue(run_queue(APP, "one").name)
    cluster.job("greet", concurrency=2)
    cluster.trigger("greet")
    cluster.trigger("greet")

    with monkeypatch.context() as broken:
        broken.setattr(admin, "declare_queues", _node_is_down)
        for _ in range(10):
            seat()
            still.dispatcher.run_round(cluster.now_ms())
            still.confirmations.drain()
            cluster.pass_time(still, still.context.timeouts.no_executor)
            seat()
        waiting = [run for run in cluster.runs() if run.status == RunStatus.PLANNED]

    assert [run.redeliveries for run in waiting] == [1, 1]
    seat()
    dispatch(cluster, still)
    assert len(queued(still)) == 2


def _node_is_down(_queues: Sequence[Queue]) -> None:
    raise QueueUnavailable("the home node of the queue is down or inaccessible")


def _dispatch_past_patience(
    cluster: Cluster, node: SchedulerNode, run_id: int, before: Callable[[], object]
) -> None:
    """Make rounds until a run is so late that it ends if no executor is there."""
    late_ms = 1_500 * node.context.timeouts.no_executor

    def is_late() -> bool:
        before()
        dispatch(cluster, node)
        return cluster.now_ms() - cluster.run(run_id).due_at > late_ms

    eventually(is_late)


@pytest.mark.parametrize("still_options", [{"probe": 0.05, "no_executor": 1.0}], ids=["impatient"])
def test_runs_whose_route_asks_wait_while_questions_come_back(
    cluster: Cluster, still: SchedulerNode, seat: Seat, monkeypatch: pytest.MonkeyPatch
) -> None:
    boot_id = seat()
    admin = still.connections.admin
    admin.delete_queue(command_queue(APP, "one", boot_id).name)
    cluster.job("greet", route="FAILOVER")
    run_id = cluster.trigger("greet")
    beat = Heartbeat(app=APP, address="one", boot_id=boot_id, started_at_ms=1, load=Load())

    with monkeypatch.context() as broken:
        broken.setattr(admin, "declare_queues", _node_is_down)
        _dispatch_past_patience(cluster, still, run_id, lambda: still.roster.hear(beat))
        assert [run.status for run in cluster.runs()] == [RunStatus.PLANNED]
        assert list(still.roster.unreachable()) == [(APP, "one")]

    seat()
    assert still.roster.routable(APP) == {"one": boot_id}
    assert cluster.run(run_id).status == RunStatus.PLANNED


@gives_up_soon
def test_runs_wait_for_an_executor_that_joins_while_the_node_of_its_queue_is_down(
    cluster: Cluster,
    still: SchedulerNode,
    seat: Seat,
    monkeypatch: pytest.MonkeyPatch,
    events: list[dict[str, object]],
) -> None:
    still.registrar.run_round(cluster.now_ms())
    cluster.job("greet")
    run_id = cluster.trigger("greet")

    with monkeypatch.context() as broken:
        broken.setattr(still.connections.admin, "declare_queues", _node_is_down)
        _dispatch_past_patience(cluster, still, run_id, seat)
        assert [run.status for run in cluster.runs()] == [RunStatus.PLANNED]
        seat()
        assert _reasons(cluster, still, run_id) == [
            "executors whose queues cannot be reached (one)",
            "one is impaired: its queue at the broker cannot be reached",
        ]
        for _ in range(30):
            seat("one")
            seat("two")
            cluster.pass_time(still, 5)
    [row, _] = cluster.database.read(lambda s: presence.listing(s, presence.EXECUTOR))
    assert cluster.now_ms() - row.beat_at < 15_000
    told = [event for event in events if event["event"] == "queue_not_declared"]
    assert [event["count"] for event in told] == [1, 2, 2]
    assert told[1]["executors"] == [f"{APP}/one", f"{APP}/two"]

    seat("one")
    dispatch(cluster, still)
    assert len(queued(still)) == 1
    assert _reasons(cluster, still, run_id) == []


def _reasons(cluster: Cluster, node: SchedulerNode, run_id: int) -> list[str]:
    """Return why a run waits, and why jobs of its app get no runs, as users are told."""
    node.self_health.run_round(cluster.now_ms())
    now_ms = cluster.now_ms()

    def read(session: Session) -> list[Reason]:
        run = recent.run(session, run_id)
        waits = limit_view.waits_for(session, [run], Actor(who="test"), now_ms=now_ms).get(
            run_id, []
        )
        return waits + blockers.read(session, None, now_ms=now_ms).of_job(APP)

    return list(map(str, cluster.database.read(read)))


@pytest.mark.parametrize("still_options", [{"stale": -1.0}], ids=["frozen"])
def test_a_scheduler_frozen_after_its_commit_publishes_nothing(
    cluster: Cluster, still: SchedulerNode, seat: Seat, events: list[dict[str, object]]
) -> None:
    seat()
    cluster.job("greet")
    run_id = cluster.trigger("greet")

    dispatch(cluster, still)

    assert queued(still) == []
    assert cluster.run(run_id).status == RunStatus.ROUTED
    assert [e["count"] for e in events if e["event"] == "triggers_unconfirmed"] == [1]
    cluster.pass_time(still, AGAIN_SECONDS)
    still.rescuer.run_round(cluster.now_ms())
    assert [e["count"] for e in events if e["event"] == "triggers_rescued"] == [1]


def test_confirms_are_noted_once_the_database_is_back(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    seat()
    cluster.job("greet")
    run_id = cluster.trigger("greet")
    mortal = cluster.mortals[id(still)]
    still.dispatcher.run_round(cluster.now_ms())
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
    still.connections.admin.delete_queue(run_queue(APP, "one").name)
    cluster.job("greet")
    run_id = cluster.trigger("greet")
    still.dispatcher.run_round(cluster.now_ms())
    [row] = cluster.runs()
    cluster.database.write(
        lambda session: transitions.take_over(
            session, [row], node="other", now_ms=row.routed_at + 1
        )
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
    still.dispatcher.run_round(now_ms)
    run_id = cluster.trigger("greet")
    cluster.database.write(
        lambda session: setattr(_run(session, run_id), "due_at", now_ms - 60_000)
    )

    still.dispatcher.run_round(now_ms + 1_000)
    for _ in range(3):
        still.dispatcher.run_round(now_ms + 10_001)
    still.confirmations.drain()

    assert cluster.run(run_id).status == RunStatus.SENT


def _run(session: object, run_id: int) -> object:

    return session.get(Run, run_id)  # type: ignore[attr-defined]


# -- broadcasts -----------------------------------------------------------------------------------


def test_a_broadcast_is_one_row_until_it_is_due_and_then_one_for_each_executor(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    boots = [seat(address) for address in ("one", "three", "two")]
    cluster.job("all", route="SHARDING_BROADCAST", handler="echo", retries=4)
    first = cluster.trigger("all", "p")
    [planned] = cluster.runs()
    assert (planned.shard_total, planned.sharding) == (0, None)

    dispatch(cluster, still)
    still.confirmations.drain()

    rows = sorted(cluster.runs(), key=lambda run: run.shard_index)
    assert rows[0].id == first
    assert [row.address for row in rows] == ["one", "three", "two"]
    assert [row.boot_id for row in rows] == boots
    assert [row.sharding for row in rows] == ["0/3", "1/3", "2/3"]
    assert {row.status for row in rows} == {RunStatus.SENT}
    alike = ("job_id", "scheduled_at", "origin_id", "attempt", "due_at", "param", "kind")
    for column in (*alike, "retries_left", "routed_by", "routed_at"):
        assert len({getattr(row, column) for row in rows}) == 1, column
    for row in rows:
        [trigger] = queued(still, row.address)
        assert (trigger.run_id, trigger.boot_id) == (row.id, row.boot_id)
        assert (trigger.shard_index, trigger.shard_total) == (row.shard_index, 3)
        assert (trigger.param, trigger.handler) == ("p", "echo")


def test_a_tick_of_a_broadcast_is_planned_unexpanded(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    seat("one")
    seat("two")
    each_second = {"schedule_kind": "CRON", "schedule_value": "* * * * * ?", "enabled": True}
    cluster.job("all", route="SHARDING_BROADCAST", **each_second)

    now_ms = cluster.now_ms()
    still.planner.run_round(now_ms)
    planned = cluster.runs()
    assert {run.shard_total for run in planned} == {0}
    cluster.commands().stop("all")

    # Nothing is left of ticks that were cancelled before they were shards.
    dispatch(cluster, still)
    assert {run.status for run in cluster.runs()} == {RunStatus.CANCELLED}
    assert len(cluster.runs()) == len(planned)


def test_a_broadcast_with_addresses_goes_to_these_only(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    for address in ("one", "three", "two"):
        seat(address)
    cluster.job("all", route="SHARDING_BROADCAST")
    cluster.trigger("all", addresses=["two", "one"])

    dispatch(cluster, still)

    rows = sorted(cluster.runs(), key=lambda run: run.shard_index)
    assert [row.address for row in rows] == ["two", "one"]
    assert [row.sharding for row in rows] == ["0/2", "1/2"]
    assert all("requested: two,one; sharding broadcast" in row.trigger_message for row in rows)


@gives_up_soon
def test_a_broadcast_without_executors_is_one_row_that_is_tried_again_whole(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    cluster.job("all", route="SHARDING_BROADCAST", retries=1)
    cluster.trigger("all")
    eventually(lambda: dispatch(cluster, still) is not None and len(cluster.runs()) == 2)

    seat("one")
    seat("two")
    dispatch(cluster, still)

    gone, *rows = cluster.runs()
    assert (gone.status, gone.shard_total) == (RunStatus.UNDELIVERED, 0)
    assert sorted(row.sharding for row in rows) == ["0/2", "1/2"]
    assert {row.attempt for row in rows} == {1}


def test_a_broadcast_waits_until_every_executor_has_room(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    seat("one")
    seat("two")
    cluster.job("many")
    cluster.job("all", route="SHARDING_BROADCAST")
    ids = [cluster.trigger("many", addresses=["two"]) for _ in range(5)]
    dispatch(cluster, still)
    run_id = cluster.trigger("all")

    dispatch(cluster, still)
    assert cluster.run(run_id).status == RunStatus.PLANNED
    assert len(cluster.runs()) == 6
    end = End(run_id=ids[0], status=RunStatus.SUCCEEDED, message="", finished_at=1)
    cluster.database.write(lambda session: still.completion.end(session, [end]))

    eventually(lambda: dispatch(cluster, still) and cluster.run(run_id).shard_total == 2)


def test_a_shard_planned_before_its_job_became_no_broadcast_is_one_run(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    seat("one")
    seat("two")
    cluster.job("all", route="SHARDING_BROADCAST")
    run_id = cluster.trigger("all")
    cluster.job("all", route="LAST")

    dispatch(cluster, still)

    [run], [trigger] = cluster.runs(), queued(still, "two")
    assert (run.id, run.sharding) == (run_id, "0/1")
    assert (trigger.shard_index, trigger.shard_total) == (0, 1)


def test_a_run_planned_before_its_job_became_a_broadcast_is_expanded(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    seat("one")
    seat("two")
    cluster.job("all")
    cluster.trigger("all")
    cluster.job("all", route="SHARDING_BROADCAST")

    dispatch(cluster, still)

    assert [run.shard_total for run in cluster.runs()] == [2, 2]


def test_a_shard_whose_executor_left_keeps_its_number(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    for address in ("one", "three", "two"):
        seat(address)
    cluster.job("all", route="SHARDING_BROADCAST", retries=1)
    cluster.trigger("all")
    dispatch(cluster, still)
    [last] = cluster.runs(shard_index=2)
    still.roster.dismiss(APP, "two", "boot-two")
    end = End(run_id=last.id, status=RunStatus.FAILED, message="", finished_at=1)
    cluster.database.write(lambda session: still.completion.end(session, [end]))

    eventually(lambda: dispatch(cluster, still) and cluster.runs(attempt=1)[0].routed_at)

    [again] = cluster.runs(attempt=1)
    assert (again.sharding, again.address) == ("2/3", "one")
    assert "shard 2, moved because its executor left" in (again.trigger_message or "")
    assert len(cluster.runs()) == 4


@pytest.mark.parametrize("still_options", [{"stale": -1.0}], ids=["frozen"])
def test_shards_of_a_scheduler_that_died_after_its_commit_are_sent_by_another(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    other = new_still(cluster)
    for address in ("one", "two"):
        seat(address)
        seat_at(cluster, other)(address)
    cluster.job("all", route="SHARDING_BROADCAST")
    cluster.trigger("all")
    dispatch(cluster, still)
    assert {run.status for run in cluster.runs()} == {RunStatus.ROUTED}
    assert queued(still, "one") == []

    eventually(
        lambda: other.rescuer.run_round(cluster.now_ms()) and len(cluster.runs(status="SENT")) == 2,
    )

    rows = sorted(cluster.runs(), key=lambda run: run.shard_index)
    for row in rows:
        [trigger] = queued(still, row.address)
        assert (trigger.run_id, trigger.resent) == (row.id, True)
        assert (trigger.shard_index, trigger.shard_total) == (row.shard_index, 2)


def test_a_run_that_others_may_have_decided_about_since_the_peek_is_not_routed(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    seat()
    cluster.job("greet")
    run_id = cluster.trigger("greet")
    still.uptime.keep(cluster.now_ms)
    mortal = cluster.mortals[id(still)]

    def freeze() -> None:
        """Let so much time pass that others may find that nobody could send."""
        older = update(Uptime).values(until_at=Uptime.until_at - LATE_MS - 1_000)
        cluster.database.write(lambda session: session.execute(older))
        cluster.pass_time(still, LATE_MS / 1_000 + 1)

    mortal.before_next_write = freeze
    still.dispatcher.run_round(cluster.now_ms())

    assert mortal.before_next_write is None
    assert queued(still) == []
    assert cluster.run(run_id).status == RunStatus.PLANNED
    dispatch(cluster, still)
    assert cluster.run(run_id).status == RunStatus.SENT


def test_a_broadcast_whose_commit_got_no_answer_is_not_made_twice(
    cluster: Cluster, still: SchedulerNode, seat: Seat, events: list[dict[str, object]]
) -> None:
    seat("one")
    seat("two")
    cluster.job("all", route="SHARDING_BROADCAST")
    run_id = cluster.trigger("all")
    still.uptime.keep(cluster.now_ms)
    still.context.ids.reserve()

    cluster.mortals[id(still)].loses_next_answer = True
    dispatch(cluster, still)

    rows = cluster.runs()
    assert [row.status for row in rows] == [RunStatus.ROUTED] * 2
    assert run_id in {row.id for row in rows}
    # Nothing is left to route; the rescuer sends what the first commit routed.
    assert cluster.cables[id(still)].published[TRIGGERS] == []
    assert "run_not_routable" not in {event["event"] for event in events}


def test_a_broadcast_that_meets_a_shard_that_is_there_already_ends_alone(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    seat("one")
    seat("two")
    cluster.job("all", route="SHARDING_BROADCAST")
    cluster.job("good")
    run_id, good = cluster.trigger("all"), cluster.trigger("good")
    run = cluster.run(run_id)
    same = {"job_id": run.job_id, "scheduled_at": run.scheduled_at, "origin_id": run.origin_id}
    stray = Run(
        id=999_999,
        app_id=run.app_id,
        due_at=run.due_at,
        shard_index=1,
        shard_total=2,
        status="SUCCEEDED",
        kind="MANUAL",
        **same,
    )
    cluster.database.write(lambda session: session.add(stray))

    dispatch(cluster, still)

    assert cluster.run(run_id).status == RunStatus.UNDELIVERED
    assert "it cannot be routed" in cluster.run(run_id).message
    assert cluster.run(good).status == RunStatus.SENT
    assert queued(still, "two") == []


@pytest.mark.parametrize("still_options", [{"limits": ClaimLimits(shards=3)}], ids=["3-shards"])
def test_a_large_broadcast_leaves_others_for_the_next_claim(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    for address in ("one", "three", "two"):
        seat(address)
    for name in ("a", "b"):
        cluster.job(name, route="SHARDING_BROADCAST")
        cluster.trigger(name)

    still.dispatcher.run_round(cluster.now_ms())
    assert len(cluster.runs()) == 4
    dispatch(cluster, still)

    assert [run.shard_total for run in cluster.runs()] == [3] * 6


# -- an app's own list of addresses ---------------------------------------------------------------


def list_addresses(cluster: Cluster, *addresses: str) -> None:
    cluster.commands().apply(
        [AppSpec(name=APP, addresses=addresses)], [], dry_run=False, prune=False
    )


def test_an_apps_own_list_says_where_runs_may_go_and_in_which_order(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    for address in ("one", "three", "two"):
        seat(address)
    list_addresses(cluster, "two", "away", "one")
    for name, route in {"first": "FIRST", "last": "LAST", "all": "SHARDING_BROADCAST"}.items():
        cluster.job(name, route=route)
    first, last = cluster.trigger("first"), cluster.trigger("last")
    cluster.trigger("all")

    dispatch(cluster, still)

    assert cluster.run(first).address == "two"
    assert cluster.run(last).address == "one"
    [job] = cluster.jobs(name="all")
    rows = sorted(cluster.runs(job_id=job.id), key=lambda run: run.shard_index)
    assert [row.address for row in rows] == ["two", "one"]
    assert "listed but offline: away; first of 2" in (cluster.run(first).trigger_message or "")


def test_a_user_may_name_a_registered_executor_that_is_not_listed(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    seat("one")
    seat("two")
    list_addresses(cluster, "one")
    cluster.job("greet")
    run_id = cluster.trigger("greet", addresses=["two"])

    dispatch(cluster, still)

    assert cluster.run(run_id).address == "two"


@gives_up_soon
def test_a_run_ends_when_none_of_the_listed_executors_was_seen_for_long(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    seat("one")
    list_addresses(cluster, "other", "third")
    cluster.job("greet")
    run_id = cluster.trigger("greet")

    eventually(lambda: dispatch(cluster, still) and cluster.run(run_id).finished_at)

    run = cluster.run(run_id)
    assert run.status == RunStatus.UNDELIVERED
    assert run.message == "none of the listed executors is online: other, third"
    assert run.message in run.trigger_message
    assert run.finished_at - run.due_at >= 1_000


def test_a_list_that_is_taken_back_lets_all_executors_in_again(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    seat("one")
    seat("two")
    cluster.job("greet", route="LAST")
    list_addresses(cluster, "one")
    list_addresses(cluster)
    run_id = cluster.trigger("greet")

    dispatch(cluster, still)

    assert cluster.run(run_id).address == "two"


# -- routes of one's own --------------------------------------------------------------------------


def fails(_request: RouteRequest, _random: object) -> Choice:
    raise LookupError("no such zone")


def in_turn(request: RouteRequest, _random: object) -> Choice:
    turn = (request.memory or {}).get("turn", -1) + 1
    address = request.candidates[turn % len(request.candidates)]
    return Choice(address, f"MINE, turn {turn}", {"turn": turn})


def test_a_route_of_ones_own_chooses_and_remembers(
    cluster: Cluster,
) -> None:
    still, seat = with_route(cluster, Router(in_turn, needs_memory=True))
    for address in ("one", "three", "two"):
        seat(address)
    cluster.job("mine")
    cluster.set_job("mine", route="MINE")
    ids = [cluster.trigger("mine") for _ in range(4)]
    dispatch(cluster, still)
    ids.append(cluster.trigger("mine"))

    dispatch(cluster, still)

    went = [cluster.run(run_id).address for run_id in ids]
    assert went == ["one", "three", "two", "one", "three"]
    assert (cluster.run(ids[4]).trigger_message or "").endswith("MINE, turn 4")


def test_a_memory_of_another_route_from_before_an_edit_is_not_handed_on(
    cluster: Cluster,
) -> None:
    still, seat = with_route(cluster, Router(in_turn, needs_memory=True))
    seat("one")
    seat("two")
    cluster.job("mine", route="LEAST_RECENTLY_USED")
    cluster.trigger("mine")
    dispatch(cluster, still)
    cluster.set_job("mine", route="MINE")
    mine = cluster.trigger("mine")
    dispatch(cluster, still)
    cluster.set_job("mine", route="LEAST_RECENTLY_USED")
    last = cluster.trigger("mine")

    dispatch(cluster, still)

    assert (cluster.run(mine).trigger_message or "").endswith("MINE, turn 0")
    assert cluster.run(last).address == "one"


def test_an_address_named_twice_gets_one_shard(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    seat("one")
    seat("two")
    cluster.job("all", route="SHARDING_BROADCAST")
    cluster.trigger("all", addresses=["two", "two"])

    dispatch(cluster, still)

    [run] = cluster.runs()
    assert (run.sharding, run.address) == ("0/1", "two")


@pytest.mark.parametrize(
    ("pick", "words"),
    [
        (fails, "it cannot be routed: route MINE failed: LookupError: no such zone"),
        (lambda *_: Choice("nowhere", ""), "expected one of the executors that are online"),
        (lambda *_: Choice(None, "the moon is full"), "the moon is full"),
    ],
)
def test_a_route_of_ones_own_that_fails_holds_up_no_other_job(
    cluster: Cluster, pick: object, words: str
) -> None:
    still, seat = with_route(cluster, Router(pick))  # type: ignore[arg-type]
    seat()
    cluster.job("good")
    cluster.job("mine", retries=1)
    cluster.set_job("mine", route="MINE")
    ids = [cluster.trigger("good"), cluster.trigger("mine"), cluster.trigger("good")]

    dispatch(cluster, still)

    good, mine, other = (cluster.run(run_id) for run_id in ids)
    assert {good.status, other.status} == {RunStatus.SENT}
    assert mine.status == RunStatus.UNDELIVERED
    assert words in mine.message
    [again] = cluster.runs(attempt=1)
    assert again.due_at - mine.finished_at >= 900


def test_a_decision_that_another_scheduler_overtook_is_made_anew(cluster: Cluster) -> None:
    def overtaken(request: RouteRequest, random: object) -> Choice:
        if request.memory is None:
            [job] = cluster.jobs()
            cluster.database.write(
                lambda session: job_rows.store_route_memories(
                    session, {job.id: {"route": "MINE", "memory": {"turn": 6}}}
                )
            )
        return in_turn(request, random)

    still, seat = with_route(cluster, Router(overtaken, needs_memory=True))
    seat("one")
    seat("two")
    cluster.job("mine")
    cluster.set_job("mine", route="MINE")
    run_id = cluster.trigger("mine")

    eventually(lambda: dispatch(cluster, still) and cluster.run(run_id).routed_at)

    assert (cluster.run(run_id).trigger_message or "").endswith("MINE, turn 7")


def with_route(cluster: Cluster, router: Router) -> tuple[SchedulerNode, Seat]:
    """Return a scheduler with an installed route MINE, and what lets executors in there."""
    node = new_still(cluster, added_routes={"MINE": router})
    return node, seat_at(cluster, node)


# -- routes that ask ------------------------------------------------------------------------------


@pytest.mark.parametrize("still_options", [{"probe": 3_600.0}], ids=["nobody-answers"])
def test_a_slow_answer_holds_back_its_own_job_and_no_dispatch(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    seat("one")
    cluster.job("asks", route="FAILOVER")
    cluster.job("plain")
    asks, plain = cluster.trigger("asks"), cluster.trigger("plain")

    wait_seconds = dispatch(cluster, still)

    assert cluster.run(plain).status == RunStatus.SENT
    assert cluster.run(asks).status == RunStatus.PLANNED
    assert wait_seconds <= 1.0
    more = cluster.trigger("plain")
    dispatch(cluster, still)
    assert cluster.run(more).status == RunStatus.SENT


def test_a_scheduler_that_has_just_begun_gives_up_nobody_for_silence(cluster: Cluster) -> None:
    still = new_still(cluster, no_executor=3.0, clock=MovedClock())
    seat_at(cluster, still)("one")
    cluster.job("asks", route="FAILOVER")
    run_id = cluster.trigger("asks")
    # It was due long ago, and this scheduler has been healthy for a moment only.
    cluster.database.write(
        lambda session: session.execute(update(Run).values(due_at=Run.due_at - 3_600_000))
    )

    dispatch(cluster, still)
    cluster.pass_time(still, still.context.timeouts.probe)
    # No answer came, and the job is left out for a moment.
    assert dispatch(cluster, still) == dispatcher.FULL_SECONDS
    assert cluster.run(run_id).status == RunStatus.PLANNED

    cluster.pass_time(still, 3.0 - still.context.timeouts.probe)
    dispatch(cluster, still)
    assert cluster.run(run_id).status == RunStatus.UNDELIVERED


def test_a_job_that_waits_for_answers_of_an_app_that_went_away_makes_no_busy_loop(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    seat("one")
    cluster.job("asks", route="BUSYOVER")
    cluster.trigger("asks")
    dispatch(cluster, still)
    still.roster.dismiss(APP, "one", "boot-one")
    cluster.pass_time(still, still.context.timeouts.probe)

    waits = [still.dispatcher.run_round(cluster.now_ms()) for _ in range(3)]
    assert waits[-1] >= 0.05
