"""Transports of both kinds, for tests that must pass on either."""

from collections.abc import Callable, Iterator

import pytest

from warren.broker.memory import MemoryBroker
from warren.broker.rabbitmq.transport import AmqpTransport, connect
from warren.broker.transport import BrokerSettings, Transport

Connect = Callable[[], Transport]


def settings_for(url: str) -> BrokerSettings:
    return BrokerSettings(urls=(url,), backoff_seconds=(0.05, 0.5))


@pytest.fixture
def amqp(vhost: str) -> Iterator[AmqpTransport]:
    """A transport to a vhost in which nothing is declared."""
    transport = connect(settings_for(vhost))
    yield transport
    transport.close()


@pytest.fixture(params=["memory", "rabbitmq"])
def connect_anew(request: pytest.FixtureRequest) -> Iterator[Connect]:
    """Make one more transport to the same broker, as another process would have."""
    made: list[Transport] = []
    if request.param == "memory":
        broker = MemoryBroker()

        def make() -> Transport:
            made.append(broker.transport("guest"))
            return made[-1]
    else:
        url: str = request.getfixturevalue("vhost")

        def make() -> Transport:
            made.append(connect(settings_for(url)))
            return made[-1]

    yield make
    for transport in made:
        transport.close()


@pytest.fixture
def transport(connect_anew: Connect) -> Transport:
    """A transport to a broker where the exchanges are declared."""
    transport = connect_anew()
    transport.admin("admin").declare_exchanges()
    return transport
