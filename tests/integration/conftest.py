"""A cluster on each pair of database and broker that Warren supports."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cluster import Cluster
from warren.broker.memory import MemoryBroker
from warren.broker.rabbitmq.transport import connect
from warren.broker.transport import BrokerSettings
from warren.sql.engine import Database


@pytest.fixture(params=["memory", pytest.param("real", marks=pytest.mark.twin)])
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cluster]:
    """SQLite with the in-memory broker, and MariaDB with RabbitMQ; executors beat quickly.

    Both run in `make test` where the test or its module says `pytest.mark.both` and why: where
    locks, confirms, uniqueness or timing are the matter. With TEST_TWINS=all, as in `make matrix`,
    every test runs on both.
    """
    if request.param == "memory":
        broker = MemoryBroker()
        url = request.getfixturevalue("sqlite_schema_url")
        cluster = Cluster(tmp_path, Database(url), broker.transport)
    else:
        vhost = request.getfixturevalue("vhost")
        url = request.getfixturevalue("mariadb_schema_url")
        settings = BrokerSettings(urls=(vhost,))
        cluster = Cluster(tmp_path, Database(url), lambda: connect(settings))
    yield cluster
    cluster.close()
