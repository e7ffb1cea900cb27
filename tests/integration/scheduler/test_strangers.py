"""Who is no executor of an app does nothing in its name; who is one does nothing in another's."""

from collections.abc import Callable
from dataclasses import replace

import msgspec
import pytest
from sqlalchemy import update
from sqlalchemy.orm import Session
from structlog.testing import capture_logs

from tests.support.cluster import APP, SECRET, Cluster, on_memory
from tests.support.eventually import eventually
from tests.support.fake_executor import FakeExecutor
from tests.support.rabbitmq import PrivateRabbit
from tests.support.sql_rows import side_by_side
from warren.broker.codec import EncodedCatalogue
from warren.broker.memory import MemoryBroker
from warren.broker.messages import (
    Callback,
    Catalogue,
    CatalogueAnswer,
    Goodbye,
    HealthIssue,
    Heartbeat,
    KnownState,
    Load,
    NotWelcome,
    OpenRunsReply,
    Welcome,
)
from warren.broker.rabbitmq.transport import connect
from warren.broker.signing import AppKeys, Direction, Sealer
from warren.broker.topology import CALLBACK_KEY, HEARTBEAT_KEY, REPLY_EXCHANGE, run_queue
from warren.broker.transport import BrokerSettings, Transport
from warren.scheduler.membership import registrar
from warren.scheduler.node import SchedulerNode
from warren.sql.errors import DatabaseUnavailable
from warren.sql.models import Registration
from warren.sql.registry import apps, presence
from warren.sql.registry.cluster import cluster_id
from warren.sql.run_status import RunStatus

OTHER = "salaries"


def registered(cluster: Cluster) -> list[tuple[str, str]]:
    rows = cluster.database.read(lambda s: presence.listing(s, presence.EXECUTOR))
    return [(row.app, row.address) for row in rows]


def app_names(cluster: Cluster) -> set[str]:
    return set(cluster.database.read(apps.ids_by_name))


def rounds(cluster: Cluster, desk: FakeExecutor) -> None:
    """Wait until what was said before has been heard: a heartbeat behind it got its welcome."""
    count = len(desk.of(Welcome))
    eventually(lambda: len(desk.of(Welcome)) > count + 1)


@pytest.fixture
def node(cluster: Cluster) -> SchedulerNode:
    return cluster.scheduler()


def test_an_executor_of_an_app_that_nobody_made_is_not_let_in_until_somebody_does(
    cluster: Cluster, node: SchedulerNode
) -> None:
    known = FakeExecutor(cluster).join()
    stranger = FakeExecutor(cluster, app="brand-new")
    rounds(cluster, known)

    assert registered(cluster) == [(APP, "one")]
    assert app_names(cluster) == {APP}
    assert stranger.expect(NotWelcome).reason == (
        "there is no app brand-new; create it with: warren apps add brand-new"
    )
    queue = run_queue("brand-new", "one").name
    assert node.connections.admin.count_messages(queue) is None

    cluster.add_app("brand-new")
    stranger.join()
    assert stranger.expect(Welcome)


@on_memory
def test_two_hundred_unknown_apps_leave_no_trace_but_a_line_each(cluster: Cluster) -> None:
    node = cluster.new_scheduler()
    cluster.schedulers.append(node)
    with capture_logs() as logs:
        for number in [*range(200), *range(200)]:
            who = {"app": f"app-{number}", "address": "one", "boot_id": "b"}
            node.registrar.greet(Heartbeat(started_at_ms=1, load=Load(), **who), "")
            node.registrar.run_round(cluster.now_ms())

    said = [line for line in logs if line["event"] == "executor_not_welcomed"]
    assert len(said) == 200
    assert said[7]["reason"] == "there is no app app-7; create it with: warren apps add app-7"
    assert app_names(cluster) == {APP}
    assert registered(cluster) == []


