"""RabbitMQ's bad days: restarted, killed, short of memory, frozen, cut off."""

import gc
import logging
import resource
import socket
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import structlog

from tests.integration.broker.proxy import Proxy
from tests.support.eventually import eventually
from tests.support.rabbitmq import ENOUGH_MEMORY, NO_MEMORY, PrivateRabbit
from warren.broker import topology
from warren.broker.errors import BrokerUnavailable
from warren.broker.rabbitmq.link import Link
from warren.broker.rabbitmq.transport import WINDOW, AmqpTransport, connect
from warren.broker.transport import (
    Batch,
    BrokerSettings,
    Confirm,
    Delivery,
    Outgoing,
    Publisher,
    Queue,
)

RUN = topology.run_queue("app1", "host-1")
OTHER = topology.run_queue("app1", "host-2")
SLOW_START = 120.0
#: Makes the processes of queues, in RabbitMQ, do nothing (`suspend`) or go on (`resume`).
QUEUE_PROCESSES = (
    '[begin {ok, Queue} = rabbit_amqqueue:lookup(rabbit_misc:r(<<"/">>, queue, Name)), '
    "sys:%s(amqqueue:get_pid(Queue)) end || Name <- [%s]]."
)
#: Makes RabbitMQ forget a queue, whose process and consumer live on; the first is for 3.x.
FORGET_QUEUE = (
    'Name = rabbit_misc:r(<<"/">>, queue, <<"%s">>), {ok, Queue} = rabbit_amqqueue:lookup(Name), '
    'case catch rabbit_amqqueue:internal_delete(Name, <<"test">>) of '
    "{'EXIT', _} -> rabbit_amqqueue:internal_delete(Queue, <<\"test\">>); _ -> ok end."
)


def order(broker: PrivateRabbit, verb: str, *queues: Queue) -> None:
    """Suspend or resume the processes of queues."""
    names = ", ".join(f'<<"{queue.name}">>' for queue in queues)
    broker.evaluate(QUEUE_PROCESSES % (verb, names))


def transport_to(url: str, **options: float) -> AmqpTransport:
    values = {"backoff_seconds": (0.05, 0.5), "connect_timeout_seconds": 3.0} | options
    return connect(BrokerSettings(urls=(url,), **values))


@contextmanager
def on_loss(action: Callable[[], object]) -> Iterator[None]:
    """Let another thread do something when pika, and nobody else yet, knows of a lost connection.

    It logs that before it tells anyone.
    """
    log = logging.getLogger("pika.adapters.base_connection")

    def act(_record: logging.LogRecord) -> bool:
        thread = threading.Thread(target=action)
        thread.start()
        thread.join()
        return False

    log.setLevel(logging.ERROR)
    log.addFilter(act)
    try:
        yield
    finally:
        log.removeFilter(act)
        log.setLevel(logging.NOTSET)


@pytest.fixture
def transport(own_rabbitmq: PrivateRabbit) -> Iterator[AmqpTransport]:
    transport = transport_to(own_rabbitmq.url)
    admin = transport.admin("a")
    admin.declare_exchanges()
    admin.declare_queues([RUN])
    own_rabbitmq.settle()
    yield transport
    transport.close()


@pytest.fixture
def proxy(rabbitmq: PrivateRabbit) -> Iterator[Proxy]:
    with Proxy(rabbitmq.port) as proxy:
        yield proxy


@pytest.fixture
def through_proxy(proxy: Proxy, vhost: str, rabbitmq: PrivateRabbit) -> Iterator[AmqpTransport]:
    direct = transport_to(vhost)
    direct.admin("a").declare_exchanges()
    direct.admin("a").declare_queues([RUN])
    direct.close()
    transport = transport_to(vhost.replace(f":{rabbitmq.port}/", f":{proxy.port}/"))
    yield transport
    transport.close()


def message(body: bytes = b"x", **options: bool) -> Outgoing:
    return Outgoing(
        exchange=topology.TRIGGER_EXCHANGE, routing_key=RUN.name, body=body, headers={}, **options
    )


