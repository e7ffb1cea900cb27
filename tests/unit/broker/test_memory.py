"""What only the memory broker can show: its bad days, and the passing of time."""

from collections.abc import Sequence

import pytest

from tests.support.moved_clock import MovedClock
from warren.broker import topology
from warren.broker.errors import BrokerUnavailable
from warren.broker.memory import MemoryBroker
from warren.broker.transport import Confirm, Delivery, Outgoing, Queue, Transport

RUN = topology.run_queue("app1", "host-1")


@pytest.fixture
def clock() -> MovedClock:
    return MovedClock()


@pytest.fixture
def broker(clock: MovedClock) -> MemoryBroker:
    broker = MemoryBroker(clock)
    admin = broker.transport().admin("a")
    admin.declare_exchanges()
    admin.declare_queues([RUN])
    return broker


@pytest.fixture
def transport(broker: MemoryBroker) -> Transport:
    return broker.transport()


def message(body: bytes, *, queue: Queue = RUN, durable: bool = True) -> Outgoing:
    return Outgoing(
        exchange=queue.exchange,
        routing_key=queue.routing_keys[0],
        body=body,
        headers={},
        durable=durable,
    )


def publish(
    transport: Transport, body: bytes, *, queue: Queue = RUN, durable: bool = True
) -> list[Confirm]:
    return transport.publisher("p").publish([message(body, queue=queue, durable=durable)]).wait(0)


def bodies(deliveries: Sequence[Delivery]) -> list[bytes]:
    return [delivery.body for delivery in deliveries]


def test_nothing_can_be_done_while_the_broker_is_away(
    broker: MemoryBroker, transport: Transport
) -> None:
    publisher = transport.publisher("p")
    consumer = transport.consumer("c", [RUN.name], prefetch=1)

    broker.stop()

    assert not publisher.is_ready
    assert not consumer.is_ready
    assert publish(transport, b"x") == [Confirm.UNKNOWN]
    with pytest.raises(BrokerUnavailable):
        transport.check()
    with pytest.raises(BrokerUnavailable):
        transport.admin("a").count_messages(RUN.name)


def test_restart_keeps_what_is_durable_and_gives_it_out_again(
    broker: MemoryBroker, transport: Transport
) -> None:
    consumer = transport.consumer("c", [RUN.name], prefetch=10)
    publish(transport, b"held")
    publish(transport, b"not taken")
    publish(transport, b"passing", durable=False)
    (held,) = consumer.take(1, 0)
    generation = consumer.generation

    broker.stop()
    broker.start()

    assert consumer.generation == generation + 1
    consumer.ack([held])
    again = consumer.take(10, 0)
    assert bodies(again) == [b"held", b"not taken"]
    assert [delivery.redelivered for delivery in again] == [True, True]


def test_ack_of_an_old_connection_settles_nothing(
    broker: MemoryBroker, transport: Transport
) -> None:
    consumer = transport.consumer("c", [RUN.name], prefetch=10)
    publish(transport, b"x")
    (old,) = consumer.take(1, 0)
    broker.stop()
    broker.start()

    consumer.ack([old])
    consumer.reject([old])
    consumer.close()

    assert transport.admin("a").count_messages(RUN.name) == 1
    assert transport.admin("a").count_messages(topology.DEAD_QUEUE.name) == 0


def test_exclusive_queues_are_made_again_after_a_restart(
    broker: MemoryBroker, transport: Transport
) -> None:
    beats = topology.heartbeat_queue("n1")
    consumer = transport.consumer("c", [beats], prefetch=10)
    publish(transport, b"before", queue=beats)

    broker.stop()
    broker.start()

    assert consumer.is_ready
    publish(transport, b"after", queue=beats)
    assert bodies(consumer.take(10, 0)) == [b"after"]


def test_starting_a_running_broker_changes_nothing(
    broker: MemoryBroker, transport: Transport
) -> None:
    consumer = transport.consumer("c", [RUN.name], prefetch=10)
    publish(transport, b"x")
    (held,) = consumer.take(1, 0)

    broker.start()
    consumer.ack([held])
    consumer.close()

    assert transport.admin("a").count_messages(RUN.name) == 0


