"""What dead boots leave behind ends: planned again where it provably never started, else LOST."""

from dataclasses import replace

import msgspec
import pytest
from sqlalchemy.orm import Session

from tests.integration.scheduler.conftest import Seat, new_still, seat_at
from tests.integration.scheduler.dispatch.test_dispatcher import dispatch
from tests.support.cluster import APP, Cluster, on_memory
from tests.support.eventually import eventually
from tests.support.fake_executor import FakeExecutor
from tests.support.sealed import triggers_in
from warren.broker.messages import KnownState, Trigger
from warren.scheduler.membership.registrar import ADDRESS_LIMIT
from warren.scheduler.membership.roster import Standing
from warren.scheduler.node import SchedulerNode
from warren.scheduler.node_context import CALLBACK_PREFETCH, Timeouts
from warren.scheduler.recovery.reaper import FORGET_SECONDS, FORGETTING_SECONDS
from warren.scheduler.triggers import RoutedTrigger
from warren.sql.errors import DatabaseUnavailable
from warren.sql.models import Registration, Run
from warren.sql.registry import presence
from warren.sql.registry.presence import DEPARTED
from warren.sql.run_status import RunStatus

pytestmark = pytest.mark.both("two schedulers drain one queue and lock the same rows")


@pytest.fixture
def node(cluster: Cluster) -> SchedulerNode:
    cluster.be_quick()
    return cluster.scheduler()


@pytest.fixture
def desk(cluster: Cluster, node: SchedulerNode) -> FakeExecutor:
    return FakeExecutor(cluster).join()


def triggered(cluster: Cluster, count: int = 1, **fields: object) -> list[int]:
    cluster.job("work", concurrency=100, **fields)
    ids = [cluster.trigger("work") for _ in range(count)]
    for run_id in ids:
        cluster.wait_status(run_id, RunStatus.SENT)
    return ids


def test_unread_triggers_of_a_dead_executor_go_to_another(
    cluster: Cluster, desk: FakeExecutor
) -> None:
    ids = triggered(cluster, 5)
    other = FakeExecutor(cluster, "two").join()
    other.else_known = KnownState.WAITING

    desk.die()
    copies = other.take(5)

    assert {cluster.run(run_id).status for run_id in ids} == {RunStatus.UNDELIVERED}
    assert {copy.attempt for copy in copies} == {0}  # none of them has started
    assert {cluster.run(copy.run_id).retries_left for copy in copies} == {0}
    assert other.take(1, 1.0) == []


def test_what_a_dead_executor_had_taken_is_lost(cluster: Cluster, desk: FakeExecutor) -> None:
    taken, running = triggered(cluster, 2, retries=3)
    desk.take(2)
    desk.report(desk.started(running))
    cluster.wait_status(running, RunStatus.RUNNING)

    desk.die()

    assert cluster.wait_final(taken).status == RunStatus.LOST
    assert cluster.wait_final(running).status == RunStatus.LOST
    assert len(cluster.runs()) == 2


@on_memory
def test_a_lost_run_is_tried_again_where_the_job_asks_for_it(
    cluster: Cluster, desk: FakeExecutor
) -> None:
    [run_id] = triggered(cluster, 1, retries=3, delivery="AT_LEAST_ONCE")
    desk.take(1)

    desk.die()
    cluster.wait_final(run_id)

    assert [(run.attempt, run.kind) for run in cluster.runs()] == [(0, "MANUAL"), (1, "RETRY")]


@on_memory
def test_what_was_handed_out_and_never_settled_is_lost(
    cluster: Cluster, desk: FakeExecutor
) -> None:
    [run_id] = triggered(cluster)
    desk.hold(1)

    desk.die()

    assert cluster.wait_final(run_id).status == RunStatus.LOST
    assert len(cluster.runs()) == 1


@on_memory
def test_after_a_goodbye_nothing_waits_for_a_deadline(cluster: Cluster) -> None:
    cluster.timeouts = Timeouts(dead_after=3_600.0, silence=3_600.0, take_over=3_600.0)
    cluster.scheduler()
    desk = FakeExecutor(cluster).join()
    [run_id] = triggered(cluster)

    desk.goodbye()

    assert cluster.wait_final(run_id).status == RunStatus.UNDELIVERED