@on_memory
def test_addresses_that_say_goodbye_make_no_room_for_others_while_their_queues_are_there(
    cluster: Cluster,
) -> None:
    node = cluster.new_scheduler()
    cluster.schedulers.append(node)

    def beat(address: str) -> str | None:
        who = {"app": APP, "address": address, "boot_id": "b"}
        node.registrar.greet(Heartbeat(started_at_ms=1, load=Load(), **who), "")
        node.registrar.run_round(cluster.now_ms())
        return node.roster.holder(APP, address)

    now_ms = cluster.now_ms()

    def depart(session: Session) -> None:
        for number in range(registrar.ADDRESS_LIMIT):
            presence.note(session, APP, f"one-{number}", now_ms)

    cluster.database.write(depart)

    assert beat("one-more") is None
    assert beat("one-7") == "b"

    # Somebody has forgotten one, as `warren executors forget` does.
    cluster.database.write(lambda session: presence.note(session, APP, "one-8", 0))
    assert beat("one-more") == "b"
    assert beat("one-too-many") is None


@on_memory
@pytest.mark.release
def test_an_app_has_a_thousand_addresses_and_not_one_more(
    cluster: Cluster, events: list[dict[str, object]]
) -> None:
    node = cluster.new_scheduler()
    cluster.schedulers.append(node)

    def beat(node: SchedulerNode, address: str, app: str = APP) -> str | None:
        """Let an executor send a heartbeat; return the boot that holds its address then."""
        who = {"app": app, "address": address, "boot_id": "b"}
        node.registrar.greet(Heartbeat(started_at_ms=1, load=Load(), **who), "")
        node.registrar.run_round(cluster.now_ms())
        return node.roster.holder(app, address)

    for number in range(registrar.ADDRESS_LIMIT):
        assert beat(node, f"one-{number}") == "b"

    assert beat(node, "one-more") is None
    [said] = [line for line in events if line["event"] == "executor_not_welcomed"]
    assert str(said["reason"]).startswith(f"app {APP} already has 1000 addresses; ")
    assert str(said["reason"]).endswith(f"warren executors forget --gone --app {APP}")
    # To another scheduler, one of the thousand is a newcomer.
    other = cluster.new_scheduler()
    cluster.schedulers.append(other)
    assert beat(other, "one-7") == "b"
    cluster.add_app(OTHER)
    assert beat(node, "one-more", OTHER) == "b"
    assert len(registered(cluster)) == registrar.ADDRESS_LIMIT + 1


@on_memory
def test_boots_without_end_keep_no_executor_of_another_app_out(cluster: Cluster) -> None:
    node = cluster.new_scheduler()
    cluster.schedulers.append(node)
    cluster.add_app(OTHER)

    def greet(app: str, address: str, boot_id: str) -> None:
        who = {"app": app, "address": address, "boot_id": boot_id}
        node.registrar.greet(Heartbeat(started_at_ms=1, load=Load(), **who), "")

    greet(APP, "one", "holder")
    node.registrar.run_round(cluster.now_ms())
    for number in range(3_000):
        greet(APP, "one", f"phantom-{number}")
        greet(APP, f"phantom-{number}", "b")
    greet(OTHER, "one", "b")
    node.registrar.run_round(cluster.now_ms())

    assert node.roster.holder(OTHER, "one") == "b"
    assert len(node.roster.routable(APP)) <= 200
    assert node.counters["heartbeats_dropped"] > 4_000


@on_memory
def test_endless_health_issues_are_not_kept(cluster: Cluster) -> None:
    node = cluster.new_scheduler()
    cluster.schedulers.append(node)
    who = {"app": APP, "address": "one", "boot_id": "b"}
    repeated = (HealthIssue.DISK,) * 50_000

    beat = Heartbeat(started_at_ms=1, load=Load(), health_issues=repeated, **who)
    node.registrar.greet(beat, "")
    node.registrar.run_round(cluster.now_ms())

    [row] = cluster.database.read(lambda s: presence.listing(s, presence.EXECUTOR))
    assert len(row.load or "") < 1_000
    [(member, _)] = node.roster.members()
    assert member.heartbeat is not None
    assert member.heartbeat.health_issues == (HealthIssue.DISK,)


