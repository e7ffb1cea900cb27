"""A cluster on each pair of database and broker that Warren supports."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.amqp import connect
from broker.memory import MemoryBroker
from broker.transport import BrokerSettings
from sql.engine import Database
from tests.support.cluster import Cluster


@pytest.fixture(params=["memory", "real"])
def cluster(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Cluster]:
    """SQLite with the in-memory broker, and MariaDB with RabbitMQ; executors beat quickly."""
    monkeypatch.setattr("executor.heartbeat.BEAT_SECONDS", 0.25)
    if request.param == "memory":
        broker = MemoryBroker()
        cluster = Cluster(tmp_path, Database(f"sqlite:///{tmp_path / 'w.db'}"), broker.transport)
    else:
        vhost = request.getfixturevalue("vhost")
        url = request.getfixturevalue("mariadb_url")
        settings = BrokerSettings(urls=(vhost,))
        cluster = Cluster(tmp_path, Database(url), lambda: connect(settings))
    yield cluster
    cluster.close()
