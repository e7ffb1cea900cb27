"""A deployment with a gateway, and the clients that register there."""

import os
from collections.abc import Iterator

import pytest

from tests.support.deployment import Deployment
from tests.support.mariadb import PrivateMariaDB
from tests.support.rabbitmq import PrivateRabbit
from tests.support.remote_executors import GatewayCase, environment, shared_folder

#: Those in Java and Go need their compilers: `make interop`.
collect_ignore = [] if os.environ.get("INTEROP") else ["compiled"]


@pytest.fixture(scope="session")
def _served(
    rabbitmq: PrivateRabbit,
    mariadb: PrivateMariaDB,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[GatewayCase]:
    programs = environment(shared_folder(tmp_path_factory))
    deployment = Deployment(
        tmp_path_factory.mktemp("served"),
        database_url=mariadb.create_database(),
        broker_url=rabbitmq.vhost_url(rabbitmq.add_vhost()),
    )
    with deployment, GatewayCase(deployment, programs) as case:
        deployment.await_schedulers(deployment.scheduler())
        case.gateway()
        case.pyxxl()
        yield case


@pytest.fixture
def served(_served: GatewayCase) -> Iterator[GatewayCase]:
    """A scheduler, a gateway, and one executor of pyxxl; more may be added.

    After the test every run is final, the oracle is content, and what was added has ended.
    """
    before = list(_served.remotes)
    yield _served
    try:
        _served.deployment.assert_sound()
    finally:
        _served.end([one for one in _served.remotes if one not in before])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave them to a release: their clients come from PyPI."""
    for item in items:
        if "interop" in item.path.parts:
            item.add_marker(pytest.mark.release)
