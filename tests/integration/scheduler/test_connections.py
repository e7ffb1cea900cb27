"""A scheduler that connects to a slow RabbitMQ."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.integration.broker.proxy import Proxy
from tests.support.rabbitmq import PrivateRabbit
from warren.broker.errors import BrokerUnavailable
from warren.broker.rabbitmq.transport import AmqpTransport, connect
from warren.broker.signing import ClusterKeys, Sealer
from warren.broker.transport import BrokerSettings
from warren.scheduler.node_context import Connections


@pytest.fixture
def proxy(rabbitmq: PrivateRabbit) -> Iterator[Proxy]:
    with Proxy(rabbitmq.port) as proxy:
        yield proxy


@pytest.fixture
def transport(proxy: Proxy, vhost: str, rabbitmq: PrivateRabbit) -> Iterator[AmqpTransport]:
    url = vhost.replace(f":{rabbitmq.port}/", f":{proxy.port}/")
    transport = connect(BrokerSettings(urls=(url,), connect_timeout_seconds=3.0))
    yield transport
    transport.close()


def test_declarations_may_take_longer_than_a_connection(
    transport: AmqpTransport, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    impatient = transport.admin("impatient")
    assert impatient.count_messages("none") is None
    new_admin, has_stalled = transport.admin, threading.Event()

    def stall_once_connected(name: str, **options: Any) -> Any:
        admin = new_admin(name, **options)
        if not has_stalled.is_set():
            assert admin.count_messages("none") is None
            proxy.freeze()
            has_stalled.set()
        return admin

    monkeypatch.setattr(transport, "admin", stall_once_connected)
    sealer = Sealer(ClusterKeys("s" * 32), "cluster", lambda: 0)
    with ThreadPoolExecutor(1) as pool:
        opening = pool.submit(Connections, transport, sealer, "node", quorum=False)
        assert has_stalled.wait(60)

        with pytest.raises(BrokerUnavailable, match="no answer within 3 s"):
            impatient.count_messages("none")
        was_waiting = not opening.done()
        proxy.thaw()
        opening.result(60).close()

    assert was_waiting