def ready_publisher(transport: AmqpTransport) -> Publisher:
    publisher = transport.publisher("p")
    eventually(lambda: publisher.is_ready)
    return publisher


def open_descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


class Traffic:
    """Publishes numbers and consumes them, each in a thread, noting what was confirmed."""

    def __init__(self, transport: AmqpTransport) -> None:
        self.confirmed: set[int] = set()
        self.consumed: set[int] = set()
        self.unknown = 0
        self._publisher = ready_publisher(transport)
        self._consumer = transport.consumer("c", [RUN.name], prefetch=200)
        self._publishing_ended = threading.Event()
        self._ended = threading.Event()
        self._threads = [
            threading.Thread(target=self._publish),
            threading.Thread(target=self._take),
        ]
        for thread in self._threads:
            thread.start()

    def end_publishing(self) -> None:
        self._publishing_ended.set()
        self._threads[0].join()

    def end(self) -> None:
        self.end_publishing()
        self._ended.set()
        self._threads[1].join()

    def _publish(self) -> None:
        number = 0
        while not self._publishing_ended.wait(0.001):
            numbers = range(number, number + 20)
            number += 20
            batch = self._publisher.publish([message(str(n).encode()) for n in numbers])
            for one, fate in zip(numbers, batch.wait(30), strict=True):
                if fate is Confirm.CONFIRMED:
                    self.confirmed.add(one)
                self.unknown += fate is Confirm.UNKNOWN

    def _take(self) -> None:
        while not self._ended.is_set():
            deliveries = self._consumer.take(100, 0.05)
            self.consumed.update(int(delivery.body) for delivery in deliveries)
            self._consumer.ack(deliveries)


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(PrivateRabbit.terminate, id="stop", marks=pytest.mark.release),
        pytest.param(PrivateRabbit.kill, id="kill"),
    ],
)
def test_restart_loses_nothing_that_was_confirmed(
    own_rabbitmq: PrivateRabbit, transport: AmqpTransport, end: Callable[[PrivateRabbit], None]
) -> None:
    traffic = Traffic(transport)
    eventually(lambda: len(traffic.consumed) > 500)

    end(own_rabbitmq)
    before = len(traffic.confirmed)
    own_rabbitmq.start()
    eventually(lambda: len(traffic.confirmed) > before + 500, seconds=SLOW_START)
    traffic.end_publishing()

    eventually(lambda: traffic.confirmed <= traffic.consumed, seconds=SLOW_START)
    traffic.end()
    assert traffic.unknown > 0


def test_publisher_says_at_once_that_the_broker_is_gone(
    own_rabbitmq: PrivateRabbit, transport: AmqpTransport
) -> None:
    publisher = ready_publisher(transport)
    consumer = transport.consumer("c", [RUN.name], prefetch=1)
    eventually(lambda: consumer.is_ready)

    own_rabbitmq.stop()

    eventually(lambda: not publisher.is_ready and not consumer.is_ready)
    assert publisher.publish([message()] * 3).wait(0) == [Confirm.UNKNOWN] * 3
    with pytest.raises(BrokerUnavailable, match="connection refused"):
        transport.check()
    with pytest.raises(BrokerUnavailable, match="cannot inspect queue"):
        transport.admin("b").count_messages(RUN.name)


def test_consumer_counts_its_connections_and_voids_the_tags_of_old_ones(
    own_rabbitmq: PrivateRabbit, transport: AmqpTransport
) -> None:
    ready_publisher(transport).publish([message()]).wait(30)
    consumer = transport.consumer("c", [RUN.name], prefetch=1)
    (old,) = eventually(lambda: consumer.take(1, 1))
    assert consumer.generation == 1
    own_rabbitmq.stop()
    own_rabbitmq.start()
    (again,) = eventually(lambda: consumer.take(1, 1), seconds=SLOW_START)

    consumer.ack([old])

    assert consumer.generation == 2
    assert again.redelivered
    consumer.close()
    assert transport.admin("b").count_messages(RUN.name) == 1


