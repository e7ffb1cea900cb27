import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import structlog

from tests.support.eventually import eventually
from tests.support.fake_scheduler import CLUSTER, SECRET, now_ms
from tests.support.started_threads import StartedThreads
from warren.broker.codec import BODY_LIMIT, HEADER_LIMIT
from warren.broker.memory import MemoryBroker
from warren.broker.messages import (
    Beat,
    Command,
    Drain,
    Kill,
    Message,
    OpenRunsReply,
    Question,
    Refused,
    Trigger,
    Welcome,
)
from warren.broker.signing import AppKeys, ClusterKeys, Direction, Sealer
from warren.broker.topology import (
    ASK_EXCHANGE,
    DEAD_QUEUE,
    TRIGGER_EXCHANGE,
    command_queue,
    run_queue,
)
from warren.broker.transport import Delivery, Outgoing
from warren.executor.messaging.inbox import Arrival, Inbox

QUEUE = run_queue("demo", "exec-1")


def seal(
    run_id: int,
    *,
    secret: str = SECRET,
    cluster: str = CLUSTER,
    address: str = "exec-1",
    direction: Direction = Direction.TO_EXECUTOR,
    routing_key: str = QUEUE.name,
    valid_seconds: float = 60,
) -> Outgoing:
    trigger = Trigger(
        run_id=run_id,
        job_id=1,
        boot_id="boot-1",
        kind="CRON",
        handler="demo.echo",
        scheduled_at_ms=0,
    )
    return Sealer(ClusterKeys(secret), cluster, now_ms).seal(
        trigger,
        exchange=TRIGGER_EXCHANGE,
        routing_key=routing_key,
        app="demo",
        address=address,
        direction=direction,
        valid_seconds=valid_seconds,
    )


class Case:
    def __init__(self) -> None:
        transport = MemoryBroker().transport()
        self.admin = transport.admin("test")
        self.admin.declare_exchanges()
        self.admin.declare_queues([QUEUE])
        self.publisher = transport.publisher("test")
        self.arrivals: list[Arrival] = []
        self.fail_once = threading.Event()
        self.consumer = transport.consumer("test", [QUEUE.name], prefetch=100)
        self.inbox = Inbox(
            "triggers",
            self.consumer,
            Sealer(ClusterKeys(SECRET), CLUSTER, now_ms),
            address="exec-1",
            expect=Trigger,
            post=self.post,
            log=structlog.get_logger(),
        )

    def post(self, arrivals: list[Arrival]) -> None:
        if self.fail_once.is_set():
            self.fail_once.clear()
            raise RuntimeError("broken")
        self.arrivals += arrivals

    def publish(self, *messages: Outgoing) -> None:
        self.publisher.publish(list(messages))

    def run_ids(self) -> list[int]:
        return [arrival.message.run_id for arrival in list(self.arrivals)]  # type: ignore[attr-defined]


@pytest.fixture
def case() -> Iterator[Case]:
    case = Case()
    case.inbox.start()
    yield case
    case.inbox.close()


def test_proven_message_arrives_with_its_cluster(case: Case) -> None:
    case.publish(seal(1))

    (arrival,) = eventually(lambda: case.arrivals)
    assert arrival.cluster == CLUSTER
    assert not arrival.is_expired


def test_nothing_is_settled_before_the_receiver_says_so(case: Case) -> None:
    case.publish(seal(1))
    eventually(lambda: case.arrivals)

    case.inbox.close()

    assert case.admin.count_messages(QUEUE.name) == 1


def test_acknowledged_message_is_gone(case: Case) -> None:
    case.publish(seal(1))
    (arrival,) = eventually(lambda: case.arrivals)

    case.inbox.ack([arrival.delivery])
    case.inbox.close()

    assert case.admin.count_messages(QUEUE.name) == 0


def mangle(**changes: Any) -> Callable[[], Outgoing]:
    return lambda: replace(seal(1), **changes)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: seal(1, secret="x" * 40), "Forged"),
        (lambda: seal(1, address="exec-2"), "Forged"),
        (lambda: seal(1, direction=Direction.FROM_EXECUTOR), "Forged"),
        (lambda: replace(seal(1, routing_key="other"), routing_key=QUEUE.name), "Forged"),
        (lambda: seal(1, cluster="another"), "Foreign"),
        (mangle(body=b""), "Malformed"),
        (mangle(body=b"{}"), "Forged"),
        (mangle(headers={}), "Malformed"),
        (mangle(body=seal(1).body.replace(b'"run_id":1', b'"run_id":2')), "Forged"),
    ],
)
def test_bad_message_is_dead_lettered_and_the_next_good_one_arrives(
    case: Case, make: Callable[[], Outgoing], reason: str
) -> None:
    case.publish(make(), seal(7))

    eventually(lambda: case.run_ids() == [7])
    assert case.inbox.rejected == {reason: 1}
    assert case.admin.count_messages(DEAD_QUEUE.name) == 1


