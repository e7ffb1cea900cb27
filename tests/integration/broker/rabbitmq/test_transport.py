"""What only a real RabbitMQ can show: refusals, rights, TLS, strange bytes."""

import json
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pytest
import structlog

from tests.integration.broker.certificates import Authority
from tests.integration.broker.conftest import settings_for
from tests.integration.broker.proxy import Proxy
from tests.support.bad_messages import BAD_BODIES
from tests.support.eventually import eventually
from tests.support.rabbitmq import PrivateRabbit
from warren.broker import topology
from warren.broker.errors import BadMessage, BrokerUnavailable, Oversized
from warren.broker.messages import Beat, Kill, ToExecutor
from warren.broker.rabbitmq.transport import AmqpTransport, connect
from warren.broker.signing import ClusterKeys, Direction, Sealer
from warren.broker.transport import BrokerSettings, Confirm, Consumer, Outgoing, Publisher, Queue

RUN = topology.run_queue("app1", "host-1")
PASSWORD = "p4ss-w0rd"
HEADERS_FLAG = 1 << 13


def ready(client: Any) -> Any:
    eventually(lambda: client.is_ready)
    return client


def message(body: bytes = b"x", **options: Any) -> Outgoing:
    values = {"exchange": topology.TRIGGER_EXCHANGE, "routing_key": RUN.name, "headers": {}}
    return Outgoing(body=body, **(values | options))


@pytest.fixture
def declared(amqp: AmqpTransport) -> AmqpTransport:
    admin = amqp.admin("a")
    admin.declare_exchanges()
    admin.declare_queues([RUN])
    return amqp


@pytest.fixture
def stranger(vhost: str) -> Iterator[Any]:
    """A channel of somebody who may publish, and publishes what he likes."""
    connection = pika.BlockingConnection(pika.URLParameters(vhost))
    yield connection.channel()
    connection.close()


# -- being refused ----------------------------------------------------------------------------


def test_refusals_are_told_apart_in_one_line_without_the_password(
    rabbitmq: PrivateRabbit,
) -> None:
    good = f"127.0.0.1:{rabbitmq.port}"
    reasons = {
        f"amqp://guest:{PASSWORD}@127.0.0.1:1/%2F": "connection refused",
        f"amqp://guest:{PASSWORD}@{good}/%2F": "wrong user or password",
        f"amqp://nobody:{PASSWORD}@{good}/%2F": "wrong user or password",
        f"amqp://guest:guest@{good}/nowhere": "host not found",
        f"amqp://guest:{PASSWORD}@no-such-host.invalid:5672/%2F": "not known",
    }

    for url, reason in reasons.items():
        with pytest.raises(BrokerUnavailable, match=reason) as caught:
            connect(settings_for(url)).check()
        assert "\n" not in str(caught.value)
        assert PASSWORD not in str(caught.value)


def test_every_address_is_named_when_none_answers() -> None:
    urls = ("amqp://guest:guest@127.0.0.1:1/", "amqp://guest:guest@127.0.0.1:2/")

    with pytest.raises(BrokerUnavailable, match=r"127\.0\.0\.1:1.*; .*127\.0\.0\.1:2"):
        connect(BrokerSettings(urls=urls)).check()