def test_a_queue_that_the_broker_forgot_is_consumed_again_once_it_is_declared_again(
    own_rabbitmq: PrivateRabbit, transport: AmqpTransport
) -> None:
    publisher = ready_publisher(transport)
    consumer = transport.consumer("c", [OTHER], prefetch=1)
    eventually(lambda: consumer.is_ready)
    own_rabbitmq.evaluate(FORGET_QUEUE % OTHER.name)
    lost = publisher.publish([replace(message(), routing_key=OTHER.routing_keys[0])])
    assert lost.wait(30) == [Confirm.RETURNED]

    consumer.declare_again()

    def arrives() -> bool:
        again = replace(message(), routing_key=OTHER.routing_keys[0])
        return publisher.publish([again]).wait(30) == [Confirm.CONFIRMED] and bool(
            consumer.take(1, 1)
        )

    eventually(arrives)


def test_memory_alarm_holds_publishing_back_and_nothing_else(
    own_rabbitmq: PrivateRabbit, transport: AmqpTransport
) -> None:
    publisher = ready_publisher(transport)
    publisher.publish([message(b"before")]).wait(30)

    own_rabbitmq.set_memory_limit(NO_MEMORY)
    eventually(lambda: publisher.publish([message()]).wait(1) == [Confirm.UNKNOWN])
    late = transport.publisher("late")

    eventually(lambda: not publisher.is_ready)
    consumer = transport.consumer("c", [RUN.name], prefetch=10)
    assert eventually(lambda: consumer.take(1, 1))[0].body == b"before"
    assert transport.admin("b").count_messages(RUN.name) is not None
    assert not late.is_ready
    own_rabbitmq.set_memory_limit(ENOUGH_MEMORY)
    eventually(lambda: publisher.is_ready and late.is_ready, seconds=SLOW_START)
    assert publisher.publish([message(b"after")]).wait(30) == [Confirm.CONFIRMED]


def test_publisher_is_not_ready_during_an_alarm_that_outlasts_its_connections(
    own_rabbitmq: PrivateRabbit, transport: AmqpTransport
) -> None:
    impatient = transport_to(own_rabbitmq.url, blocked_timeout_seconds=0.3)
    earlier = ready_publisher(transport)
    own_rabbitmq.set_memory_limit(NO_MEMORY)
    eventually(lambda: earlier.publish([message()]).wait(1) == [Confirm.UNKNOWN])
    publisher = impatient.publisher("p")

    with pytest.raises(AssertionError):
        eventually(lambda: publisher.is_ready, seconds=2)

    own_rabbitmq.set_memory_limit(ENOUGH_MEMORY)
    eventually(lambda: publisher.is_ready, seconds=SLOW_START)
    impatient.close()


def test_frozen_broker_is_given_up_by_the_deadline(
    own_rabbitmq: PrivateRabbit, transport: AmqpTransport
) -> None:
    publisher = ready_publisher(transport)
    admin = transport.admin("b")
    assert admin.count_messages(RUN.name) == 0
    own_rabbitmq.freeze()

    try:
        fates = publisher.publish([message()]).wait(0.2)
        with pytest.raises(BrokerUnavailable, match="no answer within 3 s"):
            admin.count_messages(RUN.name)
    finally:
        own_rabbitmq.thaw()

    assert fates == [Confirm.UNKNOWN]
    assert eventually(lambda: publisher.is_ready)
    assert admin.count_messages(RUN.name) is not None


def test_wiped_broker_is_used_again_once_its_queues_are_declared(
    own_rabbitmq: PrivateRabbit, transport: AmqpTransport
) -> None:
    publisher = ready_publisher(transport)
    consumer = transport.consumer("c", [RUN.name], prefetch=1)
    eventually(lambda: consumer.is_ready)
    own_rabbitmq.stop()
    own_rabbitmq.wipe()
    own_rabbitmq.start()
    admin = transport.admin("b")

    eventually(lambda: _declares(admin), seconds=SLOW_START)

    eventually(lambda: publisher.is_ready and consumer.is_ready, seconds=SLOW_START)
    assert publisher.publish([message(b"new")]).wait(30) == [Confirm.CONFIRMED]
    assert eventually(lambda: consumer.take(1, 1))[0].body == b"new"


