"""A replica takes the place of its primary, which comes back and can be written again."""

from collections.abc import Iterator

import pytest

from tests.support.deployment import Deployment
from tests.support.eventually import eventually
from tests.support.mariadb import PrivateMariaDB
from tests.support.rabbitmq import PrivateRabbit
from tests.support.replicated import Replicated
from warren.sql.epochs import LEFT_OUT

#: How soon every process is on the new primary.
FOLLOWED_SECONDS = 30


@pytest.fixture
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replicated]:
    servers = Replicated(tmp_path_factory.mktemp("replicated"))
    try:
        servers.start()
        servers.renew()
        yield servers
    finally:
        servers.close()


def connections(servers: Replicated, server: PrivateMariaDB) -> int:
    """Return how many connections Warren has to a server."""
    [(count,)] = server.execute(
        "SELECT COUNT(*) FROM information_schema.processlist "
        f"WHERE db = '{servers.database}' AND user = 'warren'"
    )
    return int(str(count))


def newest_run(servers: Replicated, server: PrivateMariaDB) -> int:
    [(newest,)] = server.execute(f"SELECT MAX(id) FROM {servers.database}.xxl_job_log")
    return int(str(newest or 0))


def test_all_processes_follow_a_promotion_and_none_returns_to_the_old_primary(
    servers: Replicated, rabbitmq: PrivateRabbit, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with Deployment(
        tmp_path_factory.mktemp("promoted"),
        database_url=servers.urls,
        broker_url=rabbitmq.vhost_url(rabbitmq.add_vhost()),
    ) as deployment:
        schedulers = [deployment.scheduler(), deployment.scheduler()]
        executor = deployment.executor("one")
        console = deployment.console()
        deployment.await_schedulers(*schedulers)
        deployment.await_executors(executor)
        console.wait_for("console_started")
        second = {"schedule_kind": "CRON", "schedule_value": "* * * * * ?", "enabled": True}
        deployment.job("each second", handler="brief", param="0.01", **second)
        eventually(lambda: len(deployment.starts()) > 2)

        servers.first.execute("SET GLOBAL read_only = 1")
        servers.await_copy()
        servers.promote(servers.second)
        deployment.job("planned there")  # the test moves too

        eventually(lambda: not connections(servers, servers.first), seconds=FOLLOWED_SECONDS)
        started = len(deployment.starts())
        eventually(lambda: len(deployment.starts()) > started + 2, seconds=FOLLOWED_SECONDS)
        eventually(lambda: newest_run(servers, servers.second) > LEFT_OUT)
        assert all(command.is_running for command in (*schedulers, executor, console))

        servers.first.execute("SET GLOBAL read_only = 0")
        last = newest_run(servers, servers.first)
        assert f"127.0.0.1:{servers.first.port} can be written, but it is of the first epoch" in (
            deployment.warren_fails("check", "--for", "console")
        )
        lone = deployment.scheduler(database_url=servers.url(servers.first))
        lone.wait_for("database_server_refused")
        deployment.end([lone])

        eventually(lambda: len(deployment.starts()) > started + 10)
        assert max(start["run"] for start in deployment.starts()) > LEFT_OUT
        assert not [start for start in deployment.starts() if last < start["run"] < LEFT_OUT]
        deployment.assert_sound()