@pytest.mark.parametrize(
    "url",
    [
        "http://guest:p4ss-w0rd@h/",
        "memory://",
        "",
        "amqp://guest:p4ss-w0rd@h:port/",
        "amqp://guest:p4ss-w0rd@h/?heartbeat=often",
    ],
)
def test_url_of_another_kind_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(ValueError, match="expected broker URL to be") as caught:
        connect(settings_for(url))

    assert PASSWORD not in str(caught.value)


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_certificates_that_cannot_be_read_are_refused(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "authority.pem"
    if content is not None:
        file.write_text(content)
    settings = BrokerSettings(urls=("amqps://guest:guest@h/",), ca_file=str(file))

    with pytest.raises(ValueError, match=r"expected broker certificates .*authority\.pem"):
        connect(settings)


def test_no_url_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        connect(BrokerSettings(urls=()))


def test_second_address_serves_when_the_first_is_dead(vhost: str) -> None:
    settings = BrokerSettings(urls=("amqp://guest:guest@127.0.0.1:1/", vhost))
    transport = connect(settings)
    transport.check()

    transport.admin("a").declare_exchanges()
    publisher = ready(transport.publisher("p"))

    assert publisher.publish([message()]).wait(30) == [Confirm.RETURNED]
    transport.close()


def test_link_that_is_refused_says_so_once_and_goes_on_trying(vhost: str) -> None:
    wrong = vhost.replace("guest:guest", f"guest:{PASSWORD}")
    settings = BrokerSettings(urls=(wrong,), backoff_seconds=(0.01, 0.01))
    with structlog.testing.capture_logs() as logs, Proxy(_port(vhost)) as proxy:
        settings.urls = (wrong.replace(str(_port(vhost)), str(proxy.port)),)
        transport = connect(settings)

        publisher = transport.publisher("p")
        eventually(lambda: proxy.accepted > 3)

        assert not publisher.is_ready
        transport.close()
    refused = [entry for entry in logs if entry["event"] == "broker_link_refused"]
    assert [entry["reason"] for entry in refused] == ["access refused: wrong user or password"]
    assert PASSWORD not in json.dumps(logs, default=str)


def test_admin_says_why_there_is_no_broker() -> None:
    settings = BrokerSettings(
        urls=("amqp://guest:guest@127.0.0.1:1/",), connect_timeout_seconds=0.5
    )
    admin = connect(settings).admin("a")

    with pytest.raises(BrokerUnavailable, match="cannot declare exchanges: connection refused"):
        admin.declare_exchanges()

    admin.close()


def test_plaintext_to_another_machine_is_allowed_and_logged() -> None:
    urls = (
        f"amqp://guest:{PASSWORD}@192.0.2.1/",
        "amqps://guest:guest@192.0.2.2/",
        "amqp://guest:guest@localhost/",
        "amqp://guest:guest@[::1]/",
    )

    with structlog.testing.capture_logs() as logs:
        connect(BrokerSettings(urls=urls))

    assert [(entry["event"], entry["host"]) for entry in logs] == [
        ("broker_link_unencrypted", "192.0.2.1")
    ]


def _port(url: str) -> int:
    return int(url.rpartition("@")[2].partition("/")[0].partition(":")[2])


# -- TLS --------------------------------------------------------------------------------------


def _tls_settings(vhost: str, proxy: Proxy, authority: Authority | None) -> BrokerSettings:
    url = vhost.replace("amqp:", "amqps:").replace(f":{_port(vhost)}/", f":{proxy.port}/")
    ca_file = None if authority is None else str(authority.file)
    return BrokerSettings(urls=(url,), ca_file=ca_file)


def test_messages_travel_over_tls_to_a_server_that_is_trusted(vhost: str, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    with Proxy(_port(vhost), tls=authority.server_context("127.0.0.1")) as proxy:
        transport = connect(_tls_settings(vhost, proxy, authority))
        transport.check()
        transport.admin("a").declare_exchanges()
        transport.admin("a").declare_queues([RUN])

        fates = ready(transport.publisher("p")).publish([message(b"y" * 300_000)] * 5).wait(30)

        assert fates == [Confirm.CONFIRMED] * 5
        consumer = ready(transport.consumer("c", [RUN.name], prefetch=5))
        assert eventually(lambda: consumer.take(1, 1))[0].body == b"y" * 300_000
        transport.close()


@pytest.mark.parametrize(
    ("host", "days", "is_trusted"),
    [("127.0.0.1", 1, False), ("127.0.0.1", -1, True), ("127.0.0.2", 1, True)],
    ids=["unknown authority", "expired", "another host"],
)
def test_server_that_cannot_prove_itself_is_refused(
    vhost: str, tmp_path: Path, host: str, days: int, is_trusted: bool
) -> None:
    authority = Authority(tmp_path)
    with Proxy(_port(vhost), tls=authority.server_context(host, days=days)) as proxy:
        transport = connect(_tls_settings(vhost, proxy, authority if is_trusted else None))

        with pytest.raises(BrokerUnavailable, match="TLS failed: CERTIFICATE_VERIFY_FAILED"):
            transport.check()


# -- rights -----------------------------------------------------------------------------------


def test_executor_gets_by_with_the_least_of_rights(rabbitmq: PrivateRabbit) -> None:
    own, foreign = topology.run_queue("app7", "h"), topology.run_queue("app8", "h")
    scheduler = connect(settings_for(rabbitmq.url))
    scheduler.admin("a").declare_exchanges()
    scheduler.admin("a").declare_queues([own, foreign, topology.callback_queue()])
    rabbitmq.add_user(
        "executor7",
        PASSWORD,
        configure="^$",
        write=r"^warren\.reply$",
        read=r"^warren\.(run|cmd)\.app7\..*$",
    )

    executor = connect(settings_for(rabbitmq.vhost_url("/", "executor7", PASSWORD)))
    publisher: Publisher = ready(executor.publisher("p"))
    ready(executor.consumer("c", [own.name], prefetch=1))
    spy: Consumer = executor.consumer("spy", [foreign.name], prefetch=1)
    thief: Consumer = executor.consumer("thief", [topology.callback_queue()], prefetch=1)

    callback = message(exchange=topology.REPLY_EXCHANGE, routing_key=topology.CALLBACK_KEY)
    assert publisher.publish([callback]).wait(30) == [Confirm.CONFIRMED]
    assert publisher.publish([message(routing_key=foreign.name)]).wait(30) == [Confirm.UNKNOWN]
    assert scheduler.admin("b").count_messages(foreign.name) == 0
    assert not spy.is_ready
    assert not thief.is_ready
    with pytest.raises(BrokerUnavailable, match="access"):
        executor.admin("a").delete_queue(own.name)
    eventually(lambda: publisher.is_ready)
    executor.close()
    scheduler.close()


# -- publishing -------------------------------------------------------------------------------


def test_publisher_waits_for_the_exchanges(amqp: AmqpTransport) -> None:
    publisher = amqp.publisher("p")
    with pytest.raises(AssertionError):
        eventually(lambda: publisher.is_ready, seconds=0.3)

    amqp.admin("a").declare_exchanges()

    assert eventually(lambda: publisher.is_ready)


def test_lost_channel_makes_its_messages_unknown_and_is_opened_again(
    declared: AmqpTransport,
) -> None:
    publisher = ready(declared.publisher("p"))

    fates = publisher.publish([message(), message(exchange="nowhere"), message()]).wait(30)

    assert fates[1:] == [Confirm.UNKNOWN, Confirm.UNKNOWN]
    eventually(lambda: publisher.is_ready)
    assert publisher.publish([message()]).wait(30) == [Confirm.CONFIRMED]


def test_batch_that_was_given_up_is_not_sent_any_more(declared: AmqpTransport) -> None:
    publisher = ready(declared.publisher("p"))
    many = publisher.publish([message(b"z" * 1_000)] * 20_000)

    fates = many.wait(0.01)

    assert fates[-1] is Confirm.UNKNOWN
    assert publisher.publish([message(b"last")]).wait(30) == [Confirm.CONFIRMED]
    count = declared.admin("b").count_messages(RUN.name)
    assert count is not None
    assert fates.count(Confirm.CONFIRMED) < count < 20_001


def test_transient_and_expiring_messages_say_so(declared: AmqpTransport, stranger: Any) -> None:
    publisher = ready(declared.publisher("p"))

    publisher.publish([message(durable=False, ttl_seconds=60), message()]).wait(30)

    _, transient, _ = stranger.basic_get(RUN.name)
    _, durable, _ = stranger.basic_get(RUN.name)
    assert (transient.delivery_mode, transient.expiration) == (1, "60000")
    assert (durable.delivery_mode, durable.expiration) == (2, None)


def test_routing_key_that_no_frame_can_hold_is_refused(declared: AmqpTransport) -> None:
    with pytest.raises(ValueError, match="routing key"):
        ready(declared.publisher("p")).publish([message(routing_key="k" * 256)])


def test_largest_body_passes(declared: AmqpTransport) -> None:
    publisher = ready(declared.publisher("p"))
    consumer = ready(declared.consumer("c", [RUN.name], prefetch=1))

    publisher.publish([message(b"b" * 1_000_000)]).wait(30)

    assert len(eventually(lambda: consumer.take(1, 1))[0].body) == 1_000_000


# -- consuming --------------------------------------------------------------------------------


def test_queue_declared_otherwise_is_reported_and_the_other_queues_go_on(
    declared: AmqpTransport,
) -> None:
    other = Queue(name=RUN.name, exchange=RUN.exchange, routing_keys=RUN.routing_keys, max_length=1)
    with structlog.testing.capture_logs() as logs:
        consumer = declared.consumer("c", [other, topology.callback_queue()], prefetch=1)
        callback = message(exchange=topology.REPLY_EXCHANGE, routing_key=topology.CALLBACK_KEY)
        publisher = ready(declared.publisher("p"))

        eventually(lambda: publisher.publish([callback]).wait(30) == [Confirm.CONFIRMED])

        assert eventually(lambda: consumer.take(1, 1))
    (entry,) = [entry for entry in logs if entry["event"] == "queue_not_consumed"]
    assert entry["queue"] == RUN.name
    assert "inequivalent arg 'x-" in entry["reason"]


def test_delivery_held_beyond_the_brokers_patience_comes_again(own_rabbitmq: PrivateRabbit) -> None:
    if own_rabbitmq.version >= (4, 3):
        pytest.skip("since 4.3 RabbitMQ waits for consumers of classic queues without end")
    own_rabbitmq.evaluate(
        "application:set_env(rabbit, consumer_timeout, 500),"
        "application:set_env(rabbit, channel_tick_interval, 200).",
    )
    transport = connect(settings_for(own_rabbitmq.url))
    transport.admin("a").declare_exchanges()
    transport.admin("a").declare_queues([RUN])
    ready(transport.publisher("p")).publish([message()]).wait(30)
    consumer = ready(transport.consumer("c", [RUN.name], prefetch=1))
    (held,) = eventually(lambda: consumer.take(1, 1))

    (again,) = eventually(lambda: consumer.take(1, 1), seconds=30)

    consumer.ack([held])
    assert again.redelivered
    consumer.close()
    assert transport.admin("b").count_messages(RUN.name) == 1
    transport.close()


def test_quorum_queues_are_declared_and_used_like_the_others(declared: AmqpTransport) -> None:
    run = topology.run_queue("app2", "h", quorum=True)
    callbacks = topology.callback_queue(quorum=True)
    declared.admin("b").declare_queues([run, callbacks])
    consumer = ready(declared.consumer("c", [run.name, callbacks], prefetch=5))

    fates = ready(declared.publisher("p")).publish([message(routing_key=run.name)]).wait(30)

    assert fates == [Confirm.CONFIRMED]
    deliveries = eventually(lambda: consumer.take(1, 1))
    consumer.reject(deliveries)
    grave = ready(declared.consumer("d", [topology.DEAD_QUEUE.name], prefetch=1))
    assert eventually(lambda: grave.take(1, 1))[0].headers["x-first-death-queue"] == run.name


@pytest.mark.parametrize("is_quorum", [True, False], ids=["quorum", "classic"])
def test_a_queue_keeps_the_kind_that_it_was_made_with(
    declared: AmqpTransport, *, is_quorum: bool
) -> None:
    admin = declared.admin("b")
    others = [topology.run_queue("app2", address, quorum=not is_quorum) for address in "xy"]
    admin.declare_queues([topology.run_queue("app2", "x", quorum=is_quorum)])
    ready(declared.publisher("p")).publish([message(routing_key=others[0].name)]).wait(30)

    with structlog.testing.capture_logs() as logs:
        admin.declare_queues(others)

    assert admin.count_messages(others[0].name) == 1
    assert admin.count_messages(others[1].name) == 0
    warned = [line["queue"] for line in logs if line["event"] == "classic_queue_retained"]
    assert warned == ([] if is_quorum else [others[0].name])


# -- strange bytes ----------------------------------------------------------------------------


class RawHeaders(pika.BasicProperties):
    """Properties whose header table is these very bytes."""

    def __init__(self, table: bytes) -> None:
        super().__init__()
        self._table = table

    def encode(self) -> list[bytes]:
        return [struct.pack(">HI", HEADERS_FLAG, len(self._table)), self._table]


def field(value: bytes, name: bytes = b"k") -> bytes:
    return bytes([len(name)]) + name + value


def nested(depth: int) -> bytes:
    value = b"V"
    for _ in range(depth):
        value = b"A" + struct.pack(">I", len(value)) + value
    return value


#: NaN and infinity are not among them: RabbitMQ closes the connection of whoever publishes those.
STRANGE_TABLES = {
    "timestamp beyond the year 9999": field(b"T" + struct.pack(">Q", 2**62)),
    "lists nested 5,000 deep": field(nested(5_000)),
    "name that is no UTF-8": field(b"t\1", name=b"\xff\xfe"),
    "text that is no UTF-8": field(b"S\0\0\0\2\xff\xfe"),
    "bytes": field(b"x\0\0\0\2ab"),
    "decimal of 255 places": field(b"D\xff" + struct.pack(">i", 7)),
    "nothing": field(b"V"),
    "one name twice": field(b"t\1") + field(b"S\0\0\0\1a"),
    "no name": field(b"t\1", name=b""),
    "table": field(b"F\0\0\0\0"),
}


@pytest.mark.parametrize("name", STRANGE_TABLES)
def test_headers_that_cannot_be_read_stop_nothing(
    declared: AmqpTransport, stranger: Any, name: str
) -> None:
    consumer = ready(declared.consumer("c", [RUN.name], prefetch=10))

    stranger.basic_publish(
        topology.TRIGGER_EXCHANGE, RUN.name, b"bad", RawHeaders(STRANGE_TABLES[name])
    )
    ready(declared.publisher("p")).publish([message(b"good")]).wait(30)

    (bad,) = eventually(lambda: consumer.take(1, 1))
    (good,) = eventually(lambda: consumer.take(1, 1))
    assert (bad.body, good.body) == (b"bad", b"good")
    assert all(isinstance(value, str) for value in bad.headers.values())
    assert consumer.generation == 1


@pytest.mark.parametrize(
    "large",
    [
        RawHeaders(field(b"x" + struct.pack(">I", 100_000) + b"\0" * 100_000)),
        RawHeaders(field(nested(20_000))),
        pika.BasicProperties(headers={"numbers": list(range(20_000))}),
        pika.BasicProperties(headers={str(number): None for number in range(10_000)}),
    ],
    ids=["bytes", "unreadable", "numbers", "names"],
)
def test_headers_that_are_no_text_count_too(
    declared: AmqpTransport, stranger: Any, large: pika.BasicProperties
) -> None:
    consumer = ready(declared.consumer("c", [RUN.name], prefetch=10))

    stranger.basic_publish(topology.TRIGGER_EXCHANGE, RUN.name, b"x", large)

    (delivery,) = eventually(lambda: consumer.take(1, 1))
    sealer = Sealer(ClusterKeys("s" * 32), "c1", lambda: 0)
    with pytest.raises(Oversized, match="headers to be up to 8000 bytes"):
        sealer.open(delivery, expect=ToExecutor, direction=Direction.TO_EXECUTOR)


def test_every_bad_message_dies_alone_and_the_good_one_after_it_is_read(
    declared: AmqpTransport, stranger: Any
) -> None:
    sealer = Sealer(ClusterKeys("s" * 32), "c1", lambda: time.time_ns() // 1_000_000)
    good = sealer.seal(
        Kill(run_id=1, reason="user"),
        exchange=topology.TRIGGER_EXCHANGE,
        routing_key=RUN.name,
        app="app1",
        address="host-1",
        direction=Direction.TO_EXECUTOR,
        valid_seconds=60,
    )
    for body in BAD_BODIES.values():
        for headers in ({}, dict(good.headers), {"v": 1, "mac": None}, {"expiry": "9" * 400}):
            properties = pika.BasicProperties(headers=headers)
            stranger.basic_publish(topology.TRIGGER_EXCHANGE, RUN.name, body, properties)
    consumer = ready(declared.consumer("c", [RUN.name], prefetch=50))
    publisher = ready(declared.publisher("p"))
    total = len(BAD_BODIES) * 4
    rejected = 0

    def reject_all() -> bool:
        nonlocal rejected
        for delivery in consumer.take(50, 0.01):
            with pytest.raises(BadMessage):
                sealer.open(
                    delivery,
                    expect=ToExecutor,
                    direction=Direction.TO_EXECUTOR,
                    address="host-1",
                )
            consumer.reject([delivery])
            rejected += 1
        return rejected == total

    generation = consumer.generation
    assert eventually(reject_all, seconds=30)
    publisher.publish([good]).wait(30)
    (delivery,) = eventually(lambda: consumer.take(1, 1))
    opened = sealer.open(
        delivery, expect=Kill | Beat, direction=Direction.TO_EXECUTOR, address="host-1"
    )
    assert opened == Kill(run_id=1, reason="user")
    assert consumer.generation == generation
    admin = declared.admin("b")
    assert eventually(lambda: admin.count_messages(topology.DEAD_QUEUE.name) == total)


# -- exclusive queues ---------------------------------------------------------------------------


def test_a_queue_that_a_lost_connection_holds_is_replaced(
    declared: AmqpTransport, stranger: Any
) -> None:
    """A broker of 4.2 or later keeps it until the node that it was connected to is back."""
    beats = topology.heartbeat_queue("n1")
    stranger.queue_declare(beats.name, exclusive=True)

    consumer = ready(declared.consumer("c", [beats], prefetch=10))

    beat = message(b"beat", exchange=topology.REPLY_EXCHANGE, routing_key=topology.HEARTBEAT_KEY)
    assert ready(declared.publisher("p")).publish([beat]).wait(30) == [Confirm.CONFIRMED]
    (delivery,) = eventually(lambda: consumer.take(1, 0.1))
    assert delivery.body == b"beat"
    assert delivery.queue.startswith(beats.name)