def _declares(admin: object) -> bool:
    try:
        admin.declare_exchanges()
        admin.declare_queues([RUN])
    except BrokerUnavailable:
        return False
    return True


def test_connections_that_are_cut_again_and_again_lose_nothing(
    proxy: Proxy, through_proxy: AmqpTransport
) -> None:
    threads = threading.active_count()
    traffic = Traffic(through_proxy)

    for _ in range(10):
        confirmed = len(traffic.confirmed)
        eventually(lambda more=confirmed + 50: len(traffic.confirmed) > more, seconds=30)
        proxy.cut()

    confirmed = len(traffic.confirmed)
    eventually(lambda: len(traffic.confirmed) > confirmed + 50, seconds=30)
    traffic.end_publishing()
    eventually(lambda: traffic.confirmed <= traffic.consumed, seconds=30)
    traffic.end()
    through_proxy.close()
    eventually(lambda: threading.active_count() <= threads + 1)


def test_publisher_whose_confirms_stay_away_is_not_ready(
    proxy: Proxy, vhost: str, rabbitmq: PrivateRabbit, through_proxy: AmqpTransport
) -> None:
    ready_publisher(through_proxy)  # the exchanges are there
    url = vhost.replace(f":{rabbitmq.port}/", f":{proxy.port}/")
    transport = transport_to(url, blocked_timeout_seconds=0.3)
    publisher = ready_publisher(transport)
    proxy.freeze()

    batch = publisher.publish([message()])

    eventually(lambda: not publisher.is_ready)
    proxy.thaw()
    assert batch.wait(30) == [Confirm.CONFIRMED]
    assert eventually(lambda: publisher.is_ready)
    transport.close()


def test_publisher_that_may_not_wait_long_is_not_ready_while_the_broker_is_silent(
    proxy: Proxy, through_proxy: AmqpTransport
) -> None:
    patient, impatient = (
        through_proxy.publisher("p", silent_seconds=seconds) for seconds in (None, 0.3)
    )
    eventually(lambda: patient.is_ready and impatient.is_ready)
    proxy.freeze()

    batches = [one.publish([message()]) for one in (patient, impatient)]

    eventually(lambda: not impatient.is_ready)
    assert patient.is_ready
    proxy.thaw()
    assert [batch.wait(30) for batch in batches] == [[Confirm.CONFIRMED]] * 2
    assert eventually(lambda: impatient.is_ready)


def test_publisher_with_nothing_to_send_notices_that_the_broker_is_silent(
    proxy: Proxy, through_proxy: AmqpTransport
) -> None:
    publisher = through_proxy.publisher("p", silent_seconds=0.3)
    eventually(lambda: publisher.is_ready)

    proxy.freeze()

    eventually(lambda: not publisher.is_ready)
    proxy.thaw()
    eventually(lambda: publisher.is_ready)


def test_queue_that_confirms_nothing_is_told_from_a_silent_broker(
    own_rabbitmq: PrivateRabbit, transport: AmqpTransport
) -> None:
    transport.admin("b").declare_queues([OTHER])
    publisher = transport.publisher("p", silent_seconds=0.3)
    eventually(lambda: publisher.is_ready)
    order(own_rabbitmq, "suspend", OTHER)

    stuck = publisher.publish([replace(message(), routing_key=OTHER.name)])

    began_at = time.monotonic()
    eventually(lambda: time.monotonic() > began_at + 1 and publisher.is_ready)
    eventually(lambda: publisher.publish([message()]).wait(30) == [Confirm.CONFIRMED])
    assert not stuck.is_settled
    order(own_rabbitmq, "resume", OTHER)
    assert stuck.wait(30) == [Confirm.CONFIRMED]


