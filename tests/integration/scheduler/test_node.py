"""A scheduler's beginning and end, and the orders to kill that it carries."""

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.cluster import Cluster, on_memory
from tests.support.eventually import eventually
from tests.support.fake_executor import FakeExecutor
from warren.broker.errors import BrokerUnavailable
from warren.broker.messages import Kill, KnownState
from warren.scheduler.node import SchedulerNode
from warren.scheduler.pending_work import PendingWork, RestingRole
from warren.scheduler.retention.clearing import Cleaner
from warren.scheduler.rounds import LONGEST_SECONDS, NAP_SECONDS
from warren.scheduler.triggers import Confirmations
from warren.sql.errors import DatabaseUnavailable
from warren.sql.run_status import RunStatus

ROOT = Path(__file__).parents[3]


def role_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name != "MainThread"}


@on_memory
def test_the_architecture_names_every_role(cluster: Cluster) -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    table = text.partition("| role | what it does |")[2].partition("\n\n")[0]
    documented = {name for row in table.splitlines()[2:] for name in row.split("|")[1].split(",")}

    node = cluster.new_scheduler()

    names = {role.name for role in (*node.roles.loops.roles, *node.roles.alarm_roles.loops.roles)}
    missing = {name.strip() for name in documented} - names
    # Only with a mail server, an OpenTelemetry collector, a log store, and some webhooks.
    assert missing == {"mailer", "run spans", "run webhooks", "log places", "log removal"}


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

    eventually(lambda: role_threads() <= before)


