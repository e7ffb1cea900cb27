"""Somebody deletes one of our exchanges, with all bindings of its queues, while schedulers work."""

import pika  # type: ignore[import-untyped]
import pytest

from tests.support.cluster import Cluster
from warren.broker.topology import REPLY_EXCHANGE, TRIGGER_EXCHANGE
from warren.sql.run_status import RunStatus

pytestmark = pytest.mark.parametrize("cluster", ["real"], indirect=True)


@pytest.mark.parametrize("exchange", [TRIGGER_EXCHANGE, REPLY_EXCHANGE])
def test_two_schedulers_declare_it_again_and_runs_go_on(
    cluster: Cluster, vhost: str, exchange: str
) -> None:
    for _ in range(2):
        cluster.scheduler()
    cluster.executor()
    cluster.job("noop")
    cluster.wait_online()

    with pika.BlockingConnection(pika.URLParameters(vhost)) as connection:
        connection.channel().exchange_delete(exchange)
    run = cluster.wait_final(cluster.trigger("noop"))

    assert run.status == RunStatus.SUCCEEDED
    cluster.executor("newcomer")
    cluster.wait_online("one", "newcomer")
