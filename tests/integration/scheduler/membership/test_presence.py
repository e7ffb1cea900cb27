"""Who is let in, who is refused, and what scheduler and executor tell each other about it."""

import time
from dataclasses import replace

import pytest

from tests.support.cluster import APP, Cluster, on_memory
from tests.support.eventually import eventually
from tests.support.fake_executor import BEAT_SECONDS, FakeExecutor
from tests.support.moved_clock import MovedClock
from warren.broker.errors import BrokerUnavailable
from warren.broker.messages import Heartbeat, Load, NotWelcome, Refused, Welcome
from warren.broker.topology import Queue, callback_queue, command_queue, run_queue
from warren.scheduler.membership.roster import Standing
from warren.scheduler.node import SchedulerNode
from warren.scheduler.node_context import Timeouts
from warren.sql.registry import presence

pytestmark = pytest.mark.both("queues that are declared, and guarded updates of one row")


def registered(cluster: Cluster) -> list[tuple[str, str]]:
    rows = cluster.database.read(lambda s: presence.listing(s, presence.EXECUTOR))
    return [(row.address, row.boot_id) for row in rows]


def test_a_newcomer_gets_its_queues_and_a_welcome(cluster: Cluster) -> None:
    cluster.scheduler()

    desk = FakeExecutor(cluster).join()

    welcome = desk.expect(Welcome)
    assert welcome.boot_id == desk.boot_id
    assert abs(welcome.now_ms - cluster.now_ms()) < 60_000
    assert registered(cluster) == [("one", desk.boot_id)]


def test_a_welcome_names_the_heartbeat_that_it_answers(cluster: Cluster) -> None:
    cluster.scheduler()
    desk = FakeExecutor(cluster).join()

    desk.beat(sent_at_ms=77)

    eventually(lambda: 77 in [word.heartbeat_sent_at_ms for word in desk.of(Welcome)])


def test_a_second_boot_is_refused_while_the_first_answers(cluster: Cluster) -> None:
    cluster.timeouts = Timeouts(answer=60.0)  # it does answer, however busy the machine is
    node = cluster.scheduler()
    first = FakeExecutor(cluster).join()

    second = FakeExecutor(cluster)
    refused = second.expect(Refused)

    assert refused.reason == "address one is in use by another running executor"
    assert node.roster.holder(APP, "one") == first.boot_id
    assert registered(cluster) == [("one", first.boot_id)]
    assert second.of(Welcome) == []


def test_a_second_boot_is_let_in_when_the_first_does_not_answer(cluster: Cluster) -> None:
    cluster.be_quick()
    node = cluster.scheduler()
    first = FakeExecutor(cluster).join()
    first.die()

    second = FakeExecutor(cluster).join()

    assert registered(cluster) == [("one", second.boot_id)]
    assert node.roster.standing(APP, "one", first.boot_id) is Standing.SUPERSEDED


@on_memory
def test_a_second_boot_waits_while_the_first_may_return_with_its_runs(cluster: Cluster) -> None:
    cluster.be_quick()
    cluster.timeouts = replace(cluster.timeouts, answer=0.1)
    cluster.scheduler()
    first = FakeExecutor(cluster, returns_seconds=60).join()
    first.die()
    heard_at = time.monotonic()

    second = FakeExecutor(cluster)

    assert "may be back in a moment" in second.expect(NotWelcome).reason
    second.join()
    silent_seconds = time.monotonic() - heard_at + BEAT_SECONDS
    assert silent_seconds >= cluster.timeouts.dead_after
    assert registered(cluster) == [("one", second.boot_id)]


@on_memory
def test_after_a_goodbye_the_address_is_free_at_once(cluster: Cluster) -> None:
    node = cluster.scheduler()
    first = FakeExecutor(cluster).join()
    first.goodbye()
    eventually(lambda: registered(cluster) == [])

    second = FakeExecutor(cluster).join()

    assert node.roster.standing(APP, "one", first.boot_id) is not Standing.ALIVE
    assert registered(cluster) == [("one", second.boot_id)]


def test_two_schedulers_decide_alike_about_an_address(cluster: Cluster) -> None:
    cluster.be_quick()
    cluster.timeouts = replace(cluster.timeouts, answer=4.0)  # the winner has to answer in this
    nodes = [cluster.scheduler(), cluster.scheduler()]
    FakeExecutor(cluster).join().die()
    rivals = [FakeExecutor(cluster), FakeExecutor(cluster)]

    eventually(lambda: any(r.of(Welcome) for r in rivals) and any(r.of(Refused) for r in rivals))

    [winner] = [rival for rival in rivals if rival.of(Welcome)]
    loser = next(rival for rival in rivals if rival is not winner)
    loser.is_beating = False
    eventually(winner.is_routable)
    assert {node.roster.holder(APP, "one") for node in nodes} == {winner.boot_id}
    assert registered(cluster) == [("one", winner.boot_id)]


@on_memory
def test_a_challenge_keeps_no_other_newcomer_waiting(cluster: Cluster) -> None:
    cluster.scheduler()
    first = FakeExecutor(cluster, "one").join()
    first.answers = False

    FakeExecutor(cluster, "one")
    other = FakeExecutor(cluster, "two")
    eventually(other.is_routable)

    assert registered(cluster)[1:] == [("two", other.boot_id)]