def test_queues_that_confirm_nothing_do_not_keep_others_waiting(
    own_rabbitmq: PrivateRabbit, transport: AmqpTransport
) -> None:
    # RabbitMQ itself stops reading from who has some 400 messages under way to one such queue.
    stuck = [topology.run_queue("app1", f"stuck-{number}") for number in range(5)]
    transport.admin("b").declare_queues(stuck)
    publisher = transport.publisher("p", silent_seconds=0.3)
    eventually(lambda: publisher.is_ready)
    order(own_rabbitmq, "suspend", *stuck)

    for queue in stuck:
        eventually(lambda: publisher.is_ready)
        batch = publisher.publish([replace(message(), routing_key=queue.name)] * (WINDOW // 4))
        batch.wait(0.1)

    # On a busy machine the publisher may take the broker for silent for a moment.
    eventually(lambda: publisher.publish([message()]).wait(30) == [Confirm.CONFIRMED])
    order(own_rabbitmq, "resume", *stuck)


class Listener:
    """Owns a link, and tries to leave it word when it hears that the connection is lost."""

    def __init__(self, url: str) -> None:
        self.was_heard: list[bool] = []
        self.is_connected = False
        settings = BrokerSettings(urls=(url,), backoff_seconds=(0.01, 0.05))
        self.link = Link("listener", settings, self)
        self.link.start()

    def connected(self, _connection: object) -> None:
        self.is_connected = True

    def blocked(self, *, is_blocked: bool) -> None:
        pass

    def lost(self, _reason: str) -> None:
        self.was_heard.append(self.link.call(lambda: None))


def test_word_left_after_a_connection_was_reported_lost_is_refused(
    proxy: Proxy, vhost: str, rabbitmq: PrivateRabbit
) -> None:
    listener = Listener(vhost.replace(f":{rabbitmq.port}/", f":{proxy.port}/"))
    eventually(lambda: listener.is_connected)

    proxy.cut()

    assert eventually(lambda: listener.was_heard) == [False]
    listener.link.close()


def test_word_left_while_a_connection_is_only_tried_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        listener = Listener(f"amqp://guest:guest@127.0.0.1:{silent.getsockname()[1]}/")
        silent.accept()  # the link is in the middle of its attempt

        assert not listener.link.call(lambda: None)
        listener.link.close()


def test_acks_given_while_the_broker_is_away_do_not_stop_those_after_it(
    own_rabbitmq: PrivateRabbit, transport: AmqpTransport
) -> None:
    ready_publisher(transport).publish([message()]).wait(30)
    consumer = transport.consumer("c", [RUN.name], prefetch=1)
    held = eventually(lambda: consumer.take(1, 1))
    own_rabbitmq.stop()
    eventually(lambda: not consumer.is_ready)
    with pytest.raises(AssertionError):
        eventually(lambda: consumer.ack(held), seconds=2, every=0)
    own_rabbitmq.start()

    consumer.ack(eventually(lambda: consumer.take(1, 1), seconds=SLOW_START))

    admin = transport.admin("b")
    eventually(lambda: admin.count_messages(RUN.name) == 0)
    publisher = ready_publisher(transport)
    assert publisher.publish([message(b"next")]).wait(30) == [Confirm.CONFIRMED]
    assert eventually(lambda: consumer.take(1, 1))[0].body == b"next"


def test_what_was_delivered_and_not_taken_before_a_cut_comes_once(
    proxy: Proxy, through_proxy: AmqpTransport
) -> None:
    consumer = through_proxy.consumer("c", [RUN.name], prefetch=10)
    delivered: list[bytes] = []
    put = consumer.put

    def put_and_note(delivery: Delivery) -> None:
        put(delivery)
        delivered.append(delivery.body)

    consumer.put = put_and_note  # type: ignore[method-assign]
    ready_publisher(through_proxy).publish([message(b"1"), message(b"2")]).wait(30)
    eventually(lambda: delivered == [b"1", b"2"])

    proxy.cut()
    eventually(lambda: consumer.generation == 2 and consumer.is_ready)
    eventually(lambda: delivered == [b"1", b"2"] * 2)

    deliveries = consumer.take(10, 1) + consumer.take(10, 0.2)
    assert [delivery.body for delivery in deliveries] == [b"1", b"2"]
    assert all(delivery.redelivered for delivery in deliveries)


def test_pulled_cable_leaves_fates_unknown(proxy: Proxy, through_proxy: AmqpTransport) -> None:
    publisher = ready_publisher(through_proxy)
    proxy.freeze()

    batch = publisher.publish([message()] * 5)

    assert batch.wait(0.2) == [Confirm.UNKNOWN] * 5
    proxy.cut()
    proxy.thaw()
    eventually(lambda: publisher.publish([message()]).wait(30) == [Confirm.CONFIRMED])


def test_question_that_got_no_answer_does_not_spoil_the_next(
    proxy: Proxy, through_proxy: AmqpTransport
) -> None:
    admin = through_proxy.admin("b")
    assert admin.count_messages(RUN.name) == 0
    proxy.freeze()

    with pytest.raises(BrokerUnavailable, match="no answer within 3 s"):
        admin.count_messages(RUN.name)

    assert admin.count_messages(RUN.name) == 0


def test_patient_admin_gets_the_late_answer_of_a_broker_that_stalled(
    proxy: Proxy, through_proxy: AmqpTransport
) -> None:
    hasty, patient = through_proxy.admin("a"), through_proxy.admin("b", answer_seconds=60)
    assert (hasty.count_messages(RUN.name), patient.count_messages(RUN.name)) == (0, 0)
    proxy.freeze()

    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(patient.count_messages, RUN.name)
        with pytest.raises(BrokerUnavailable, match="no answer within 3 s"):
            hasty.count_messages(RUN.name)
        was_waiting = not answer.done()
        proxy.thaw()

        assert answer.result(60) == 0
    assert was_waiting


def test_publisher_goes_on_after_its_word_to_a_dying_connection_was_never_heard(
    proxy: Proxy, through_proxy: AmqpTransport
) -> None:
    publisher = ready_publisher(through_proxy)
    batches: list[Batch] = []

    with on_loss(lambda: batches.append(publisher.publish([message()]))):
        proxy.cut()
        eventually(lambda: batches)

    assert batches[0].wait(30) == [Confirm.UNKNOWN]
    eventually(lambda: publisher.publish([message()]).wait(1) == [Confirm.CONFIRMED])


def test_link_that_is_made_and_closed_often_leaves_no_descriptor(vhost: str) -> None:
    transport = transport_to(vhost)
    transport.admin("a").declare_exchanges()
    ready_publisher(transport).close()
    before = open_descriptors()

    for _ in range(10):
        ready_publisher(transport).close()

    assert open_descriptors() <= before
    transport.close()


def test_link_outlives_a_moment_without_a_free_descriptor(vhost: str) -> None:
    transport = transport_to(vhost, backoff_seconds=(0.01, 0.02))
    transport.admin("a").declare_exchanges()
    least, most = resource.getrlimit(resource.RLIMIT_NOFILE)

    with structlog.testing.capture_logs() as events:
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, most))
        try:
            publisher = transport.publisher("p")
            eventually(lambda: any(one["event"] == "broker_link_failed" for one in events))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (least, most))
        eventually(lambda: publisher.is_ready)

    transport.close()


def test_client_that_was_closed_is_forgotten(vhost: str) -> None:
    transport = transport_to(vhost)
    transport.admin("a").declare_exchanges()
    publisher = weakref.ref(ready_publisher(transport))
    kept = ready_publisher(transport)

    publisher().close()

    eventually(lambda: gc.collect() is not None and publisher() is None)
    transport.close()
    assert not kept.is_ready


def test_link_that_never_gets_through_leaves_no_descriptor(proxy: Proxy, vhost: str) -> None:
    refused = vhost.replace("guest:guest", "guest:wrong").rsplit(":", 1)[0] + f":{proxy.port}/%2F"
    publisher = transport_to(refused, backoff_seconds=(0.01, 0.02)).publisher("p")
    eventually(lambda: proxy.accepted >= 5)
    before = open_descriptors()

    eventually(lambda: proxy.accepted >= 15, seconds=60)

    publisher.close()
    assert open_descriptors() <= before + 6