@on_memory
def test_catalogues_that_nobody_asked_for_are_not_kept(cluster: Cluster) -> None:
    node = cluster.new_scheduler()
    cluster.schedulers.append(node)
    own, other = (
        EncodedCatalogue(Catalogue(code_version="v1")),
        EncodedCatalogue(Catalogue(code_version="v2")),
    )
    who = {"app": APP, "address": "one", "boot_id": "b"}
    beat = Heartbeat(started_at_ms=1, load=Load(), catalogue=own.fingerprint, **who)
    node.roster.admit(beat)

    def tell(told: EncodedCatalogue) -> set[str]:
        answer = CatalogueAnswer(contents=msgspec.Raw(told.contents), **who)
        node.registrar.take_catalogue(answer)
        asked = {own.fingerprint, other.fingerprint}
        return set(cluster.database.read(lambda s: presence.read_catalogues(s, asked)))

    assert tell(own) == set()  # no Welcome has asked for it yet
    node.registrar.greet(beat, "")
    node.registrar.run_round(cluster.now_ms())
    assert tell(other) == set()
    assert tell(own) == {own.fingerprint}


def test_an_executor_of_one_app_can_make_no_phantom_of_another(
    cluster: Cluster, node: SchedulerNode
) -> None:
    cluster.add_app(OTHER)
    thief = FakeExecutor(cluster).join()
    own = AppKeys.derived(APP, SECRET)
    sealer = Sealer(own, cluster.database.read(cluster_id), cluster.now_ms)
    phantom = {"app": OTHER, "address": "phantom", "boot_id": "b"}
    lies = [
        Heartbeat(started_at_ms=1, load=Load(), **phantom),
        Callback(reports=(thief.finished(1),), **phantom),
        Goodbye(**phantom),
    ]

    for message in lies:
        for claimed in (APP, OTHER):
            outgoing = sealer.seal(
                message,
                exchange=REPLY_EXCHANGE,
                routing_key=CALLBACK_KEY if isinstance(message, Callback) else HEARTBEAT_KEY,
                app=APP,
                address="phantom",
                direction=Direction.FROM_EXECUTOR,
                valid_seconds=60,
            )
            forged = replace(outgoing, headers={**outgoing.headers, "app": claimed})
            thief.publisher.publish([forged]).wait(30)

    eventually(lambda: node.counters["messages_rejected"] >= 2 * len(lies))
    rounds(cluster, thief)
    assert registered(cluster) == [(APP, "one")]
    assert node.roster.routable(OTHER) == {}


def test_what_an_executor_reports_of_another_apps_runs_counts_for_nothing(
    cluster: Cluster, node: SchedulerNode
) -> None:
    cluster.add_app(OTHER)
    victim = FakeExecutor(cluster, "one", boot_id="same", app=OTHER).join()
    cluster.job("pay", app=OTHER)
    run_id = cluster.trigger("pay")
    cluster.wait_status(run_id, RunStatus.SENT)

    # Address and boot id are an executor's own choice: this one has those of the other app's.
    thief = FakeExecutor(cluster, "one", boot_id="same").join()
    thief.report(thief.started(run_id), thief.finished(run_id, message="salaries paid"))
    eventually(lambda: node.counters["callbacks_rejected"])
    thief.which_open(run_id)

    assert thief.expect(OpenRunsReply).open_ids == ()
    assert cluster.run(run_id).status == RunStatus.SENT
    victim.report(victim.finished(run_id, message="by the right one"))
    assert cluster.wait_final(run_id).message == "by the right one"


def test_the_death_of_an_executor_ends_no_run_of_another_app(cluster: Cluster) -> None:
    cluster.be_quick()
    cluster.scheduler()
    cluster.add_app(OTHER)
    sleeper = FakeExecutor(cluster, "one", boot_id="same", app=OTHER).join()
    sleeper.else_known = KnownState.WAITING
    cluster.job("pay", app=OTHER)
    cluster.job("own")
    theirs = cluster.trigger("pay")
    cluster.wait_status(theirs, RunStatus.SENT)
    thief = FakeExecutor(cluster, "one", boot_id="same").join()
    own = cluster.trigger("own")
    cluster.wait_status(own, RunStatus.SENT)
    thief.take(1)

    thief.die()

    assert cluster.wait_final(own, 40).status == RunStatus.LOST
    assert cluster.run(theirs).status == RunStatus.SENT


