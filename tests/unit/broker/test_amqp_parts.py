"""The parts of the RabbitMQ transport that need no RabbitMQ."""

import socket
import ssl
import threading

import pika.exceptions
import pytest

from warren.broker.rabbitmq.link import parameters_of, reason_of, without_password
from warren.broker.rabbitmq.properties import properties_of
from warren.broker.rabbitmq.transport import AmqpBatch
from warren.broker.transport import BrokerSettings, Confirm, Outgoing


def wrapped(error: BaseException) -> BaseException:
    """As pika wraps what befell a connection that could not be made."""
    inner = pika.exceptions.AMQPConnectionError(error)
    return pika.exceptions.AMQPConnectionError(inner)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (wrapped(ConnectionRefusedError(111, "x")), "connection refused: nothing listens there"),
        (wrapped(TimeoutError()), "no answer in time"),
        (wrapped(socket.gaierror(-2, "Name or service not known")), "Name or service not known"),
        (wrapped(ConnectionResetError(104, "Reset by peer")), "Reset by peer"),
        (
            pika.exceptions.ConnectionClosedByBroker(320, "CONNECTION_FORCED -\n shutdown"),
            "320 CONNECTION_FORCED - shutdown",
        ),
        (pika.exceptions.ChannelClosedByBroker(404, "NOT_FOUND"), "404 NOT_FOUND"),
        (pika.exceptions.StreamLostError("Transport indicated EOF"), "connection lost"),
        (pika.exceptions.AMQPHeartbeatTimeout("x"), "no heartbeat from the broker"),
        (pika.exceptions.ConnectionBlockedTimeout("x"), "blocked by the broker for too long"),
        (ssl.SSLError(1, "[SSL] wrong version"), "TLS failed: [SSL] wrong version"),
        (RuntimeError("two\nlines"), "RuntimeError two lines"),
    ],
)
def test_reason_is_the_deepest_cause_in_one_line(error: BaseException, reason: str) -> None:
    assert reason_of(error) == reason


def test_reason_is_never_longer_than_a_line() -> None:
    assert len(reason_of(RuntimeError("x" * 10_000))) == 300


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("amqp://user:secret@h:5672/v", "amqp://user:***@h:5672/v"),
        ("amqps://user:se:cr@et@h/v", "amqps://user:***@h/v"),
        ("amqp://:secret@h/", "amqp://:***@h/"),
        ("amqp://h/", "amqp://h/"),
        ("amqp://user@h:5672/", "amqp://user@h:5672/"),
    ],
)
def test_url_is_shown_without_its_password(url: str, shown: str) -> None:
    assert without_password(url) == shown


def test_parameters_carry_every_deadline() -> None:
    settings = BrokerSettings(
        urls=("amqp://u:p@h:1/v", "amqps://u:p@h/v"),
        heartbeat_seconds=7,
        blocked_timeout_seconds=8,
        connect_timeout_seconds=9,
    )

    plain, secure = parameters_of(settings, "publisher")

    for parameters in (plain, secure):
        assert parameters.heartbeat == 7
        assert parameters.blocked_connection_timeout == 8
        assert (parameters.socket_timeout, parameters.stack_timeout) == (9, 9)
        assert parameters.tcp_options == {"TCP_USER_TIMEOUT": 8_000}
        assert parameters.client_properties["connection_name"] == "publisher"
    assert plain.ssl_options is None


def test_tls_demands_a_certificate_of_the_very_host() -> None:
    (parameters,) = parameters_of(BrokerSettings(urls=("amqps://u:p@mq.example/v",)), "p")

    options = parameters.ssl_options
    assert options.server_hostname == "mq.example"
    assert options.context.verify_mode is ssl.CERT_REQUIRED
    assert options.context.check_hostname


@pytest.mark.parametrize(
    ("ttl_seconds", "expiration"), [(None, None), (0.0004, "0"), (1.5, "1500"), (-1, "0")]
)
def test_time_to_live_is_whole_milliseconds(
    ttl_seconds: float | None, expiration: str | None
) -> None:
    message = Outgoing(exchange="e", routing_key="k", body=b"", headers={}, ttl_seconds=ttl_seconds)

    assert properties_of(message, "7", "u").expiration == expiration


def test_batch_waits_for_its_last_fate() -> None:
    batch = AmqpBatch(2)
    batch.settle(1, Confirm.RETURNED)
    fates: list[list[Confirm]] = []
    waiting = threading.Thread(target=lambda: fates.append(batch.wait(30)))
    waiting.start()

    batch.settle(0, Confirm.CONFIRMED)

    waiting.join(30)
    assert fates == [[Confirm.CONFIRMED, Confirm.RETURNED]]


def test_batch_out_of_time_says_what_it_knows_and_is_given_up() -> None:
    batch = AmqpBatch(2)
    batch.settle(0, Confirm.CONFIRMED)

    fates = batch.wait(0)

    assert fates == [Confirm.CONFIRMED, Confirm.UNKNOWN]
    assert batch.is_given_up


def test_batch_that_is_done_is_not_given_up() -> None:
    batch = AmqpBatch(0)

    assert batch.wait(0) == []
    assert not batch.is_given_up