@on_memory
def test_only_those_who_settle_what_executors_have_may_be_a_second_late(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    resting, longest = PendingWork.resting, {}

    def note(work: PendingWork, tick: Any, wants: Any, **options: Any) -> RestingRole:
        longest[tick] = options.get("longest_seconds", LONGEST_SECONDS)
        return resting(work, tick, wants, **options)

    monkeypatch.setattr(PendingWork, "resting", note)
    node = cluster.new_scheduler()
    cluster.schedulers.append(node)

    relaxed = [tick for tick, seconds in longest.items() if seconds == 1.0]
    assert relaxed == [node.reaper.run_round, node.reconciler.run_round]


@on_memory
def test_a_scheduler_that_was_never_started_can_be_stopped(cluster: Cluster) -> None:
    cluster.new_scheduler().stop()


def test_a_scheduler_waits_in_vain_for_no_role_and_leaves_no_thread(
    cluster: Cluster, events: list[dict[str, object]]
) -> None:
    before = role_threads()
    node = cluster.new_scheduler()
    node.start()
    eventually(lambda: node.roster.is_healthy)

    node.stop()

    assert [event["event"] for event in events][-1:] == ["scheduler_stopped"]
    assert "role_did_not_end" not in {event["event"] for event in events}
    eventually(lambda: role_threads() <= before)


@on_memory
def test_a_scheduler_that_ends_says_what_it_has_counted(
    cluster: Cluster, events: list[dict[str, object]]
) -> None:
    node = cluster.new_scheduler()
    node.start()
    node.roles.counters.count("callbacks_stored", 3)
    node.roles.counters.count("messages_rejected")

    node.stop()

    counted = {"callbacks_stored": 3, "messages_rejected": 1}
    assert {name: events[-1].get(name) for name in counted} == counted


@on_memory
def test_no_role_is_kept_from_its_end_by_a_blocked_broker(
    cluster: Cluster, events: list[dict[str, object]]
) -> None:
    node = cluster.new_scheduler()
    node.start()
    eventually(lambda: node.roster.is_healthy)
    cluster.make_transport.__self__.block()  # type: ignore[attr-defined]

    node.stop()

    assert [event["event"] for event in events][-1:] == ["scheduler_stopped"]
    assert "role_did_not_end" not in {event["event"] for event in events}


@on_memory
def test_a_scheduler_that_ends_notes_what_the_broker_has_confirmed(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Its rounds note nothing, as if the end came before the first of them.
    monkeypatch.setattr(Confirmations, "run_round", lambda *_: NAP_SECONDS)
    node = cluster.new_scheduler()
    cluster.schedulers.append(node)
    node.start()
    FakeExecutor(cluster).join()
    cluster.job("work")
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
def desk(cluster: Cluster, node: SchedulerNode) -> FakeExecutor:
    return FakeExecutor(cluster).join()


def test_an_order_to_kill_reaches_the_boot_that_has_the_run(
    cluster: Cluster, desk: FakeExecutor
) -> None:
    cluster.job("work")
    run_id = cluster.trigger("work")
    desk.take(1)
    cluster.wait_status(run_id, RunStatus.SENT)

    cluster.commands().kill(run_id)

    assert desk.expect(Kill).run_id == run_id


@on_memory
def test_an_order_to_kill_goes_to_the_boot_that_has_taken_the_address_over(
    cluster: Cluster,
) -> None:
    cluster.be_quick()
    cluster.scheduler()
    first = FakeExecutor(cluster).join()
    cluster.job("work")
    run_id = cluster.trigger("work")
    first.take(1)
    cluster.wait_status(run_id, RunStatus.SENT)
    first.die()
    second = FakeExecutor(cluster)
    second.else_known = KnownState.RUNNING
    second.join()

    cluster.commands().kill(run_id)

    assert second.expect(Kill).run_id == run_id


@on_memory
def test_a_cleaner_that_hangs_delays_no_order_to_kill(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def hang(_cleaner: Cleaner, _now_ms: int) -> float:
        begun.set()
        go_on.wait(60)
        return 60.0

    monkeypatch.setattr(Cleaner, "run_round", hang)
    cluster.be_quick()
    cluster.scheduler()
    desk = FakeExecutor(cluster).join()
    cluster.job("work")
    run_id = cluster.trigger("work")
    desk.take(1)
    cluster.wait_status(run_id, RunStatus.SENT)
    assert begun.wait(60)

    cluster.commands().kill(run_id)

    assert desk.expect(Kill).run_id == run_id
    assert not go_on.is_set()
    go_on.set()


@on_memory
def test_the_order_is_repeated_until_the_run_is_over_and_then_no_more(cluster: Cluster) -> None:
    cluster.be_quick()
    cluster.timeouts = replace(cluster.timeouts, kill_again=0.1)
    cluster.scheduler()
    desk = FakeExecutor(cluster).join()
    cluster.job("work", retries=3)
    run_id = cluster.trigger("work")
    desk.take(1)
    cluster.wait_status(run_id, RunStatus.SENT)
    cluster.commands().kill(run_id)
    eventually(lambda: len(desk.of(Kill)) >= 2)

    desk.report(desk.finished(run_id, outcome="KILLED"))
    cluster.wait_final(run_id)
    seen = len(desk.of(Kill))
    node = cluster.schedulers[0]
    for _ in range(3):
        node.killer.run_round(cluster.now_ms())

    assert len(desk.of(Kill)) <= seen + 1
    assert cluster.run(run_id).status == RunStatus.KILLED
    assert len(cluster.runs()) == 1


@on_memory
def test_a_run_that_a_newer_one_replaces_in_the_cluster_is_killed_in_its_name(
    cluster: Cluster, desk: FakeExecutor
) -> None:
    cluster.job("work", scope="cluster", block="COVER_EARLY", concurrency=2)
    runs = [cluster.trigger("work") for _ in range(2)]
    desk.take(2)
    for run_id in runs:
        cluster.wait_status(run_id, RunStatus.SENT)

    newest = cluster.trigger("work")

    replaced = desk.expect(Kill)
    assert (replaced.run_id, replaced.reason) == (runs[0], f"replaced by run {newest}")
    cluster.commands().kill(runs[1])
    eventually(lambda: {kill.run_id for kill in desk.of(Kill)} == set(runs))
    assert {kill.reason for kill in desk.of(Kill) if kill.run_id == runs[1]} == {
        "killed by request"
    }


@on_memory
def test_a_run_to_be_killed_whose_executor_is_dead_ends_all_the_same(
    cluster: Cluster, desk: FakeExecutor
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