Account = Callable[[str], Transport]


@pytest.fixture
def account(cluster: Cluster, request: pytest.FixtureRequest) -> Account:
    """Connect to the broker with an account of least rights: one of app `demo`, or another's."""
    broker = getattr(cluster.make_transport, "__self__", None)
    if isinstance(broker, MemoryBroker):
        return broker.transport
    rabbitmq: PrivateRabbit = request.getfixturevalue("rabbitmq")
    vhost = request.getfixturevalue("vhost").rpartition("/")[2]

    def connected(app: str) -> Transport:
        name = f"executor-{app}-{vhost}"
        queues = rf"^warren\.(run|cmd)\.{app}\."
        rights = {"configure": "^$", "write": r"^warren\.reply$", "read": queues}
        rabbitmq.add_user(name, "secret", vhost=vhost, **rights)
        url = rabbitmq.vhost_url(vhost, name, "secret")
        return connect(BrokerSettings(urls=(url,)))

    return connected


class Theft:
    """A living boot, and somebody with its app's key but another app's account."""

    def __init__(self, cluster: Cluster, account: Account) -> None:
        self.cluster = cluster
        self.run_id = 0
        transports = [account(APP), account(OTHER)]
        self.right = FakeExecutor(cluster, boot_id="same", transport=transports[0]).join()
        self.thief = FakeExecutor(cluster, boot_id="same", transport=transports[1])
        cluster.job("work")

    def sent(self) -> int:
        run_id = self.cluster.trigger("work")
        self.cluster.wait_status(run_id, RunStatus.SENT)
        return run_id

    def steal(self, run_id: int) -> None:
        self.thief.beat(draining=True)
        self.thief.goodbye()
        self.thief.report(self.thief.finished(run_id, message="not mine"))

    def restart(self) -> SchedulerNode:
        """Replace the only scheduler; until it has heard the thief, the right one is silent."""
        self.right.is_beating = False
        self.cluster.schedulers.pop().stop()
        self.thief.is_beating = True
        node = self.cluster.scheduler()
        eventually(lambda: node.counters["messages_rejected"] >= 3)
        return node


@pytest.fixture
def theft(cluster: Cluster, node: SchedulerNode, account: Account) -> Theft:
    return Theft(cluster, account)


def heartbeat(boot_id: str = "same") -> Heartbeat:
    who = {"app": APP, "address": "one", "boot_id": boot_id}
    return Heartbeat(started_at_ms=1, load=Load(), **who)


def stored_account(cluster: Cluster, boot_id: str = "same") -> str | None:
    return cluster.database.read(
        lambda s: presence.account(s, presence.EXECUTOR, APP, "one", boot_id)
    )


def test_the_first_account_that_speaks_for_a_living_boot_stays(
    cluster: Cluster, node: SchedulerNode, theft: Theft
) -> None:
    run_id = theft.sent()
    theft.thief.is_beating = False
    before = node.counters["messages_rejected"]

    theft.steal(run_id)
    eventually(lambda: node.counters["messages_rejected"] >= before + 3)

    assert node.roster.routable(APP) == {"one": "same"}
    theft.right.report(theft.right.finished(run_id, message="mine"))
    assert cluster.wait_final(run_id).message == "mine"


def test_it_stays_when_the_only_scheduler_is_restarted_and_hears_another_one_first(
    cluster: Cluster, theft: Theft
) -> None:
    run_id = theft.sent()

    node = theft.restart()
    assert node.roster.routable(APP) == {}
    theft.steal(run_id)
    theft.right.is_beating = True
    theft.right.join()

    theft.right.report(theft.right.finished(run_id, message="mine"))
    assert cluster.wait_final(run_id).message == "mine"


