"""`warren broker migrate-queues` makes quorum queues of classic ones, once nothing runs."""

import signal
from pathlib import Path

from tests.support.deployment import Deployment
from tests.support.eventually import eventually
from tests.support.mariadb import PrivateMariaDB
from tests.support.rabbitmq import PrivateRabbit
from warren.sql.registry import presence

COMMAND = ("broker", "migrate-queues")


def test_classic_queues_become_quorum_queues_between_two_runs(
    rabbitmq: PrivateRabbit, mariadb: PrivateMariaDB, tmp_path: Path
) -> None:
    with Deployment(
        tmp_path,
        database_url=mariadb.create_database(),
        broker_url=rabbitmq.vhost_url(rabbitmq.add_vhost()),
        quorum="true",
    ) as deployment:
        scheduler, executor = deployment.scheduler(quorum="false"), deployment.executor()
        deployment.await_schedulers(scheduler)
        deployment.await_executors(executor)
        deployment.job("hello", handler="noop")
        deployment.await_success(deployment.trigger("hello"))

        assert "stop these schedulers first: " in deployment.warren_fails(*COMMAND)
        executor.send(signal.SIGTERM)
        executor.wait()
        eventually(lambda: ("demo", "one") in deployment.database.read(presence.read))
        scheduler.send(signal.SIGTERM)
        scheduler.wait()
        assert "classic queues" in deployment.warren("check", "--for", "scheduler")
        without_database = deployment.warren_fails(
            "check",
            "--for",
            "scheduler",
            "--database-url",
            "mysql+pymysql://nobody@127.0.0.1:1/none",
        )
        assert "classic queues, which a node takes with it when it dies: 1" in without_database
        done = deployment.warren(*COMMAND)
        again = deployment.warren(*COMMAND)

        assert done.splitlines() == [
            "warren.callback is a quorum queue now",
            "warren.run.demo.one is a quorum queue now",
        ]
        assert again == "all queues are already quorum queues\n"
        assert "classic queues" not in deployment.warren("check", "--for", "scheduler")
        scheduler, executor = deployment.scheduler(), deployment.executor()
        deployment.await_schedulers(scheduler)
        deployment.await_executors(executor)
        deployment.await_success(deployment.trigger("hello"))
        deployment.assert_sound()
