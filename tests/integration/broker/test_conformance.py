"""What both transports promise; each test runs on memory and on a real RabbitMQ."""

import random
import threading
import time
from collections.abc import Sequence

import pytest

from tests.integration.broker.conftest import Connect
from tests.support.eventually import eventually
from warren.broker import topology
from warren.broker.errors import TopologyError
from warren.broker.transport import (
    Confirm,
    Consumer,
    Delivery,
    Outgoing,
    Publisher,
    Queue,
    Transport,
)

RUN = topology.run_queue("app1", "host-1")


def message(body: bytes = b"x", *, key: str = RUN.name, **options: object) -> Outgoing:
    values = {"exchange": topology.TRIGGER_EXCHANGE, "headers": {"k": "v"}} | options
    return Outgoing(routing_key=key, body=body, **values)


def ready_publisher(transport: Transport) -> Publisher:
    publisher = transport.publisher("publisher")
    eventually(lambda: publisher.is_ready)
    return publisher


def ready_consumer(
    transport: Transport, queues: Sequence[str | Queue], prefetch: int = 100
) -> Consumer:
    consumer = transport.consumer("consumer", queues, prefetch=prefetch)
    eventually(lambda: consumer.is_ready)
    return consumer


def take_all(consumer: Consumer, count: int) -> list[Delivery]:
    taken: list[Delivery] = []

    def enough() -> bool:
        taken.extend(consumer.take(count, 0.01))
        return len(taken) >= count

    eventually(enough)
    return taken


def publish(transport: Transport, *messages: Outgoing) -> list[Confirm]:
    return ready_publisher(transport).publish(messages).wait(30)


def test_message_arrives_as_it_was_sent(transport: Transport) -> None:
    transport.admin("a").declare_queues([RUN])
    consumer = ready_consumer(transport, [RUN.name])

    fates = publish(transport, message(b"\x00\xff", headers={"type": "Trigger", "v": "ä"}))

    (delivery,) = take_all(consumer, 1)
    assert fates == [Confirm.CONFIRMED]
    assert delivery.body == b"\x00\xff"
    assert delivery.headers == {"type": "Trigger", "v": "ä"}
    assert (delivery.queue, delivery.routing_key) == (RUN.name, RUN.name)
    assert not delivery.redelivered


def test_it_tells_how_large_all_headers_are(transport: Transport) -> None:
    transport.admin("a").declare_queues([RUN])
    consumer = ready_consumer(transport, [RUN.name])

    publish(transport, message(), message(headers={"é" * 100: "x" * 20_000, "k": "v"}))

    small, large = take_all(consumer, 2)
    assert 0 < small.header_bytes < 200
    assert 20_200 < large.header_bytes < 20_500
    consumer.close()
    drained: list[Delivery] = []
    transport.admin("b").drain(RUN.name, 2, drained.extend)
    assert [one.header_bytes for one in drained] == [small.header_bytes, large.header_bytes]


def test_it_tells_which_account_published_it_and_through_which_exchange(
    transport: Transport,
) -> None:
    commands = topology.command_queue("app1", "host-1", "b1")
    transport.admin("a").declare_queues([commands])
    consumer = ready_consumer(transport, [commands.name])

    fates = publish(
        transport,
        message(b"order", key=commands.name),
        message(b"question", key=commands.name, exchange=topology.ASK_EXCHANGE),
    )

    assert fates == [Confirm.CONFIRMED] * 2
    told = {one.body: (one.exchange, one.user) for one in take_all(consumer, 2)}
    assert told == {
        b"order": ("warren.trigger", "guest"),
        b"question": ("warren.ask", "guest"),
    }


def test_no_trigger_arrives_through_the_exchange_of_questions(transport: Transport) -> None:
    transport.admin("a").declare_queues([RUN])

    assert publish(transport, message(exchange=topology.ASK_EXCHANGE)) == [Confirm.RETURNED]


def test_who_may_only_ask_is_ready_all_the_same(transport: Transport) -> None:
    publisher = transport.publisher("asks", only_asks=True)

    eventually(lambda: publisher.is_ready)


def test_message_to_no_queue_is_returned_and_its_neighbours_are_not(transport: Transport) -> None:
    transport.admin("a").declare_queues([RUN])

    fates = publish(transport, message(), message(key="nowhere"), message())

    assert fates == [Confirm.CONFIRMED, Confirm.RETURNED, Confirm.CONFIRMED]


def test_empty_batch_has_no_fates(transport: Transport) -> None:
    assert publish(transport) == []