@on_memory
def test_a_boot_whose_row_has_no_account_yet_gets_the_first_that_is_heard(
    cluster: Cluster, theft: Theft
) -> None:
    theft.thief.is_beating = False
    cluster.schedulers.pop().stop()
    cluster.database.write(lambda s: s.execute(update(Registration).values(account=None)))
    cluster.scheduler()
    theft.right.join()

    assert stored_account(cluster) == APP
    theft.restart()
    theft.right.is_beating = True
    theft.right.join()


@on_memory
def test_a_scheduler_that_hears_another_account_first_goes_by_the_registry(
    cluster: Cluster, theft: Theft
) -> None:
    other = cluster.new_scheduler()
    cluster.schedulers.append(other)

    other.registrar.greet(heartbeat(), OTHER)
    other.registrar.greet(heartbeat(), APP)
    other.registrar.run_round(cluster.now_ms())
    assert other.roster.holder(APP, "one") is None
    assert other.counters["messages_rejected"] == 1

    other.registrar.greet(heartbeat(), APP)
    other.registrar.run_round(cluster.now_ms())
    assert other.roster.holder(APP, "one") == "same"
    assert stored_account(cluster) == APP


@on_memory
def test_two_schedulers_that_replace_a_dead_boot_go_by_one_account(
    cluster: Cluster, theft: Theft
) -> None:
    cluster.be_quick()
    nodes = [cluster.new_scheduler(), cluster.new_scheduler()]
    cluster.schedulers.pop().stop()
    cluster.schedulers += nodes
    theft.right.die()
    theft.thief.die()

    def rival(node: SchedulerNode, user: str) -> None:
        node.registrar.greet(heartbeat("new"), user)
        node.registrar.run_round(cluster.now_ms())

    side_by_side(*[lambda n=n, u=u: rival(n, u) for n, u in zip(nodes, [APP, OTHER], strict=True)])

    winner = [APP, OTHER].index(stored_account(cluster, "new") or "")
    assert nodes[winner].roster.holder(APP, "one") == "new"
    assert nodes[1 - winner].roster.holder(APP, "one") is None
    assert nodes[1 - winner].counters["messages_rejected"] == 1


@pytest.fixture
def unaware(cluster: Cluster, theft: Theft) -> SchedulerNode:
    """The only scheduler, which does not run and has heard of nobody."""
    theft.thief.is_beating = False
    theft.run_id = theft.sent()
    node = cluster.new_scheduler()
    cluster.schedulers.pop().stop()
    cluster.schedulers.append(node)
    return node


@on_memory
def test_a_scheduler_that_has_not_heard_a_boot_asks_the_registry_who_may_report_for_it(
    cluster: Cluster, theft: Theft, unaware: SchedulerNode
) -> None:
    run_id = theft.run_id

    theft.thief.report(theft.thief.finished(run_id, message="not mine"))
    theft.right.report(theft.right.finished(run_id, message="mine"))
    unaware.callbacks.run_round(0)

    assert unaware.counters["messages_rejected"] == 1
    assert cluster.run(run_id).message == "mine"


@on_memory
def test_reports_wait_while_the_registry_cannot_be_asked(
    cluster: Cluster, theft: Theft, unaware: SchedulerNode
) -> None:
    run_id = theft.run_id
    theft.right.report(theft.right.finished(run_id, message="mine"))
    cluster.mortals[id(unaware)].is_dead = True
    for _ in range(2):
        with pytest.raises(DatabaseUnavailable):
            unaware.callbacks.run_round(0)

    cluster.mortals[id(unaware)].is_dead = False
    unaware.callbacks.run_round(0)

    assert cluster.run(run_id).message == "mine"


@on_memory
def test_nobody_else_says_goodbye_to_a_scheduler_that_has_not_heard_a_boot(
    cluster: Cluster, theft: Theft, unaware: SchedulerNode
) -> None:
    theft.right.is_beating = False

    theft.thief.goodbye()
    unaware.presence.run_round(0)
    assert registered(cluster) == [(APP, "one")]

    theft.right.goodbye()
    unaware.presence.run_round(0)
    assert registered(cluster) == []
