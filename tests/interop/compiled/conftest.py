"""A deployment with a gateway for each client that is compiled."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pytest

from tests.support.compiled_clients import CLIENTS
from tests.support.deployment import Deployment
from tests.support.mariadb import PrivateMariaDB
from tests.support.rabbitmq import PrivateRabbit
from tests.support.remote_executors import GatewayCase


class Client(NamedTuple):
    """A compiled client: its name, and the command that runs it."""

    name: str
    program: Sequence[str]

    @property
    def is_java(self) -> bool:
        """Whether it is one of Java's."""
        return self.name.startswith("java")


@pytest.fixture(scope="session", params=CLIENTS)
def client(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Client:
    """Each client in turn, built."""
    folder = tmp_path_factory.mktemp(request.param)
    return Client(request.param, CLIENTS[request.param](folder))


@pytest.fixture
def java(client: Client) -> Client:
    """A client in Java: the test is about what Go's does not do."""
    if not client.is_java:
        pytest.skip("the Go executor keeps no log, and mixes up jobs that share a handler")
    return client


@pytest.fixture(scope="session")
def _gateway(
    rabbitmq: PrivateRabbit,
    mariadb: PrivateMariaDB,
    tmp_path_factory: pytest.TempPathFactory,
    client: Client,
) -> Iterator[GatewayCase]:
    folder = tmp_path_factory.mktemp("compiled")
    deployment = Deployment(
        folder,
        database_url=mariadb.create_database(),
        broker_url=rabbitmq.vhost_url(rabbitmq.add_vhost()),
    )
    with deployment, GatewayCase(deployment, folder) as case:
        deployment.await_schedulers(deployment.scheduler())
        case.gateway()
        case.compiled(client.program)
        yield case


@pytest.fixture
def case(_gateway: GatewayCase) -> Iterator[GatewayCase]:
    """A scheduler, a gateway and one client; every run is final after the test."""
    before = list(_gateway.remotes)
    yield _gateway
    try:
        _gateway.deployment.assert_sound()
    finally:
        _gateway.end([one for one in _gateway.remotes if one not in before])
