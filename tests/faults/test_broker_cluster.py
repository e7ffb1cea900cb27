"""A node of a cluster of three brokers dies: the one that everything is connected to."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.deployment import Deployment
from tests.support.eventually import eventually
from tests.support.mariadb import PrivateMariaDB
from tests.support.rabbitmq import PrivateRabbit
from tests.support.rabbitmq_cluster import RabbitCluster
from warren.executor.lanes.readiness import CONTACT_SECONDS
from warren.sql.registry import presence
from warren.sql.run_status import RunStatus


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitCluster]:
    if not PrivateRabbit.is_installed():
        pytest.skip("RabbitMQ is not installed")
    cluster = RabbitCluster(tmp_path_factory.mktemp("brokers") / "cluster", 3)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.close()


@pytest.fixture
def deployment(
    brokers: RabbitCluster, mariadb: PrivateMariaDB, tmp_path: Path
) -> Iterator[Deployment]:
    """Processes that are connected to the first node."""
    vhost = brokers.nodes[0].add_vhost()
    with Deployment(
        tmp_path,
        database_url=mariadb.create_database(),
        broker_url=",".join(node.vhost_url(vhost) for node in brokers.nodes),
    ) as made:
        yield made


def test_runs_go_on_without_the_node_that_executors_are_connected_to(
    brokers: RabbitCluster, deployment: Deployment
) -> None:
    deployment.await_schedulers(deployment.scheduler())
    deployment.await_executors(deployment.executor())
    deployment.job("hello", handler="noop")
    deployment.await_success(deployment.trigger("hello"))

    brokers.nodes[0].kill()
    try:
        await_heartbeats(deployment, since_ms=deployment.now_ms())
        # Executors start nothing once no heartbeat was confirmed for this long.
        until_ms = deployment.now_ms() + 1.5 * CONTACT_SECONDS * 1000
        while deployment.now_ms() < until_ms:
            deployment.await_success(deployment.trigger("hello"))
        assert deployment.logged("contact_lost") == []
    finally:
        brokers.nodes[0].start()
        eventually(brokers.is_whole)
    deployment.assert_sound()


def test_runs_for_a_classic_queue_wait_for_its_node_and_say_so(
    brokers: RabbitCluster, deployment: Deployment
) -> None:
    deployment.env["WARREN_QUORUM"] = "false"
    deployment.await_schedulers(deployment.scheduler())
    deployment.await_executors(deployment.executor())
    deployment.job("hello", handler="noop")
    deployment.await_success(deployment.trigger("hello"))
    # From 4 on, RabbitMQ does not refuse such a queue: it confirms nothing that is sent there.
    is_refused = brokers.nodes[0].version < (4,)

    brokers.nodes[0].kill()
    try:
        if is_refused:
            eventually(lambda: "problems: queue" in deployment.warren("executors", "list"), 60.0)
        run_id = deployment.trigger("hello")
        command, told = (
            (("runs", "show", str(run_id)), "queues cannot be reached (one)")
            if is_refused
            else (("schedulers", "list"), "the broker confirms nothing that schedulers send")
        )
        eventually(lambda: told in deployment.warren(*command), 60.0)
        # A scheduler that has noticed before sends nothing at all.
        waiting = {RunStatus.PLANNED} if is_refused else {RunStatus.PLANNED, RunStatus.ROUTED}
        assert deployment.status(run_id) in waiting
    finally:
        brokers.nodes[0].start()
        eventually(brokers.is_whole)
    deployment.await_success(run_id)
    deployment.assert_sound()


def await_heartbeats(deployment: Deployment, *, since_ms: int) -> None:
    """Wait until the scheduler has heard the executor twice."""

    def beat_at() -> int:
        [row] = deployment.database.read(lambda s: presence.listing(s, presence.EXECUTOR))
        return int(row.beat_at)

    eventually(lambda: beat_at() > since_ms, 60.0)
    first = beat_at()
    eventually(lambda: beat_at() > first, 60.0)