def test_oversized_message_is_dropped_with_a_word_and_not_kept(case: Case) -> None:
    huge = replace(seal(1), body=b"x" * (BODY_LIMIT + 1))
    unsigned = replace(huge, headers={})
    signed = seal(1)
    topped = replace(signed, headers={**signed.headers, "more": "x" * HEADER_LIMIT})
    only_headers = replace(signed, headers={"x" * HEADER_LIMIT: "1"}, body=b"x")

    case.publish(huge, unsigned, topped, only_headers, seal(7))

    eventually(lambda: case.run_ids() == [7])
    assert case.inbox.rejected == {"Oversized": 4}
    assert case.admin.count_messages(DEAD_QUEUE.name) == 0


def test_expired_message_arrives_marked_so_that_it_can_be_answered(case: Case) -> None:
    case.publish(seal(1, valid_seconds=-1))

    (arrival,) = eventually(lambda: case.arrivals)
    assert arrival.is_expired
    assert case.run_ids() == [1]


def test_paused_inbox_takes_nothing_and_goes_on_where_it_stopped(case: Case) -> None:
    case.inbox.pause()
    case.publish(*[seal(run_id) for run_id in range(300)])
    eventually(lambda: case.admin.count_messages(QUEUE.name) == 200)
    assert case.arrivals == []

    case.inbox.resume()

    def all_arrived() -> bool:
        case.inbox.ack([arrival.delivery for arrival in list(case.arrivals)])
        return case.run_ids() == list(range(300))

    eventually(all_arrived)


def test_what_was_on_its_way_when_the_inbox_was_paused_waits_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    case = Case()
    take = case.consumer.take
    paused = threading.Event()

    def take_and_pause(limit: int, seconds: float) -> list[Delivery]:
        deliveries = take(limit, seconds)
        if deliveries and not paused.is_set():
            case.inbox.pause()
            paused.set()
        return deliveries

    monkeypatch.setattr(case.consumer, "take", take_and_pause)
    case.inbox.start()
    case.publish(seal(1))
    eventually(paused.is_set)
    case.inbox.close()

    assert case.arrivals == []
    assert case.admin.count_messages(QUEUE.name) == 1


def test_an_inbox_that_finishes_posts_all_that_was_delivered_and_nothing_later(case: Case) -> None:
    case.inbox.pause()
    case.publish(*map(seal, range(1, 51)))
    eventually(lambda: case.admin.count_messages(QUEUE.name) == 0)

    case.inbox.finish()
    case.publish(seal(99))
    assert not case.inbox.is_finished
    case.inbox.resume()

    eventually(lambda: case.inbox.is_finished)
    assert case.run_ids() == list(range(1, 51))
    assert case.admin.count_messages(QUEUE.name) == 1


def test_inbox_lives_on_when_the_receiver_raises(case: Case) -> None:
    case.fail_once.set()
    case.publish(seal(1))
    eventually(lambda: not case.fail_once.is_set())

    case.publish(seal(2))

    eventually(lambda: case.run_ids() == [2])


def test_delivery_says_whether_it_came_before(case: Case) -> None:
    case.publish(seal(1))

    delivery: Delivery = eventually(lambda: case.arrivals)[0].delivery
    assert not delivery.redelivered


def test_closed_inbox_has_no_thread() -> None:
    threads = StartedThreads()
    case = Case()
    case.inbox.start()
    before = threads.names()

    case.inbox.close()

    assert (before, threads.names()) == (["triggers exec-1"], [])


class TestQuestions:
    """What comes through the exchange of questions, where a console may publish, orders nothing."""

    COMMANDS = command_queue("demo", "exec-1", "boot-1")

    def seal(self, message: Message, exchange: str) -> Outgoing:
        return Sealer(ClusterKeys(SECRET), CLUSTER, now_ms).seal(
            message,
            exchange=exchange,
            routing_key=self.COMMANDS.name,
            app="demo",
            address="exec-1",
            direction=Direction.TO_EXECUTOR,
            valid_seconds=60,
        )

    def test_orders_count_only_where_schedulers_publish(self) -> None:
        transport = MemoryBroker().transport()
        admin = transport.admin("test")
        admin.declare_exchanges()
        admin.declare_queues([self.COMMANDS])
        arrivals: list[Arrival] = []
        inbox = Inbox(
            "commands",
            transport.consumer("test", [self.COMMANDS.name], prefetch=100),
            Sealer(AppKeys.derived("demo", SECRET), None, now_ms),
            address="exec-1",
            expect=Command | Question,
            post=arrivals.extend,
            log=structlog.get_logger(),
        )
        inbox.start()
        orders = [
            Kill(run_id=1, reason="by a stolen console"),
            Drain(boot_id="boot-1"),
            Welcome(boot_id="boot-1", now_ms=1),
            Refused(boot_id="boot-1", reason="by a stolen console"),
            OpenRunsReply(asked=(1,), open_ids=()),
        ]
        question = Beat(question_id="q", reply_to="answer.n1")

        transport.publisher("test").publish(
            [
                *[self.seal(order, ASK_EXCHANGE) for order in orders],
                self.seal(question, ASK_EXCHANGE),
                *[self.seal(order, TRIGGER_EXCHANGE) for order in orders],
            ]
        )

        eventually(lambda: len(arrivals) == 1 + len(orders))
        inbox.close()
        assert [arrival.message for arrival in arrivals] == [question, *orders]
        assert inbox.rejected == {"Malformed": len(orders)}