def test_blocked_broker_delivers_but_takes_nothing_in(
    broker: MemoryBroker, transport: Transport
) -> None:
    publish(transport, b"before")
    publisher = transport.publisher("p")

    broker.block()

    consumer = transport.consumer("c", [RUN.name], prefetch=10)
    assert not publisher.is_ready
    assert publish(transport, b"x") == [Confirm.UNKNOWN]
    assert bodies(consumer.take(1, 0)) == [b"before"]
    broker.unblock()
    assert publisher.is_ready
    assert publish(transport, b"x") == [Confirm.CONFIRMED]


def test_publishing_to_an_exchange_that_is_not_there_has_no_known_fate() -> None:
    transport = MemoryBroker().transport()

    assert publish(transport, b"x") == [Confirm.UNKNOWN]


def test_heartbeats_that_nobody_took_for_ten_seconds_are_gone(
    transport: Transport, clock: MovedClock
) -> None:
    beats = topology.heartbeat_queue("n1")
    consumer = transport.consumer("c", [beats], prefetch=1)
    for body in (b"taken", b"old", b"young"):
        publish(transport, body, queue=beats)
        clock.now += 4

    clock.now += 4
    consumer.ack(consumer.take(1, 0))

    assert bodies(consumer.take(1, 0)) == [b"young"]


def test_expired_message_of_a_queue_with_dead_letters_is_buried(
    transport: Transport, clock: MovedClock
) -> None:
    message = Outgoing(
        exchange=RUN.exchange, routing_key=RUN.name, body=b"x", headers={}, ttl_seconds=5
    )
    transport.publisher("p").publish([message])

    clock.now += 5

    admin = transport.admin("a")
    assert admin.count_messages(RUN.name) == 0
    assert admin.count_messages(topology.DEAD_QUEUE.name) == 1


def test_command_queue_of_a_boot_that_is_gone_goes_after_ten_minutes(
    transport: Transport, clock: MovedClock
) -> None:
    command = topology.command_queue("app1", "host-1", "b1")
    admin = transport.admin("a")
    admin.declare_queues([command])
    consumer = transport.consumer("c", [command.name], prefetch=1)
    clock.now += 10_000
    assert admin.count_messages(command.name) == 0

    consumer.close()
    clock.now += 599
    assert publish(transport, b"x", queue=command) == [Confirm.CONFIRMED]
    clock.now += 1

    assert admin.count_messages(command.name) is None
    assert publish(transport, b"x", queue=command) == [Confirm.RETURNED]


def test_dead_queue_keeps_the_newest_ten_thousand(transport: Transport) -> None:
    consumer = transport.consumer("c", [RUN.name], prefetch=20_000)
    transport.publisher("p").publish([message(b"%d" % number) for number in range(10_005)]).wait(0)

    consumer.reject(consumer.take(20_000, 0))

    dead = transport.consumer("d", [topology.DEAD_QUEUE.name], prefetch=1)
    assert transport.admin("a").count_messages(topology.DEAD_QUEUE.name) == 9_999
    assert bodies(dead.take(1, 0)) == [b"5"]


def test_message_that_dies_twice_remembers_its_first_death(transport: Transport) -> None:
    grave = Queue(
        name="second", exchange=topology.DEAD_LETTER_EXCHANGE, routing_keys=("",), dead_letter=True
    )
    admin = transport.admin("a")
    admin.declare_queues([grave])
    admin.delete_queue(topology.DEAD_QUEUE.name)
    publish(transport, b"x")
    first = transport.consumer("c", [RUN.name], prefetch=1)
    second = transport.consumer("d", ["second"], prefetch=1)

    first.reject(first.take(1, 0))

    (dead,) = second.take(1, 0)
    assert dead.headers["x-first-death-queue"] == RUN.name
    second.reject([dead])
    assert second.take(1, 0)[0].headers["x-first-death-queue"] == RUN.name


def test_consumer_by_name_finds_what_a_later_consumer_declares(transport: Transport) -> None:
    first = transport.consumer("c", ["warren.callback"], prefetch=1)
    assert not first.is_ready

    transport.consumer("d", [topology.callback_queue()], prefetch=1)

    assert first.is_ready


def test_handler_of_drained_messages_may_use_the_broker(transport: Transport) -> None:
    publish(transport, b"x")
    admin = transport.admin("a")
    seen: list[int | None] = []

    admin.drain(RUN.name, 10, lambda _: seen.append(admin.count_messages(RUN.name)))

    assert seen == [0]