def test_messages_of_one_batch_keep_their_order(transport: Transport) -> None:
    transport.admin("a").declare_queues([RUN])
    bodies = [str(number).encode() for number in range(2_500)]

    fates = publish(transport, *map(message, bodies))

    consumer = ready_consumer(transport, [RUN.name], prefetch=5_000)
    assert fates == [Confirm.CONFIRMED] * 2_500
    assert [delivery.body for delivery in take_all(consumer, 2_500)] == bodies


def test_publisher_serves_several_threads_at_once(transport: Transport) -> None:
    transport.admin("a").declare_queues([RUN])
    publisher = ready_publisher(transport)
    fates: list[Confirm] = []

    def work() -> None:
        for _ in range(20):
            fates.extend(publisher.publish([message(), message()]).wait(30))

    threads = [threading.Thread(target=work) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert fates == [Confirm.CONFIRMED] * 200
    assert transport.admin("b").count_messages(RUN.name) == 200


def test_closed_publisher_knows_no_fate(transport: Transport) -> None:
    transport.admin("a").declare_queues([RUN])
    publisher = ready_publisher(transport)
    publisher.close()

    fates = publisher.publish([message()]).wait(1)

    assert fates == [Confirm.UNKNOWN]
    assert not publisher.is_ready


def test_a_consumer_that_waits_can_be_woken(transport: Transport) -> None:
    transport.admin("a").declare_queues([RUN])
    consumer = ready_consumer(transport, [RUN.name])
    taken: list[list[Delivery]] = []
    waiting = threading.Thread(target=lambda: taken.append(consumer.take(1, 60)), daemon=True)
    waiting.start()

    consumer.wake()

    waiting.join(30)
    assert taken == [[]]


def test_a_consumer_woken_once_waits_again(transport: Transport) -> None:
    transport.admin("a").declare_queues([RUN])
    consumer = ready_consumer(transport, [RUN.name])
    consumer.wake()
    before = consumer.take(1, 60)

    publish(transport, message())

    assert (before, len(consumer.take(1, 60))) == ([], 1)


def test_consumer_holds_no_more_than_its_prefetch(transport: Transport) -> None:
    admin = transport.admin("a")
    admin.declare_queues([RUN])
    publish(transport, *[message()] * 10)
    consumer = ready_consumer(transport, [RUN.name], prefetch=3)
    held = take_all(consumer, 3)

    more = consumer.take(10, 0.1)

    assert more == []
    assert eventually(lambda: admin.count_messages(RUN.name) == 7)
    consumer.ack(held[:1])
    assert len(take_all(consumer, 1)) == 1


def test_what_a_closed_consumer_did_not_settle_comes_again(transport: Transport) -> None:
    transport.admin("a").declare_queues([RUN])
    publish(transport, message(b"1"), message(b"2"), message(b"3"), message(b"4"))
    consumer = ready_consumer(transport, [RUN.name], prefetch=3)
    first, *_ = take_all(consumer, 3)
    consumer.ack([first])
    consumer.close()

    again = take_all(ready_consumer(transport, [RUN.name]), 3)

    assert [delivery.body for delivery in again] == [b"2", b"3", b"4"]
    assert [delivery.redelivered for delivery in again[:2]] == [True, True]


def test_a_cancelled_consumer_keeps_what_has_arrived_and_leaves_the_rest_untouched(
    transport: Transport,
) -> None:
    transport.admin("a").declare_queues([RUN])
    consumer = ready_consumer(transport, [RUN.name])
    publisher = ready_publisher(transport)
    batches = [publisher.publish([message(b"%d" % number)]) for number in range(300)]
    held = consumer.take(10, 30)

    consumer.cancel()
    batches += [publisher.publish([message(b"%d" % number)]) for number in range(300, 600)]
    eventually(lambda: consumer.is_cancelled)
    while more := consumer.take(100, 0.01):
        held += more
    consumer.ack(held)
    assert {batch.wait(30)[0] for batch in batches} == {Confirm.CONFIRMED}
    consumer.close()

    others = take_all(ready_consumer(transport, [RUN.name], prefetch=1_000), 600 - len(held))
    assert [int(one.body) for one in (*held, *others)] == list(range(600))
    assert not [one.body for one in others if one.redelivered]


def test_acks_in_any_order_settle_exactly_what_they_name(transport: Transport) -> None:
    transport.admin("a").declare_queues([RUN])
    publish(transport, *[message(str(number).encode()) for number in range(10)])
    consumer = ready_consumer(transport, [RUN.name])
    held = take_all(consumer, 10)
    consumer.ack([held[7], held[1], held[0]])
    consumer.reject([held[3]])
    consumer.ack([held[2], held[9]])
    consumer.close()

    again = take_all(ready_consumer(transport, [RUN.name]), 4)

    assert [delivery.body for delivery in again] == [b"4", b"5", b"6", b"8"]


def test_delivery_settled_twice_does_no_harm(transport: Transport) -> None:
    transport.admin("a").declare_queues([RUN])
    publish(transport, message(b"1"), message(b"2"))
    consumer = ready_consumer(transport, [RUN.name])
    first, _second = take_all(consumer, 2)
    consumer.ack([first, first])
    publish(transport, message(b"3"))
    assert [delivery.body for delivery in take_all(consumer, 1)] == [b"3"]

    consumer.ack([first])
    consumer.reject([first])

    publish(transport, message(b"4"))
    assert [delivery.body for delivery in take_all(consumer, 1)] == [b"4"]
    assert consumer.is_ready


def test_rejected_message_goes_to_the_dead_queue(transport: Transport) -> None:
    transport.admin("a").declare_queues([RUN])
    publish(transport, message(b"bad"))
    consumer = ready_consumer(transport, [RUN.name])
    consumer.reject(take_all(consumer, 1))

    (dead,) = take_all(ready_consumer(transport, [topology.DEAD_QUEUE.name]), 1)

    assert dead.body == b"bad"
    assert dead.routing_key == RUN.name
    assert dead.headers["k"] == "v"
    assert dead.headers["x-first-death-queue"] == RUN.name
    assert dead.headers["x-first-death-reason"] == "rejected"


def test_rejected_message_of_a_queue_without_dead_letters_is_gone(transport: Transport) -> None:
    admin = transport.admin("a")
    command = topology.command_queue("app1", "host-1", "b1")
    admin.declare_queues([command])
    publish(transport, message(key=command.name))
    consumer = ready_consumer(transport, [command.name])
    consumer.reject(take_all(consumer, 1))
    consumer.close()

    assert admin.count_messages(command.name) == 0
    assert admin.count_messages(topology.DEAD_QUEUE.name) == 0


def test_expired_message_is_not_delivered(transport: Transport) -> None:
    admin = transport.admin("a")
    admin.declare_queues([RUN])

    publish(transport, message(b"stale", ttl_seconds=0.01), message(b"fresh"))

    eventually(lambda: admin.count_messages(RUN.name) == 1)
    (delivery,) = take_all(ready_consumer(transport, [RUN.name]), 1)
    assert delivery.body == b"fresh"


def test_queue_of_limited_length_drops_the_oldest(transport: Transport) -> None:
    admin = transport.admin("a")
    short = Queue(
        name="short", exchange=topology.TRIGGER_EXCHANGE, routing_keys=("short",), max_length=2
    )
    admin.declare_queues([short])

    publish(transport, *[message(body, key="short") for body in (b"1", b"2", b"3")])

    consumer = ready_consumer(transport, ["short"])
    assert [delivery.body for delivery in take_all(consumer, 2)] == [b"2", b"3"]


def test_queue_of_limited_bytes_drops_the_oldest(transport: Transport) -> None:
    admin = transport.admin("a")
    small = Queue(
        name="small", exchange=topology.TRIGGER_EXCHANGE, routing_keys=("small",), max_bytes=2_500
    )
    admin.declare_queues([small])

    publish(transport, *[message(body * 1_000, key="small") for body in (b"1", b"2", b"3")])

    consumer = ready_consumer(transport, ["small"])
    assert [delivery.body[:1] for delivery in take_all(consumer, 2)] == [b"2", b"3"]


def test_consumer_waits_for_a_queue_that_is_not_there_yet(transport: Transport) -> None:
    transport.admin("a").declare_queues([RUN])
    late = topology.command_queue("app1", "host-1", "b1")
    consumer = transport.consumer("c", [RUN.name, late.name], prefetch=10)
    publish(transport, message(b"first"))
    assert [delivery.body for delivery in take_all(consumer, 1)] == [b"first"]
    assert not consumer.is_ready

    transport.admin("b").declare_queues([late])

    eventually(lambda: consumer.is_ready)
    publish(transport, message(b"second", key=late.name))
    assert [delivery.queue for delivery in take_all(consumer, 1)] == [late.name]


def test_consumer_outlives_its_queue(transport: Transport) -> None:
    admin = transport.admin("a")
    admin.declare_queues([RUN])
    consumer = ready_consumer(transport, [RUN.name])
    publish(transport, message(b"held"))
    held = take_all(consumer, 1)
    admin.delete_queue(RUN.name)
    eventually(lambda: not consumer.is_ready)
    consumer.ack(held)

    admin.declare_queues([RUN])
    eventually(lambda: consumer.is_ready)

    publish(transport, message(b"new"))
    assert [delivery.body for delivery in take_all(consumer, 1)] == [b"new"]


def test_messages_are_shared_among_consumers_and_none_comes_twice(transport: Transport) -> None:
    transport.admin("a").declare_queues([RUN])
    consumers = [ready_consumer(transport, [RUN.name], prefetch=1_000) for _ in range(2)]

    publish(transport, *[message(str(number).encode()) for number in range(100)])

    shares: list[list[Delivery]] = [[], []]

    def all_came() -> bool:
        for share, consumer in zip(shares, consumers, strict=True):
            share.extend(consumer.take(100, 0.01))
        return sum(map(len, shares)) >= 100

    eventually(all_came)
    assert sorted(map(len, shares)) == [50, 50]
    assert len({delivery.body for share in shares for delivery in share}) == 100


def test_each_heartbeat_queue_gets_every_heartbeat(transport: Transport) -> None:
    consumers = [ready_consumer(transport, [topology.heartbeat_queue(f"n{i}")]) for i in range(3)]

    publish(
        transport,
        message(b"beat", key=topology.HEARTBEAT_KEY, exchange=topology.REPLY_EXCHANGE),
    )

    assert [take_all(consumer, 1)[0].body for consumer in consumers] == [b"beat"] * 3


def test_exclusive_queue_goes_with_its_consumer(transport: Transport) -> None:
    beats = topology.heartbeat_queue("n1")
    ready_consumer(transport, [beats]).close()

    assert eventually(lambda: transport.admin("a").count_messages(beats.name) is None)
    assert publish(
        transport, message(key=topology.HEARTBEAT_KEY, exchange=topology.REPLY_EXCHANGE)
    ) == [Confirm.RETURNED]


def test_exclusive_queue_passes_to_the_next_consumer(connect_anew: Connect) -> None:
    first_node, second_node = connect_anew(), connect_anew()
    first_node.admin("a").declare_exchanges()
    answers = topology.answer_queue("n1")
    first = ready_consumer(first_node, [answers])
    second = second_node.consumer("c", [answers], prefetch=1)

    first.close()

    assert eventually(lambda: second.is_ready)
    publish(
        second_node,
        message(b"yes", key=topology.answer_key("n1"), exchange=topology.REPLY_EXCHANGE),
    )
    assert [delivery.body for delivery in take_all(second, 1)] == [b"yes"]


def test_queue_of_another_owner_cannot_be_touched(connect_anew: Connect) -> None:
    owner, other = connect_anew(), connect_anew()
    owner.admin("a").declare_exchanges()
    answers = topology.answer_queue("n1")
    ready_consumer(owner, [answers])

    with pytest.raises(TopologyError, match=r"answer\.n1"):
        other.admin("a").declare_queues([answers])


def test_declaring_again_changes_nothing(transport: Transport) -> None:
    admin = transport.admin("a")
    queues = [RUN, topology.callback_queue(), topology.command_queue("app1", "host-1", "b1")]
    admin.declare_queues(queues)
    publish(transport, message())

    admin.declare_exchanges()
    admin.declare_queues(queues)

    assert admin.count_messages(RUN.name) == 1


def test_declaring_with_other_arguments_names_the_queue(transport: Transport) -> None:
    admin = transport.admin("a")
    admin.declare_queues([RUN])
    other = Queue(
        name=RUN.name, exchange=RUN.exchange, routing_keys=RUN.routing_keys, message_ttl_seconds=1
    )

    with pytest.raises(TopologyError, match=RUN.name):
        admin.declare_queues([other])

    assert admin.count_messages(RUN.name) == 0


def test_queue_cannot_be_bound_to_an_exchange_that_is_not_there(connect_anew: Connect) -> None:
    admin = connect_anew().admin("a")

    with pytest.raises(TopologyError, match=topology.TRIGGER_EXCHANGE):
        admin.declare_queues([RUN])


def test_count_of_a_queue_that_is_not_there_is_none(transport: Transport) -> None:
    assert transport.admin("a").count_messages("nothing") is None


def test_deleting_what_is_not_there_is_no_error(transport: Transport) -> None:
    transport.admin("a").delete_queue("nothing")


def test_drained_messages_are_gone(transport: Transport) -> None:
    admin = transport.admin("a")
    admin.declare_queues([RUN])
    publish(transport, *[message(str(number).encode()) for number in range(5)])
    seen: list[bytes] = []

    def handle(deliveries: Sequence[Delivery]) -> None:
        seen.extend(delivery.body for delivery in deliveries)

    drained = [admin.drain(RUN.name, 3, handle), admin.drain(RUN.name, 3, handle)]

    assert drained == [3, 2]
    assert seen == [b"0", b"1", b"2", b"3", b"4"]
    assert admin.drain(RUN.name, 3, handle) == 0
    assert admin.drain("nothing", 3, handle) == 0


def test_what_could_not_be_handled_stays_in_the_queue(transport: Transport) -> None:
    admin = transport.admin("a")
    admin.declare_queues([RUN])
    publish(transport, message(b"1"), message(b"2"))

    def handle(_deliveries: Sequence[Delivery]) -> None:
        raise LookupError("cannot be handled")

    with pytest.raises(LookupError):
        admin.drain(RUN.name, 10, handle)

    consumer = ready_consumer(transport, [RUN.name])
    assert [delivery.body for delivery in take_all(consumer, 2)] == [b"1", b"2"]


def test_take_returns_nothing_when_time_runs_out(transport: Transport) -> None:
    transport.admin("a").declare_queues([RUN])

    assert ready_consumer(transport, [RUN.name]).take(1, 0.05) == []


def test_closing_a_consumer_wakes_who_waits_on_it(transport: Transport) -> None:
    transport.admin("a").declare_queues([RUN])
    consumer = ready_consumer(transport, [RUN.name])
    taken: list[list[Delivery]] = []
    waiting = threading.Thread(target=lambda: taken.append(consumer.take(1, 60)))
    waiting.start()

    consumer.close()

    waiting.join(30)
    assert taken == [[]]


def test_reachable_broker_passes_the_check(transport: Transport) -> None:
    transport.check()


def test_closed_transport_closes_all_that_it_made(transport: Transport) -> None:
    transport.admin("a").declare_queues([RUN])
    publisher = ready_publisher(transport)
    consumer = ready_consumer(transport, [RUN.name])

    transport.close()

    assert not publisher.is_ready
    assert not consumer.is_ready


@pytest.mark.parametrize("seed", range(3))
def test_whatever_is_settled_in_whatever_order_exactly_the_rest_comes_again(
    transport: Transport, seed: int
) -> None:
    rng = random.Random(seed)
    admin = transport.admin("a")
    admin.declare_queues([RUN])
    publish(transport, *[message(str(number).encode()) for number in range(300)])
    consumer = ready_consumer(transport, [RUN.name], prefetch=300)
    held = take_all(consumer, 300)
    rng.shuffle(held)
    rest = sorted(int(delivery.body) for delivery in held[200:])
    rejected = 0

    for start in range(0, 200, 10):
        part = held[start : start + 10]
        if rng.random() < 0.3:
            consumer.reject(part)
            rejected += 10
        else:
            consumer.ack(part)
    consumer.close()

    again = take_all(ready_consumer(transport, [RUN.name], prefetch=300), 100)
    assert [int(delivery.body) for delivery in again] == rest
    assert eventually(lambda: admin.count_messages(topology.DEAD_QUEUE.name) == rejected)


def test_two_threads_may_settle_and_take_at_once(transport: Transport) -> None:
    transport.admin("a").declare_queues([RUN])
    publish(transport, *[message(str(number).encode()) for number in range(2_000)])
    consumer = ready_consumer(transport, [RUN.name], prefetch=50)
    seen: list[bytes] = []
    deadline = time.monotonic() + 60

    def work() -> None:
        while len(seen) < 2_000 and time.monotonic() < deadline:
            deliveries = consumer.take(7, 0.05)
            seen.extend(delivery.body for delivery in deliveries)
            consumer.ack(deliveries)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(seen) == len(set(seen)) == 2_000
    assert not consumer.take(7, 0.05)
    assert eventually(lambda: transport.admin("b").count_messages(RUN.name) == 0)


def test_duplicate_and_reordered_messages_all_arrive(transport: Transport) -> None:
    transport.admin("a").declare_queues([RUN])

    publish(transport, *[message(body) for body in (b"2", b"1", b"2", b"2")])

    consumer = ready_consumer(transport, [RUN.name])
    assert [delivery.body for delivery in take_all(consumer, 4)] == [b"2", b"1", b"2", b"2"]