@on_memory
def test_a_scheduler_that_is_not_healthy_buries_nobody(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    boot_id = seat()
    cluster.job("work")
    run_id = cluster.trigger("work")
    dispatch(cluster, still)
    still.roster.dismiss(APP, "one", boot_id)

    still.roster.set_health(False)
    still.reaper.run_round(cluster.now_ms())
    unhealthy = cluster.run(run_id).status
    still.roster.set_health(True)
    still.reaper.run_round(cluster.now_ms())

    assert unhealthy == RunStatus.SENT
    assert cluster.run(run_id).status == RunStatus.UNDELIVERED


def test_two_schedulers_bury_an_executor_together(cluster: Cluster) -> None:
    cluster.be_quick()
    # On a busy machine one of them takes long to settle what it has drained.
    cluster.timeouts = replace(cluster.timeouts, settle=5.0)
    for _ in range(2):
        cluster.scheduler()
    desk = FakeExecutor(cluster).join()
    ids = triggered(cluster, 20)
    taken = {trigger.run_id for trigger in desk.take(8)}

    desk.die()
    ends = {run_id: cluster.wait_final(run_id).status for run_id in ids}

    assert {ends[run_id] for run_id in taken} == {RunStatus.LOST}
    assert {ends[run_id] for run_id in set(ids) - taken} == {RunStatus.UNDELIVERED}


@on_memory
def test_runs_of_a_boot_that_a_restarted_scheduler_never_heard_of_end(cluster: Cluster) -> None:
    cluster.be_quick()
    first = cluster.scheduler()
    desk = FakeExecutor(cluster).join()
    [run_id] = triggered(cluster)
    desk.take(1)
    desk.die()
    cluster.crash(first)
    cluster.database.write(lambda s: s.query(Registration).delete())

    cluster.scheduler()

    assert cluster.wait_final(run_id).status == RunStatus.LOST


@on_memory
def test_an_unconfirmed_run_of_a_dead_executor_ends_too(cluster: Cluster) -> None:
    cluster.be_quick()
    first = cluster.scheduler()
    desk = FakeExecutor(cluster).join()
    cluster.job("work")
    mortal = cluster.mortals[id(first)]

    def die_when_routed() -> None:
        if cluster.runs(status=RunStatus.ROUTED):
            mortal.die()

    mortal.after_commit = die_when_routed
    run_id = cluster.trigger("work")
    cluster.wait_status(run_id, RunStatus.ROUTED)
    desk.die()
    cluster.crash(first)

    cluster.scheduler()

    assert cluster.wait_final(run_id).status in {RunStatus.LOST, RunStatus.UNDELIVERED}


# -- the proof that a run never started, round by round ---------------------------------------


@pytest.fixture
def dead(cluster: Cluster, still: SchedulerNode, seat: Seat) -> int:
    """A run whose trigger lies in the queue of an executor that has said goodbye."""
    boot_id = seat()
    cluster.job("work", retries=3)
    run_id = cluster.trigger("work")
    dispatch(cluster, still)
    still.roster.dismiss(APP, "one", boot_id)
    return run_id


def bury(cluster: Cluster, node: SchedulerNode, run_id: int) -> str:
    """Make rounds until no report can be on its way any more; return how the run ended."""
    node.reaper.run_round(cluster.now_ms())
    cluster.pass_time(node, node.context.timeouts.silence)
    node.reaper.run_round(cluster.now_ms())
    run = cluster.run(run_id)
    return run.status if run.finished_at else ""


@on_memory
def test_an_unread_trigger_is_a_proof(cluster: Cluster, still: SchedulerNode, dead: int) -> None:
    assert bury(cluster, still, dead) == RunStatus.UNDELIVERED


@on_memory
def test_a_copy_that_was_sent_again_proves_nothing(
    cluster: Cluster, still: SchedulerNode, dead: int
) -> None:
    _reseal(cluster, still, resent=True)

    assert bury(cluster, still, dead) == RunStatus.LOST


@on_memory
def test_a_trigger_of_an_older_decision_proves_nothing(
    cluster: Cluster, still: SchedulerNode, dead: int
) -> None:
    def take_over(session: object) -> None:
        session.get(Run, dead).routed_at += 1  # type: ignore[attr-defined]

    cluster.database.write(take_over)

    assert bury(cluster, still, dead) == RunStatus.LOST


@on_memory
def test_the_proof_survives_a_database_that_is_away(
    cluster: Cluster, still: SchedulerNode, dead: int
) -> None:
    mortal = cluster.mortals[id(still)]

    def away() -> None:
        raise DatabaseUnavailable("away")

    mortal.before_commit = away
    with pytest.raises(DatabaseUnavailable):
        still.reaper.run_round(cluster.now_ms())
    mortal.before_commit = lambda: None

    assert bury(cluster, still, dead) == RunStatus.UNDELIVERED


@on_memory
def test_nothing_is_lost_while_another_scheduler_holds_what_it_drained(
    cluster: Cluster, still: SchedulerNode, dead: int
) -> None:
    other = new_still(cluster)
    seat_at(cluster, other)()
    other.roster.dismiss(APP, "one", "boot-one")
    seen = []

    def meanwhile() -> None:
        """Look as well, when the other one has the trigger in hand and is about to store that."""
        still.reaper.run_round(cluster.now_ms())
        seen.append(cluster.run(dead).status)

    cluster.mortals[id(other)].before_next_write = meanwhile
    other.reaper.run_round(cluster.now_ms())

    assert seen == [RunStatus.SENT]
    assert cluster.run(dead).status == RunStatus.UNDELIVERED


@on_memory
def test_the_queue_of_a_living_successor_is_left_alone(
    cluster: Cluster, still: SchedulerNode, dead: int, seat: Seat
) -> None:
    still.roster.forget(APP, "one", "boot-one")
    still.roster.recall(APP, "one", "successor")

    for _ in range(3):
        still.reaper.run_round(cluster.now_ms())

    assert cluster.run(dead).status == RunStatus.SENT
    assert still.connections.admin.count_messages(f"warren.run.{APP}.one") == 1


@on_memory
@pytest.mark.parametrize("before", ["nobody", "a predecessor that left"])
def test_an_executor_that_only_another_scheduler_has_let_in_is_left_alone(
    cluster: Cluster, still: SchedulerNode, before: str
) -> None:
    if before != "nobody":
        still.roster.recall(APP, "one", before)
        still.roster.dismiss(APP, "one", before)
    other = new_still(cluster)
    seat_at(cluster, other)()
    cluster.job("work", retries=3)
    run_id = cluster.trigger("work")
    dispatch(cluster, other)
    cluster.pass_time(still, 2 * still.context.timeouts.dead_after)

    settle(cluster, still)

    assert cluster.run(run_id).status == RunStatus.SENT
    assert still.connections.admin.count_messages(f"warren.run.{APP}.one") == 1
    silent_ms = int(1000 * still.context.timeouts.dead_after) + 1_000
    still.reaper.run_round(cluster.now_ms() + silent_ms)
    assert cluster.run(run_id).status == RunStatus.UNDELIVERED


@on_memory
def test_an_executor_that_is_dead_for_a_day_is_forgotten_with_its_queue(
    cluster: Cluster, still: SchedulerNode, dead: int
) -> None:
    bury(cluster, still, dead)
    queue = f"warren.run.{APP}.one"
    later_ms = cluster.now_ms() + int(FORGET_SECONDS[0.0] * 1000) + 1_000

    cluster.pass_time(still, FORGETTING_SECONDS)
    still.reaper.run_round(cluster.now_ms())
    assert still.connections.admin.count_messages(queue) is not None
    cluster.pass_time(still, FORGETTING_SECONDS)
    still.reaper.run_round(later_ms)

    assert still.connections.admin.count_messages(queue) is None
    assert still.roster.members() == []
    assert cluster.database.read(lambda s: presence.listing(s, presence.EXECUTOR)) == []


@on_memory
@pytest.mark.parametrize("is_back", [False, True], ids=["gone", "back"])
def test_a_scheduler_that_never_heard_a_goodbye_removes_the_queue_after_a_day(
    cluster: Cluster, *, is_back: bool
) -> None:
    cluster.scheduler()
    FakeExecutor(cluster).join().goodbye()
    eventually(lambda: listed(cluster, DEPARTED))
    cluster.crash(cluster.schedulers[0])
    later_ms = cluster.now_ms() + int(FORGET_SECONDS[0.0] * 1000) + 1_000
    still = new_still(cluster)
    known = []

    for now_ms in (later_ms - 10_000, later_ms):
        cluster.pass_time(still, FORGETTING_SECONDS)
        if is_back:
            seat_at(cluster, still)()
        still.reaper.run_round(now_ms)
        known.append(listed(cluster, DEPARTED))

    queue = f"warren.run.{APP}.one"
    assert known == [["one"], []]
    assert (still.connections.admin.count_messages(queue) is not None) is is_back


@on_memory
def test_an_executor_that_this_scheduler_never_heard_is_forgotten_after_a_day(
    cluster: Cluster,
) -> None:
    old_ms = cluster.now_ms() - int(FORGET_SECONDS[0.0] * 1000) - 1_000
    still = new_still(cluster)
    silent = presence.Beat(
        kind=presence.EXECUTOR, app=APP, address="gone", boot_id="b", beat_at=old_ms
    )
    cluster.database.write(lambda session: presence.hold(session, silent))

    cluster.pass_time(still, FORGETTING_SECONDS + still.context.timeouts.dead_after)
    still.reaper.run_round(cluster.now_ms())

    assert listed(cluster, presence.EXECUTOR) == []


@on_memory
def test_what_is_gone_makes_room_after_a_minute_if_its_app_has_nearly_all_its_addresses(
    cluster: Cluster,
) -> None:
    minutes_ago_ms = cluster.now_ms() - 120_000
    still = new_still(cluster)
    numbers = range(ADDRESS_LIMIT * 9 // 10)

    def fill(session: Session) -> None:
        for number in numbers:
            presence.note(session, APP, f"pod-{number}", minutes_ago_ms)

    cluster.database.write(fill)
    cluster.pass_time(still, FORGETTING_SECONDS)
    still.reaper.run_round(cluster.now_ms())

    assert listed(cluster, DEPARTED) == []


def listed(cluster: Cluster, kind: str) -> list[str]:
    rows = cluster.database.read(lambda session: presence.listing(session, kind))
    return [row.address for row in rows]


# -- reports that were sent before the end ----------------------------------------------------


@pytest.fixture
def taken(cluster: Cluster, still: SchedulerNode, seat: Seat) -> tuple[FakeExecutor, int]:
    """An executor that only this test hears, and a run that it has taken."""
    desk = FakeExecutor(cluster, boot_id=seat())
    cluster.job("work", retries=3)
    run_id = cluster.trigger("work")
    dispatch(cluster, still)
    desk.take(1)
    return desk, run_id


def settle(cluster: Cluster, node: SchedulerNode) -> None:
    """Make rounds for longer than a dead executor's queue has to stay empty."""
    for _ in range(3):
        node.reaper.run_round(cluster.now_ms())
        cluster.pass_time(node, node.context.timeouts.settle)


@on_memory
def test_a_report_that_is_stored_long_after_its_executors_goodbye_counts(
    cluster: Cluster, still: SchedulerNode, taken: tuple[FakeExecutor, int]
) -> None:
    desk, run_id = taken
    desk.report(desk.finished(run_id))
    still.roster.dismiss(APP, "one", desk.boot_id)

    settle(cluster, still)
    assert cluster.run(run_id).status == RunStatus.SENT
    still.callbacks.run_round(cluster.now_ms())

    assert cluster.run(run_id).status == RunStatus.SUCCEEDED


@on_memory
def test_no_run_of_a_dead_executor_is_lost_while_reports_wait_to_be_read(
    cluster: Cluster, still: SchedulerNode, taken: tuple[FakeExecutor, int]
) -> None:
    desk, run_id = taken
    others = [desk.finished(number) for number in range(1_000, 1_000 + CALLBACK_PREFETCH)]
    for report in (*others, desk.finished(run_id)):
        desk.report(report)
    cluster.pass_time(still, still.context.timeouts.dead_after + 1)
    assert still.roster.standing(APP, "one", desk.boot_id) is Standing.DEAD

    settle(cluster, still)
    assert cluster.run(run_id).status == RunStatus.SENT
    for _ in range(3):
        still.callbacks.run_round(cluster.now_ms())

    assert cluster.run(run_id).status == RunStatus.SUCCEEDED


def _reseal(cluster: Cluster, node: SchedulerNode, **changes: object) -> None:
    """Replace what lies in the queue by a changed copy."""
    found: list[Trigger] = []
    admin = node.connections.admin
    admin.drain(
        f"warren.run.{APP}.one",
        10,
        lambda deliveries: found.extend(triggers_in(deliveries, node, "one")),
    )
    again = [
        RoutedTrigger(app=APP, address="one", trigger=msgspec.structs.replace(trigger, **changes))
        for trigger in found
    ]
    node.publisher.send(again, decided_at=node.context.monotonic()).result()
