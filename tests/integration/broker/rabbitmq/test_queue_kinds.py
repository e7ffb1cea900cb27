"""Classic queues are found, and become quorum queues without losing a message."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pika
import pytest

from tests.integration.broker.conftest import settings_for
from warren.broker.errors import TopologyError
from warren.broker.rabbitmq.queue_kinds import Kind, QueueKinds, open_kinds
from warren.broker.rabbitmq.transport import AmqpTransport
from warren.broker.topology import callback_queue, run_queue

REPORTS, ONE, TWO = callback_queue(), run_queue("demo", "one"), run_queue("demo", "two")


@pytest.fixture
def channel(vhost: str) -> Iterator[Any]:
    with pika.BlockingConnection(pika.URLParameters(vhost)) as connection:
        yield connection.channel()


@pytest.fixture
def kinds(vhost: str, amqp: AmqpTransport) -> Iterator[QueueKinds]:
    """Looks at a broker with two classic queues and a quorum queue."""
    admin = amqp.admin("admin")
    admin.declare_exchanges()
    admin.declare_queues([REPORTS, ONE, replace(TWO, quorum=True)])
    with open_kinds(settings_for(vhost)) as found:
        yield found


def test_the_kind_of_each_queue_is_told(kinds: QueueKinds) -> None:
    queues = (REPORTS, ONE, TWO, run_queue("demo", "gone"))

    told = [kinds.kind(queue) for queue in queues]

    assert told == [Kind.CLASSIC, Kind.CLASSIC, Kind.QUORUM, None]
    assert kinds.classic(queues) == [REPORTS.name, ONE.name]


def test_classic_and_missing_queues_become_quorum_queues_that_get_messages(
    kinds: QueueKinds, channel: Any
) -> None:
    channel.queue_delete(ONE.name)  # as if the last attempt had died here

    assert kinds.make_quorum([REPORTS, ONE, TWO]) == [REPORTS.name, ONE.name]
    assert [kinds.kind(queue) for queue in (REPORTS, ONE, TWO)] == [Kind.QUORUM] * 3
    assert kinds.make_quorum([REPORTS, ONE, TWO]) == []
    channel.confirm_delivery()
    for queue in (REPORTS, ONE):
        channel.basic_publish(queue.exchange, queue.routing_keys[0], b"", mandatory=True)


def test_nothing_is_changed_while_a_queue_has_messages(kinds: QueueKinds, channel: Any) -> None:
    channel.confirm_delivery()
    channel.basic_publish(ONE.exchange, ONE.name, b"")

    with pytest.raises(TopologyError, match=f"messages in queue {ONE.name}: 1"):
        kinds.make_quorum([REPORTS, ONE])

    assert kinds.kind(REPORTS) is Kind.CLASSIC


def test_nothing_is_changed_while_a_queue_is_read(kinds: QueueKinds, channel: Any) -> None:
    channel.basic_consume(ONE.name, lambda *_: None)

    with pytest.raises(TopologyError, match=f"queue {ONE.name} is being read"):
        kinds.make_quorum([REPORTS, ONE])

    assert kinds.kind(REPORTS) is Kind.CLASSIC
