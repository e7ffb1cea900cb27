"""What fault tests share: a deployment whose survivors are the same for a whole file."""

from collections.abc import Iterator

import pytest

from tests.support.deployment import Deployment
from tests.support.mariadb import PrivateMariaDB
from tests.support.rabbitmq import PrivateRabbit


@pytest.fixture(scope="session")
def _survivors(
    rabbitmq: PrivateRabbit,
    mariadb: PrivateMariaDB,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Deployment]:
    deployment = Deployment(
        tmp_path_factory.mktemp("survivors"),
        database_url=mariadb.create_database(),
        broker_url=rabbitmq.vhost_url(rabbitmq.add_vhost()),
    )
    with deployment:
        scheduler, executor = deployment.scheduler(), deployment.executor("survivor")
        deployment.await_schedulers(scheduler)
        deployment.await_executors(executor)
        yield deployment


@pytest.fixture
def survivors(_survivors: Deployment) -> Iterator[Deployment]:
    """A scheduler, and the executor `survivor` of app `demo`; others may be added, and die.

    After the test the invariants hold, and what was added has ended.
    """
    before = _survivors.running()
    _survivors.app = "demo"
    yield _survivors
    added = [command for command in _survivors.running() if command not in before]
    try:
        _survivors.assert_sound()
    finally:
        _survivors.end(added)
