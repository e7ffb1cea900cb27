"""The deployments that acceptance tests share; the invariants are checked after every test."""

from collections.abc import Iterator

import pytest

from tests.support.deployment import Deployment
from tests.support.mariadb import PrivateMariaDB
from tests.support.rabbitmq import PrivateRabbit


@pytest.fixture(scope="session")
def _fleet(
    rabbitmq: PrivateRabbit,
    mariadb: PrivateMariaDB,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Deployment]:
    deployment = Deployment(
        tmp_path_factory.mktemp("fleet"),
        database_url=mariadb.create_database(),
        broker_url=rabbitmq.vhost_url(rabbitmq.add_vhost()),
    )
    with deployment:
        schedulers = [deployment.scheduler(), deployment.scheduler()]
        steady = deployment.executor("steady")
        deployment.await_schedulers(*schedulers)
        deployment.await_executors(steady)
        yield deployment


@pytest.fixture
def fleet(_fleet: Deployment) -> Iterator[Deployment]:
    """Two schedulers, and the executor `steady` of app `demo`; jobs and executors may be added.

    After the test every run is final, the invariants hold, and what was added has ended.
    """
    before = _fleet.running()
    _fleet.app = "demo"
    yield _fleet
    added = [command for command in _fleet.running() if command not in before]
    try:
        _fleet.assert_sound()
    finally:
        _fleet.end(added)


@pytest.fixture
def deployment(
    mariadb_url: str, vhost: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Deployment]:
    """A deployment with nothing running in it yet; afterwards the invariants must hold."""
    folder = tmp_path_factory.mktemp("deployment")
    with Deployment(folder, database_url=mariadb_url, broker_url=vhost) as deployment:
        yield deployment
        deployment.assert_sound()