@on_memory
def test_an_executor_whose_queue_cannot_be_declared_keeps_no_other_out(
    cluster: Cluster, still: SchedulerNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin = still.connections.admin
    declare = admin.declare_queues

    def declare_all_but_one(queues: list[Queue]) -> None:
        if any("faulty" in queue.name for queue in queues):
            raise BrokerUnavailable("no answer")
        declare(queues)

    monkeypatch.setattr(admin, "declare_queues", declare_all_but_one)
    cluster.add_app(APP)
    for address in ("one", "faulty", "two"):
        who = {"app": APP, "address": address, "boot_id": f"boot-{address}"}
        still.registrar.greet(Heartbeat(started_at_ms=1, load=Load(), **who), "")

    with pytest.raises(BrokerUnavailable):
        still.registrar.run_round(cluster.now_ms())
    assert list(still.roster.routable(APP)) == ["one"]
    still.registrar.run_round(cluster.now_ms())

    assert list(still.roster.routable(APP)) == ["one", "two"]


@on_memory
def test_a_new_scheduler_knows_executors_from_the_registry_but_sends_nothing_unheard(
    cluster: Cluster,
) -> None:
    cluster.scheduler()
    desk = FakeExecutor(cluster).join()
    desk.die()

    late = cluster.scheduler()

    assert late.roster.holder(APP, "one") == desk.boot_id
    assert late.roster.routable(APP) == {}


@on_memory
@pytest.mark.parametrize(("returns_seconds", "dead_seconds"), [(0, 15), (60, 60)])
def test_a_new_scheduler_grants_a_silent_executor_the_time_that_it_asked_for(
    cluster: Cluster, returns_seconds: int, dead_seconds: int
) -> None:
    cluster.scheduler()
    desk = FakeExecutor(cluster, returns_seconds=returns_seconds).join()
    desk.die()
    clock = MovedClock()
    late = cluster.new_scheduler(clock=clock)
    cluster.schedulers.append(late)
    began_at = clock.now

    late.presence.load()
    while late.roster.standing(APP, "one", desk.boot_id) is not Standing.DEAD:
        clock.advance(0.5)
        late.roster.set_health(True)
        assert clock.now < began_at + 200

    assert dead_seconds < clock.now - began_at <= dead_seconds + 1


@on_memory
@pytest.mark.parametrize("which", ["run", "command"])
def test_a_queue_that_somebody_deleted_comes_back(cluster: Cluster, which: str) -> None:
    node = cluster.scheduler()
    desk = FakeExecutor(cluster).join()
    cluster.job("work")
    name = run_queue(APP, "one").name
    if which == "command":
        name = command_queue(APP, "one", desk.boot_id).name
    admin = node.connections.admin
    admin.delete_queue(name)

    cluster.trigger("work")

    eventually(lambda: admin.count_messages(name) is not None)
    assert desk.take(1)


@on_memory
def test_after_a_restart_of_the_broker_all_queues_are_there_again(cluster: Cluster) -> None:
    node = cluster.scheduler()
    desk = FakeExecutor(cluster).join()
    cluster.job("work")
    admin = node.connections.admin
    broker = cluster.make_transport.__self__  # type: ignore[attr-defined]
    broker.block()  # no heartbeat asks for a queue meanwhile
    for queue in (run_queue(APP, "one"), command_queue(APP, "one", desk.boot_id), callback_queue()):
        admin.delete_queue(queue.name)
    broker.stop()
    broker.start()
    broker.unblock()
    admin.declare_exchanges()

    eventually(lambda: desk.of(Welcome)[-1] and node.roster.is_healthy)
    run_id = cluster.trigger("work")

    assert [t.run_id for t in desk.take(1)] != []
    assert cluster.run(run_id).address == "one"


@on_memory
def test_an_executor_of_the_registry_that_says_goodbye_is_gone_for_every_scheduler(
    cluster: Cluster,
) -> None:
    nodes = [cluster.scheduler(), cluster.scheduler()]
    desk = FakeExecutor(cluster).join()

    desk.goodbye()

    eventually(
        lambda: {n.roster.standing(APP, "one", desk.boot_id) for n in nodes} == {Standing.DEAD}
    )


@on_memory
def test_heartbeats_go_on_being_heard_while_the_database_is_away(cluster: Cluster) -> None:
    cluster.be_quick()
    node = cluster.scheduler()
    desk = FakeExecutor(cluster).join()
    mortal = cluster.mortals[id(node)]
    mortal.is_dead = True
    eventually(lambda: "presence" in node.failing_roles)
    member = node.roster.members()[0][0]
    before = member.seen_at

    eventually(lambda: node.roster.members()[0][0].seen_at > before + 1)
    mortal.is_dead = False

    eventually(lambda: node.failing_roles == [])
    eventually(lambda: node.roster.standing(APP, "one", desk.boot_id) is Standing.ALIVE)


@on_memory
def test_a_scheduler_is_healthy_only_while_its_own_canaries_return(cluster: Cluster) -> None:
    node = cluster.scheduler()
    eventually(lambda: node.roster.is_healthy)

    cluster.cables[id(node)].is_cut = True

    eventually(lambda: not node.roster.is_healthy)
    cluster.cables[id(node)].is_cut = False
    eventually(lambda: node.roster.is_healthy)


@on_memory
def test_a_canary_that_was_long_on_its_way_proves_nothing(
    cluster: Cluster, still: SchedulerNode
) -> None:
    still.self_health.run_round(cluster.now_ms())
    cluster.pass_time(still, 60)
    still.self_health.run_round(cluster.now_ms())

    still.self_health.hear_canary(1)
    still.self_health.hear_canary(99)

    assert not still.self_health.is_healthy()
    still.self_health.hear_canary(2)
    assert still.self_health.is_healthy()


@on_memory
def test_a_scheduler_that_ends_leaves_the_registry(cluster: Cluster) -> None:
    node = cluster.scheduler()

    def names() -> list[str]:
        rows = cluster.database.read(lambda s: presence.listing(s, presence.ADMIN))
        return [row.address for row in rows]

    eventually(lambda: names() == [node.name])

    node.stop()

    assert names() == []
